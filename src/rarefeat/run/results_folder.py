"""The folder of results of a run: its lock, files of killed jobs.

Results that Snakemake has no records of.
"""

import fcntl
import os
import secrets
from pathlib import Path

from rarefeat.core.errors import RarefeatError
from rarefeat.project import Project
from rarefeat.run.metadata import read_job_metadata
from rarefeat.storage.sealed_files import TEMPORARIES

LOCK, TOKEN = ".lock", ".token"
RECORDS = Path(".snakemake/rarefeat")
"""Folder of the tokens of folders of results whose records are in this .snakemake."""


def acquire(folder: str | Path) -> None:
    """Lock a folder of results for the life of this process, and remove what killed jobs left.

    Raises
    ------
    RarefeatError
        If it cannot be written, or another run works in it.
    """
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
    if not (folder / "tables").exists():
        add_token(folder)


def explain_unrecorded(project: Project) -> str:
    """Return a warning where unrecorded results are of another config or code.

    Its records are in `.snakemake` of the working directory, and are missing where that was lost or
    results were copied from elsewhere. A token in both says that they belong together.
    """
    folder = Path(project.results)
    token = folder / TOKEN
    if token.exists() and (RECORDS / token.read_text(encoding="utf-8")).exists():
        return ""
    others = [
        path
        for name in project.tables
        if (path := folder / f"tables/{name}.parquet").exists()
        and (read_job_metadata(path) or {}).get("job") != project.table_job(name).identity
    ]
    if others:
        return (
            f"{others[0]}: made by another config or code, as are {len(others) - 1} more, and"
            f" snakemake has no record of it;"
            " delete what you do not want to keep, or make it again with --forceall"
        )
    if folder.is_dir() and os.access(folder, os.W_OK):
        add_token(folder)
    return ""


def add_token(folder: Path) -> None:
    """Note in a folder of results and in `.snakemake` that they belong together."""
    token = folder / TOKEN
    if not token.exists():
        token.write_text(secrets.token_hex(8), encoding="utf-8")
    RECORDS.mkdir(parents=True, exist_ok=True)
    (RECORDS / token.read_text(encoding="utf-8")).touch()
