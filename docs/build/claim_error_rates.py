"""How often the test of a claim is wrong, for replicas of known laws: a simulation.

python docs/build/claim_error_rates.py

writes the table of the page of claims.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtr

from rarefeat.claims.estimate import Estimate
from rarefeat.claims.verdict import ALPHA_LEVEL, interval, p_value_below
from rarefeat.workflow.files.published import FOLDER, PublishedTables, commit
from rarefeat.workflow.run.cli_helpers import run_main

Law = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
LAWS: dict[str, tuple[str, float, Law]] = {
    "normal": ("number", 0.0, lambda rng, shape: rng.normal(size=shape)),
    "uniform": ("share", 0.5, lambda rng, shape: rng.random(shape)),
    "exponential": ("count", 1.0, lambda rng, shape: rng.exponential(size=shape)),
    "log-normal, spread 0.5": (
        "number", np.exp(1 / 8), lambda rng, shape: np.exp(0.5 * rng.normal(size=shape)),
    ),
    "log-normal, spread 1": (
        "number", np.exp(1 / 2), lambda rng, shape: np.exp(rng.normal(size=shape)),
    ),
    "error on 1,000 test samples, 0.2 %": (
        "share", 0.002, lambda rng, shape: rng.binomial(1000, 0.002, shape) / 1000,
    ),
    "0.2 in 90 % of seeds, about 0.9 in the others": (
        "share", 0.27,
        lambda rng, shape: (
            np.where(rng.random(shape) < 0.9, 0.2, 0.9) + 0.02 * rng.normal(size=shape)
        ),
    ),
    "share near 0": ("share", 0.05, lambda rng, shape: rng.beta(1.0, 19.0, shape)),
    "share that is 0 in 95 % of seeds, else 1": (
        "share", 0.05, lambda rng, shape: (rng.random(shape) < 0.05).astype(float),
    ),
    "the same, declared as 0 or 1": (
        "0 or 1", 0.05, lambda rng, shape: (rng.random(shape) < 0.05).astype(float),
    ),
}  # fmt: skip
"""Kind of quantity, mean and draws of each law; its tail lies above its mean."""
SIZES = (6, 10, 12, 15, 20, 30)
LEVELS = {"5 %": ALPHA_LEVEL, "5 % over 130 claims": ALPHA_LEVEL / 130}
STUDIES = 300_000
BLOCK = 50_000


def estimates_of(draws: np.ndarray) -> Estimate:
    """Return the estimates of many studies at once, (studies, n)."""
    n = draws.shape[1]
    spread = np.where(np.ptp(draws, axis=1) == 0, 0.0, draws.std(1, ddof=1))
    return Estimate(draws.mean(1), spread / np.sqrt(n), n - 1, n)


def error_rates(law: str, n: int, studies: int = STUDIES) -> pd.DataFrame:
    """Simulate how often a mean is shown to lie below what it is, where the law's tail misleads."""
    kind, mean, draw = LAWS[law]
    rng, wrong = np.random.default_rng([n, *law.encode()]), {}
    for block in range(0, studies, BLOCK):
        estimate = estimates_of(draw(rng, (min(BLOCK, studies - block), n)))
        with np.errstate(divide="ignore", invalid="ignore"):
            student = np.where(
                estimate.error > 0, stdtr(n - 1, (estimate.value - mean) / estimate.error), 0.5**n
            )
        for test, p in (("rate", p_value_below(estimate, mean, kind)), ("student", student)):
            for level in LEVELS:
                key = test, level
                wrong[key] = wrong.get(key, 0) + int((p < LEVELS[level]).sum())
    rows = [
        {
            "law": law, "n": n, "level": name, "meant": level,
            "rate": wrong["rate", name] / studies, "student": wrong["student", name] / studies,
            "studies": studies,
        }
        for name, level in LEVELS.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def coverage(law: str, n: int, studies: int = 4000) -> tuple[float, float]:
    """Simulate how often the printed interval, if there is one, and Student's hold a law's mean."""
    kind, mean, draw = LAWS[law]
    estimate = estimates_of(draw(np.random.default_rng([n, *law.encode()]), (studies, n)))
    held = [0, 0]
    for value, error in zip(estimate.value, estimate.error, strict=True):
        one = Estimate(value, error, n - 1, n)
        for i, (low, high) in enumerate((interval(one, kind), one.interval())):
            held[i] += not (mean < low or mean > high)
    return held[0] / studies, held[1] / studies


def main() -> None:
    """Write the table of every law and size."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    table = pd.concat([error_rates(law, n) for law in LAWS for n in SIZES], ignore_index=True)
    origin = {
        "run": "a simulation, `python docs/build/claim_error_rates.py`",
        "commit": commit(),
    }
    PublishedTables(Path(FOLDER)).put("claims_error_rates", table, origin)


if __name__ == "__main__":
    run_main(main)
