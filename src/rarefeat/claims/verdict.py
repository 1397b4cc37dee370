"""Verdicts: a claim is tested on both sides, so that an unproven claim is never called false.

A claim requires its quantity to lie in a region. That the quantity lies inside is one test, that it
lies outside is another; where neither is shown, the row is undecided, or has too few seeds: its
interval is wider than what they had to tell. Primary rows, one for each claim, are corrected by
Holm over all claims of a paper, the other rows of a claim by Benjamini & Hochberg within it.
"""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import betainc, gammainc, stdtr, stdtrit
from scipy.stats import false_discovery_control

from rarefeat.claims.claim import RANGES
from rarefeat.claims.estimate import Estimate
from rarefeat.claims.measurements import DIVERGED_TEXT, MIN_DOF, PREMISE_TEXT, VARIED
from rarefeat.claims.tables import CHANGES, CHANGES_FOUND, VERDICTS
from rarefeat.statistics import exact_bounds, holm

(
    SUPPORTED, CONTRADICTED, UNDECIDED, TOO_FEW, NO_PREMISE, DIVERGED, NOT_TESTABLE,
    CHECK_PASSED, CHECK_FAILED,
) = VERDICTS  # fmt: skip
SAME, CHANGED, UNKNOWN = CHANGES_FOUND
WORDS = {UNDECIDED: "inconclusive"}
"""What a reader is told in place of a word of the tables."""
ALPHA_LEVEL = 0.05
"""Probability of a false support, and of a false contradiction, among a paper's primary rows."""
BINARY, PAIRED = "0 or 1", "paired 0 or 1"
"""Kinds of quantities that are tested exactly."""
BEYOND = 1e-4
"""Level at which the test of paired replicas excludes fractions of seeds that differ."""
ROUNDING = 1e-12
"""Largest distance of a mean from a bound that is a rounding error of sums."""


