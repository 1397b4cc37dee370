"""What a job may still write: nothing once its run is gone, or its code is not that with which the run was planned."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rarefeat.core.errors import RarefeatError
from rarefeat.run.digests import OURS, PACKAGE, Reach, Source, read_accepted, standing
from rarefeat.storage.files import REFUSALS

# The run of a job, and the file that names the run in charge of the results (results_folder.py).
RUN, LOCK = os.environ.get("RAREFEAT_RUN"), os.environ.get("RAREFEAT_LOCK")
PARENT = os.getppid()
# The Snakemake that started the job's shell, which outlives it.
SNAKEMAKE = os.environ.get("RAREFEAT_SNAKEMAKE")
# For a stage in a fork of a server (workers.py), the process that the job's shell waits for.
CLIENT = os.environ.get("RAREFEAT_CLIENT")
# Set where a sample is made anew by other code than its job names (manage/accept.py).
ACCEPTING = "RAREFEAT_ACCEPTING"
# The state of the source when the run was planned (`state`).
PLANNED = os.environ.get("RAREFEAT_SOURCE")
GONE = "the snakemake that asked for it is gone"


def status(process: str | None) -> list[str]:
    """What Linux says of another process, from its state on; nothing where it has ended, or elsewhere than on Linux."""
    try:
        found = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []
    return [] if found[0] in "ZX" else found


def parent(process: str | None) -> str:
    """The parent of another process; none where that one has ended."""
    return (status(process) or ["", ""])[1]


def born(process: str | None) -> str:
    """When another process began, which tells it from a later one of its number; none where it has ended."""
    return "".join(status(process)[19:20])


SHELL, BORN = parent(CLIENT), born(SNAKEMAKE)


def abandoned() -> str:
    """GONE where the run that this job belongs to is gone: what the job has made may be of another config by now."""
    if not RUN:
        return ""
    orphaned = os.getppid() != PARENT or (CLIENT and (not SHELL or parent(CLIENT) != SHELL))
    # It may have ended before this was imported.
    masterless = SNAKEMAKE and sys.platform == "linux" and (not BORN or born(SNAKEMAKE) != BORN)
    return GONE if orphaned or masterless or Path(LOCK).read_text(encoding="utf-8") != RUN else ""


def state() -> str:
    """The state of the package's source as files tell it without being read: names, sizes and times."""
    found = {str(path.relative_to(PACKAGE)): path.stat() for path in sorted(PACKAGE.rglob("*.py"))}
    files = [(path, about.st_size, about.st_mtime_ns) for path, about in found.items()]
    return hashlib.sha256(repr(files).encode()).hexdigest()[:16]


def edited(code: Mapping[str, str]) -> str:
    """What of the code that a job was told is another by now; empty where nothing is.

    Args:
        code: digests by stage (digests.py).
    """
    source, accepted = Source(PACKAGE), read_accepted(Path(LOCK).parent) if LOCK else []
    for name, planned in code.items():
        try:
            now = standing(Reach(source, name).digest, name, accepted)
        except (LookupError, SyntaxError, OSError):
            now = ""
        if now != planned:
            return f"the code of {name} was edited after this run was planned; run snakemake again"
    return ""


def keep_to(code: Mapping[str, str]) -> None:
    """See to it that this process writes nothing by other code than it was told, nor for a run that is gone.

    Raises:
        RarefeatError: where the code is another already.
    """
    if os.environ.get(ACCEPTING):
        return
    before, own = state(), {name: planned for name, planned in code.items() if name.startswith(f"{OURS}.")}
    if why := edited(own if before == PLANNED else code):
        raise RarefeatError(why)
    REFUSALS.append(lambda: edited(own if state() == before else code))


REFUSALS.append(abandoned)
