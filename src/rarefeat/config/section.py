"""What every section of the config is, its errors in one line, and what of it a job is told."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator

from rarefeat.config.names import LONGEST, near, short

EXPONENT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")
"""A number that YAML 1.1 takes for a text, as it does 1e-3 and 1.0e3."""
LEAST, MOST = 1e-37, 1e37
"""What float32 holds, and float64 squares of."""
FRACTION = re.compile(r"[0-9]+\.[0-9]+(e[-+]?[0-9]+)?|[0-9]+e[-+]?[0-9]+")
"""A number that is no integer, in the label of an arm as well."""


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
    return single(float(value)) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def single(value: float) -> float:
    """A number, with one zero instead of two; ValueError where float32 does not hold it."""
    if value and not LEAST <= abs(value) <= MOST and abs(value) < float("inf"):
        raise ValueError(f"{value:g} is beyond float32; between {LEAST:g} and {MOST:g} is allowed")
    return value + 0.0


def distinct(values: Sequence[Any]) -> Sequence[Any]:
    """The values; ValueError where one is there twice, or where figures and tables, with six digits, call two the same."""
    names = [FRACTION.sub(lambda found: f"{float(found[0]):g}", str(value)) for value in values]
    if len(set(names)) < len(names):
        digits = ", to six digits" if len(set(map(str, values))) == len(values) else ""
        raise ValueError(f"values must be distinct{digits}, got {list(values)}")
    return values


Item = TypeVar("Item")
Distinct = Annotated[list[Item], AfterValidator(distinct)]
"""Values of an axis: each makes a cell, a path and a row of its own."""

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


def one_line(error: ValidationError, model: type[Section] | None = None) -> str:
    """The first problems of a pydantic error in one line; what several keys inherit is told of the first.

    Args:
        model: what was validated, for the keys that a misspelt one may mean.
    """
    places: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        parts = [str(part) for part in item["loc"] if not UNION.match(str(part))]
        key = ".".join(part if part.isprintable() and len(part) <= LONGEST else short(part) for part in parts)
        said = {"extra_forbidden": "no such key", "missing": "missing"}.get(item["type"], item["msg"])
        if item["type"] == "extra_forbidden" and model:
            said += near(parts[-1], keys_at(model, parts[:-1]))
        given = "" if item["type"] in ("value_error", "missing") else f", got {short(item['input'])}"
        places.setdefault(f"{said.removeprefix('Value error, ')}{given}", []).append(key)

    def problems() -> Iterator[str]:
        for said, keys in places.items():
            others = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            yield f"{keys[0]}{others}{': ' if keys[0] else ''}{said}"

    return "; ".join(itertools.islice(problems(), 3))


UNION = re.compile(r"\[key\]$|\w[\w-]*\[.*\]$|constrained-\w+$|function-\w+$")
"""What pydantic puts into the place of an error that is no key: a branch of a union."""


def keys_at(model: type[Section], place: Sequence[str]) -> list[str]:
    """The keys of the section at a place of another one, by the way that leads there."""
    here = {model}
    for part in place:
        fields = [field for at in here for name, field in at.model_fields.items() if part in (name, field.alias)]
        here = {section for field in fields for section in sections_of(field.annotation)} or here
    return [field.alias or name for at in here for name, field in at.model_fields.items()]


def sections_of(annotation: Any) -> set[type[Section]]:
    """The sections that a type names, within lists and mappings as well."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return {annotation}
    return {section for part in get_args(annotation) for section in sections_of(part)}
