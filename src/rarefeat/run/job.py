"""A job: its stage, study, cell and seeds, the config values that it reads.

Hashes of the code that it depends on.

The workflow writes it to a file, `jobs/FUNCTION-HASH.json` below the folder of results, whose path
is a parameter of the rule: Snakemake reruns a job where any of it changes. The files that a job
writes name it, and jobs that read them check that.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rarefeat.config.cells import Cell
from rarefeat.config.section import Section, dump_config, format_validation_error
from rarefeat.core.errors import RarefeatError
from rarefeat.run.code_hashes import (
    accepted_hash,
    code_hash,
    hash_texts,
    is_excluded,
    iter_strings,
    registry_entries,
)
from rarefeat.storage.origin import drop_neutral_keys
from rarefeat.storage.sealed_files import atomic_write

FOLDER = "jobs"
"""Folder of the files of jobs, below that of results."""


class Job(BaseModel):
    """One job of a stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    """MODULE:FUNCTION, from the package's root."""
    runs: str = ""
    """MODULE:FUNCTION that calls it, where its result needs more before it is written
    (run/execute_job.py)."""
    study: str = ""
    cell: dict[str, float | int | str] = {}
    seeds: str = ""
    """FIRST-LAST."""
    config: dict[str, Any] = {}
    code: dict[str, str] = {}
    """Hash of the stage's code, and of the stages upstream."""
    table_schema: str = ""
    """MODULE:NAME of the schema of the one table that it writes, checked when it is written."""
    tables: dict[str, str] = {}
    """Tables that it reads, each with the identity of the job that makes it."""
    files: dict[str, str] = {}
    """Folders of the cell files that it reads, each with the function of their stage
    (study_kind.py: Stage)."""

    @property
    def to_json(self) -> str:
        """Itself as JSON, the same for the same job."""
        return json.dumps(self.model_dump(exclude_defaults=True))

    def config_section(self, name: str, kind: Any) -> Any:
        """Return a section of the config as a type; RarefeatError where it is missing or wrong."""
        if name not in self.config:
            raise RarefeatError(
                f"job: config.{name}: missing, {self.stage} reads it; run snakemake again"
            )
        try:
            return TypeAdapter(kind).validate_python(self.config[name])
        except ValidationError as error:
            raise RarefeatError(f"job: config.{name}: {format_validation_error(error)}") from error

    @property
    def identity(self) -> str:
        """Hash of everything that sets its result; how it is computed does not."""
        values = self.model_dump(exclude_defaults=True) | {"config": drop_neutral_keys(self.config)}
        return hash_texts(json.dumps(values, sort_keys=True).encode())[:16]

    @property
    def size_note(self) -> str:
        """Note for a figure or a page of a run with a name, or not of the default size."""
        run, size = self.config.get("run"), self.config.get("size")
        note = f"a run of size {size}, not of the default size" if size else ""
        return "; ".join(filter(None, (f"run {run}" if run else "", note)))

    @property
    def label(self) -> str:
        """Study and cell, for progress and errors."""
        return "/".join(text for text in (self.study, self.cell_object.path) if text)

    @property
    def cell_object(self) -> Cell:
        """Cell of the job."""
        return Cell(tuple(self.cell.items()))

    @property
    def seed_list(self) -> list[int]:
        """Seeds of its block."""
        first, _, last = self.seeds.partition("-")
        return list(range(int(first), int(last or first) + 1))

    def write(self, results: str | Path) -> str:
        """Write its file below a folder of results, unless it is there; return the path."""
        path = Path(results, FOLDER, f"{self.stage.partition(':')[2]}-{self.identity}.json")
        # Jobs of one identity may differ in keys that rerun nothing.
        if not path.exists() or path.read_text(encoding="utf-8") != self.to_json:
            # A plan writes a thousand of them, and each can be written again.
            with atomic_write(path, durable=False) as temporary:
                temporary.write_text(self.to_json, encoding="utf-8")
        return str(path)


def read_job_file(path: str | Path) -> Job:
    """Read the file of a job; RarefeatError where it is missing or damaged."""
    try:
        return Job.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise RarefeatError(f"cannot read {path}: {error.strerror}; run snakemake again") from error
    except ValidationError as error:
        raise RarefeatError(
            f"{path}: {format_validation_error(error)}; delete it and run snakemake again"
        ) from error


def make_job(
    stage: str,
    upstream: Iterable[str],
    config: Mapping[str, Any],
    study: str = "",
    cell: Cell | None = None,
    seeds: str = "",
    runs: str = "",
    table_schema: str = "",
    tables: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    accepted: Iterable[Mapping[str, Any]] = (),
) -> Job:
    """Return a job with the config values that it reads and the hashes of its code.

    Parameters
    ----------
    stage : str
        MODULE:FUNCTION.
    upstream : iterable of str
        Functions of the stages upstream.
    config : mapping
        Sections of the config by name.
    study, seeds : str, optional
        Study and seed block.
    cell : Cell, optional
        Cell.
    runs : str, optional
        MODULE:FUNCTION that calls the stage.
    table_schema : str, optional
        MODULE:NAME of the schema of the one table that it writes.
    tables : mapping, optional
        Identity of the job of each table that it reads, by name.
    files : mapping, optional
        Function of the stage of the cell files that it reads, by folder.
    accepted : iterable of mapping, optional
        Code hashes that stand for others (`code_hashes.read_accepted`).
    """
    values, names = {}, set()
    for name, section in config.items():
        values[name], texts = plain_values(vars(section) if is_dataclass(section) else section)
        names |= texts
    stages = (*upstream, stage, *([runs] if runs and not is_excluded(runs) else []))
    try:
        hashes = {
            name: accepted_hash(code_hash(name), name, accepted)
            for name in (*stages, *registry_entries(stages, names))
        }
    except LookupError as error:
        raise RarefeatError(f"{error.args[0]}; check the declaration of its study") from error
    # In the order of names, so that no result depends on the order of keys in a config.
    values = json.loads(json.dumps(values, sort_keys=True))
    axes = cell.values if cell else {}
    reads = {"tables": dict(tables or {}), "files": dict(files or {})}
    return Job(
        stage=stage,
        runs=runs,
        study=study,
        cell=axes,
        seeds=seeds,
        table_schema=table_schema,
        config=values,
        code=hashes,
        **reads,
    )


PLAIN: dict[int, tuple[Section, Any, frozenset[str]]] = {}
"""Plain values of sections by their identity; the section is kept, so that no other takes its
identity."""


def plain_values(section: Any) -> tuple[Any, frozenset[str]]:
    """Return plain values of a section of the config and the texts in them.

    Once for each, as cells share sections.
    """
    if isinstance(section, list):
        items = [plain_values(item) for item in section]
        return [values for values, _ in items], frozenset().union(*(texts for _, texts in items))
    if not isinstance(section, Section):
        values = dump_config(section)
        return values, frozenset(iter_strings(values))
    if id(section) not in PLAIN:
        values = dump_config(section)
        PLAIN[id(section)] = section, values, frozenset(iter_strings(values))
    return PLAIN[id(section)][1:]
