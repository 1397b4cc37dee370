"""Verdicts: a claim is tested on both sides, so that what is not shown is never called false.

A claim requires its quantity to lie in a region. That the quantity lies inside is one test, that it lies outside is another;
where neither is shown, the row is undecided. Primary rows, one for each claim, are corrected by Holm over all claims of a
paper, the other rows of a claim by Benjamini & Hochberg within it.
"""

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit
from scipy.stats import false_discovery_control, nct

from rarefeat.claims.claim import LEAST, VARIED
from rarefeat.claims.estimate import Estimate, difference
from rarefeat.claims.tables import CHANGES_FOUND, VERDICTS
from rarefeat.core.statistics import holm

SUPPORTED, CONTRADICTED, UNDECIDED, DIVERGED, NOT_TESTABLE = VERDICTS
SAME, CHANGED, UNKNOWN = CHANGES_FOUND
LEVEL = 0.05
"""Of a false support, and of a false contradiction, anywhere among the primary rows of a paper."""
POWER = 0.9
ROUNDING = 1e-12
"""A mean that is no further from a bound is at it: what is left is the rounding of sums."""


def shown_above(estimate: Estimate, bound: float) -> float:
    """One-sided p-value of a mean that is at most `bound`.

    Student's; where all n replicas agree to the last digit there is no spread to test with, and the sign test of the median
    takes its place, p = 2^-n.
    """
    if abs(estimate.value - bound) <= ROUNDING:
        return 1.0
    if estimate.error == 0:
        return 0.5**estimate.n if estimate.value > bound else 1.0
    return float(stdtr(estimate.freedom, (bound - estimate.value) / estimate.error))


def shown_below(estimate: Estimate, bound: float) -> float:
    """One-sided p-value of a mean that is at least `bound`."""
    return shown_above(estimate._replace(value=-estimate.value), -bound)


def shown_inside(estimate: Estimate, low: float, high: float) -> float:
    """p-value of a mean outside (low, high); two one-sided tests where both ends are finite (Schuirmann 1987)."""
    return max(
        shown_above(estimate, low) if np.isfinite(low) else 0.0,
        shown_below(estimate, high) if np.isfinite(high) else 0.0,
    )


def shown_outside(estimate: Estimate, low: float, high: float) -> float:
    """p-value of a mean inside [low, high]: the smaller of the tests beyond its finite ends, times their number."""
    tests = [shown_below(estimate, low)] if np.isfinite(low) else []
    tests += [shown_above(estimate, high)] if np.isfinite(high) else []
    return min(1.0, len(tests) * min(tests))


