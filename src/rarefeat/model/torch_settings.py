"""Global settings of torch that change the last digits of a training."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from rarefeat.errors import RarefeatError

EXACT = ("none", "ieee")
"""Values of `torch.backends...fp32_precision` that keep float32 as it is."""
REMEDY = (
    'set fp32_precision of torch.backends and torch.backends.mkldnn to "ieee", or start Python anew'
)


def torch_settings() -> dict[str, Any]:
    """Return the settings by name; none of them before torch is imported."""
    if not (torch := sys.modules.get("torch")):
        return {}
    backends = (torch.backends, torch.backends.mkldnn, torch.backends.mkldnn.matmul)
    return {
        "number of threads": torch.get_num_threads(),
        "default dtype": torch.get_default_dtype(),
        "default device": str(torch.get_default_device()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "use of oneDNN": torch.backends.mkldnn.enabled,
        # Before version 2.9 torch has the function of `matmul_precision` alone.
        "fp32_precision": [getattr(backend, "fp32_precision", "none") for backend in backends],
        "matmul precision": matmul_precision(),
    }


def matmul_precision() -> str:
    """Return `torch.get_float32_matmul_precision`, where "mixed" stands for its error."""
    import torch

    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "mixed"


def changed_settings(before: dict[str, Any]) -> str:
    """Return the names of the settings that are not as before; empty if torch was absent."""
    return ", ".join(
        name for name, value in torch_settings().items() if value != before.get(name, value)
    )


@contextlib.contextmanager
def workflow_settings() -> Iterator[None]:
    """Hold the settings that the jobs of the workflow have: one thread, float32, the processor."""
    import scipy.linalg.cython_blas  # noqa: F401, the products of the native step
    import torch
    from threadpoolctl import threadpool_limits

    precision, settings = matmul_precision(), torch_settings()
    tiny = torch.tensor(1e-40, dtype=torch.float32, device="cpu")
    is_flushing = float(tiny * 0.5) == 0
    if precision == "mixed" or (
        precision == "highest" and not set(settings["fp32_precision"]) <= set(EXACT)
    ):
        values = ", ".join(settings["fp32_precision"])
        raise RarefeatError(f"torch.backends: fp32_precision: must be ieee, got {values}; {REMEDY}")
    if not settings["use of oneDNN"]:
        raise RarefeatError(
            "torch.backends.mkldnn: must be enabled, as in the jobs of the workflow"
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
        if settings["default device"] != "cpu":
            stack.enter_context(torch.device("cpu"))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
