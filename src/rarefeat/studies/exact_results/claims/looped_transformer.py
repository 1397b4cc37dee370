"""Chapter 8: the looped transformer is gradient descent, its bound, and what section 8.6 reads off Figure 8.1."""

from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.claim import COUNT, Measured
from rarefeat.studies.exact_results.claims.reader import by_seed, row, settings
from rarefeat.studies.exact_results.claims.reader import declare as of_paper
from rarefeat.studies.exact_results.printed import KAPPA

STUDY = "looped_transformer"
declare = partial(of_paper, group="looped transformer", effect=1.0, seeds=30)
DESCENT = declare(
    id="8.14",
    source="Theorem 8.14",
    statement="what the looped transformer puts out is alpha times gradient descent, after any number of loops",
    quantity="largest distance to it over loops, in units of 2^-52, over n",
    test="superiority",
    side="below",
    threshold=1.0,
    reason="equal up to rounding: each loop sums n products",
    primary=f"{STUDY}: n=128",
    tolerance=0.1,
    control="a mask that lets the last row attend to itself gives another iteration; a test plants it",
    bounds=COUNT,
)
SQUARED = declare(
    id="8.25",
    source="Theorem 8.25",
    statement="the squared error is at most exp(-T / kappa) of the first one",
    quantity="largest log of the normalised squared error + t / kappa, over loops and problems, without rounding",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="an upper bound with its constant",
    primary=f"{STUDY}: n=16",
    tolerance=0.1,
    control="n = 16 has the largest condition number, where the bound is nearest",
)
PREDICTION = declare(
    id="8.16",
    source="Theorem 8.16",
    statement="the prediction's error is at most |alpha| exp(-T / (2 kappa))",
    quantity="largest log of the error over |alpha| + t / (2 kappa), over loops and problems, without rounding",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="an upper bound with its constant",
    primary=f"{STUDY}: n=16",
    tolerance=0.1,
    control="8.25: the bound that it follows from",
)
MEAN_KAPPA = declare(
    id="8-1-kappa",
    source="section 8.6",
    statement="the mean condition numbers of ten problems are 4.57, 3.13, 2.07 and 1.62 at n = 16, 32, 64 and 128",
    quantity="log of an experiment's mean condition number over the printed one",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.2,
    reason="the printed means are of ten problems themselves, whose mean varies by some ten per cent at n = 16: a fifth",
    primary=f"{STUDY}: n=16",
    tolerance=0.1,
    control="the condition number at twice or half n is outside of the margin",
)
OVER_LOOPS = declare(
    id="8-1-below",
    source="section 8.6, Figure 8.1",
    statement="the measured errors are below their bounds at all T = 200 loops and all sample sizes",
    quantity="largest log of the normalised squared error of the transformer in double precision + t / kappa",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="below",
    primary=f"{STUDY}: n=128",
    tolerance=0.1,
    control="8.25: the same without rounding, whose floor of 1e-32 a bound of exp(-200 / 1.62) lies below",
)
GAP = declare(
    id="8-1-gap",
    source="section 8.6",
    statement="the gap between the measured rate and its bound narrows as n grows",
    quantity="log of the gap of the logarithms after t loops at the largest n over that at the smallest",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="narrowing; without rounding",
    primary=f"{STUDY}: t = 50",
    tolerance=0.1,
    control="in closed form the gap is t (2 |log(1 - 1 / kappa)| - 1 / kappa) up to a constant, and kappa falls with n",
)
CLAIMS = (DESCENT, SQUARED, PREDICTION, MEAN_KAPPA, OVER_LOOPS, GAP)
QUANTITIES = ((SQUARED, "error_excess"), (PREDICTION, "prediction_excess"), (OVER_LOOPS, "rounded_excess"))
LOOPS = (10, 20, 50, 100, 200)


def measure(table: pd.DataFrame) -> list[Measured]:
    """A row for each n; the gap between the smallest and the largest one for some numbers of loops."""
    rows = []
    sizes = sorted(int(setting.removeprefix("n=")) for setting in settings(table, "kappa"))
    for n in sizes:
        setting = f"n={n}"
        rows.append(row(DESCENT, STUDY, setting, by_seed(table, setting, "disagreement") / n))
        rows += [row(claim, STUDY, setting, by_seed(table, setting, quantity)) for claim, quantity in QUANTITIES]
        if n in KAPPA:
            rows.append(row(MEAN_KAPPA, STUDY, setting, np.log(by_seed(table, setting, "kappa") / KAPPA[n])))
    for t in LOOPS:
        most, least = (by_seed(table, f"n={n}", "gap", t) for n in (sizes[-1], sizes[0]))
        if len(most) and sizes[-1] > sizes[0]:
            rows.append(row(GAP, STUDY, f"t = {t}", np.log(most / least)))
    return rows
