"""Critical frequency as a function of T: the closed form with constants of late learning.

The centre of the closed form (chain/critical_frequency.py) falls after step 500, which is the
number of steps that its first two constants are for. All constants are fitted on the study with
the role `fit`; the study with the role `test` and the grids are held out.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit

from rarefeat.chain import critical_frequency
from rarefeat.core.logistic_fit import LogisticFit, fit_logistic
from rarefeat.run.job import Job
from rarefeat.storage.schema import validate_sorted
from rarefeat.studies.fate.config import AXES, LearningStudy
from rarefeat.studies.fate.learning_times import coordinates, regression
from rarefeat.studies.fate.tables import FATE_LATE, FATE_STEP

PRIOR = (np.array([0.0, -0.5, 0.0, 0.0]), np.array([3.0, 1.0, 0.5, 1.0]))
"""Means and standard deviations of the constants of late learning, the rate as its logarithm.

They are weak where there are data.
"""
MIN_PROBABILITY = 1e-6
"""Lower bound of a probability in the likelihood."""


def point_of(study: LearningStudy, values: Mapping[str, Any]) -> critical_frequency.TrainingPoint:
    """Return the training point of the replicas of a study that have some values on its axes."""
    bias = study.training.bias.model_copy(update={"share": values["share"]})
    training = study.training.model_copy(update={"lambda_": values["lambda"], "bias": bias})
    return critical_frequency.TrainingPoint(
        study.data.model_copy(update={"N": int(values["N"])}),
        training,
        values["sigma"],
        values["eps_min"],
    )


def evaluation_steps(T: int, first: int) -> list[int]:
    """Return the steps that the model is evaluated at: a first one and its doublings to T."""
    doublings = (first * 2**k for k in itertools.count())
    return list(itertools.takewhile(lambda step: step <= T, doublings))


def replicas(study: LearningStudy, table: pd.DataFrame) -> pd.DataFrame:
    """Return the replicas of a study with the inputs of the model.

    Parameters
    ----------
    study : LearningStudy
        The study.
    table : DataFrame
        Its table `STUDY_fate`.

    Returns
    -------
    DataFrame
        The rows of the table, by cell, with `margin`, the log margin of the initial weights, and
        `decay`, lambda over the growth rate of a frequent feature.
    """
    cells = []
    for cell, rows in table.groupby(list(AXES)):
        point = point_of(study, dict(zip(AXES, cell, strict=True)))
        start = critical_frequency.draw_initial_projections(
            study.draws, point, rows["seed"].tolist()
        )
        margins = critical_frequency.log_margin(start, point).numpy()
        cells.append(rows.assign(margin=margins, decay=point.training.lambda_ / point.growth_rate))
    return pd.concat(cells)


def model_centres(
    rows: pd.DataFrame,
    steps: list[int],
    eta: float,
    constants: LogisticFit,
    late: critical_frequency.LateLearningFit,
) -> np.ndarray:
    """Compute the centre of the model for every replica and step.

    Parameters
    ----------
    rows : DataFrame of n rows
        Replicas with the columns `decay` and `N`.
    steps : list of int
        Training steps.
    eta : float
        Learning rate.
    constants : LogisticFit
        Constants of the model at step 500.
    late : LateLearningFit
        Constants of late learning.

    Returns
    -------
    ndarray of shape (n, n_steps)
        `critical_frequency.fit_at_step(...).centre` of each replica at each step.
    """
    left = (
        critical_frequency.REFERENCE_TIME
        / np.maximum(eta * np.array(steps), critical_frequency.REFERENCE_TIME)
    ) ** late.rate
    log_drop = late.drop + late.by_decay * np.log(rows["decay"]) + late.by_pairs * np.log(rows["N"])
    return constants.centre - np.exp(
        np.minimum(log_drop.to_numpy(), critical_frequency.MAX_EXPONENT)
    )[:, None] * (1 - left)


def unpack_constants(
    parameters: np.ndarray,
) -> tuple[LogisticFit, critical_frequency.LateLearningFit]:
    """Return both kinds of constants from the parameters of the optimiser, of shape (6,)."""
    centre, log_steepness, drop, by_decay, by_pairs, log_rate = np.clip(parameters, -20, 20)
    return LogisticFit(centre, math.exp(log_steepness)), critical_frequency.LateLearningFit(
        drop, by_decay, by_pairs, math.exp(log_rate)
    )


def fit_late_learning(
    study: LearningStudy, rows: pd.DataFrame
) -> tuple[LogisticFit, critical_frequency.LateLearningFit]:
    """Fit both kinds of constants by maximum likelihood, with a weak prior on the late ones.

    The observation of a replica is the interval between two evaluation steps in which it learned.

    Parameters
    ----------
    study : LearningStudy
        The study.
    rows : DataFrame
        Its replicas, as returned by `replicas`.

    Returns
    -------
    LogisticFit
        Constants at step 500.
    LateLearningFit
        Constants of late learning.
    """
    steps = evaluation_steps(study.training.T, study.looked)
    learned = np.column_stack([rows["learned_at"] <= step for step in steps])
    # Index of the interval: before the first step, between two steps, or after the last one.
    interval = (~learned).sum(1)
    first = fit_logistic(rows["margin"], learned[:, 0])

    def loss(parameters: np.ndarray) -> float:
        constants, late = unpack_constants(parameters)
        distance = rows["margin"].to_numpy()[:, None] - model_centres(
            rows, steps, study.training.eta, constants, late
        )
        ends = np.column_stack(
            [np.zeros(len(rows)), expit(constants.steepness * distance), np.ones(len(rows))]
        )
        probability = np.take_along_axis(np.diff(ends, axis=1), interval[:, None], 1)
        return (
            -np.log(np.maximum(probability, MIN_PROBABILITY)).sum()
            + (((parameters[2:] - PRIOR[0]) / PRIOR[1]) ** 2).sum() / 2
        )

    start = np.array([first.centre, math.log(first.steepness), *PRIOR[0]])
    options = {"maxiter": 4000, "xatol": 1e-4, "fatol": 1e-6}
    return unpack_constants(minimize(loss, start, method="Nelder-Mead", options=options).x)


def studies_with_role(
    studies: Mapping[str, LearningStudy], tables: Mapping[str, pd.DataFrame], role: str
) -> tuple[LearningStudy, pd.DataFrame]:
    """Return the only study with a role, and its replicas.

    Parameters
    ----------
    studies : mapping
        Studies by name.
    tables : mapping
        Tables `STUDY_fate`, by name.
    role : str
        "fit" or "test".

    Returns
    -------
    LearningStudy
        The study.
    DataFrame
        Its replicas, as returned by `replicas`.
    """
    ((name, study),) = ((name, study) for name, study in studies.items() if study.role == role)
    return study, replicas(study, tables[f"{name}_fate"])


def fate_late(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the fitted constants and the predicted learning outcome of every replica.

    Inputs: `STUDY_fate` of the studies with the roles `fit` and `test`. Config: `courses`.
    A logistic regression on the regime alone is given for comparison.
    """
    studies = job.config_section("courses", dict[str, LearningStudy])
    study, fitted = studies_with_role(studies, tables, "fit")
    constants, late = fit_late_learning(study, fitted)
    baseline, outputs = regression(fitted), []
    for role in ("fit", "test"):
        _, rows = studies_with_role(studies, tables, role)
        centre = model_centres(rows, [study.training.T], study.training.eta, constants, late)[:, 0]
        by_regime = (
            baseline.predict_proba(coordinates(rows))[:, 1]
            if baseline
            else fitted["learned_at"].notna().mean()
        )
        outputs.append(
            rows.assign(
                role=role,
                learned=(rows["learned_at"] <= study.training.T).astype(float),
                by_law=expit(constants.steepness * (rows["margin"] - centre)),
                without_T=expit(constants.steepness * (rows["margin"] - constants.centre)),
                by_regime=by_regime,
                **constants._asdict(),
                **late._asdict(),
            )
        )
    table = pd.concat(outputs, ignore_index=True)
    return validate_sorted(FATE_LATE, table[list(FATE_LATE.columns)])


