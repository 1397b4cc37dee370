"""What a job is told: its stage, study, cell and seeds, the config values that it reads, and the code that it came through.

The workflow gives it to every stage as a file of JSON, whose name has a hash of it, so that Snakemake reruns a job where any of
it changes; what the job writes holds it, and what reads that checks it (storage/origin.py).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rarefeat.config.cells import Cell
from rarefeat.config.section import Section, one_line, told
from rarefeat.core.errors import RarefeatError
from rarefeat.run.code_hashes import (
    accepted_hash,
    code_hash,
    hash_texts,
    is_excluded,
    iter_strings,
    registry_entries,
)


class Job(BaseModel):
    """One job of a stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    """MODULE:FUNCTION, from the package's root, for `runs` to call; or a module whose `main` it is."""
    runs: str = ""
    """Module whose command line runs it, where that is another: one for all figures, one for all claims."""
    study: str = ""
    cell: dict[str, float | int | str] = {}
    seeds: str = ""
    """FIRST-LAST."""
    config: dict[str, Any] = {}
    code: dict[str, str] = {}
    """Digest of the stage, and of those that came before it in the chain."""
    tables: dict[str, str] = {}
    """The tables that it reads, each with the identity of the job that makes it."""
    files: dict[str, str] = {}
    """The folders of the files of cells that it reads, each with the function of their stage (kind.py: Stage)."""

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
    def identity(self) -> str:
        """A content hash of what it makes: how seeds are cut into jobs changes no number, and is left out."""
        found = self.model_dump(exclude_defaults=True) | {"config": without_blocks(self.config)}
        return hash_texts(json.dumps(found, sort_keys=True).encode())[:16]

    @property
    def of_size(self) -> str:
        """What a figure or page is to say of its run; empty where that is of the default size."""
        size = self.config.get("size")
        return f"a run of size {size}, not of the default size" if size else ""

    @property
    def label(self) -> str:
        """What progress and errors call it: its study and cell."""
        return "/".join(part for part in (self.study, self.at.path) if part)

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
    tables: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    accepted: Iterable[Mapping[str, Any]] = (),
) -> Job:
    """A job with the values that it is told and the digests of its code.

    Args:
        through: the stages before it in the chain. tables: those that it reads, with the identities of their jobs. files: the
            folders of cells' files that it reads, with their stages.
        accepted: digests that stand for others (`code_hashes.read_accepted`).
    """
    values, named = {}, set()
    for name, part in config.items():
        values[name], texts = told_once(vars(part) if is_dataclass(part) else part)
        named |= texts
    stages = (*through, stage, *([runs] if runs and not is_excluded(runs) else []))
    code = (*stages, *registry_entries(stages, named))
    hashes = {name: accepted_hash(code_hash(name), name, accepted) for name in code}
    at = cell.values if cell else {}
    read = {"tables": dict(tables or {}), "files": dict(files or {})}
    return Job(stage=stage, runs=runs, study=study, cell=at, seeds=seeds, config=values, code=hashes, **read)


TOLD: dict[int, tuple[Section, Any, frozenset[str]]] = {}
"""By identity, with the section itself, so that no other takes its identity."""


def told_once(part: Any) -> tuple[Any, frozenset[str]]:
    """What a job is told of a part of the config, and the texts in it; of a section once: the cells of a grid share some."""
    if isinstance(part, list):
        found = [told_once(item) for item in part]
        return [values for values, _ in found], frozenset().union(*(texts for _, texts in found))
    if not isinstance(part, Section):
        values = told(part)
        return values, frozenset(iter_strings(values))
    if id(part) not in TOLD:
        values = told(part)
        TOLD[id(part)] = part, values, frozenset(iter_strings(values))
    return TOLD[id(part)][1:]


def without_blocks(part: Any) -> Any:
    """A part of the config, but for `seeds_per_block`."""
    if isinstance(part, dict):
        return {key: without_blocks(value) for key, value in part.items() if key != "seeds_per_block"}
    return [without_blocks(value) for value in part] if isinstance(part, list) else part


def job_file(job: Job, results: str | Path) -> str:
    """Write a job into a file below a folder of results, if it is not there yet; return its path.

    The name has a hash of the job, so that Snakemake, whose param it is, reruns what changed.
    """
    name = job.stage.replace(":", ".")
    path = Path(results, "jobs", f"{name}-{hashlib.sha256(job.text.encode()).hexdigest()[:16]}.json")
    if not path.exists():
        write_file(path, job.text)
    return str(path)


def parsed(text: str) -> Job:
    """The job of a text; ValueError with one line that says what is wrong."""
    try:
        return Job.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(one_line(error)) from error
