"""What a job is told: its stage, study, cell and seeds, the config values that it reads, and the code that it came through.

The workflow gives it to every stage as one JSON text, so that Snakemake reruns a job where any of it changes; what the job
writes holds it, and what reads that checks it (storage/origin.py).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rarefeat.config.cells import Cell, path_of
from rarefeat.config.section import one_line, told
from rarefeat.core.errors import RarefeatError
from rarefeat.run.dependencies import code


class Job(BaseModel):
    """One job of a stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    """Module, from the package's root."""
    runs: str = ""
    """Module whose command line runs it, where that is another: one for all figures, one for all claims."""
    study: str = ""
    cell: dict[str, float | int | str] = {}
    seeds: str = ""
    """FIRST-LAST."""
    config: dict[str, Any] = {}
    code: dict[str, str] = {}
    """Digest of the stage, and of those that came before it in the chain."""

    @property
    def text(self) -> str:
        """As JSON, the same for the same job."""
        return json.dumps(self.model_dump(exclude_defaults=True), sort_keys=True)

    def part(self, name: str, kind: Any) -> Any:
        """A part of the config; RarefeatError where it is missing or wrong."""
        if name not in self.config:
            raise RarefeatError(f"--job: config.{name} is missing, which {self.stage} reads")
        try:
            return TypeAdapter(kind).validate_python(self.config[name])
        except ValidationError as error:
            raise RarefeatError(f"--job: config.{name}: {one_line(error)}") from error

    @property
    def of_size(self) -> str:
        """What a figure or page is to say of its run; empty where that is of the default size."""
        size = self.config.get("size")
        return f"a run of size {size}, not of the default size" if size else ""

    @property
    def at(self) -> Cell:
        """The cell."""
        return Cell(tuple(self.cell.items()))

    @property
    def seed_list(self) -> list[int]:
        """The seeds of the block."""
        first, _, last = self.seeds.partition("-")
        return list(range(int(first), int(last or first) + 1))


def job(
    stage: str,
    through: Iterable[str],
    config: Mapping[str, Any],
    study: str = "",
    cell: Cell | None = None,
    seeds: str = "",
    runs: str = "",
) -> Job:
    """A job with the values that it is told and the digests of its code; through: the stages before it in the chain."""
    digests = {name: code(name) for name in (*through, stage, *([runs] if runs else []))}
    values = {name: told(part) for name, part in config.items()}
    at = cell.values if cell else {}
    return Job(stage=stage, runs=runs, study=study, cell=at, seeds=seeds, config=values, code=digests)


def parsed(text: str) -> Job:
    """The job of a text; ValueError with one line that says what is wrong."""
    try:
        return Job.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(one_line(error)) from error


def of_cells(
    kind: str, suffix: str, job: Job, study: Any, told_in: Callable[[Cell], Mapping[str, Any]], results: Path
) -> Iterator[tuple[Cell, Path, dict[str, Any]]]:
    """Every cell and block of a job's study with its file and what this must say of itself (storage/origin.py).

    Args:
        kind: the folder below that of results. told_in: what of the config the job of a cell was told.
    """
    code = {stage: digest for stage, digest in job.code.items() if stage != job.stage}
    for cell in study.cells():
        config = {name: told(part) for name, part in told_in(cell).items()}
        for block in study.blocks():
            expected = {"study": job.study, "cell": cell.values, "seeds": block, "config": config, "code": code}
            yield cell, results / path_of(kind, job.study, cell, block, suffix), expected
