"""What every section of the config is, its errors in one line, and what of it a job is told."""

import itertools
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class Section(BaseModel):
    """A part of the config: unknown keys and non-finite numbers are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


NOTHING = (None, False, 0, "")


def told(part: Any) -> Any:
    """A part of the config as plain values, as jobs are given it and as results remember it.

    A key at a default of nothing (None, False, 0, an empty text, list, mapping or section) is left out, so that a new key of
    that kind changes nothing that was computed before it; so is one at the default that its field names under `absent`. Every
    other value stands there, so that a changed default is seen.
    """
    if isinstance(part, Section):
        found = {}
        for name, field in type(part).model_fields.items():
            value = told(getattr(part, name))
            absent = (field.json_schema_extra or {}).get("absent")
            nothing = value in ({}, []) or any(value is item or value == item for item in NOTHING) or value == absent
            if field.is_required() or not nothing or getattr(part, name) != field.get_default(call_default_factory=True):
                found[field.alias or name] = value
        return found
    if isinstance(part, dict):
        return {key: told(value) for key, value in part.items()}
    return [told(value) for value in part] if isinstance(part, list | tuple) else part


def one_line(error: ValidationError) -> str:
    """The first problems of a pydantic error in one line."""

    def problems() -> Iterator[str]:
        for item in error.errors(include_url=False):
            key = ".".join(str(part) for part in item["loc"])
            given = "" if item["type"] in ("value_error", "missing") else f", got {item['input']!r}"
            yield f"{key}{': ' if key else ''}{item['msg'].removeprefix('Value error, ')}{given}"

    return "; ".join(itertools.islice(problems(), 3))
