"""When the rare feature is learned, if late: the linear course behind a shut gate, held against what replicas did.

Behind a gate that its own samples do not open, what a neuron has of the rare feature, x (a cosine), moves by
dx/dt = eta ((leak - lambda) x + kick): samples in which others open the gate pull at it in proportion to x (the leak), those of
a finite sample also by their chance correlation with the others (the kick), and decay takes it away. Where the leak exceeds the
decay, x grows in any case. Else it tends to kick / (lambda - leak), and the lock opens where that exceeds the gate. The memory
of this course is 1 / (eta (lambda - leak)) steps, of K pairs each: a sample that comes back within it kicks as one, of a larger
one or of fresh pairs as many kick as the memory holds, by their inverse root.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression

from rarefeat.core.logistic_fit import LogisticFit, fit_logistic
from rarefeat.core.recorded_steps import log_spaced
from rarefeat.run.job import Job
from rarefeat.storage.schema import validate_sorted
from rarefeat.studies.fate.config import AXES, FRESH_SAMPLE, LearningStudy, gate
from rarefeat.studies.fate.tables import FATE_POINTS, FATE_SHARES, FATE_TIMES

STEPS = np.unique(np.geomspace(1, 1e6, 400))
"""After `looked`, at which the law is asked whether the gate is open."""


class StateAtMeasurement(NamedTuple):
    """What the law reads of replicas at `looked`, (n,) each."""

    cosine: np.ndarray
    leak: np.ndarray
    kick: np.ndarray
    """Of the pairs that the course remembers."""
    decay: np.ndarray
    """lambda."""
    gate: np.ndarray
    """Cosine from which a sample of the feature alone opens a neuron."""


def log_margin_after(seen: StateAtMeasurement, eta: float, steps: np.ndarray | float) -> np.ndarray:
    """log of the cosine over the gate's, so many steps after `looked`: (n,), or (n, steps)."""
    steps = np.asarray(steps, dtype=float)
    column = (slice(None),) + (None,) * steps.ndim
    x, rate, kick = seen.cosine[column], (seen.leak - seen.decay)[column], seen.kick[column]
    rate = np.where(np.abs(rate) < 1e-9, 1e-9, rate)
    # No further than e^30: what grows has long been learned.
    grown = np.minimum(rate * eta * steps, 30.0)
    return np.log(
        np.maximum(x * np.exp(grown) + kick * np.expm1(grown) / rate, 1e-12) / seen.gate[column]
    )


def log_margin_limit(seen: StateAtMeasurement) -> np.ndarray:
    """The same after any number of steps, (n,): infinite where the leak exceeds the decay."""
    rate = seen.leak - seen.decay
    with np.errstate(divide="ignore"):
        return np.where(
            rate < 0,
            np.log(np.maximum(seen.kick / -np.minimum(rate, -1e-9), 1e-12) / seen.gate),
            np.inf,
        )


def median_learning_step(
    seen: StateAtMeasurement, eta: float, looked: int, constants: LogisticFit
) -> np.ndarray:
    """The step at which the law gives a half, (n,); NaN for never."""
    above = log_margin_after(seen, eta, STEPS) >= constants.centre
    return np.where(above.any(1), looked + STEPS[above.argmax(1)], np.nan)


def state_from_table(table: pd.DataFrame, course: LearningStudy) -> StateAtMeasurement:
    """Of the replicas of a table."""
    gates = np.array([gate(course.data, share) for share in table["share"]])
    N, leak, decay = (table[name].to_numpy(dtype=float) for name in ("N", "leak", "lambda"))
    remembered = course.training.K / (course.training.eta * np.maximum(decay - leak, 1e-9))
    of_sample = np.where(N > 0, N, FRESH_SAMPLE)
    kick = table["kick"].to_numpy() * np.sqrt(
        of_sample / np.minimum(np.where(N > 0, N, np.inf), remembered)
    )
    return StateAtMeasurement(table["cosine_looked"].to_numpy(), leak, kick, decay, gates)


