"""What jobs have made, kept by what it was made from: a config that is changed back costs links in place of trainings.

A file stands among the results and below FOLDER, two names of one content: it takes more room once the results hold another.
Nothing writes into a file that has its name (storage/files.py), so that it stays what it is.
"""

import hashlib
import json
import mmap
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rarefeat.core.errors import RarefeatError
from rarefeat.run.job import parsed
from rarefeat.run.metadata import machine, of_job, packages, read_job
from rarefeat.run.read import read_by
from rarefeat.storage.files import SEALED, replacing, verify

FOLDER = ".store"
PLACE, ROOM = "RAREFEAT_STORE", "RAREFEAT_STORE_GB"
"""Variables that a run sets for its jobs: the store, none where something is to be made again in any case, and its size."""


def places(store: Path, words: Sequence[str]) -> dict[Path, Path]:
    """The file of the store for each that a job is about to write.

    What is there when a job begins it reads; what it writes Snakemake has removed. A key is of all that makes the bytes: what
    the job is told, the seals of what it reads, packages and machine.

    Args:
        words: the arguments of the job's module.

    Returns:
        Nothing where these do not say what the job reads, as those of a table of all cells.
    """
    job = parsed(words[words.index("--job") + 1])
    files = [Path(word) for word in words if word.endswith((".safetensors", ".parquet", ".png", ".pdf", ".md", ".html"))]
    read, written = [path for path in files if path.exists()], [path for path in files if not path.exists()]
    if not written:
        return {}
    if "--results" in words:
        of_cells = read_by(job, Path(words[words.index("--results") + 1]))
        if of_cells is None:
            return {}
        read += of_cells
    seals = [seal_of(path) for path in read if path.exists()]
    if not all(seals):
        return {}
    key = hashlib.sha256(json.dumps([job.text, seals, packages(), machine()]).encode()).hexdigest()[:32]
    return {path: store / f"{key}-{number}{path.suffix}" for number, path in enumerate(written)}


@contextmanager
def around(words: Sequence[str]) -> Iterator[bool]:
    """Around a job: whether the store has what it makes, so that it need not run; where it runs and succeeds, that is kept."""
    text, kept = words[words.index("--job") + 1], places(Path(os.environ[PLACE]), words)
    try:
        found = fetched(kept, text)
    except RarefeatError as error:
        sys.exit(f"error: {error}")
    yield found
    if not found:
        put(kept, text)


def seal_of(path: Path) -> str:
    """The hash that a file says of itself (storage/files.py); empty where it says none."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        found = SEALED.search(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return found[1].decode() if found else ""
    return ""


def fetched(kept: Mapping[Path, Path], text: str) -> bool:
    """Put what a job would write in its place, if the store has all of it.

    Raises:
        RarefeatError: where the run of the job is gone, or its folder cannot be written.
    """
    if not kept or not all(path.exists() for path in kept.values()):
        return False
    for path in kept.values():
        try:
            verify(path)
            if not of_job(read_job(path) or {}, text):
                raise RarefeatError(f"{path} is of another job than its name says")
        except RarefeatError as error:
            print(f"{error}; it is left out of the store and made again")
            path.unlink(missing_ok=True)
            return False
    for path, stored in kept.items():
        with replacing(path) as temporary:
            os.link(stored, temporary)
            os.utime(temporary)  # Snakemake goes by dates
    print(f"kept: this job was done before, and its files are those of {stored.parent}")
    return True


def put(kept: Mapping[Path, Path], text: str) -> None:
    """Keep what a job has written, and let go of what then has no room; nothing on a file system without links."""
    with suppress(OSError, RarefeatError):
        for path, stored in kept.items():
            if of_job(read_job(path) or {}, text):
                with replacing(stored) as temporary:
                    os.link(path, temporary)
        for store in {stored.parent for stored in kept.values()}:
            trim(store, float(os.environ[ROOM]) * 1e9)


def held(store: Path) -> list[tuple[float, int, Path]]:
    """Last use, bytes and path of each file that the store alone holds, the oldest first."""
    found = []
    for path in store.glob("*"):
        with suppress(FileNotFoundError):
            about = path.stat()
            if about.st_nlink == 1:
                found.append((about.st_mtime, about.st_size, path))
    return sorted(found)


def trim(store: Path, room: float) -> None:
    """Remove what has not been used for longest, until the rest fits into so many bytes."""
    files = held(store)
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= room:
            return
        path.unlink(missing_ok=True)
        total -= size


def about(results: Path, empty: bool) -> str:
    """A line on the store of a folder of results, which is emptied if asked."""
    store = results / FOLDER
    found = held(store)
    size = f"{sum(size for _, size, _ in found) / 1e9:.3g} GB in {len(found)} files"
    if empty:
        shutil.rmtree(store, ignore_errors=True)
        return f"{store} is emptied of {size}; results stay"
    return f"{store} holds {size} that are not among the results by now; `--empty` frees them"
