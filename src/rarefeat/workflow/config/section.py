"""Base class of the config's sections, one-line errors, and conversion to plain values."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    field_validator,
)

from rarefeat.workflow.config.names import LONGEST, shorten_repr, suggest

MIN_FLOAT, MAX_FLOAT = 1e-37, 1e37
"""Range of float32, of whose squares float64 holds each."""
MAX_INT = 2**53
FRACTION = re.compile(r"[0-9]+\.[0-9]+(e[-+]?[0-9]+)?|[0-9]+e[-+]?[0-9]+")
"""A number that is no integer, also within the label of an arm."""


class Section(BaseModel):
    """A section of the config, in which unknown keys and non-finite numbers are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False
    )

    @field_validator("*", mode="wrap")
    @classmethod
    def _check_numbers(cls, raw: Any, validate: Callable[[Any], Any]) -> Any:
        value = validate(raw)
        # pydantic would take true for 1.
        if isinstance(raw, bool) and type(value) in (int, float):
            raise ValueError(f"must be a number, got {raw}")
        return check_numbers(value)


def check_numbers(value: Any) -> Any:
    """Return a value with 0.0 for -0.0; raise ValueError for a number that torch cannot hold."""
    if type(value) in (list, tuple):
        return type(value)(map(check_numbers, value))
    if isinstance(value, int) and abs(value) > MAX_INT:
        raise ValueError(f"must be at most 2^53, got {shorten_repr(value)}")
    if not isinstance(value, float):
        return value
    if value and not MIN_FLOAT <= abs(value) <= MAX_FLOAT:
        raise ValueError(f"{value:g} is beyond float32, from {MIN_FLOAT:g} to {MAX_FLOAT:g}")
    return value + 0.0


def check_distinct(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values; ValueError if two are equal to the six digits of figures."""
    texts = [str(value or 0) if isinstance(value, float) else str(value) for value in values]
    labels = {FRACTION.sub(lambda match: f"{float(match[0]):g}", text) for text in texts}
    if len(labels) < len(texts):
        digits = ", to six digits" if len(set(texts)) == len(texts) else ""
        raise ValueError(f"values must be distinct{digits}, got {shorten_repr(list(values))}")
    return values


Item = TypeVar("Item")
Distinct = Annotated[list[Item], AfterValidator(check_distinct)]
"""Values of an axis: each makes a cell, a path and a row of its own."""


LeaveOutNull = BeforeValidator(
    lambda raw: {k: raw[k] for k in raw if raw[k] is not None} if isinstance(raw, dict) else raw
)
"""What is named, without what a later config sets to null."""
NOTHING = (None, False, 0, "")


def dump_config(value: Any) -> Any:
    """Convert a config value to plain Python values for job configs and file metadata.

    A key at an empty default (None, False, 0, "", an empty list, mapping or section), or at the
    default that its field names as `absent`, is omitted, so that a new key of that kind changes no
    job of earlier results. Every other value is kept, so that a changed default does change them.
    """
    if isinstance(value, Section):
        values = {}
        for name, field in type(value).model_fields.items():
            dumped = dump_config(getattr(value, name))
            absent = (field.json_schema_extra or {}).get("absent")
            nothing = dumped in ({}, [], *NOTHING) or dumped == absent
            default = field.get_default(call_default_factory=True)
            if field.is_required() or not nothing or getattr(value, name) != default:
                values[field.alias or name] = dumped
        return values
    if isinstance(value, dict):
        return {key: dump_config(item) for key, item in value.items()}
    return [dump_config(item) for item in value] if isinstance(value, list | tuple) else value


def format_validation_error(
    error: ValidationError, model: type[Section] | None = None, raw: Any = None
) -> str:
    """Format the first three problems of a validation error as one line."""
    places: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        keys = [key for key in item["loc"] if not UNION.match(str(key))]
        problem = item["msg"].removeprefix("Value error, ")
        if item["type"] == "missing":
            problem = "missing"
        elif item["type"] == "extra_forbidden":
            allowed = keys_at(model, keys[:-1]) if model else []
            problem = "unknown key" + (
                suggest(keys[-1], allowed) or f"; allowed: {', '.join(allowed)}" * bool(allowed)
            )
        elif item["type"] != "value_error":
            problem += f", got {shorten_repr(item['input'])}"
        place = map(str, written_place(keys, item["input"], raw))
        name = ".".join(
            key if key.isprintable() and len(key) <= LONGEST else shorten_repr(key) for key in place
        )
        if name not in places.setdefault(problem, []):
            places[problem].append(name)
    lines = []
    for problem, names in itertools.islice(places.items(), 3):
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"{names[0]}{others}: {problem}" if names[0] else problem)
    return "; ".join(lines)


UNION = re.compile(r"\[key\]$|\w[\w-]*\[.*\]$|constrained-\w+$|function-\w+$")
"""What pydantic puts into the place of an error that is no key: a branch of a union."""


def written_place(keys: list[Any], value: Any, raw: Any) -> list[Any]:
    """Return the place at which a raw config has a value that studies inherit."""
    for start in range(len(keys)):
        for prefix in (*(keys[:end] for end in range(start, -1, -1)), ["images"]):
            place, current = [*prefix, *keys[start:]], raw
            try:
                for key in place:
                    current = current[key]
            except (KeyError, IndexError, TypeError):
                continue
            if current is value or current == value:
                return place
    return keys


def keys_at(model: type[Section], place: Sequence[Any]) -> list[str]:
    """Return the keys of the sections at a place below another section."""
    models = {model}
    for key in place:
        fields = [item for one in models for item in one.model_fields.items()]
        types = [field.annotation for name, field in fields if key in (name, field.alias)]
        models = {section for annotation in types for section in sections_in(annotation)} or models
    return [field.alias or name for one in models for name, field in one.model_fields.items()]


def sections_in(annotation: Any) -> set[type[Section]]:
    """Return the sections that a type names, also within lists and mappings."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return {annotation}
    return {section for item in get_args(annotation) for section in sections_in(item)}
