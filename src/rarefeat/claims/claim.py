"""The declaration of a claim: a statement of a paper, its quantity, and the region it must lie in.

How a claim is tested is in verdict.py. The claims of a kind of study are in the file `claims.yaml`
of its folder; its module `claims` measures them.
"""

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from math import inf
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from rarefeat.workflow.config.section import Section

RANGES = {
    "number": (-inf, inf),
    "share": (0.0, 1.0),
    "count": (0.0, inf),
    "correlation": (-1.0, 1.0),
    "0 or 1": (0.0, 1.0),
    "paired 0 or 1": (-1.0, 1.0),
}
"""Range of a quantity, which no interval leaves, by the kind of quantity."""
Value = str | float | tuple[float, ...]
"""Position of a regime on an axis: a name, a number, or the ends of a range."""


class Regime(NamedTuple):
    """A regime in which a quantity is measured: a study, and positions on some of its axes."""

    study: str
    axes: Mapping[str, Value] = {}


def parse_fraction(value: Any) -> Any:
    """Convert a text such as 27/32 to a number; return any other value as it is."""
    try:
        return float(Fraction(value)) if isinstance(value, str) and "/" in value else value
    except (ValueError, ZeroDivisionError):
        return value


def parse_regime(value: Any) -> Any:
    """Convert a mapping with a study and axes to a regime."""
    if not isinstance(value, dict) or not isinstance(value.get("study"), str):
        raise ValueError(
            f"must be a mapping with the name of a study and axes with their values, got {value!r}"
        )
    axes = {
        axis: tuple(position) if isinstance(position, list) else position
        for axis, position in value.items()
        if axis != "study"
    }
    for axis, position in axes.items():
        number = 0 if isinstance(position, str) else position
        ends = position if isinstance(position, tuple) else (number,)
        if not all(isinstance(end, int | float) for end in ends):
            raise ValueError(
                f"{axis}: must be a name, a number or the two ends of a range, got {value[axis]!r}"
            )
    return Regime(value["study"], axes)


Number = Annotated[float, BeforeValidator(parse_fraction)]


class Range(Section):
    """An open range of numbers; an end that is not given is infinite."""

    above: Number = -inf
    below: Number = inf


class Premise(Range):
    """What a statement assumes, as a number that is measured where the claim is tested."""

    quantity: str = Field(min_length=1, description="what stands for it; its mean is in the range")


class Claim(Section):
    """A statement of a paper with its quantity and the region it must lie in.

    Claims are declared before the run that tests them.
    """

    id: str = Field(min_length=1)
    group: str = Field(min_length=1, description="the part of the theory that it belongs to")
    paper: str = Field(min_length=1, description="the family of its primary row")
    source: str = Field(min_length=1, description="theorem, lemma and equation")
    statement: str = Field(min_length=1, description="in one line")
    quantity: str = Field(
        min_length=1,
        description="what stands for it; ratios as logarithms, so that margins are symmetric",
    )
    test: Literal["superiority", "non-inferiority", "equivalence"] = Field(
        description="superiority: beyond the threshold; non-inferiority, for bounds whose constant"
        " the paper leaves open: not beyond the threshold by more than the margin; equivalence:"
        " within the margin of the threshold"
    )
    side: Literal["above", "below", "around"]
    threshold: Number
    margin: Number = Field(default=0.0, ge=0)
    least: Number = Field(
        default=0.0,
        ge=0,
        description="smallest effect of interest beyond the threshold: an effect that is shown to"
        " be smaller contradicts the claim; for superiority alone",
    )
    kind: Literal["number", "share", "count", "correlation", "0 or 1", "paired 0 or 1"] = Field(
        default="number",
        description="of quantity, which says its range: what of an interval lies outside is left"
        " out; `0 or 1` where each replica is one of both, `paired 0 or 1` where it is the"
        " difference of two such of one seed: these are tested exactly",
    )
    reason: str = Field(
        default="", description="why threshold and margin follow from the statement"
    )
    primary: Annotated[Regime, BeforeValidator(parse_regime)] = Field(
        description="the regime that the paper speaks of: its study alone, or with its position on"
        " the axes"
    )
    control: str = Field(
        default="",
        description="what would show the same without the claim being true, and how the two are"
        " distinguished",
    )
    seeds: int = Field(
        ge=0, description="replicas of the primary row; 0 for a claim about fitted sizes"
    )
    tolerance: Number = Field(
        default=0.0,
        ge=0,
        description="a change that is none, when a hyper-parameter is halved or doubled",
    )
    success: Range | None = Field(
        default=None,
        description="range of a seed's number; the quantity is then the share of seeds in it",
    )
    premise: Premise | None = Field(
        default=None, description="where this is not shown the claim is not tested"
    )
    check: bool = Field(
        default=False,
        description="whether it holds by construction: a check of the code that is not counted",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Claim":
        if (self.test == "equivalence") != (self.side == "around"):
            raise ValueError("side: equivalence, and nothing else, is around its threshold")
        if (self.margin > 0) == (self.test == "superiority"):
            raise ValueError(f"margin: {self.test} has {'none' if self.margin else 'one above 0'}")
        if self.least and self.test != "superiority":
            raise ValueError(f"least: {self.test} has a margin, and no smallest effect of interest")
        if self.success and self.kind != "0 or 1":
            raise ValueError("success: its kind is `0 or 1`")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Range of the quantity; infinite where it has none."""
        return RANGES[self.kind]

    @property
    def region(self) -> tuple[float, float]:
        """Interval that the quantity must lie in; infinite where it is open."""
        low, high = self.threshold - self.margin, self.threshold + self.margin
        return (-inf if self.side == "below" else low), (inf if self.side == "above" else high)

    @property
    def resolution(self) -> float:
        """Difference that the seeds must be able to tell; 0 where any effect counts."""
        return self.margin or self.least

    @property
    def declaration(self) -> str:
        """Hash of all that decides the verdict; numbers of another declaration are not its own."""
        deciding = self.model_dump_json(
            include={
                "quantity", "test", "side", "threshold", "margin", "least", "kind", "primary",
                "success", "premise",
            }
        )  # fmt: skip
        return hashlib.sha256(deciding.encode()).hexdigest()[:12]

    @property
    def required(self) -> str:
        """Region in words."""
        if self.test == "equivalence":
            return f"within {self.margin:g} of {self.threshold:g}"
        if self.test == "superiority":
            smallest = f"; less than {self.least:g} beyond is no effect" if self.least else ""
            return f"{self.side} {self.threshold:g}{smallest}"
        bound = "at least" if self.side == "above" else "at most"
        return f"{bound} {self.threshold:g}, with a margin of {self.margin:g}"
