"""What every section of the config is, its errors in one line, and what of it a job is told."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

EXPONENT = re.compile(r"[-+]?\d+[eE][-+]?\d+")
"""A number that YAML 1.1 takes for a text, as it does 1e-3."""


class Section(BaseModel):
    """A part of the config: unknown keys, non-finite numbers and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, raw: Any) -> Any:
        """What YAML misses of numbers, in the fields that are not texts."""
        if not isinstance(raw, dict):
            return raw
        texts = {key for name, field in cls.model_fields.items() if field.annotation is str for key in (name, field.alias)}
        return {key: value if key in texts else exponents(value) for key, value in raw.items()}


def exponents(value: Any) -> Any:
    """A value, or a list of some, with texts such as 1e-3 as numbers."""
    if isinstance(value, list):
        return [exponents(item) for item in value]
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def distinct(values: Sequence[float | str]) -> None:
    """Refuse a value that is there twice, or that figures and tables, which have six digits, would call as another one."""
    names = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    if len(set(names)) < len(names):
        digits = ", to six digits" if len(set(values)) == len(values) else ""
        raise ValueError(f"values must be distinct{digits}, got {list(values)}")


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
    """The first problems of a pydantic error in one line; what several keys inherit is told of the first."""
    places: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        key = ".".join(part for part in map(str, item["loc"]) if not part.startswith("literal["))
        said = {"extra_forbidden": "no such key", "missing": "missing"}.get(item["type"], item["msg"])
        given = "" if item["type"] in ("value_error", "missing") else f", got {item['input']!r}"
        places.setdefault(f"{said.removeprefix('Value error, ')}{given}", []).append(key)

    def problems() -> Iterator[str]:
        for said, keys in places.items():
            others = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            yield f"{keys[0]}{others}{': ' if keys[0] else ''}{said}"

    return "; ".join(itertools.islice(problems(), 3))
