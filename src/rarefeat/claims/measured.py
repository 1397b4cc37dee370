"""Claims that are measured: a row for each regime, before any verdict."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Claim, Regime
from rarefeat.claims.declared import Declared
from rarefeat.claims.estimate import Estimate, difference, of_seeds
from rarefeat.claims.tables import MEASURED
from rarefeat.core.errors import RarefeatError
from rarefeat.storage.schema import checked

LEAST = 3
"""Fewer degrees of freedom than this are not tested."""
FEW = "{} replicas have a value, fewer than a test needs"
NOT_RUN = "its primary regime is no part of this configuration"
VARIED = " | "
"""Between what is varied and the point, in the point of a varied row."""


@dataclass(frozen=True)
class Measured:
    """A claim's quantity in one regime; or none, with the reason why."""

    claim: str
    """Its id."""
    regime: Regime
    estimate: Estimate
    untestable: str = ""
    diverged: int = 0
    """Replicas whose training has diverged: such a row is neither a gain nor a loss."""
    remark: str = ""
    values: pd.Series | None = None
    """By seed, or by their order; none of what is fitted to all."""
    varied: str = ""
    """The hyper-parameter that is at half or double its value, and that value: such a row is for the sensitivity alone."""


def of(claim: str, study: str, axes: Mapping[str, Any], values: Iterable[float] | Estimate, **more) -> Measured:
    """A claim's quantity in a regime: an estimate, or values by seed; with what else is to be said of it."""
    place = {axis: tuple(at) if isinstance(at, list) else at for axis, at in axes.items()}
    if isinstance(values, Estimate):
        return Measured(claim, Regime(study, place), values, **more)
    by_seed = pd.Series(values, dtype=float)
    return Measured(claim, Regime(study, place), of_seeds(by_seed), values=by_seed, **more)


def measured_table(measured: Iterable[Measured], known: Declared) -> pd.DataFrame:
    """A row for each claim and regime, in the order given, before any test.

    A claim whose primary regime was not run has a primary row without a number: it keeps its place in the family of its paper,
    and no regime that happens to be there stands in for the one that was declared.
    """
    measured = list(measured)
    for row in measured:
        if row.claim not in known.claims:
            raise RarefeatError(f"claim {row.claim} is measured, and {known.file} does not declare it")
    there = [row.claim for row in measured if primary(row, known.claims[row.claim])]
    if twice := {name for name in there if there.count(name) > 1}:
        name = min(twice)
        raise known.error(name, f"its primary regime is that of {there.count(name)} rows; it must name one")
    missing = [claim for name, claim in known.claims.items() if name not in there]
    measured += [Measured(claim.id, claim.primary, of_seeds([]), NOT_RUN) for claim in missing]
    own = {(row.claim, known.said(row.regime)): row for row in measured if not row.varied}

    def whole(row: Measured) -> dict:
        return cells(row, known.claims[row.claim], known) | change(row, own.get((row.claim, known.said(row.regime))))

    return checked(MEASURED, pd.DataFrame([whole(row) for row in measured]))


def change(row: Measured, own: Measured | None) -> dict:
    """What a varied row has less than the row of its study, seed by seed."""
    paired = row.varied and own and row.values is not None and own.values is not None
    found = difference(row.values, own.values) if paired else of_seeds([])
    return {"change": found.value, "change_error": found.error, "change_n": found.n}


def primary(row: Measured, claim: Claim) -> bool:
    """Whether a row is of the regime that its claim declares."""
    return not row.varied and claim.primary in (row.regime, Regime(row.regime.study))


def cells(row: Measured, claim: Claim, known: Declared) -> dict:
    """A row of the table."""
    value, error, freedom, n = row.estimate
    low, high = claim.region
    tested = freedom >= LEAST and np.isfinite(error)
    untestable = row.untestable or ("" if tested else FEW.format(n))
    remark = f"diverged in {row.diverged} replicas" if row.diverged and not row.untestable else untestable or row.remark
    point = known.point(row.regime.axes)
    return {
        "claim_id": claim.id, "group": claim.group, "paper": claim.paper, "source": claim.source,
        "statement": claim.statement, "quantity": claim.quantity, "study": row.regime.study,
        "point": f"{row.varied}{VARIED}{point}" if row.varied else point, "primary": primary(row, claim),
        "role": "varied" if row.varied else "regime", "estimate": value, "error": error,
        "freedom": freedom, "n": n, "test": claim.test, "required": claim.required, "reason": claim.reason,
        "control": claim.control, "required_low": low, "required_high": high, "tolerance": claim.tolerance,
        "least": claim.least, "kind": claim.kind,
        "lowest": claim.bounds[0], "highest": claim.bounds[1], "diverged": row.diverged,
        "testable": not untestable and not row.diverged, "remark": remark,
    }  # fmt: skip
