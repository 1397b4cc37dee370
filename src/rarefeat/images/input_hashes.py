"""Hash the user's image files, lists and hierarchies by content, whatever their names and times.

Jobs have these hashes among their parameters, so that a changed file reruns what reads it.
"""

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rarefeat.errors import RarefeatError
from rarefeat.images.formats import READERS, Files, check_labels, index_files, input_files
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job

CLOCK_TICK_NS = 2 * 10**9
"""A file that was written so recently may change again and keep its size and time."""


def check_lists(study: Any) -> None:
    """Raise RarefeatError where the lists of a study do not fit its keys; decode no image."""
    data = study.data
    if not (data.format == "image_folder" or data.index_files or data.n_max):
        return
    import torch  # here, as only plans of such studies need it

    from rarefeat.images.splits import split_indices

    train, test = READERS[data.format](data)
    check_labels(data, train, test)
    classes = data.classes or sorted({*train.labels.tolist()})
    kept = [classes.index(label) for label in train.labels.tolist() if label in classes]
    labels, listed = torch.tensor(kept), train.listed
    seeds = [seed for block in study.blocks().values() for seed in block]
    for rho in study.rho:
        # Of drawn lists the counts are the same for every seed.
        for seed in seeds if data.index_files else seeds[:1]:
            lists = split_indices(
                data, labels, rho, "long_tailed", study.draws, seed, study.probe.few_shot, listed
            )
            if study.probe.neighbours > (most := len(lists["pretrain"])):
                raise RarefeatError(
                    f"probe.neighbours: must be at most {most}, the images that are pretrained on"
                    f" at rho {rho:g}, got {study.probe.neighbours}"
                )


def image_hashes(study: Any, results: str | Path, name: str) -> dict[str, str]:
    """Return the hash of the image files of a study, under its key in the job."""
    files = input_files(study.data)
    return {"contents": hash_files(files, Path(results, f"images/.{name}.json"))} if files else {}


def list_hashes(study: Any, seeds: Iterable[int]) -> dict[str, str]:
    """Return the hashes of the index files of some seeds, and of a hierarchy of classes."""
    files = {"lists": index_files(study.data, seeds)}
    if isinstance(levels := getattr(study, "levels", None), str):
        files["hierarchy"] = [("levels", f"{study.data.folder}/{levels}")]
    return {key: hash_files(listed) for key, listed in files.items() if listed}


def hash_files(files: Files, cache: Path | None = None) -> str:
    """Hash files and what they stand for, in their order."""
    states = stat_files(files)
    cached: dict[str, list] = {}
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        cached = dict(json.loads(cache.read_bytes()))
    hashes = {
        path: cached[path][-1] for path in states if cached.get(path, [])[:-1] == states[path]
    }
    missing = [path for path in states if path not in hashes]
    for path in progress(missing, len(missing), "reading") if missing else ():
        try:
            with open(path, "rb") as file:
                hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise RarefeatError(f"cannot read {path}: {error.strerror}") from error
    if cache and missing:
        old = time.time_ns() - CLOCK_TICK_NS
        rows = {
            path: [*state, hashes[path]] for path, state in states.items() if max(state[1:]) < old
        }
        with contextlib.suppress(RarefeatError):
            write_file(cache, json.dumps(rows))
    return hashlib.sha256(
        "".join(f"{mark} {hashes[path]}\n" for mark, path in files).encode()
    ).hexdigest()


def stat_files(files: Files) -> dict[str, list[int]]:
    """Return size (bytes) and times (ns) of files by path; RarefeatError if some are missing."""
    states: dict[str, list[int]] = {}
    for _, path in files:
        # A ValueError is raised for a name with a null character.
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                states[path] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    # A file that is in two lists counts once.
    paths = dict.fromkeys(path for _, path in files)
    if missing := [path for path in paths if path not in states]:
        raise RarefeatError(
            f"data.folder: {len(missing)} of {len(paths)} files are missing, {missing[0]} the"
            f" first; put them there"
        )
    return states


def check_unchanged(job: Job, name: str, files: Files) -> None:
    """Raise RarefeatError if files are not those that the job was planned with."""
    if name in job.config and hash_files(files) != job.config[name]:
        raise RarefeatError(
            f"{job.study}: the files have changed since this run was planned; run snakemake again"
        )
