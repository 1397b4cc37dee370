"""Verdicts: a claim is tested on both sides, so that an unproven claim is never called false.

A claim requires its quantity to lie in a region. That the quantity lies inside is one test, that it
lies outside is another; where neither is shown, the row is undecided. Primary rows, one for each
claim, are corrected by Holm over all claims of a paper, the other rows of a claim by Benjamini &
Hochberg within it.
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
"""Probability of a false support, and of a false contradiction, among a paper's primary rows."""
BINARY, PAIRED = "0 or 1", "paired 0 or 1"
"""Kinds of quantities that are tested exactly."""
BEYOND = 1e-4
"""Level at which the test of paired replicas excludes fractions of seeds that differ."""
ROUNDING = 1e-12
"""Largest distance of a mean from a bound that is a rounding error of sums."""


def p_value_above(estimate: Estimate, bound: float, kind: str = "number") -> np.ndarray:
    """Compute the one-sided p-value for the alternative that a mean lies above `bound`.

    Replicas that are 0 or 1, by declaration and not by their values, get the exact binomial test,
    which is never wrong more often than it says. Differences of two such of one seed, -1, 0 or 1,
    get the exact test of their sum (`paired_p_value`). All others get Student's test, which keeps
    its level for replicas from a normal distribution. For a skewed one it does not: for an
    exponential distribution the test against its tail is wrong 16 % of the time at n = 5, 14 % at
    10, 9 % at 30 and 8 % at 100 where 5 % is meant, and in the other direction less often than 5 %
    (tests/claims checks these numbers). No test of the mean of an unbounded distribution does
    better without an assumption (Bahadur & Savage 1956), and one for any distribution on [0, 1]
    (Anderson 1969) could not show a fraction of more than 0.95 with fewer than 59 replicas, even
    where all are 1.

    Where all n replicas agree to the last digit there is no spread to test with. The sign test
    takes its place, p = 2^-n: it says that most replicas lie there, and nothing of rare others. It
    can pass Holm's strictest step with more than log2(claims / ALPHA_LEVEL) seeds, which a test
    asks of every claim on a fraction or a count.

    Parameters
    ----------
    estimate : Estimate
        Mean, standard error, degrees of freedom and n; scalars or arrays.
    bound : float
        Bound; the null hypothesis is a mean of at most this.
    kind : str
        Kind of quantity; BINARY and PAIRED are tested exactly.

    Returns
    -------
    float or ndarray
        p-value; 1 where the mean is at the bound, to rounding.

    References
    ----------
    Clopper & Pearson (1934), for BINARY.
    """
    value, error, n = (
        np.asarray(field, dtype=float) for field in (estimate.value, estimate.error, estimate.n)
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
    """Compute the p-value of n differences of -1, 0 or 1 against a mean of `mean` or less.

    It is the largest probability of the total or more, over all fractions of seeds that differ
    which the observed number does not exclude at the level BEYOND, plus this level.

    Parameters
    ----------
    total : float
        Sum of the differences.
    differing : float
        Number of seeds that differ.
    n : float
        Number of seeds.
    mean : float
        Mean of the null hypothesis.

    References
    ----------
    Berger & Boos (1994).
    """
    n, mean = int(n), float(np.clip(mean, -1, 1))
    low = betaincinv(differing, n - differing + 1, BEYOND / 2) if differing else 0.0
    high = betaincinv(differing + 1, n - differing, 1 - BEYOND / 2) if differing < n else 1.0
    differ = np.clip(np.linspace(low, high, 101), abs(mean), 1)[:, None]
    angle = 2 * np.pi * np.arange(2 * n + 1) / (2 * n + 1)
    # The characteristic function of the sum is a power of that of one difference.
    characteristic = 1 - differ + differ * np.cos(angle) + 1j * mean * np.sin(angle)
    probabilities = np.fft.fft(characteristic**n, axis=1).real / (2 * n + 1)
    sums = np.r_[0 : n + 1, -n:0]
    return float(np.clip(probabilities[:, sums >= total].sum(1).max() + BEYOND, 0, 1))


def p_value_below(estimate: Estimate, bound: float, kind: str = "number") -> np.ndarray:
    """Compute the one-sided p-value for the alternative that a mean lies below `bound`.

    Parameters
    ----------
    estimate : Estimate
        Mean, standard error, degrees of freedom and n; scalars or arrays.
    bound : float
        Bound.
    kind : str
        Kind of quantity, see `p_value_above`.
    """
    centre = 1.0 if kind == BINARY else 0.0
    return p_value_above(
        estimate._replace(value=centre - np.asarray(estimate.value)), centre - bound, kind
    )


def p_value_inside(estimate: Estimate, low: float, high: float, kind: str = "number") -> np.ndarray:
    """Compute the p-value for the alternative that the mean lies inside (low, high).

    With two finite bounds this is the two one-sided tests procedure (TOST).

    Parameters
    ----------
    estimate : Estimate
        Mean, standard error, degrees of freedom and n; scalars or arrays.
    low, high : float
        Bounds of the interval; infinite if open.
    kind : str
        Kind of quantity, see `p_value_above`.

    References
    ----------
    Schuirmann (1987).
    """
    above = p_value_above(estimate, low, kind) if np.isfinite(low) else 0.0
    return np.maximum(above, p_value_below(estimate, high, kind) if np.isfinite(high) else 0.0)


def p_value_outside(
    estimate: Estimate, low: float, high: float, kind: str = "number"
) -> np.ndarray:
    """Compute the p-value for the alternative that the mean lies outside [low, high].

    It is the smaller p-value of the tests beyond the finite ends, times their number (Bonferroni).

    Parameters
    ----------
    estimate : Estimate
        Mean, standard error, degrees of freedom and n; scalars or arrays.
    low, high : float
        Bounds of the interval; infinite if open.
    kind : str
        Kind of quantity, see `p_value_above`.
    """
    tests = [p_value_below(estimate, low, kind)] if np.isfinite(low) else []
    tests += [p_value_above(estimate, high, kind)] if np.isfinite(high) else []
    return np.minimum(1.0, len(tests) * np.min(tests, axis=0))


def confidence_bounds(
    estimate: Estimate, level: float, kind: str = "number"
) -> tuple[float, float]:
    """Compute the interval of the means that neither one-sided test rejects.

    Parameters
    ----------
    estimate : Estimate
        Mean, standard error, degrees of freedom and n.
    level : float
        Level of each of both tests.
    kind : str
        Kind of quantity, see `p_value_above`.

    Returns
    -------
    (float, float)
        Both ends; NaN without an error or degrees of freedom, infinite where equal replicas are
        too few for the sign test.
    """
    value, error, freedom, n = estimate
    if not np.isfinite(error) or freedom < 1:
        return np.nan, np.nan
    if kind == BINARY:
        ones = round(n * value)
        low = betaincinv(ones, n - ones + 1, level) if ones else 0.0
        return float(low), float(betaincinv(ones + 1, n - ones, 1 - level)) if ones < n else 1.0
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
    half = stdtrit(freedom, 1 - level) * error
    return value - half, value + half


def judge_family(
    inside: np.ndarray, outside: np.ndarray, primary: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjust the p-values of a family of rows, and judge each row.

    The two sides are corrected separately. For each row one of the two hypotheses is true, so that
    a false support somewhere in a primary family has at most the probability ALPHA_LEVEL, and a
    false contradiction too, however rows depend on each other.

    Parameters
    ----------
    inside, outside : ndarray of shape (n,)
        p-values of support and of contradiction; NaN for a row that could not be tested. Such a
        primary row keeps its place in the family.
    primary : bool
        Whether rows are corrected by Holm; else by Benjamini & Hochberg.

    Returns
    -------
    adjusted_inside, adjusted_outside : ndarray of shape (n,)
        Adjusted p-values.
    verdicts : ndarray of shape (n,)
        Verdicts.
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

    Parameters
    ----------
    adjusted : ndarray of shape (n,)
        Adjusted p-values of one side; NaN for rows that could not be tested.
    primary : bool
        Whether rows are corrected by Holm; else by Benjamini & Hochberg.
    """
    rejected = int((adjusted < ALPHA_LEVEL).sum())
    m = len(adjusted) if primary else int(np.isfinite(adjusted).sum())
    return (
        ALPHA_LEVEL / max(m - rejected, 1)
        if primary
        else ALPHA_LEVEL * min(rejected + 1, m) / max(m, 1)
    )


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Add intervals, p-values and verdicts to measured rows.

    Parameters
    ----------
    table : DataFrame
        Rows of `measured_table`, of all kinds of study with claims of one paper.

    Returns
    -------
    DataFrame
        Rows of the regimes; rows of a varied hyper-parameter are left out.
    """
    table = table[table["role"] == "regime"].reset_index(drop=True)
    estimates = [
        Estimate(row.estimate, row.error, row.freedom, row.n) for row in table.itertuples()
    ]
    kinds, lows, highs, testable = (
        table[name] for name in ("kind", "required_low", "required_high", "testable")
    )
    intervals = [
        confidence_bounds(estimate, 0.025, kind)
        if kind in (BINARY, PAIRED)
        else estimate.interval()
        for estimate, kind in zip(estimates, kinds, strict=True)
    ]
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
    for primary, family in ((True, "paper"), (False, "claim_id")):
        for _, rows in table[table["primary"] == primary].groupby(family):
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
    table.loc[(table["diverged"] > 0) & table["remark"].str.startswith("diverged"), "verdict"] = (
        DIVERGED
    )
    return table


def clip_to_range(intervals: list[tuple[float, float]], table: pd.DataFrame) -> np.ndarray:
    """Clip intervals to the range of their quantities; return an array of shape (n, 2)."""
    return np.clip(
        np.array(intervals).reshape(-1, 2),
        table[["lowest"]].to_numpy(),
        table[["highest"]].to_numpy(),
    )


def sensitivity_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the changes by each hyper-parameter at half and at double its value.

    Parameters
    ----------
    table : DataFrame
        Rows of `measured_table`. The column `point` of a varied row is `eta = 0.05 | POINT`; the
        row of the study itself has POINT.

    Returns
    -------
    DataFrame
        Row for each varied row, if it and the row of the study are testable.
    """
    regimes = table[table["role"] == "regime"].set_index(["claim_id", "study", "point"])
    rows = []
    for row in table[table["role"] == "varied"].itertuples():
        varied, _, point = row.point.partition(VARIED)
        key = (row.claim_id, row.study, point)
        if key not in regimes.index or not row.testable or not regimes.at[key, "testable"]:
            continue
        change = Estimate(row.change, row.change_error, row.change_n - 1, row.change_n)
        low, high = change.interval()
        rows.append(
            {
                "claim_id": row.claim_id,
                "paper": row.paper,
                "study": row.study,
                "varied": varied,
                "point": point,
                "change": change.value,
                "ci_low": low,
                "ci_high": high,
                "tolerance": row.tolerance,
                "found": classify_change(change, row.tolerance),
            }
        )
    texts = dict.fromkeys(("claim_id", "paper", "study", "varied", "point"), str)
    types = {
        **texts,
        **dict.fromkeys(("change", "ci_low", "ci_high", "tolerance"), float),
        "found": str,
    }
    # A paper of which nothing is varied has no rows to take the types from.
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def format_counts(regimes: pd.Series) -> str:
    """Count the verdicts of a claim's regimes in words."""
    counts = regimes.value_counts()
    tested = (SUPPORTED, CONTRADICTED, UNDECIDED)
    texts = [f"{name} in {counts.get(name, 0)}" for name in tested]
    texts += [
        f"{name} in {counts[name]}" for name in (DIVERGED, NOT_TESTABLE) if counts.get(name, 0)
    ]
    return f"{', '.join(texts)} of {len(regimes)} regime{'s' * (len(regimes) != 1)}"


def describe_split(rows: pd.DataFrame, max_points: int = 4) -> str:
    """List the regimes that support a claim and those that contradict it.

    Parameters
    ----------
    rows : DataFrame
        Rows of the claim.
    max_points : int
        Largest number of points of a study that are listed; more are counted.

    Returns
    -------
    str
        Sentences; empty unless regimes of both kinds exist.
    """
    decided = [name for name in (SUPPORTED, CONTRADICTED) if (rows["verdict"] == name).any()]
    if len(decided) < 2:
        return ""
    sentences = []
    for name in decided:
        regimes = []
        for study, regime_rows in rows.groupby("study", sort=False):
            points = regime_rows.loc[regime_rows["verdict"] == name, "point"]
            if len(points) == len(regime_rows):
                regimes.append(study)
            elif len(points) > max_points:
                regimes.append(f"{study} ({len(points)} of {len(regime_rows)} points)")
            elif len(points):
                regimes.append(f"{study} ({'; '.join(points)})")
        sentences.append(f"{name.capitalize()}: {', '.join(regimes)}")
    return ". ".join(sentences)


def classify_change(change: Estimate, tolerance: float) -> str:
    """Return whether a change is shown to be within a tolerance, beyond it, or neither.

    Each test has ALPHA_LEVEL for itself: these are descriptions and no verdicts.
    """
    if not np.isfinite(change.error) or change.dof < MIN_DOF:
        return UNKNOWN
    if p_value_inside(change, -tolerance, tolerance) < ALPHA_LEVEL:
        return SAME
    return CHANGED if p_value_outside(change, -tolerance, tolerance) < ALPHA_LEVEL else UNKNOWN