def judge(inside: np.ndarray, outside: np.ndarray, primary: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjusted p-values of support and of contradiction, and verdicts, each (n,), for the rows of one family.

    The two sides are corrected apart. Of each row one of the two hypotheses is true, so that a false support somewhere in a
    primary family has at most the probability LEVEL, and a false contradiction, too, however rows depend on each other. A
    primary row that could not be tested, NaN, keeps its place in the family.
    """
    tested = np.isfinite(inside)
    adjusted = []
    for p in (inside, outside):
        if primary:
            values = holm(np.where(tested, p, 1.0))
        else:
            values = np.ones(len(p))
            values[tested] = false_discovery_control(p[tested]) if tested.any() else []
        adjusted.append(np.where(tested, values, np.nan))
    found = np.where(adjusted[0] < LEVEL, SUPPORTED, np.where(adjusted[1] < LEVEL, CONTRADICTED, UNDECIDED))
    return *adjusted, np.where(tested, found, NOT_TESTABLE)


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """measured_table's rows with intervals, p-values and verdicts; rows that vary a hyper-parameter are no part of this."""
    table = table[table["role"] == "regime"].reset_index(drop=True)
    estimates = [Estimate(row.estimate, row.error, row.freedom, row.n) for row in table.itertuples()]
    intervals = np.array([estimate.interval() for estimate in estimates])
    table[["ci_low", "ci_high"]] = np.clip(intervals, table[["lowest"]].to_numpy(), table[["highest"]].to_numpy())
    bounds = list(zip(estimates, table["required_low"], table["required_high"], table["testable"], strict=True))
    for name, shown in (("p_supported", shown_inside), ("p_contradicted", shown_outside)):
        table[name] = [shown(estimate, low, high) if tested else np.nan for estimate, low, high, tested in bounds]
    columns = ["adjusted_p_supported", "adjusted_p_contradicted", "verdict"]
    table[columns[:2]], table["verdict"] = np.nan, NOT_TESTABLE
    for primary, family in ((True, "paper"), (False, "claim_id")):
        for _, part in table[table["primary"] == primary].groupby(family):
            found = judge(part["p_supported"].to_numpy(), part["p_contradicted"].to_numpy(), primary)
            for column, values in zip(columns, found, strict=True):
                table.loc[part.index, column] = values
    table.loc[(table["diverged"] > 0) & table["remark"].str.startswith("diverged"), "verdict"] = DIVERGED
    return table


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """What each hyper-parameter at half and at double its value changes, a row for each varied row of measured_table.

    A varied row's point says what was varied and where: `eta = 0.05 | POINT`, beside the same study's own row at POINT.
    """
    own = table[table["role"] == "regime"].set_index(["claim_id", "study", "point"])
    rows = []
    for row in table[table["role"] == "varied"].itertuples():
        varied, _, point = row.point.partition(VARIED)
        key = (row.claim_id, row.study, point)
        if key not in own.index or not row.testable or not own.at[key, "testable"]:
            continue
        base = own.loc[key]
        before = Estimate(base["estimate"], base["error"], int(base["freedom"]), int(base["n"]))
        moved, found = change(Estimate(row.estimate, row.error, row.freedom, row.n), before, row.tolerance)
        low, high = moved.interval()
        rows.append(
            {"claim_id": row.claim_id, "paper": row.paper, "study": row.study, "varied": varied, "point": point,
             "change": moved.value, "ci_low": low, "ci_high": high, "tolerance": row.tolerance, "found": found}
        )  # fmt: skip
    texts = dict.fromkeys(("claim_id", "paper", "study", "varied", "point"), str)
    types = {**texts, **dict.fromkeys(("change", "ci_low", "ci_high", "tolerance"), float), "found": str}
    # Types for a paper of which nothing is varied.
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def line(found: pd.Series) -> str:
    """Verdicts of a claim's regimes, counted: for its line in the index."""
    counts = found.value_counts()
    tested = (SUPPORTED, CONTRADICTED, UNDECIDED)
    said = [f"{name} in {counts.get(name, 0)}" for name in tested]
    said += [f"{name} in {counts[name]}" for name in (DIVERGED, NOT_TESTABLE) if counts.get(name, 0)]
    return f"{', '.join(said)} of {len(found)} regime{'s' * (len(found) != 1)}"


def condition(rows: pd.DataFrame, most: int = 4) -> str:
    """Where a claim is supported and where contradicted, in words; empty where its regimes do not differ in that."""
    decided = [name for name in (SUPPORTED, CONTRADICTED) if (rows["verdict"] == name).any()]
    if len(decided) < 2:
        return ""
    sentences = []
    for name in decided:
        places = []
        for study, part in rows.groupby("study", sort=False):
            points = part.loc[part["verdict"] == name, "point"]
            if len(points) == len(part):
                places.append(study)
            elif len(points) > most:
                places.append(f"{study} ({len(points)} of {len(part)} points)")
            elif len(points):
                places.append(f"{study} ({'; '.join(points)})")
        sentences.append(f"{name.capitalize()}: {', '.join(places)}")
    return ". ".join(sentences)


def power(n: int, effect: float, level: float, both: bool = False) -> float:
    """Of a one-sided Student test of n replicas, for a mean `effect` standard deviations beyond the bound.

    both: of two one-sided tests, for a mean in the middle with `effect` to either end; a lower bound (Bonferroni).
    """
    one = float(nct.sf(stdtrit(n - 1, 1 - level), n - 1, effect * np.sqrt(n)))
    return max(0.0, 2 * one - 1) if both else one


def seeds_needed(test: str, effect: float, rows: int) -> int:
    """Replicas of a primary row with a power of 0.9 at the strictest step of Holm over the `rows` primary rows of its paper."""
    return next(n for n in range(LEAST + 1, 100_000) if power(n, effect, LEVEL / rows, test == "equivalence") >= POWER)


def change(changed: Estimate, base: Estimate, tolerance: float) -> tuple[Estimate, str]:
    """What another hyper-parameter changes of an effect, and whether that is shown to be nothing, or something, or neither.

    Each at LEVEL for itself: these are descriptions and no verdicts.
    """
    moved = difference(changed, base)
    if not np.isfinite(moved.error) or moved.freedom < LEAST:
        return moved, UNKNOWN
    if shown_inside(moved, -tolerance, tolerance) < LEVEL:
        return moved, SAME
    return moved, CHANGED if shown_outside(moved, -tolerance, tolerance) < LEVEL else UNKNOWN
