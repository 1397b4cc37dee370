"""Outputs of earlier jobs: a config that is changed back costs links instead of trainings.

Each output has a second name in the folder of the cache, for the same bytes; it takes room once the
results hold another.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from rarefeat.core.errors import RarefeatError
from rarefeat.run.job import Job
from rarefeat.run.metadata import machine, packages
from rarefeat.storage.sealed_files import atomic_write, verify

FOLDER, ROOM_GB, FORCED = "RAREFEAT_CACHE", "RAREFEAT_CACHE_GB", "RAREFEAT_CACHE_FORCED"
"""Variables that a run sets for its jobs: the folder (no cache without it), its room, and whether
jobs are forced: they run, and replace their entries."""
NOTE = "from the output cache"
"""First words of the log of a job whose outputs were there."""


def cached_paths(job: Job, outputs: Iterable[Path]) -> dict[Path, Path]:
    """Return the file of the cache for each output, named by everything that sets its bytes.

    None without a cache.
    """
    if not os.environ.get(FOLDER):
        return {}
    key = hashlib.sha256(json.dumps([job.to_json, packages(), machine()]).encode()).hexdigest()[:32]
    return {
        path: Path(os.environ[FOLDER], f"{key}-{i}{path.suffix}") for i, path in enumerate(outputs)
    }


def restore(job: Job, outputs: Iterable[Path]) -> bool:
    """Link the outputs of a job from the cache; return whether all of them were there, whole."""
    paths = cached_paths(job, outputs)
    if not paths or os.environ.get(FORCED) or not all(path.exists() for path in paths.values()):
        return False
    try:
        for path in paths.values():
            verify(path)
    except RarefeatError:
        return False
    for path, cached in paths.items():
        with atomic_write(path) as temporary:
            os.link(cached, temporary)
            # Snakemake compares dates.
            os.utime(temporary)
    print(f"{NOTE}: {', '.join(path.name for path in paths.values())}")
    return True


def store(job: Job, outputs: Iterable[Path]) -> None:
    """Link the outputs of a job into the cache, and remove what was not used for longest.

    Not where links cannot be made.
    """
    with contextlib.suppress(OSError, RarefeatError):
        for path, cached in cached_paths(job, outputs).items():
            with atomic_write(cached) as temporary:
                os.link(path, temporary)
            trim(cached.parent, float(os.environ[ROOM_GB]) * 1e9)


def trim(folder: Path, room: float) -> None:
    """Remove files that only the cache holds, the oldest first, to so many bytes."""
    files = sorted(
        (about.st_mtime, about.st_size, path)
        for path in folder.iterdir()
        if (about := path.stat()).st_nlink == 1
    )
    excess = sum(size for _, size, _ in files) - room
    for _, size, path in files:
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= size