def coordinates(rows: pd.DataFrame) -> np.ndarray:
    """What a law of the regime alone knows, standardised by the ranges they are drawn from, (n, 4)."""
    return np.column_stack(
        [
            rows["eps_min"] * 4,
            np.log(rows["lambda"]),
            rows["share"] * 4,
            np.log(rows["N"].clip(1)) / 2,
        ]
    )


def regression(rows: pd.DataFrame) -> LogisticRegression | None:
    """Who has learned by T, from the regime alone; None where all or none have."""
    learned = rows["learned_at"].notna()
    return LogisticRegression().fit(coordinates(rows), learned) if learned.nunique() == 2 else None


def fate_times(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """The law's constants from the courses with the role fit, and what it says of every replica of these and of the others."""
    courses = job.config_section("courses", dict[str, LearningStudy])
    found = {name: tables[f"{name}_fate"] for name in courses}
    whole, rows = {}, []
    for name, table in found.items():
        course = courses[name]
        whole[name] = table.assign(
            study=name,
            at_once=(table["learned_at"] <= course.looked).astype(float),
            late=table["learned_at"].notna().astype(float),
            reached=log_margin_after(
                state_from_table(table, course),
                course.training.eta,
                course.training.T - course.looked,
            ),
        )
    fit = pd.concat([whole[name] for name, course in courses.items() if course.role == "fit"])
    fit = fit[fit["at_once"] == 0]
    constants = fit_logistic(fit["reached"], fit["late"])
    plain = regression(fit)
    for name, table in whole.items():
        course = courses[name]
        of = state_from_table(table, course)
        rows.append(
            table.assign(
                reach=log_margin_limit(of),
                predicted=median_learning_step(of, course.training.eta, course.looked, constants),
                probability=1
                / (1 + np.exp(-constants.steepness * (table["reached"] - constants.centre))),
                gate_alone=plain.predict_proba(coordinates(table))[:, 1]
                if plain
                else fit["late"].mean(),
            )
        )
    return validate_sorted(FATE_TIMES, pd.concat(rows, ignore_index=True)[list(FATE_TIMES.columns)])


def fate_points(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Of each point, how many learned by when, what pulled at the feature at `looked`, and what opens the neuron at the end."""
    courses, rows = job.config_section("courses", dict[str, LearningStudy]), []
    for name, course in courses.items():
        whole = tables[f"{name}_fate"]
        for cell, part in whole.assign(
            border=np.exp(log_margin_limit(state_from_table(whole, course)))
        ).groupby(list(AXES)):
            late = part["learned_at"] > course.looked
            rows.append(
                {"study": name, **dict(zip(AXES, cell, strict=True)), "n": len(part), "T": course.training.T,
                 "at_once": int((part["learned_at"] <= course.looked).sum()), "late": int(late.sum()),
                 **part[["leak", "kick", "border", "cosine_looked", "cosine", "count"]].median(),
                 **part.loc[late, ["opened_trained", "opened_fresh", "opened_without"]].mean()}
            )  # fmt: skip
    return validate_sorted(FATE_POINTS, pd.DataFrame(rows))


def clopper_pearson(ones: int, n: int) -> tuple[float, float]:
    """95 % of a share, Clopper & Pearson 1934."""
    low = beta.ppf(0.025, ones, n - ones + 1) if ones else 0.0
    return float(low), float(beta.ppf(0.975, ones + 1, n - ones)) if ones < n else 1.0


def fate_shares(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """The share of replicas that have learned by logarithmic steps, with its exact interval."""
    rows = []
    for name, table in tables.items():
        for cell, part in table.groupby(list(AXES)):
            for step in log_spaced(int(part["T"].iloc[0]))[1:]:
                ones, n = int((part["learned_at"] <= step).sum()), len(part)
                low, high = clopper_pearson(ones, n)
                rows.append(
                    {"study": name.removesuffix("_fate"), **dict(zip(AXES, cell, strict=True)), "step": step, "learned": ones,
                     "n": n, "learned_share": ones / n, "ci_low": low, "ci_high": high}
                )  # fmt: skip
    return validate_sorted(FATE_SHARES, pd.DataFrame(rows))
