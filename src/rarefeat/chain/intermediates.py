"""The files of the chain, cell by cell and block by block, read only where they are what they must be."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from torch import Tensor

from rarefeat.config.cells import Cell, path_of
from rarefeat.config.section import told
from rarefeat.config.study import Study
from rarefeat.run.job import Job
from rarefeat.storage.files import read_table
from rarefeat.storage.tensors import read_tensors

READ = ("draws", "simulator", "data", "training")
"""What encoders, trajectories and probes are made from, beside their arms, which are found by their names."""


def expected(job: Job, study: Study, cell: Cell, block: str) -> dict[str, Any]:
    """What a file of one cell and block of a study must say of itself to a job that came after it."""
    config = {name: told(getattr(study, name)) for name in READ}
    code = {name: digest for name, digest in job.code.items() if name in ("chain.synthesise", "chain.pretrain")}
    return {"study": job.study, "cell": cell.values, "seeds": block, "config": config, "code": code}


def latents_of(job: Job) -> dict[str, Any]:
    """What the latents of a job's cell must say of themselves: they are those of every sigma and arm."""
    config = {name: job.config[name] for name in ("draws", "data")}
    return {
        "study": job.study,
        "cell": {"eps_min": job.cell["eps_min"]},
        "seeds": job.seeds,
        "config": config,
        "code": {"chain.synthesise": job.code.get("chain.synthesise")},
    }


def encoders_of(job: Job) -> dict[str, Any]:
    """What the encoders of a job's cell must say of themselves."""
    config = {name: job.config[name] for name in (*READ, "arms")}
    return {
        "study": job.study,
        "cell": job.cell,
        "seeds": job.seeds,
        "config": config,
        "code": {"chain.pretrain": job.code.get("chain.pretrain")},
    }


def encoders(job: Job, study: Study, results: Path) -> Iterator[tuple[Cell, list[int], Callable[..., list[Tensor]]]]:
    """Every trained cell and block of the job's study: its seeds, and what reads tensors of its encoders by name.

    Args:
        results: the folder of results.
    """
    for cell in study.cells():
        for block, seeds in study.blocks().items():
            if cell.trained:
                yield cell, seeds, reader(results, job, study, cell, block)


def reader(results: Path, job: Job, study: Study, cell: Cell, block: str) -> Callable[..., list[Tensor]]:
    """What reads tensors of the encoders of one cell and block by name."""
    path = results / path_of("encoders", job.study, cell, block, "safetensors")
    return lambda *names: read_tensors(path, *names, expected=expected(job, study, cell, block))


def tables(kind: str, job: Job, study: Study, results: Path) -> Iterator[tuple[Cell, pa.Table]]:
    """The probes or the trajectories of every cell and block of the job's study."""
    for cell in study.cells():
        for block in study.blocks():
            if kind != "trajectories" or cell.trained:
                path = results / path_of(kind, job.study, cell, block, "parquet")
                yield cell, read_table(path, expected(job, study, cell, block))
