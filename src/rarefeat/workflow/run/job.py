"""A job: its function, study, cell and seeds, the settings that it reads, hashes of its code.

It is made from the config where it is needed, in the plan and in the job, and is in no file but in
the metadata of those that the job writes, which jobs that read them check.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.section import Section, dump_config, format_validation_error
from rarefeat.workflow.files.origin import drop_neutral_keys
from rarefeat.workflow.run.code_hashes import hash_texts, module_hashes, user_code


def flat(value: Any, name: str = "") -> list[str]:
    """Return settings as texts, one for each key, as `training.eta=0.1`."""
    if isinstance(value, dict) and value:
        return [
            text
            for key, item in drop_neutral_keys(value).items()
            for text in flat(item, f"{name}.{key}".lstrip("."))
        ]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [text for i, item in enumerate(value) for text in flat(item, f"{name}.{i}")]
    return flat(dump_config(value), name) if isinstance(value, Section) else [f"{name}={value}"]


class Job(BaseModel):
    """One job of a stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    """MODULE:FUNCTION, from the package's root."""
    study: str = ""
    cell: dict[str, float | int | str] = {}
    seeds: str = ""
    """FIRST-LAST."""
    config: dict[str, Any] = {}
    code: dict[str, str] = {}
    """Hash of each module of its function, and of those upstream."""
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
        """Return a section of the config as a type; RarefeatError where it is wrong."""
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
        return list(range(int(first), int(last or first) + 1)) if first else []


def make_job(
    stage: str,
    upstream: Iterable[str],
    config: Mapping[str, Any],
    study: str = "",
    cell: Cell | None = None,
    seeds: str = "",
    table_schema: str = "",
    tables: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Job:
    """Return a job with the config values that it reads and the hashes of its code."""
    values = {
        name: dump_config(vars(section) if is_dataclass(section) else section)
        for name, section in config.items()
    }
    hashes = module_hashes(*upstream, stage) | user_code(values)
    # In the order of names, so that no result depends on the order of keys in a config.
    values = json.loads(json.dumps(values, sort_keys=True))
    return Job(
        stage=stage,
        study=study,
        cell=cell.values if cell else {},
        seeds=seeds,
        table_schema=table_schema,
        config=values,
        code=hashes,
        tables=dict(tables or {}),
        files=dict(files or {}),
    )
