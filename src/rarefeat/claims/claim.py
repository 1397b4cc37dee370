"""What a claim is: a statement of a paper, what stands for it, and where that must lie. How it is tested: verdict.py."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from rarefeat.claims.estimate import Estimate, of_seeds
from rarefeat.claims.tables import MEASURED
from rarefeat.core.errors import RarefeatError
from rarefeat.core.statistics import ANYWHERE
from rarefeat.storage.schema import checked

LEAST = 3
"""Fewer degrees of freedom than this are not tested."""
FEW = "{} replicas have a value, fewer than a test needs"
NOT_RUN = "its primary regime is no part of this configuration"
SHARE, COUNT, CORRELATION = (0.0, 1.0), (0.0, np.inf), (-1.0, 1.0)
"""Ranges of quantities."""
VARIED = " | "
"""Between what is varied and the point, in the point of a varied row."""


class Regime(NamedTuple):
    """Where a quantity was measured: a study, and for people a point or range in it."""

    study: str
    point: str = ""

    def __str__(self) -> str:
        return f"{self.study}: {self.point}" if self.point else self.study


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, the quantity that stands for it, and the region it must lie in: declared before the run.

    `superiority`: beyond the threshold. `non-inferiority`, for bounds whose constant the paper leaves open: not beyond the
    threshold by more than the margin. `equivalence`: within the margin of the threshold. Ratios are measured as logarithms, so
    that margins are symmetric.
    """

    id: str
    group: str
    paper: str
    """The family of its primary row."""
    source: str
    """Theorem, lemma and equation."""
    statement: str
    quantity: str
    test: Literal["superiority", "non-inferiority", "equivalence"]
    side: Literal["above", "below", "around"]
    threshold: float
    reason: str
    """Why threshold and margin follow from the statement."""
    primary: str
    """The regime that the paper speaks of, as Regime writes it: its study, or study and point."""
    effect: float
    """Distance from the edge of the region, in standard deviations between seeds, that `seeds` finds with a power of 0.9."""
    seeds: int
    """Replicas of the primary row; 0 for a claim about fitted sizes."""
    tolerance: float
    """A change of the quantity that is none, when a hyper-parameter is halved or doubled."""
    control: str
    """What would show the same without the claim being true, and how it is told apart."""
    margin: float = 0.0
    bounds: tuple[float, float] = ANYWHERE
    """The range of the quantity, where it has one: what of an interval lies outside is left out."""

    def __post_init__(self) -> None:
        if (self.test == "equivalence") != (self.side == "around"):
            raise ValueError(f"claim {self.id}: equivalence, and nothing else, is around its threshold")
        if (self.margin > 0) == (self.test == "superiority"):
            raise ValueError(f"claim {self.id}: superiority has no margin, {self.test} has one above 0")

    @property
    def region(self) -> tuple[float, float]:
        """The interval that the quantity must lie in; infinite where it is open."""
        low, high = self.threshold - self.margin, self.threshold + self.margin
        return (-np.inf if self.side == "below" else low), (np.inf if self.side == "above" else high)

    @property
    def required(self) -> str:
        """The region, for people."""
        if self.test == "equivalence":
            return f"within {self.margin:g} of {self.threshold:g}"
        if self.test == "superiority":
            return f"{self.side} {self.threshold:g}"
        return f"{'at least' if self.side == 'above' else 'at most'} {self.threshold:g}, with a margin of {self.margin:g}"


@dataclass(frozen=True)
class Measured:
    """A claim's quantity in one regime; or none, with the reason why."""

    claim: Claim
    regime: Regime
    estimate: Estimate
    untestable: str = ""
    diverged: int = 0
    """Replicas whose training has diverged: such a row is neither a gain nor a loss."""
    remark: str = ""
    role: Literal["regime", "varied"] = "regime"
    """`varied`: a hyper-parameter at half or double its value, for the sensitivity alone."""

    @property
    def primary(self) -> bool:
        """Whether this is the regime that the claim declares."""
        return self.role == "regime" and self.claim.primary in (str(self.regime), self.regime.study)


def measured_table(measured: Iterable[Measured], claims: Iterable[Claim]) -> pd.DataFrame:
    """A row for each claim and regime, in the order given, before any test.

    A claim whose primary regime was not run has a primary row without a number: it keeps its place in the family of its paper,
    and no regime that happens to be there stands in for the one that was declared.
    """
    measured = list(measured)
    there = [part.claim.id for part in measured if part.primary]
    if twice := {name for name in there if there.count(name) > 1}:
        name = min(twice)
        raise RarefeatError(f"claim {name}: its primary regime is that of {there.count(name)} rows; it must name one")
    missing = [claim for claim in claims if claim.id not in there]
    measured += [Measured(claim, Regime(*claim.primary.split(": ", 1)), of_seeds(np.array([])), NOT_RUN) for claim in missing]
    rows = []
    for part in measured:
        claim, (value, error, freedom, n) = part.claim, part.estimate
        low, high = claim.region
        untestable = part.untestable or ("" if freedom >= LEAST and np.isfinite(error) else FEW.format(n))
        remark = f"diverged in {part.diverged} replicas" if part.diverged and not part.untestable else untestable or part.remark
        rows.append(
            {
                "claim_id": claim.id, "group": claim.group, "paper": claim.paper, "source": claim.source,
                "statement": claim.statement, "quantity": claim.quantity, "study": part.regime.study,
                "point": part.regime.point, "primary": part.primary, "role": part.role, "estimate": value, "error": error,
                "freedom": freedom, "n": n, "test": claim.test, "required": claim.required, "reason": claim.reason,
                "control": claim.control, "required_low": low, "required_high": high, "tolerance": claim.tolerance,
                "lowest": claim.bounds[0], "highest": claim.bounds[1], "diverged": part.diverged,
                "testable": not untestable and not part.diverged, "remark": remark,
            }
        )  # fmt: skip
    return checked(MEASURED, pd.DataFrame(rows))
