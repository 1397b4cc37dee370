"""The folder of results of a run: its lock, and files of killed jobs."""

import fcntl
import os
from pathlib import Path

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.sealed_files import TEMPORARIES

LOCK = ".lock"


def acquire(folder: str | Path) -> None:
    """Lock a folder of results for the life of this process, and remove what killed jobs left."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Never closed: the system releases a lock with its process.
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RarefeatError(
            f"{folder}: another snakemake works in it; wait, or set `results` to another folder"
        ) from error
    except OSError as error:
        raise RarefeatError(f"{folder}: cannot be written: {error.strerror}") from error
    for path in folder.rglob(TEMPORARIES):
        path.unlink(missing_ok=True)
