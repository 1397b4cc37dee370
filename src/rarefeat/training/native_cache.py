"""Where the compiled functions of the native step are kept, and who compiles them."""

import contextlib
import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rarefeat.model.simulators import JITTERS, SMALLEST

COMPILED_BY = (
    "NUMBA_OPT", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE", "NUMBA_ENABLE_AVX",
    "NUMBA_DISABLE_INTEL_SVML", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_BOUNDSCHECK",
)  # fmt: skip
"""Variables by which numba compiles other code; its own index knows two of them."""
USER_FOLDER = os.environ.get("NUMBA_CACHE_DIR", "")
"""Folder for compiled code that the user has set."""


def cache_folder() -> str:
    """Return a folder of this user for compiled code.

    It is in NUMBA_CACHE_DIR, in the environment, or temporary, and named by the code and by
    variables: numba does not see that a function of another file has changed.
    """
    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("native_*.py"))]
    options = sorted(f"{key}={text}" for key, text in os.environ.items() if key in COMPILED_BY)
    constants = repr((JITTERS, SMALLEST, *options)).encode()
    digest = hashlib.sha256(b"".join([*sources, constants])).hexdigest()[:12]
    for parent in filter(None, (USER_FOLDER, sys.prefix, tempfile.gettempdir())):
        folder = Path(parent, f"rarefeat-native-{digest}-{os.getuid()}")
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=parent == USER_FOLDER, exist_ok=True)
            # What lies there is run, so nobody else may have put it there.
            if folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK):
                return str(folder)
    return tempfile.mkdtemp(prefix="rarefeat-native-")


@contextlib.contextmanager
def compile_once() -> Iterator[None]:
    """Import the native step within: one process of a machine compiles it, the others wait."""
    if f"{__package__}.native_step" in sys.modules:
        yield
        return
    from llvmlite.binding import get_host_cpu_name  # here, as the other kernel needs none

    done = Path(cache_folder(), f"compiled-{get_host_cpu_name()}")
    with contextlib.ExitStack() as stack:
        if is_new := not done.exists():
            text = f"native step: compiling, once for this machine, in {done.parent}"
            print(text, file=sys.stderr, flush=True)
            done.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # of a disk without locks
                fcntl.flock(stack.enter_context(Path(f"{done}.lock").open("w")), fcntl.LOCK_EX)
        yield
        if is_new:
            done.touch()
