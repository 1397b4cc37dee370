"""Inputs of a job: tables by name.

The files of cells, each read only where it is what it must be.
"""

import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.files.sealed_files import read_table
from rarefeat.workflow.registry import find_stage
from rarefeat.workflow.run.code_hashes import GIVEN, module_hashes
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.metadata import read_job_metadata, read_product

if TYPE_CHECKING:
    from torch import Tensor


USER_FILES = ("contents", "lists")
"""Hashes of a user's images and of lists of them, which a job is told beside its settings."""


class CellFile(NamedTuple):
    """The file of one cell and seed block."""

    cell: Cell
    seeds: list[int]
    path: Path
    expected: dict[str, Any]
    """What it must say it is (workflow/files/origin.py)."""

    def table(self) -> pd.DataFrame:
        """Read its rows."""
        return read_table(self.path, self.expected).to_pandas()

    def tensors(self, *names: str) -> "list[Tensor]":
        """Read some of its tensors."""
        # Imported here, as tables are made without torch.
        from rarefeat.workflow.files.tensors import read_tensors

        return read_tensors(self.path, *names, expected=self.expected)


class JobInputs(dict[str, pd.DataFrame]):
    """The tables that a job reads, by name; and the files of cells."""

    def __init__(self, job: Job, results: str | Path) -> None:
        """Read the tables of a job."""
        self.job, self.results = job, Path(results)
        self.afterwards: list[Callable[[], None]] = []
        """Functions to call once the outputs are written, as to remove checkpoints."""
        self.table_paths = [self.results / f"tables/{name}.parquet" for name in job.tables]
        super().__init__({path.stem: read_product(path, job.tables) for path in self.table_paths})

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints from which an interrupted training continues."""
        return self.results / "checkpoints" / self.job.label

    def files(self, folder: str, name: str = "", study: Any = None) -> Iterator[CellFile]:
        """Yield the file of every cell and seed block of a study."""
        stage, name = find_stage(self.job.files[folder]), name or self.job.study
        if study is None:
            study = self.job.config_section(
                name if name in self.job.config else next(iter(self.job.config)), stage.study
            )
        code = module_hashes(*stage.lineage)
        for cell, block, path in stage.files_of(name, study, folder):
            says = {
                "study": name,
                "config": stage.expected_config(study, cell),
                "code": code,
                **stage.identify(cell, block),
            }
            yield CellFile(cell, study.blocks().get(block, []), self.results / path, says)

    def file(self, folder: str) -> CellFile:
        """Return the file of the job's own cell and seeds, or of its study.

        Its job must have had the config values of this one, of those that both have.
        """
        job, function = self.job, self.job.files[folder]
        stage = find_stage(function)
        path = self.results / stage.path(folder, job.study, job.cell_object, job.seeds)
        told = (read_job_metadata(path) or {}).get("config") or {}
        names = [*stage.settings, *(name for name in USER_FILES if name in told)]
        config = {name: job.config[name] for name in names if name in job.config}
        says = {"study": job.study, "config": config, "code": module_hashes(*stage.lineage)}
        return CellFile(
            job.cell_object, job.seed_list, path, says | stage.identify(job.cell_object, job.seeds)
        )


def call(function: Callable, inputs: JobInputs, job: Job) -> Any:
    """Call a function with what its parameters name: GIVEN, and settings."""
    given = {"inputs": inputs, "tables": inputs, "job": job, "label": job.label}
    given |= {"cell": job.cell, "seeds": job.seed_list}
    names = [
        name
        for name, item in inspect.signature(function).parameters.items()
        if item.default is item.empty
    ]
    settings = [name for name in names if name not in GIVEN]
    types = typing.get_type_hints(function) if settings else {}
    keys = {name: name if name in job.config else job.study for name in settings}
    return function(
        **{name: given[name] for name in names if name in GIVEN},
        **{name: job.config_section(keys[name], types[name]) for name in settings},
    )
