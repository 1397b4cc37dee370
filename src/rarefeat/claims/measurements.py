"""Claims that are measured: a row for each regime, before any verdict."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Claim, Regime
from rarefeat.claims.declarations import ClaimSet
from rarefeat.claims.estimate import Estimate, difference, estimate_mean
from rarefeat.claims.tables import MEASURED
from rarefeat.core.errors import RarefeatError
from rarefeat.storage.schema import validate

MIN_DOF = 3
"""Fewer degrees of freedom than this are not tested."""
TOO_FEW_TEXT = "{} replicas have a value, fewer than a test needs"
NOT_RUN = "its primary regime is no part of this configuration"
VARIED = " | "
"""Between what is varied and the point, in the point of a varied row."""


@dataclass(frozen=True)
class Measurement:
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


def measurement(
    claim: str, study: str, axes: Mapping[str, Any], values: Iterable[float] | Estimate, **more
) -> Measurement:
    """A claim's quantity in a regime: an estimate, or values by seed; with what else is to be said of it."""
    place = {axis: tuple(at) if isinstance(at, list) else at for axis, at in axes.items()}
    if isinstance(values, Estimate):
        return Measurement(claim, Regime(study, place), values, **more)
    by_seed = pd.Series(values, dtype=float)
    return Measurement(claim, Regime(study, place), estimate_mean(by_seed), values=by_seed, **more)


def measured_table(measured: Iterable[Measurement], known: ClaimSet) -> pd.DataFrame:
    """A row for each claim and regime, in the order given, before any test.

    A claim whose primary regime was not run has a primary row without a number: it keeps its place in the family of its paper,
    and no regime that happens to be there stands in for the one that was declared.
    """
    measured = list(measured)
    for row in measured:
        if row.claim not in known.claims:
            raise RarefeatError(
                f"claim {row.claim} is measured, and {known.file} does not declare it"
            )
    there = [row.claim for row in measured if is_primary(row, known.claims[row.claim])]
    if twice := {name for name in there if there.count(name) > 1}:
        name = min(twice)
        raise known.error(
            name, f"its primary regime is that of {there.count(name)} rows; it must name one"
        )
    missing = [claim for name, claim in known.claims.items() if name not in there]
    measured += [
        Measurement(claim.id, claim.primary, estimate_mean([]), NOT_RUN) for claim in missing
    ]
    own = {(row.claim, known.format_regime(row.regime)): row for row in measured if not row.varied}

    def whole(row: Measurement) -> dict:
        return table_row(row, known.claims[row.claim], known) | paired_change(
            row, own.get((row.claim, known.format_regime(row.regime)))
        )

    return validate(MEASURED, pd.DataFrame([whole(row) for row in measured]))


def paired_change(row: Measurement, own: Measurement | None) -> dict:
    """What a varied row has less than the row of its study, seed by seed."""
    paired = row.varied and own and row.values is not None and own.values is not None
    found = difference(row.values, own.values) if paired else estimate_mean([])
    return {"change": found.value, "change_error": found.error, "change_n": found.n}


def is_primary(row: Measurement, claim: Claim) -> bool:
    """Whether a row is of the regime that its claim declares."""
    return not row.varied and claim.primary in (row.regime, Regime(row.regime.study))


def table_row(row: Measurement, claim: Claim, known: ClaimSet) -> dict:
    """A row of the table."""
    value, error, freedom, n = row.estimate
    low, high = claim.region
    tested = freedom >= MIN_DOF and np.isfinite(error)
    untestable = row.untestable or ("" if tested else TOO_FEW_TEXT.format(n))
    remark = (
        f"diverged in {row.diverged} replicas"
        if row.diverged and not row.untestable
        else untestable or row.remark
    )
    point = known.format_place(row.regime.axes)
    return {
        "claim_id": claim.id, "group": claim.group, "paper": claim.paper, "source": claim.source,
        "statement": claim.statement, "quantity": claim.quantity, "study": row.regime.study,
        "point": f"{row.varied}{VARIED}{point}" if row.varied else point, "primary": is_primary(row, claim),
        "role": "varied" if row.varied else "regime", "estimate": value, "error": error,
        "freedom": freedom, "n": n, "test": claim.test, "required": claim.required, "reason": claim.reason,
        "control": claim.control, "required_low": low, "required_high": high, "tolerance": claim.tolerance,
        "least": claim.least, "kind": claim.kind,
        "lowest": claim.bounds[0], "highest": claim.bounds[1], "diverged": row.diverged,
        "testable": not untestable and not row.diverged, "remark": remark,
    }  # fmt: skip
