"""Global settings of torch that change the last digits of a training."""

import contextlib
from collections.abc import Iterator

from rarefeat.errors import RarefeatError


@contextlib.contextmanager
def workflow_settings() -> Iterator[None]:
    """Hold the settings that the jobs of the workflow have: one thread, float32, the processor."""
    import scipy.linalg.cython_blas  # noqa: F401, the products of the native step
    import torch
    from threadpoolctl import threadpool_limits

    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # of backends with several
        precision = "mixed"
    tiny = torch.tensor(1e-40, dtype=torch.float32, device="cpu")
    is_flushing = float(tiny * 0.5) == 0
    # Before version 2.9 torch has the function above alone.
    backends = (torch.backends, torch.backends.mkldnn, torch.backends.mkldnn.matmul)
    values = [getattr(backend, "fp32_precision", "none") for backend in backends]
    if precision == "mixed" or (precision == "highest" and not set(values) <= {"none", "ieee"}):
        raise RarefeatError(
            f"torch.backends: fp32_precision: must be ieee, got {', '.join(values)}; set it so for"
            " torch.backends and torch.backends.mkldnn, or start Python anew"
        )
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_num_threads(1)
        stack.enter_context(threadpool_limits(1, user_api="blas"))
        torch.set_default_dtype(torch.float32)
        if precision != "highest":
            stack.callback(torch.set_float32_matmul_precision, precision)
            torch.set_float32_matmul_precision("highest")
        if is_flushing:
            stack.callback(torch.set_flush_denormal, True)
            torch.set_flush_denormal(False)
        # A mode for devices slows every call down, so none is set where it changes nothing.
        if str(torch.get_default_device()) != "cpu":
            stack.enter_context(torch.device("cpu"))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
