"""What the function of a job is given: tables by name, and the files of cells, each read only where it is what it must be."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from rarefeat.config.cells import Cell
from rarefeat.core.errors import RarefeatError
from rarefeat.registry import stage_of
from rarefeat.run.job import Job
from rarefeat.run.metadata import read_job, read_products
from rarefeat.storage.files import read_table

if TYPE_CHECKING:
    from torch import Tensor


class File(NamedTuple):
    """A file of one cell and block of seeds."""

    cell: Cell
    seeds: list[int]
    path: Path
    expected: dict[str, Any]
    """What it must say of itself (storage/origin.py)."""

    def table(self) -> pd.DataFrame:
        """Its rows."""
        return read_table(self.path, self.expected).to_pandas()

    def tensors(self, *names: str) -> "list[Tensor]":
        """Some of its tensors."""
        # Here, as tables are made without torch.
        from rarefeat.storage.tensors import read_tensors

        return read_tensors(self.path, *names, expected=self.expected)


def written_by(job: Job) -> tuple[str, ...]:
    """FOLDER.SUFFIX of the files of a job of a cell; none where it is of no cell, or its rule alone names the file."""
    stage = stage_of(job.stage)
    return stage.files if stage else ()


def read_by(job: Job, results: Path) -> list[Path] | None:
    """The files of cells that the job of a cell reads, below the folder of results; None where it is the job of no cell."""
    if not stage_of(job.stage):
        return None
    return [results / stage_of(name).path(folder, job.study, job.at, job.seeds) for folder, name in job.files.items()]


class Read(dict[str, pd.DataFrame]):
    """The tables that a job reads, by name; and the files of cells."""

    def __init__(
        self, job: Job, results: Path | None = None, tables: Iterable[Path] = (), checkpoints: Path | None = None
    ) -> None:
        """Read the tables; results: the folder of results, for who reads files of cells. checkpoints: that of a training's."""
        super().__init__(read_products(tables, job))
        self.job, self.results, self.kept = job, results, checkpoints
        self.afterwards: list[Callable[[], None]] = []
        """What is done once all that the function gives is written."""

    @property
    def checkpoints(self) -> Path:
        """The folder of what an interrupted training goes on from; RarefeatError where there is none."""
        if self.kept is None:
            raise RarefeatError(f"--checkpoints is missing, a folder for what {self.job.stage} goes on from")
        return self.kept

    def files(self, folder: str, name: str = "", study: Any = None) -> Iterator[File]:
        """The files of every cell and block of a study, the job's if no other is given."""
        stage, name = stage_of(self.job.files[folder]), name or self.job.study
        if study is None:
            # Alone where it is a block of a study's grid.
            part = name if name in self.job.config else next(iter(self.job.config))
            study = self.job.part(part, stage.study)
        code = {one: self.job.code.get(one) for one in stage.through}
        for cell, block, path in stage.files_of(name, study, folder):
            of_file = {"study": name, "config": stage.compared(study, cell), "code": code, **stage.of(cell, block)}
            yield File(cell, study.blocks()[block], self.results / path, of_file)

    def file(self, folder: str) -> File:
        """The file of the job's own cell and seeds, or of its study; what both jobs were told of the config is the same."""
        job, function = self.job, self.job.files[folder]
        stage = stage_of(function)
        path = self.results / stage.path(folder, job.study, job.at, job.seeds)
        says = (read_job(path) or {}).get("config")
        # A file that shares no part of the config with the job was written by no stage before it, and is refused.
        both = job.config.keys() & says.keys() if isinstance(says, dict) else set()
        config = {name: part for name, part in job.config.items() if name in (both or job.config)}
        of_file = {"study": job.study, "config": config, "code": {function: job.code.get(function)}}
        return File(job.at, job.seed_list, path, of_file | stage.of(job.at, job.seeds))
