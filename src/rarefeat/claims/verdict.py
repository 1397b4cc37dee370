"""Verdicts: a claim is tested on both sides, so that what is not shown is never called false.

A claim requires its quantity to lie in a region. That the quantity lies inside is one test, that it lies outside is another;
where neither is shown, the row is undecided. Primary rows, one for each claim, are corrected by Holm over all claims of a
paper, the other rows of a claim by Benjamini & Hochberg within it.
"""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, stdtr, stdtrit
from scipy.stats import false_discovery_control

from rarefeat.claims.estimate import Estimate
from rarefeat.claims.measurements import MIN_DOF, VARIED
from rarefeat.claims.tables import CHANGES_FOUND, VERDICTS
from rarefeat.core.statistics import holm

SUPPORTED, CONTRADICTED, UNDECIDED, DIVERGED, NOT_TESTABLE = VERDICTS
SAME, CHANGED, UNKNOWN = CHANGES_FOUND
ALPHA_LEVEL = 0.05
"""Of a false support, and of a false contradiction, anywhere among the primary rows of a paper."""
BINARY, PAIRED = "0 or 1", "paired 0 or 1"
BEYOND = 1e-4
"""Probability with which the share of seeds that differ may be other than the test of paired replicas takes it to be."""
ROUNDING = 1e-12
"""A mean that is no further from a bound is at it: what is left is the rounding of sums."""


# The functions below take numbers or arrays of them.


