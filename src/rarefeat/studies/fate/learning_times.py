"""Linear model of growth of a rare feature behind a closed gate; tables of outcomes.

While the gate is closed for samples of the feature itself, the cosine x of a neuron to the feature
obeys dx/dt = eta ((leak - lambda) x + kick). Samples in which other features open the gate pull at
x in proportion to x (the leak); the chance correlations of a finite sample with the other features
add a constant (the kick); weight decay shrinks x. If the leak exceeds the decay, x grows without
bound. Else it tends to kick / (lambda - leak), and the feature is learned if that exceeds the gate.
The memory of x is 1 / (eta (lambda - leak)) steps of K pairs each. A sample that comes back within
this memory acts with its own kick; a larger one, or fresh pairs, with the kick of as many pairs as
the memory holds, which falls with their inverse root. Axes: n replicas.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression

from rarefeat.claims.estimate import Estimate
from rarefeat.claims.verdict import BINARY, confidence_bounds
from rarefeat.model.logistic_fit import LogisticFit, fit_logistic
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.studies.fate import AXES, FATE_TIMES, GROWTH, OPENED, LearningStudy
from rarefeat.studies.fate.draws import FRESH_SAMPLE
from rarefeat.studies.fate.growth import PASSES, gate

STEPS = np.unique(np.geomspace(1, 1e6, 400))
"""Steps after `looked` at which the model is evaluated to find when the gate opens."""
Tables = Mapping[str, pd.DataFrame]


class StateAtMeasurement(NamedTuple):
    """Inputs of the linear model: the state of n replicas at the step `looked`."""

    cosine: Float[np.ndarray, " n"]
    leak: Float[np.ndarray, " n"]
    kick: Float[np.ndarray, " n"]
    """Kick of the pairs within the memory."""
    decay: Float[np.ndarray, " n"]
    """Weight decay lambda."""
    gate: Float[np.ndarray, " n"]
    """Cosine above which a sample of the feature alone opens the gate of a neuron."""


def log_margin_after(
    state: StateAtMeasurement, eta: float, steps: np.ndarray | float
) -> Float[np.ndarray, "n ..."]:
    """Compute the log of cosine over gate some steps after `looked`, by the linear model."""
    steps = np.asarray(steps, dtype=float)
    column = (slice(None),) + (None,) * steps.ndim
    x, rate, kick = state.cosine[column], (state.leak - state.decay)[column], state.kick[column]
    rate = np.where(np.abs(rate) < 1e-9, 1e-9, rate)
    grown = np.minimum(rate * eta * steps, 30.0)
    x = np.maximum(x * np.exp(grown) + kick * np.expm1(grown) / rate, 1e-12)
    return np.log(x / state.gate[column])


def log_margin_limit(state: StateAtMeasurement) -> Float[np.ndarray, " n"]:
    """Compute the log margin after infinitely many steps; inf where leak exceeds decay."""
    rate = state.leak - state.decay
    limit = np.maximum(state.kick / -np.minimum(rate, -1e-9), 1e-12)
    return np.where(rate < 0, np.log(limit / state.gate), np.inf)


def median_learning_step(
    state: StateAtMeasurement, eta: float, looked: int, constants: LogisticFit
) -> Float[np.ndarray, " n"]:
    """Compute the step at which the model gives a probability of a half."""
    above = log_margin_after(state, eta, STEPS) >= constants.centre
    return np.where(above.any(1), looked + STEPS[above.argmax(1)], np.nan)


def state_from_table(table: pd.DataFrame, study: LearningStudy) -> StateAtMeasurement:
    """Return the state at `looked` of the replicas of a table of a study."""
    gates = np.array([gate(study.data.d, share) for share in table["share"]])
    N, leak, decay = (table[name].to_numpy(dtype=float) for name in ("N", "leak", "lambda"))
    remembered = study.training.K / (study.training.eta * np.maximum(decay - leak, 1e-9))
    sample = np.where(N > 0, N, PASSES * FRESH_SAMPLE)
    within = np.minimum(np.where(N > 0, N, np.inf), remembered)
    kick = table["kick"].to_numpy() * np.sqrt(sample / within)
    return StateAtMeasurement(table["cosine_looked"].to_numpy(), leak, kick, decay, gates)


def coordinates(rows: pd.DataFrame) -> Float[np.ndarray, "n 4"]:
    """Return the inputs of the regression on the regime alone, roughly standardised."""
    decay, pairs = np.log(rows["lambda"]), np.log(rows["N"].clip(1)) / 2
    return np.column_stack([rows["eps_min"] * 4, decay, rows["share"] * 4, pairs])


def fate_times(tables: Tables, courses: dict[str, LearningStudy]) -> pd.DataFrame:
    """Return what the linear model and a regression on the regime predict for every replica.

    Both are fitted on the replicas of the role `fit` that did not learn at once. Where all of
    these have learned by T, or none, the regression predicts that fraction.
    """
    states = {name: state_from_table(tables[f"{name}_fate"], courses[name]) for name in courses}
    rows = {}
    for name, study in courses.items():
        table, steps = tables[f"{name}_fate"], study.training.T - study.looked
        rows[name] = table.assign(
            study=name,
            at_once=(table["learned_at"] <= study.looked).astype(float),
            reached=log_margin_after(states[name], study.training.eta, steps),
            reach=log_margin_limit(states[name]),
        )
    fitted = pd.concat([rows[name] for name, study in courses.items() if study.role == "fit"])
    fitted = fitted[fitted["at_once"] == 0]
    late = fitted["learned_at"].notna()
    constants = fit_logistic(fitted["reached"], late)
    for name, study in courses.items():
        table, share = rows[name], late.mean()
        if late.nunique() == 2:
            regression = LogisticRegression().fit(coordinates(fitted), late)
            share = regression.predict_proba(coordinates(table))[:, 1]
        odds = np.exp(-constants.steepness * (table["reached"] - constants.centre))
        eta, looked = study.training.eta, study.looked
        rows[name] = table.assign(
            predicted=median_learning_step(states[name], eta, looked, constants),
            probability=1 / (1 + odds),
            gate_alone=share,
        )
    return sort(pd.concat(rows.values())[list(FATE_TIMES.columns)], "seed")


def fate_points(tables: Tables, courses: dict[str, LearningStudy]) -> pd.DataFrame:
    """Return learning outcomes, growth terms and gate openings of every point."""
    rows, medians = [], [*GROWTH, "border", "cosine_looked", "cosine", "count"]
    for name, study in courses.items():
        table = tables[f"{name}_fate"]
        table = table.assign(border=np.exp(log_margin_limit(state_from_table(table, study))))
        for point, group in points_of(table):
            times = group["learned_at"]
            late = times > study.looked
            rows.append(
                {
                    "study": name,
                    **point,
                    "n": len(group),
                    "T": study.training.T,
                    "at_once": int((times <= study.looked).sum()),
                    "late": int(late.sum()),
                    "pure": int(group["pure_at"].notna().sum()),
                    **group[medians].median(),
                    "step_quarter": learning_quantile(times, 0.25),
                    "step_half": learning_quantile(times, 0.5),
                    **group.loc[late, list(OPENED)].mean(),
                }
            )
    return sort(pd.DataFrame(rows))


def fate_shares(tables: Tables) -> pd.DataFrame:
    """Return the fraction of learned replicas at log-spaced steps, with its exact interval."""
    rows = []
    for name, table in tables.items():
        for point, group in points_of(table):
            for step in log_spaced(int(group["T"].iloc[0]))[1:]:
                counts = learned_counts(group["learned_at"] <= step)
                rows.append(
                    {
                        "study": name.removesuffix("_fate"),
                        **point,
                        "step": step,
                        **counts,
                        "pure": int((group["pure_at"] <= step).sum()),
                        "learned_share": counts["learned"] / counts["n"],
                    }
                )
    return sort(pd.DataFrame(rows), "step")


def points_of(table: pd.DataFrame) -> Iterator[tuple[dict, pd.DataFrame]]:
    """Yield the axes and the replicas of every point."""
    for cell, group in table.groupby(list(AXES)):
        yield dict(zip(AXES, cell, strict=True)), group


def sort(table: pd.DataFrame, *last: str) -> pd.DataFrame:
    """Return the rows sorted by study and point."""
    return table.sort_values(["study", *AXES, *last], ignore_index=True)


def learning_quantile(learned_at: pd.Series, share: float) -> float:
    """Return the step by which a share of the replicas has learned; NaN where it never does."""
    return learned_at.sort_values().iloc[math.ceil(share * len(learned_at)) - 1]


def learned_counts(learned: pd.Series) -> dict[str, float]:
    """Count replicas that have learned, with the exact interval of their share."""
    ones, n = int(learned.sum()), len(learned)
    low, high = share_interval(ones, n)
    return {"learned": ones, "n": n, "ci_low": low, "ci_high": high}


def share_interval(ones: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a fraction (Clopper & Pearson 1934)."""
    return confidence_bounds(Estimate(ones / n, 0.0, dof=n, n=n), 0.025, BINARY)