@functools.lru_cache(maxsize=100)
def exponential_tail(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute log P(T < -t) of Student's T of n exponential numbers, at 150 values of log t.

    Sum and spread over sum of n exponential numbers are independent, so that
    P(T < -t | spread / mean = V) is that of a gamma law, and its mean over V that of T.
    """
    draws = np.random.default_rng(n).dirichlet(np.ones(n), max(1_000_000 // n**2, 4000))
    spread = n * draws.std(axis=1, ddof=1)
    log_t = np.linspace(np.log(1e-3), np.log(1e6), 150)
    root = np.sqrt(n)
    p = [gammainc(n, n * root / (root + t * spread)).mean() for t in np.exp(log_t)]
    return log_t, np.log(np.maximum(p, 1e-300))


def skewed_p_value(statistic: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Compute the p-value of Student's statistic of exponential replicas in their heavier tail."""
    statistic, n = np.broadcast_arrays(statistic, n)
    p, tested = np.ones(statistic.shape), (statistic > 0) & np.isfinite(statistic)
    for size in np.unique(n[tested]):
        chosen = (n == size) & tested
        log_t, log_p = exponential_tail(int(size))
        p[chosen] = np.exp(np.interp(np.log(statistic[chosen]), log_t, log_p))
    return p


def p_value_above(estimate: Estimate, bound: float, kind: str = "number") -> np.ndarray:
    """Compute the one-sided p-value for the alternative that a mean lies above `bound`.

    Replicas that are 0 or 1, by declaration and not by their values, get the exact binomial test,
    which is never wrong more often than it says. Differences of two such of one seed, -1, 0 or 1,
    get the exact test of their sum (`paired_p_value`).

    All others get the larger p-value of Student's test and of the same statistic for exponential
    replicas, whose tail lies where it misleads (`exponential_tail`). Student's test alone is wrong
    16 % of the time there at n = 5 where 5 % is meant, and 33 times too often at the corrected
    level of a paper with 130 claims. The table `claims_error_rates` has what this test is worth
    for other laws: one whose rare values are further out than those of an exponential law still
    breaks it, as no test of the mean of an unbounded law can hold its level without an assumption
    (Bahadur & Savage 1956).

    Where all n replicas agree to the last digit there is no spread to test with: they get the sign
    test, p = 2^-n, which speaks of most replicas and not of rare others. A quantity of which rare
    replicas must count is declared as 0 or 1.

    Clopper & Pearson (1934), for BINARY.
    """
    value, error, n = (
        np.asarray(field, dtype=float) for field in (estimate.value, estimate.error, estimate.n)
    )
    if kind == BINARY:
        ones = np.round(n * value)
        p = np.where(
            ones > 0, betainc(np.maximum(ones, 1), n - ones + 1, np.clip(bound, 0.0, 1.0)), 1.0
        )
    elif kind == PAIRED:
        differing = np.round((n - 1) * n * error**2 + n * value**2)
        p = np.vectorize(paired_p_value, otypes=[float])(np.round(n * value), differing, n, bound)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = (value - bound) / error
        student = stdtr(estimate.dof, -statistic)
        skewed = skewed_p_value(statistic, np.add(estimate.dof, 1))
        agreed = np.where(value > bound, 0.5**n, 1.0)
        p = np.where(error == 0, agreed, np.maximum(student, skewed))
    return np.where(np.abs(value - bound) <= ROUNDING, 1.0, p)


@functools.lru_cache(maxsize=10_000)
def paired_p_value(total: float, differing: float, n: float, mean: float) -> float:
    """Compute the p-value of n differences of -1, 0 or 1 against a mean of `mean` or less.

    It is the largest probability of the total or more, over all fractions of seeds that differ
    which the observed number does not exclude at the level BEYOND, plus this level (Berger & Boos
    1994).
    """
    n, mean = int(n), float(np.clip(mean, -1, 1))
    low, high = exact_bounds(differing, n, BEYOND / 2)
    differ = np.clip(np.linspace(low, high, 101), abs(mean), 1)[:, None]
    angle = 2 * np.pi * np.arange(2 * n + 1) / (2 * n + 1)
    # The characteristic function of the sum is a power of that of one difference.
    characteristic = 1 - differ + differ * np.cos(angle) + 1j * mean * np.sin(angle)
    probabilities = np.fft.fft(characteristic**n, axis=1).real / (2 * n + 1)
    sums = np.r_[0 : n + 1, -n:0]
    return float(np.clip(probabilities[:, sums >= total].sum(1).max() + BEYOND, 0, 1))


def p_value_below(estimate: Estimate, bound: float, kind: str = "number") -> np.ndarray:
    """Compute the one-sided p-value for the alternative that a mean lies below `bound`."""
    centre = 1.0 if kind == BINARY else 0.0
    mirrored = estimate._replace(value=centre - np.asarray(estimate.value))
    return p_value_above(mirrored, centre - bound, kind)


def p_value_inside(estimate: Estimate, low: float, high: float, kind: str = "number") -> np.ndarray:
    """Compute the p-value for the alternative that the mean lies inside (low, high).

    With two finite bounds these are the two one-sided tests of Schuirmann (1987).
    """
    above = p_value_above(estimate, low, kind) if np.isfinite(low) else 0.0
    return np.maximum(above, p_value_below(estimate, high, kind) if np.isfinite(high) else 0.0)


def p_value_outside(
    estimate: Estimate, low: float, high: float, kind: str = "number"
) -> np.ndarray:
    """Compute the p-value for the alternative that the mean lies outside [low, high].

    It is the smaller p-value of the tests beyond the finite ends, times their number (Bonferroni).
    """
    tests = [p_value_below(estimate, low, kind)] if np.isfinite(low) else []
    tests += [p_value_above(estimate, high, kind)] if np.isfinite(high) else []
    return np.minimum(1.0, len(tests) * np.min(tests, axis=0))


def confidence_bounds(
    estimate: Estimate, level: float, kind: str = "number"
) -> tuple[float, float]:
    """Compute the interval of the means that neither one-sided test rejects."""
    value, error, freedom, n = estimate
    if not np.isfinite(error) or freedom < 1 or not level > 0:
        return np.nan, np.nan
    if kind == BINARY:
        return exact_bounds(round(n * value), n, level)
    if kind == PAIRED:

        def excess(mean: float, p_value: Callable[..., np.ndarray]) -> float:
            return float(p_value(estimate, mean, kind)) - level

        sides = ((p_value_above, -1.0), (p_value_below, 1.0))
        return tuple(
            end
            if excess(end, p_value) >= 0
            else brentq(excess, end, value, args=(p_value,), xtol=1e-6)
            for p_value, end in sides
        )
    if error == 0:
        return (value, value) if 0.5**n < level else (-np.inf, np.inf)
    log_t, log_p = exponential_tail(freedom + 1)
    skewed = np.exp(np.interp(-np.log(level), -log_p, log_t))
    half = max(stdtrit(freedom, 1 - level), skewed) * error
    return value - half, value + half


def interval(estimate: Estimate, kind: str = "number") -> tuple[float, float]:
    """Compute the 95 % interval of a mean that tables print: of what no test of it rejects.

    Replicas that agree say of others only how rare they are: without a range there is no interval,
    while a claim of such a quantity is decided by what most replicas do (`p_value_above`).
    """
    level = (1 - 0.95) / 2
    if estimate.error != 0 or kind in (BINARY, PAIRED):
        return confidence_bounds(estimate, level, kind)
    # All n replicas miss others that are this rare with a probability of `level`.
    rare, (lowest, highest) = 1 - level ** (1 / estimate.n), RANGES[kind]
    if not np.isfinite([lowest, highest]).all():
        return np.nan, np.nan
    return (1 - rare) * estimate.value + rare * lowest, (1 - rare) * estimate.value + rare * highest


def judge_family(
    inside: np.ndarray, outside: np.ndarray, primary: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjust the p-values of a family of rows on each side, and judge each row.

    The two sides are corrected separately. For each row one of the two hypotheses is true, so that
    a false support somewhere in a primary family has at most the probability ALPHA_LEVEL, and a
    false contradiction too, however rows depend on each other.
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
    judged = np.where(
        adjusted[0] < ALPHA_LEVEL,
        SUPPORTED,
        np.where(adjusted[1] < ALPHA_LEVEL, CONTRADICTED, UNDECIDED),
    )
    return *adjusted, np.where(tested, judged, NOT_TESTABLE)


def decision_level(adjusted: np.ndarray, primary: bool) -> float:
    """Compute the level at which each row of a family is decided.

    A p-value is below it where the adjusted one is below ALPHA_LEVEL, and nowhere else. For Holm's
    m rows with k rejected it is ALPHA_LEVEL / (m - k), for Benjamini & Hochberg's
    ALPHA_LEVEL (k + 1) / m.
    """
    rejected = int((adjusted < ALPHA_LEVEL).sum())
    m = len(adjusted) if primary else int(np.isfinite(adjusted).sum())
    return (
        ALPHA_LEVEL / max(m - rejected, 1)
        if primary
        else ALPHA_LEVEL * min(rejected + 1, m) / max(m, 1)
    )


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Add intervals, p-values and verdicts to measured rows."""
    table = table[table["role"] == "regime"].reset_index(drop=True)
    estimates = [
        Estimate(row.estimate, row.error, row.freedom, row.n) for row in table.itertuples()
    ]
    kinds, lows, highs, testable = (
        table[name] for name in ("kind", "required_low", "required_high", "testable")
    )
    intervals = [interval(*row) for row in zip(estimates, kinds, strict=True)]
    table[["ci_low", "ci_high"]] = clip_to_range(intervals, table)
    # An effect that is smaller than the smallest of interest speaks against a claim of one.
    sides = (
        ("p_supported", p_value_inside, 0.0),
        ("p_contradicted", p_value_outside, table["least"]),
    )
    for name, p_value, least in sides:
        rows = zip(estimates, lows + least, highs - least, kinds, testable, strict=True)
        table[name] = [
            float(p_value(estimate, *region)) if is_tested else np.nan
            for estimate, *region, is_tested in rows
        ]
    columns = ["adjusted_p_supported", "adjusted_p_contradicted", "verdict"]
    table[columns[:2]], table["verdict"] = np.nan, NOT_TESTABLE
    level = pd.Series(np.nan, table.index)
    # A check is a family of its own: it takes no power from the claims of its paper.
    family = table["paper"].where(table["primary"] & ~table["check"], table["claim_id"])
    for (primary, _), rows in table.groupby(["primary", family]):
        judged = judge_family(
            rows["p_supported"].to_numpy(), rows["p_contradicted"].to_numpy(), primary
        )
        for column, values in zip(columns, judged, strict=True):
            table.loc[rows.index, column] = values
        # An equivalence is refuted by either of two tests.
        two_sided = np.isfinite(rows[["required_low", "required_high"]]).all(axis=1)
        support, contradiction = (
            decision_level(judged[0], primary),
            decision_level(judged[1], primary) / (1 + two_sided),
        )
        undecided = np.minimum(support, contradiction)
        chosen = [judged[2] == SUPPORTED, judged[2] == CONTRADICTED]
        level[rows.index] = np.select(chosen, [support, contradiction], undecided)
    deciding = [confidence_bounds(*row) for row in zip(estimates, level, kinds, strict=True)]
    table[["decided_low", "decided_high"]] = clip_to_range(deciding, table)
    half_width = (table["decided_high"] - table["decided_low"]) / 2
    blurred = (table["resolution"] > 0) & (half_width > table["resolution"])
    rows = zip(table["n"], lows, highs, kinds, level, strict=True)
    hopeless = np.array(
        [row[3] in (BINARY, PAIRED) and not is_decidable(*row) for row in rows], dtype=bool
    )
    undecided = table["verdict"] == UNDECIDED
    table.loc[undecided & (blurred | hopeless), "verdict"] = TOO_FEW
    for start, verdict in ((DIVERGED_TEXT, DIVERGED), (PREMISE_TEXT, NO_PREMISE)):
        stopped = ~table["testable"] & table["remark"].str.startswith(start)
        table.loc[stopped, "verdict"] = verdict
    checks = table["check"] & table["testable"]
    passed = np.where(table["verdict"] == SUPPORTED, CHECK_PASSED, CHECK_FAILED)
    table["verdict"] = table["verdict"].where(~checks, passed)
    return table


def is_decidable(n: int, low: float, high: float, kind: str, level: float) -> bool:
    """Return whether some outcome of n replicas of 0 or 1 would be decided at a level."""
    lowest, highest = RANGES[kind]
    extremes = [Estimate(value, 0.0, n - 1, n) for value in (lowest, highest)]
    tests = [p_value_inside, p_value_outside]
    return any(float(test(one, low, high, kind)) < level for one in extremes for test in tests)


def clip_to_range(intervals: list[tuple[float, float]], table: pd.DataFrame) -> np.ndarray:
    """Clip intervals to the range of their quantities; return an array of shape (n, 2)."""
    return np.clip(
        np.array(intervals).reshape(-1, 2),
        table[["lowest"]].to_numpy(),
        table[["highest"]].to_numpy(),
    )


def sensitivity_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the changes by each hyper-parameter at half and at double its value."""
    regimes = table[table["role"] == "regime"].set_index(["claim_id", "study", "point"])
    rows = []
    for row in table[table["role"] == "varied"].itertuples():
        varied, _, point = row.point.partition(VARIED)
        key = (row.claim_id, row.study, point)
        if key not in regimes.index or not row.testable or not regimes.at[key, "testable"]:
            continue
        change = Estimate(row.change, row.change_error, row.change_n - 1, row.change_n)
        rows.append(
            (
                *(row.claim_id, row.paper, row.study, varied, point, change.value),
                *(*interval(change), row.tolerance, classify_change(change, row.tolerance)),
            )
        )
    # A paper of which nothing is varied has no rows to take the types from.
    numbers = dict.fromkeys(("change", "ci_low", "ci_high", "tolerance"), float)
    types = dict.fromkeys(CHANGES.columns, str) | numbers
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def format_counts(regimes: pd.Series) -> str:
    """Count the verdicts of a claim's regimes in words."""
    counts = regimes.value_counts()
    names = [name for name in VERDICTS if name in VERDICTS[:2] or counts.get(name, 0)]
    texts = [f"{WORDS.get(name, name)} in {counts.get(name, 0)}" for name in names]
    return f"{', '.join(texts)} of {len(regimes)} regime{'s' * (len(regimes) != 1)}"


def classify_change(change: Estimate, tolerance: float) -> str:
    """Return whether a change is shown to be within a tolerance, beyond it, or neither.

    Each test has ALPHA_LEVEL for itself: these are descriptions and no verdicts.
    """
    if not np.isfinite(change.error) or change.dof < MIN_DOF:
        return UNKNOWN
    if p_value_inside(change, -tolerance, tolerance) < ALPHA_LEVEL:
        return SAME
    return CHANGED if p_value_outside(change, -tolerance, tolerance) < ALPHA_LEVEL else UNKNOWN