def p_value_above(estimate: Estimate, bound: float, kind: str = "number") -> np.ndarray:
    """One-sided p-value of a mean that is at most `bound`.

    Of replicas that are 0 or 1, by declaration and not by what was seen, the exact binomial one (Clopper & Pearson 1934): it is
    never wrong more often than it says. Of differences of two such of one seed, -1, 0 or 1, the exact one of their sum
    (`paired_p_value`). Else Student's, which keeps its promise for replicas from a normal law. From a skewed
    one it does not: of an exponential law the test against its tail is wrong 16 % of the time at n = 5, 14 % at 10, 9 % at 30
    and 8 % at 100 where 5 % is meant, and in the other direction less often than 5 % (a test keeps these numbers). No test of
    the mean of an unbounded law does better without an assumption (Bahadur & Savage 1956), and one for any law on [0, 1]
    (Anderson 1969) could not show a share of more than 0.95 with fewer than 59 replicas even where all are 1.

    Where all n replicas agree to the last digit there is no spread to test with. The sign test takes its place, p = 2^-n: it
    says that most replicas lie there, and nothing of rare others. That it can pass Holm's strictest step is a matter of seeds,
    more than log2(claims / LEVEL), which a test asks of every claim on a share or a count.
    """
    value, error, n = (
        np.asarray(part, dtype=float) for part in (estimate.value, estimate.error, estimate.n)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        student = stdtr(estimate.dof, (bound - value) / error)
    p = np.where(error == 0, np.where(value > bound, 0.5**n, 1.0), student)
    if kind == BINARY:
        ones = np.round(n * value)
        p = np.where(
            ones > 0, betainc(np.maximum(ones, 1), n - ones + 1, np.clip(bound, 0.0, 1.0)), 1.0
        )
    if kind == PAIRED:
        differing = np.round((n - 1) * n * error**2 + n * value**2)
        p = np.vectorize(paired_p_value, otypes=[float])(np.round(n * value), differing, n, bound)
    return np.where(np.abs(value - bound) <= ROUNDING, 1.0, p)


@functools.lru_cache(maxsize=10_000)
def paired_p_value(total: float, differing: float, n: float, mean: float) -> float:
    """p-value of n differences of -1, 0 or 1 that add up to `total`, against a mean of `mean` or less.

    The largest probability of so much or more, over all shares of seeds that differ which the `differing` ones do not refuse at
    BEYOND, plus that (Berger & Boos 1994).
    """
    n, mean = int(n), float(np.clip(mean, -1, 1))
    low = betaincinv(differing, n - differing + 1, BEYOND / 2) if differing else 0.0
    high = betaincinv(differing + 1, n - differing, 1 - BEYOND / 2) if differing < n else 1.0
    differ = np.clip(np.linspace(low, high, 101), abs(mean), 1)[:, None]
    angle = 2 * np.pi * np.arange(2 * n + 1) / (2 * n + 1)
    # The law of one difference by its characteristic function, of their sum by its power.
    one = 1 - differ + differ * np.cos(angle) + 1j * mean * np.sin(angle)
    law = np.fft.fft(one**n, axis=1).real / (2 * n + 1)
    sums = np.r_[0 : n + 1, -n:0]
    return float(np.clip(law[:, sums >= total].sum(1).max() + BEYOND, 0, 1))


def p_value_below(estimate: Estimate, bound: float, kind: str = "number") -> np.ndarray:
    """One-sided p-value of a mean that is at least `bound`."""
    centre = 1.0 if kind == BINARY else 0.0
    return p_value_above(
        estimate._replace(value=centre - np.asarray(estimate.value)), centre - bound, kind
    )


def p_value_inside(estimate: Estimate, low: float, high: float, kind: str = "number") -> np.ndarray:
    """p-value of a mean outside (low, high); two one-sided tests where both ends are finite (Schuirmann 1987)."""
    above = p_value_above(estimate, low, kind) if np.isfinite(low) else 0.0
    return np.maximum(above, p_value_below(estimate, high, kind) if np.isfinite(high) else 0.0)


def p_value_outside(
    estimate: Estimate, low: float, high: float, kind: str = "number"
) -> np.ndarray:
    """p-value of a mean inside [low, high]: the smaller of the tests beyond its finite ends, times their number."""
    tests = [p_value_below(estimate, low, kind)] if np.isfinite(low) else []
    tests += [p_value_above(estimate, high, kind)] if np.isfinite(high) else []
    return np.minimum(1.0, len(tests) * np.min(tests, axis=0))


def confidence_bounds(
    estimate: Estimate, level: float, kind: str = "number"
) -> tuple[float, float]:
    """The means that the tests above do not refuse on either side, each at `level`."""
    value, error, freedom, n = estimate
    if not np.isfinite(error) or freedom < 1:
        return np.nan, np.nan
    if kind == BINARY:
        ones = round(n * value)
        low = betaincinv(ones, n - ones + 1, level) if ones else 0.0
        return float(low), float(betaincinv(ones + 1, n - ones, 1 - level)) if ones < n else 1.0
    if kind == PAIRED:

        def off(mean: float, shown: Callable[..., np.ndarray]) -> float:
            return float(shown(estimate, mean, kind)) - level

        sides = ((p_value_above, -1.0), (p_value_below, 1.0))
        return tuple(
            end if off(end, shown) >= 0 else brentq(off, end, value, args=(shown,), xtol=1e-6)
            for shown, end in sides
        )
    if error == 0:
        return (value, value) if 0.5**n < level else (-np.inf, np.inf)
    half = stdtrit(freedom, 1 - level) * error
    return value - half, value + half


def judge_family(
    inside: np.ndarray, outside: np.ndarray, primary: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    found = np.where(
        adjusted[0] < ALPHA_LEVEL,
        SUPPORTED,
        np.where(adjusted[1] < ALPHA_LEVEL, CONTRADICTED, UNDECIDED),
    )
    return *adjusted, np.where(tested, found, NOT_TESTABLE)


def decision_level(adjusted: np.ndarray, primary: bool) -> float:
    """The level at which each row of a family is decided: p below it where the adjusted p is below LEVEL, and nowhere else.

    Of Holm's m rows with k rejected it is LEVEL / (m - k), of Benjamini & Hochberg's LEVEL (k + 1) / m.
    """
    rejected = int((adjusted < ALPHA_LEVEL).sum())
    m = len(adjusted) if primary else int(np.isfinite(adjusted).sum())
    return (
        ALPHA_LEVEL / max(m - rejected, 1)
        if primary
        else ALPHA_LEVEL * min(rejected + 1, m) / max(m, 1)
    )


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """measured_table's rows with intervals, p-values and verdicts; rows that vary a hyper-parameter are no part of this."""
    table = table[table["role"] == "regime"].reset_index(drop=True)
    estimates = [
        Estimate(row.estimate, row.error, row.freedom, row.n) for row in table.itertuples()
    ]
    kinds, lows, highs, tested = (
        table[name] for name in ("kind", "required_low", "required_high", "testable")
    )
    alone = zip(estimates, kinds, strict=True)
    intervals = [
        confidence_bounds(one, 0.025, kind) if kind in (BINARY, PAIRED) else one.interval()
        for one, kind in alone
    ]
    table[["ci_low", "ci_high"]] = clip_to_range(intervals, table)
    # An effect that is smaller than the smallest of interest speaks against a claim of one.
    sides = (
        ("p_supported", p_value_inside, 0.0),
        ("p_contradicted", p_value_outside, table["least"]),
    )
    for name, shown, least in sides:
        rows = zip(estimates, lows + least, highs - least, kinds, tested, strict=True)
        table[name] = [float(shown(one, *rest)) if there else np.nan for one, *rest, there in rows]
    columns = ["adjusted_p_supported", "adjusted_p_contradicted", "verdict"]
    table[columns[:2]], table["verdict"] = np.nan, NOT_TESTABLE
    level = pd.Series(np.nan, table.index)
    for primary, family in ((True, "paper"), (False, "claim_id")):
        for _, part in table[table["primary"] == primary].groupby(family):
            found = judge_family(
                part["p_supported"].to_numpy(), part["p_contradicted"].to_numpy(), primary
            )
            for column, values in zip(columns, found, strict=True):
                table.loc[part.index, column] = values
            # An equivalence is refuted by either of two tests.
            both = np.isfinite(part[["required_low", "required_high"]]).all(axis=1)
            support, contradiction = (
                decision_level(found[0], primary),
                decision_level(found[1], primary) / (1 + both),
            )
            undecided = np.minimum(support, contradiction)
            chosen = [found[2] == SUPPORTED, found[2] == CONTRADICTED]
            level[part.index] = np.select(chosen, [support, contradiction], undecided)
    deciding = [confidence_bounds(*row) for row in zip(estimates, level, kinds, strict=True)]
    table[["decided_low", "decided_high"]] = clip_to_range(deciding, table)
    table.loc[(table["diverged"] > 0) & table["remark"].str.startswith("diverged"), "verdict"] = (
        DIVERGED
    )
    return table


def clip_to_range(intervals: list[tuple[float, float]], table: pd.DataFrame) -> np.ndarray:
    """Intervals, (n, 2), without what lies outside of the range of their quantities."""
    return np.clip(
        np.array(intervals).reshape(-1, 2),
        table[["lowest"]].to_numpy(),
        table[["highest"]].to_numpy(),
    )


def sensitivity_rows(table: pd.DataFrame) -> pd.DataFrame:
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
        moved = Estimate(row.change, row.change_error, row.change_n - 1, row.change_n)
        found = classify_change(moved, row.tolerance)
        low, high = moved.interval()
        rows.append(
            {"claim_id": row.claim_id, "paper": row.paper, "study": row.study, "varied": varied, "point": point,
             "change": moved.value, "ci_low": low, "ci_high": high, "tolerance": row.tolerance, "found": found}
        )  # fmt: skip
    texts = dict.fromkeys(("claim_id", "paper", "study", "varied", "point"), str)
    types = {
        **texts,
        **dict.fromkeys(("change", "ci_low", "ci_high", "tolerance"), float),
        "found": str,
    }
    # Types for a paper of which nothing is varied.
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def format_counts(found: pd.Series) -> str:
    """Verdicts of a claim's regimes, counted: for its line in the index."""
    counts = found.value_counts()
    tested = (SUPPORTED, CONTRADICTED, UNDECIDED)
    said = [f"{name} in {counts.get(name, 0)}" for name in tested]
    said += [
        f"{name} in {counts[name]}" for name in (DIVERGED, NOT_TESTABLE) if counts.get(name, 0)
    ]
    return f"{', '.join(said)} of {len(found)} regime{'s' * (len(found) != 1)}"


def describe_split(rows: pd.DataFrame, most: int = 4) -> str:
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


def classify_change(moved: Estimate, tolerance: float) -> str:
    """Whether what another hyper-parameter changes of an effect is shown to be nothing, or something, or neither.

    Each at LEVEL for itself: these are descriptions and no verdicts.
    """
    if not np.isfinite(moved.error) or moved.dof < MIN_DOF:
        return UNKNOWN
    if p_value_inside(moved, -tolerance, tolerance) < ALPHA_LEVEL:
        return SAME
    return CHANGED if p_value_outside(moved, -tolerance, tolerance) < ALPHA_LEVEL else UNKNOWN
