"""Linear model of growth of a rare feature behind a closed gate; tables of outcomes.

While the gate is closed for samples of the feature itself, the cosine x of a neuron to the feature
obeys dx/dt = eta ((leak - lambda) x + kick). Samples in which other features open the gate pull at
x in proportion to x (the leak); the chance correlations of a finite sample with the other features
add a constant (the kick); weight decay shrinks x. If the leak exceeds the decay, x grows without
bound. Else it tends to kick / (lambda - leak), and the feature is learned if that exceeds the gate.
The memory of x is 1 / (eta (lambda - leak)) steps of K pairs each. A sample that comes back within
this memory acts with its own kick; a larger one, or fresh pairs, with the kick of as many pairs as
the memory holds, which falls with their inverse root.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression

from rarefeat.model.logistic_fit import LogisticFit, fit_logistic
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.studies.fate.config import AXES, FRESH_SAMPLE, LearningStudy, gate
from rarefeat.studies.fate.growth import PASSES
from rarefeat.studies.fate.tables import FATE_POINTS, FATE_SHARES, FATE_TIMES, GROWTH
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job

STEPS = np.unique(np.geomspace(1, 1e6, 400))
"""Steps after `looked` at which the model is evaluated to find when the gate opens."""


class StateAtMeasurement(NamedTuple):
    """Inputs of the linear model: the state of n replicas at the step `looked`, (n,) each."""

    cosine: np.ndarray
    leak: np.ndarray
    kick: np.ndarray
    """Kick of the pairs within the memory."""
    decay: np.ndarray
    """Weight decay lambda."""
    gate: np.ndarray
    """Cosine above which a sample of the feature alone opens the gate of a neuron."""


def log_margin_after(
    state: StateAtMeasurement, eta: float, steps: np.ndarray | float
) -> np.ndarray:
    """Compute the log of cosine over gate some steps after `looked`, by the linear model.

    steps (n_steps,) -> (n,) or (n, n_steps).
    """
    steps = np.asarray(steps, dtype=float)
    column = (slice(None),) + (None,) * steps.ndim
    x, rate, kick = state.cosine[column], (state.leak - state.decay)[column], state.kick[column]
    rate = np.where(np.abs(rate) < 1e-9, 1e-9, rate)
    grown = np.minimum(rate * eta * steps, 30.0)
    return np.log(
        np.maximum(x * np.exp(grown) + kick * np.expm1(grown) / rate, 1e-12) / state.gate[column]
    )


def log_margin_limit(state: StateAtMeasurement) -> np.ndarray:
    """Compute the log margin after infinitely many steps, (n,); inf where leak exceeds decay."""
    rate = state.leak - state.decay
    with np.errstate(divide="ignore"):
        return np.where(
            rate < 0,
            np.log(np.maximum(state.kick / -np.minimum(rate, -1e-9), 1e-12) / state.gate),
            np.inf,
        )


def median_learning_step(
    state: StateAtMeasurement, eta: float, looked: int, constants: LogisticFit
) -> np.ndarray:
    """Compute the step at which the model gives a probability of a half.

    -> (n,).
    """
    above = log_margin_after(state, eta, STEPS) >= constants.centre
    return np.where(above.any(1), looked + STEPS[above.argmax(1)], np.nan)


def state_from_table(table: pd.DataFrame, study: LearningStudy) -> StateAtMeasurement:
    """Return the state at `looked` of the replicas of a table of a study."""
    gates = np.array([gate(study.data, share) for share in table["share"]])
    N, leak, decay = (table[name].to_numpy(dtype=float) for name in ("N", "leak", "lambda"))
    remembered = study.training.K / (study.training.eta * np.maximum(decay - leak, 1e-9))
    sample = np.where(N > 0, N, PASSES * FRESH_SAMPLE)
    kick = table["kick"].to_numpy() * np.sqrt(
        sample / np.minimum(np.where(N > 0, N, np.inf), remembered)
    )
    return StateAtMeasurement(table["cosine_looked"].to_numpy(), leak, kick, decay, gates)


def coordinates(rows: pd.DataFrame) -> np.ndarray:
    """Return the inputs of the regression on the regime alone, roughly standardised, (n, 4)."""
    return np.column_stack(
        [
            rows["eps_min"] * 4,
            np.log(rows["lambda"]),
            rows["share"] * 4,
            np.log(rows["N"].clip(1)) / 2,
        ]
    )


def regression(rows: pd.DataFrame) -> LogisticRegression | None:
    """Fit a logistic regression of having learned by T on the regime alone; None where all replicas
    have the same outcome.
    """
    learned = rows["learned_at"].notna()
    return LogisticRegression().fit(coordinates(rows), learned) if learned.nunique() == 2 else None


def fate_times(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return what the linear model and a regression predict for every replica.

    Inputs: `STUDY_fate` of the studies with the roles `fit` and `test`. Config: `courses`. The
    constants are fitted on the replicas of `fit` that did not learn at once.
    """
    studies = job.config_section("courses", dict[str, LearningStudy])
    replicas, outputs = {}, []
    for name, study in studies.items():
        table = tables[f"{name}_fate"]
        replicas[name] = table.assign(
            study=name,
            at_once=(table["learned_at"] <= study.looked).astype(float),
            late=table["learned_at"].notna().astype(float),
            reached=log_margin_after(
                state_from_table(table, study),
                study.training.eta,
                study.training.T - study.looked,
            ),
        )
    fitted = pd.concat([replicas[name] for name, study in studies.items() if study.role == "fit"])
    fitted = fitted[fitted["at_once"] == 0]
    constants = fit_logistic(fitted["reached"], fitted["late"])
    baseline = regression(fitted)
    for name, table in replicas.items():
        study = studies[name]
        state = state_from_table(table, study)
        margin = table["reached"] - constants.centre
        outputs.append(
            table.assign(
                reach=log_margin_limit(state),
                predicted=median_learning_step(state, study.training.eta, study.looked, constants),
                probability=1 / (1 + np.exp(-constants.steepness * margin)),
                gate_alone=baseline.predict_proba(coordinates(table))[:, 1]
                if baseline
                else fitted["late"].mean(),
            )
        )
    table = pd.concat(outputs, ignore_index=True)
    return validate_sorted(FATE_TIMES, table[list(FATE_TIMES.columns)])


