"""What a claim is, how its rows are tested, and how code reads the verdict off the numbers."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from rarefeat.claims.tables import CLAIMS, MEASURED, VERDICTS
from rarefeat.core.errors import RarefeatError
from rarefeat.core.statistics import holm
from rarefeat.storage.schema import checked

LEVEL = 0.05
"""Family-wise (Holm), over every tested row of a family; bounds with an open constant are apart."""
LEAST = 3
"""Fewer degrees of freedom than this are not tested."""

HOLDS, CONDITION, FAILS, UNTESTABLE = VERDICTS


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, the quantity that stands for it, and what that must be for the statement to hold.

    `above` and `below`: the mean over seeds is shown to lie on that side of the threshold (one-sided Student test). `within`:
    it is shown to lie between the two (two one-sided tests). `not below` and `not above`, for bounds with a constant that the
    paper leaves open: the mean is not shown to lie on the wrong side.
    """

    id: str
    group: str
    source: str
    statement: str
    quantity: str
    side: Literal["above", "below", "within", "not below", "not above"]
    threshold: tuple[float, ...]
    reason: str
    family: str = "all"
    """Tests that are corrected together. A confirmation on seeds that no search has seen is a family of its own."""


class Estimate(NamedTuple):
    """A number with its standard error and the degrees of freedom of that."""

    value: float
    error: float
    freedom: int
    n: int

    def interval(self) -> tuple[float, float]:
        """95 %, Student."""
        half = stdtrit(self.freedom, 0.975) * self.error if self.freedom > 0 else np.nan
        return self.value - half, self.value + half


def of_seeds(values: np.ndarray) -> Estimate:
    """The mean over seeds; a replica without a value is left out."""
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    n = len(values)
    error = values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return Estimate(values.mean() if n else np.nan, error, n - 1, n)


def of_fit(value: float, low: float, high: float, n: int) -> Estimate:
    """The slope of a line through n points, from its 95 % interval."""
    return Estimate(value, (high - low) / (2 * stdtrit(n - 2, 0.975)), n - 2, n)


@dataclass(frozen=True)
class Measured:
    """A claim's quantity in one regime; or none, with the reason why."""

    claim: Claim
    regime: str
    estimate: Estimate
    untestable: str = ""


def p_value(estimate: Estimate, side: str, threshold: tuple[float, ...]) -> float:
    """Of the Student test of the estimate; for the bounds that of their contradiction. Without spread it decides by itself."""

    def beyond(low: float) -> float:
        """One-sided p-value of a number that is at most `low`."""
        if estimate.error == 0:
            return 0.0 if estimate.value > low else 1.0
        return float(stdtr(estimate.freedom, (low - estimate.value) / estimate.error))

    def short_of(high: float) -> float:
        if estimate.error == 0:
            return 0.0 if estimate.value < high else 1.0
        return float(stdtr(estimate.freedom, (estimate.value - high) / estimate.error))

    match side:
        case "above" | "not above":
            return beyond(threshold[0])
        case "below" | "not below":
            return short_of(threshold[0])
    return max(beyond(threshold[0]), short_of(threshold[1]))


def bounds(claim: Claim) -> tuple[float, float]:
    """The interval in which the quantity must lie; NaN where it is open."""
    match claim.side:
        case "above" | "not below":
            return claim.threshold[0], np.nan
        case "below" | "not above":
            return np.nan, claim.threshold[0]
    return claim.threshold


def required(claim: Claim) -> str:
    """The condition on the quantity, for people."""
    numbers = [f"{value:g}" for value in claim.threshold]
    return f"between {' and '.join(numbers)}" if claim.side == "within" else f"{claim.side} {numbers[0]}"


def measured_table(measured: list[Measured], claims: list[Claim]) -> pd.DataFrame:
    """A row per claim and regime, with the p-value of its own test.

    Raises:
        RarefeatError: for a claim without a row: what it is read from has gone from the config, or from the code.
    """
    if missing := [claim.id for claim in claims if claim.id not in {part.claim.id for part in measured}]:
        raise RarefeatError(
            f"claims: nothing was measured for {', '.join(missing)}: is a study left out that they are read from?"
        )
    rows = []
    for part in measured:
        value, _, freedom, n = part.estimate
        low, high = part.estimate.interval()
        tested = not part.untestable and freedom >= LEAST and np.isfinite(part.estimate.error)
        reason = part.untestable or f"{n} replicas have a value, fewer than a test needs"
        rows.append(
            {
                "claim_id": part.claim.id, "group": part.claim.group, "source": part.claim.source,
                "statement": part.claim.statement, "regime": part.regime, "quantity": part.claim.quantity, "estimate": value,
                "ci_low": low, "ci_high": high, "n": n,
                "test": f"{required(part.claim)}, Student" if tested else "",
                "required_low": bounds(part.claim)[0], "required_high": bounds(part.claim)[1],
                "p_value": p_value(part.estimate, part.claim.side, part.claim.threshold) if tested else np.nan,
                "bound": part.claim.side.startswith("not"), "family": part.claim.family, "reason": "" if tested else reason,
            }
        )  # fmt: skip
    return checked(MEASURED, pd.DataFrame(rows))


def judged(measured: pd.DataFrame) -> pd.DataFrame:
    """The measured rows of one paper with their verdicts.

    A row's test is one of its claim's family; a bound is held to its own interval. Where a claim holds in
    some of its regimes and not in others, the rows where it holds say so with their regime as the condition; `does not hold
    here` says whether the opposite was seen.
    """
    table = measured.reset_index(drop=True).rename(columns={"reason": "condition"})
    tested = table["p_value"].notna()
    table["adjusted_p_value"] = np.nan
    for name in table["family"].unique():
        family = tested & ~table["bound"] & (table["family"] == name)
        table.loc[family, "adjusted_p_value"] = holm(table.loc[family, "p_value"].to_numpy())
    # A correction for many tests would protect a bound: what contradicts it is its own interval.
    contradicted = pd.Series([opposite(row) for row in table.itertuples()], index=table.index)
    holds = (table["adjusted_p_value"] < LEVEL) | (table["bound"] & ~contradicted)
    table["verdict"] = np.where(~tested, UNTESTABLE, np.where(holds, HOLDS, FAILS))
    for _, part in table[tested].groupby("claim_id"):
        if set(part["verdict"]) == {HOLDS, FAILS}:
            some = part.index[part["verdict"] == HOLDS]
            table.loc[some, "verdict"] = CONDITION
            table.loc[some, "condition"] = table.loc[some, "regime"]
    failed = tested & (table["verdict"] == FAILS)
    table.loc[failed, "condition"] = [
        "the interval lies on the other side" if opposite(row) else "not shown at this number of seeds"
        for row in table[failed].itertuples()
    ]
    return checked(CLAIMS, table)


def opposite(row) -> bool:
    """Whether the whole interval contradicts the claim."""
    return row.ci_high < row.required_low or row.ci_low > row.required_high


def overall(rows: pd.DataFrame) -> str:
    """The verdict of a claim over its rows."""
    found = set(rows["verdict"])
    if CONDITION in found:
        return CONDITION
    return HOLDS if HOLDS in found else FAILS if FAILS in found else UNTESTABLE
