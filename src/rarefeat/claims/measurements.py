"""Measured claims: a row for each regime, before any verdict (verdict.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Claim, Regime
from rarefeat.claims.declarations import ClaimSet
from rarefeat.claims.estimate import Estimate, difference, estimate_mean
from rarefeat.claims.tables import MEASURED
from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.schema import validate

MIN_DOF = 3
"""Smallest number of degrees of freedom that is tested."""
TOO_FEW_TEXT = "{} replicas have a value, fewer than a test needs"
DIVERGED_TEXT = "diverged in"
PREMISE_TEXT = "its premise is not met"
NOT_RUN = "its primary regime is no part of this configuration"
VARIED = " | "
"""Separator of the varied setting and the regime, in the column `point` of a varied row."""


@dataclass(frozen=True)
class Measurement:
    """The estimate of a claim's quantity in one regime, or the reason why there is none."""

    claim: str
    """Id of the claim."""
    regime: Regime
    estimate: Estimate
    untestable: str = ""
    """Reason why it cannot be tested; empty if it can."""
    diverged: int = 0
    """Replicas whose training has diverged: such a row is neither a gain nor a loss."""
    remark: str = ""
    values: pd.Series | None = None
    """Values by seed, or by their order; None for an estimate that is fitted to all seeds."""
    premise: pd.Series | None = None
    """What the claim's premise says, by seed; for a claim that has one."""
    varied: str = ""
    """Hyper-parameter at half or double its value, as `eta = 0.05`: for the sensitivity alone."""


def measurement(
    claim: str, study: str, axes: Mapping[str, Any], values: Iterable[float] | Estimate, **fields
) -> Measurement:
    """Build the measurement of a claim's quantity in one regime."""
    positions = {
        axis: tuple(position) if isinstance(position, list) else position
        for axis, position in axes.items()
    }
    regime = Regime(study, positions)
    if isinstance(values, Estimate):
        return Measurement(claim, regime, values, **fields)
    by_seed = pd.Series(values, dtype=float)
    return Measurement(claim, regime, estimate_mean(by_seed), values=by_seed, **fields)


def measured_table(measurements: Iterable[Measurement], claim_set: ClaimSet) -> pd.DataFrame:
    """Build the table of measured claims, before any test."""
    measurements = list(measurements)
    for row in measurements:
        if row.claim not in claim_set.claims:
            raise RarefeatError(
                f"claim {row.claim} is measured, and {claim_set.file} does not declare it"
            )
    primary = [row.claim for row in measurements if is_primary(row, claim_set.claims[row.claim])]
    if ambiguous := {name for name in primary if primary.count(name) > 1}:
        name = min(ambiguous)
        raise claim_set.error(
            name, f"its primary regime is that of {primary.count(name)} rows; it must name one"
        )
    missing = [claim for name, claim in claim_set.claims.items() if name not in primary]
    measurements += [
        Measurement(claim.id, claim.primary, estimate_mean([]), NOT_RUN) for claim in missing
    ]

    def key(row: Measurement) -> tuple[str, str]:
        return row.claim, claim_set.format_regime(row.regime)

    unvaried = {key(row): row for row in measurements if not row.varied}
    rows = [
        table_row(row, claim_set.claims[row.claim], claim_set)
        | paired_change(row, unvaried.get(key(row)))
        for row in measurements
    ]
    return validate(MEASURED, pd.DataFrame(rows))


def paired_change(row: Measurement, base: Measurement | None) -> dict:
    """Compute the difference of a varied row and the row of its study, paired by seed."""
    paired = row.varied and base and row.values is not None and base.values is not None
    change = difference(row.values, base.values) if paired else estimate_mean([])
    return {"change": change.value, "change_error": change.error, "change_n": change.n}


def is_primary(row: Measurement, claim: Claim) -> bool:
    """Return whether a row is of the regime that its claim declares."""
    return not row.varied and claim.primary in (row.regime, Regime(row.regime.study))


def table_row(row: Measurement, claim: Claim, claim_set: ClaimSet) -> dict:
    """Convert a measurement to a row of the table."""
    if claim.success and row.values is not None:
        # A seed without a number is no success.
        reached = (row.values > claim.success.above) & (row.values < claim.success.below)
        row = replace(row, estimate=estimate_mean(reached), values=reached.astype(float))
    value, error, freedom, n = row.estimate
    low, high = claim.region
    tested = freedom >= MIN_DOF and np.isfinite(error)
    untestable = (
        row.untestable
        or ("" if tested else TOO_FEW_TEXT.format(n))
        or describe_missing_premise(row, claim)
    )
    remark = (
        f"{DIVERGED_TEXT} {row.diverged} replicas"
        if row.diverged and not row.untestable
        else untestable or row.remark
    )
    point = claim_set.format_place(row.regime.axes)
    return {
        "claim_id": claim.id, "group": claim.group, "paper": claim.paper, "source": claim.source,
        "statement": claim.statement, "quantity": claim.quantity, "study": row.regime.study,
        "point": f"{row.varied}{VARIED}{point}" if row.varied else point,
        "primary": is_primary(row, claim),
        "role": "varied" if row.varied else "regime", "estimate": value, "error": error,
        "freedom": freedom, "n": n, "test": claim.test, "required": claim.required,
        "reason": claim.reason,
        "control": claim.control, "required_low": low, "required_high": high,
        "tolerance": claim.tolerance,
        "least": claim.least, "resolution": claim.resolution, "kind": claim.kind,
        "check": claim.check, "declaration": claim.declaration,
        "lowest": claim.bounds[0], "highest": claim.bounds[1], "diverged": row.diverged,
        "testable": not untestable and not row.diverged, "remark": remark,
    }  # fmt: skip


def describe_missing_premise(row: Measurement, claim: Claim) -> str:
    """Return why the premise of a claim is not met in a regime; empty if it is, or has none."""
    if not claim.premise or row.varied:
        return ""
    premise = claim.premise
    estimate = estimate_mean([] if row.premise is None else row.premise)
    low, high = estimate.interval()
    if premise.above < low and high < premise.below:
        return ""
    ends = ((name, getattr(premise, name)) for name in ("above", "below"))
    required = " and ".join(f"{name} {end:g}" for name, end in ends if np.isfinite(end))
    value = f"is {estimate.value:.3g} [{low:.3g}, {high:.3g}]" if estimate.n else "was not measured"
    return f"{PREMISE_TEXT}: {premise.quantity} {value}, and must be {required}"