def fate_points(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return learning outcomes, growth terms and gate openings of every point.

    Inputs: `STUDY_fate` of the studies with the role `point`. Config: `courses`.
    """
    studies, rows = job.config_section("courses", dict[str, LearningStudy]), []
    medians = [*GROWTH, "border", "cosine_looked", "cosine", "count"]
    openings = ["opened_trained", "opened_fresh", "opened_without"]
    for name, study in studies.items():
        table = tables[f"{name}_fate"]
        table = table.assign(border=np.exp(log_margin_limit(state_from_table(table, study))))
        for cell, group in table.groupby(list(AXES)):
            late = group["learned_at"] > study.looked
            rows.append(
                {
                    "study": name,
                    **dict(zip(AXES, cell, strict=True)),
                    "n": len(group),
                    "T": study.training.T,
                    "at_once": int((group["learned_at"] <= study.looked).sum()),
                    "late": int(late.sum()),
                    "pure": int(group["pure_at"].notna().sum()),
                    **group[medians].median(),
                    "step_quarter": learning_quantile(group["learned_at"], 0.25),
                    "step_half": learning_quantile(group["learned_at"], 0.5),
                    **group.loc[late, openings].mean(),
                }
            )
    return validate_sorted(FATE_POINTS, pd.DataFrame(rows))


def learning_quantile(learned_at: pd.Series, share: float) -> float:
    """Return the step by which a share of the replicas has learned; NaN where it never does."""
    step = np.sort(learned_at.fillna(np.inf))[math.ceil(share * len(learned_at)) - 1]
    return step if np.isfinite(step) else np.nan


def clopper_pearson(ones: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a fraction, `ones` of n (Clopper & Pearson 1934)."""
    low = beta.ppf(0.025, ones, n - ones + 1) if ones else 0.0
    return float(low), float(beta.ppf(0.975, ones + 1, n - ones)) if ones < n else 1.0


def fate_shares(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the fraction of learned replicas at log-spaced steps, with its exact interval.

    Inputs: `STUDY_fate` of the studies with the role `point`. Config: none.
    """
    rows = []
    for name, table in tables.items():
        for cell, group in table.groupby(list(AXES)):
            for step in log_spaced(int(group["T"].iloc[0]))[1:]:
                ones, n = int((group["learned_at"] <= step).sum()), len(group)
                low, high = clopper_pearson(ones, n)
                rows.append(
                    {
                        "study": name.removesuffix("_fate"),
                        **dict(zip(AXES, cell, strict=True)),
                        "step": step,
                        "learned": ones,
                        "pure": int((group["pure_at"] <= step).sum()),
                        "n": n,
                        "learned_share": ones / n,
                        "ci_low": low,
                        "ci_high": high,
                    }
                )
    return validate_sorted(FATE_SHARES, pd.DataFrame(rows))