def fate_step(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return measured and predicted critical frequencies of the grids, by T.

    Inputs: `STUDY_fate` of all studies. Config: `courses`. A grid of fewer than three eps_min, or
    one whose fraction of learned replicas does not cross a half, has no row.
    """
    studies = job.config_section("courses", dict[str, LearningStudy])
    constants, late = fit_late_learning(*studies_with_role(studies, tables, "fit"))
    grids = {
        name: study
        for name, study in studies.items()
        if study.role == "point" and f"{name}_fate" in tables
    }
    table = pd.concat([tables[f"{name}_fate"] for name in grids])
    table = table[(table["latents"] == "plain") & (table["N"] > 0)].drop_duplicates([*AXES, "seed"])
    others, rows = [axis for axis in AXES if axis != "eps_min"], []
    study = next(iter(grids.values()))
    for cell, group in table.groupby(others):
        point = point_of(study, {**dict(zip(others, cell, strict=True)), "eps_min": 1.0})
        for T in evaluation_steps(int(group["T"].min()), study.looked):
            fractions = (group["learned_at"] <= T).groupby(group["eps_min"]).mean()
            if len(fractions) < 3 or not fractions.iloc[0] < 0.5 <= fractions.iloc[-1]:
                continue
            # The fraction may fall by chance: the first crossing of its running maximum counts.
            observed = np.interp(0.5, fractions.cummax(), fractions.index)
            predicted = critical_frequency.critical_frequency(
                point, critical_frequency.fit_at_step(point, T, constants, late)
            )
            rows.append(
                {
                    **dict(zip(others, cell, strict=True)),
                    "T": T,
                    "measured": observed,
                    "predicted": predicted,
                }
            )
    # Without rows the columns would have no type.
    types = {name: column.dtype.type for name, column in FATE_STEP.columns.items()}
    return validate_sorted(FATE_STEP, pd.DataFrame(rows, columns=list(types)).astype(types))
