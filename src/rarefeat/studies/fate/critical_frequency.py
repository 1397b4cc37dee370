"""The step as a function of T: the law's centre after its own time, fitted on some regimes and held against others."""

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
"""Of the constants of late learning, the rate as its logarithm: means and standard deviations, weak where there are data."""
LEAST = 1e-6
"""No probability is smaller."""


def point_of(course: LearningStudy, values: Mapping[str, Any]) -> critical_frequency.TrainingPoint:
    """Where replicas of a course are trained that have these values."""
    bias = course.training.bias.model_copy(update={"share": values["share"]})
    training = course.training.model_copy(update={"lambda_": values["lambda"], "bias": bias})
    return critical_frequency.TrainingPoint(
        course.data.model_copy(update={"N": int(values["N"])}),
        training,
        values["sigma"],
        values["eps_min"],
    )


def evaluation_steps(T: int, own: int) -> list[int]:
    """The steps that are asked about: the law's own, and its doublings up to T."""
    return [
        step
        for step in itertools.takewhile(
            lambda step: step <= T, (own * 2**k for k in itertools.count())
        )
    ]


def replicas(course: LearningStudy, table: pd.DataFrame) -> pd.DataFrame:
    """A course's replicas with what the law reads of them: the margin of their initial weights, decay and training pairs."""
    parts = []
    for cell, part in table.groupby(list(AXES)):
        at = point_of(course, dict(zip(AXES, cell, strict=True)))
        margins = critical_frequency.log_margin(
            critical_frequency.draw_initial_projections(course.draws, at, part["seed"].tolist()), at
        ).numpy()
        parts.append(part.assign(margin=margins, decay=at.training.lambda_ / at.growth_rate))
    return pd.concat(parts)


def model_centres(
    rows: pd.DataFrame,
    steps: list[int],
    eta: float,
    constants: LogisticFit,
    late: critical_frequency.LateLearningFit,
) -> np.ndarray:
    """law.by of every replica at every step, (n, steps)."""
    left = (
        critical_frequency.REFERENCE_TIME
        / np.maximum(eta * np.array(steps), critical_frequency.REFERENCE_TIME)
    ) ** late.rate
    log_drop = late.drop + late.by_decay * np.log(rows["decay"]) + late.by_pairs * np.log(rows["N"])
    return constants.centre - np.exp(
        np.minimum(log_drop.to_numpy(), critical_frequency.MAX_EXPONENT)
    )[:, None] * (1 - left)


def fit_late_learning(
    course: LearningStudy, rows: pd.DataFrame
) -> tuple[LogisticFit, critical_frequency.LateLearningFit]:
    """Both kinds of constants by maximum likelihood, from the step by which each replica has learned."""
    steps = evaluation_steps(course.training.T, course.looked)
    learned = np.column_stack([rows["learned_at"] <= step for step in steps])
    # The interval in which each has learned: before the first step, between two, or after the last.
    when = (~learned).sum(1)
    first = fit_logistic(rows["margin"], learned[:, 0])

    def told(parameters: np.ndarray) -> tuple[LogisticFit, critical_frequency.LateLearningFit]:
        centre, log_steepness, drop, by_decay, by_pairs, log_rate = np.clip(parameters, -20, 20)
        return LogisticFit(centre, math.exp(log_steepness)), critical_frequency.LateLearningFit(
            drop, by_decay, by_pairs, math.exp(log_rate)
        )

    def loss(parameters: np.ndarray) -> float:
        constants, late = told(parameters)
        off = rows["margin"].to_numpy()[:, None] - model_centres(
            rows, steps, course.training.eta, constants, late
        )
        ends = np.column_stack(
            [np.zeros(len(rows)), expit(constants.steepness * off), np.ones(len(rows))]
        )
        chance = np.take_along_axis(np.diff(ends, axis=1), when[:, None], 1)
        return (
            -np.log(np.maximum(chance, LEAST)).sum()
            + (((parameters[2:] - PRIOR[0]) / PRIOR[1]) ** 2).sum() / 2
        )

    start = np.array([first.centre, math.log(first.steepness), *PRIOR[0]])
    return told(
        minimize(
            loss,
            start,
            method="Nelder-Mead",
            options={"maxiter": 4000, "xatol": 1e-4, "fatol": 1e-6},
        ).x
    )


def studies_with_role(
    courses: Mapping[str, LearningStudy], tables: Mapping[str, pd.DataFrame], role: str
) -> tuple[LearningStudy, pd.DataFrame]:
    """The course of a role that is there once, and its replicas."""
    ((name, course),) = ((name, course) for name, course in courses.items() if course.role == role)
    return course, replicas(course, tables[f"{name}_fate"])


def fate_late(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """The constants; and replica by replica of both roles what they say of having learned by T, beside a regression."""
    courses = job.config_section("courses", dict[str, LearningStudy])
    course, rows = studies_with_role(courses, tables, "fit")
    constants, late = fit_late_learning(course, rows)
    plain, found = regression(rows), []
    for role in ("fit", "test"):
        _, part = studies_with_role(courses, tables, role)
        centre = model_centres(part, [course.training.T], course.training.eta, constants, late)[
            :, 0
        ]
        part = part.assign(
            role=role,
            learned=(part["learned_at"] <= course.training.T).astype(float),
            by_law=expit(constants.steepness * (part["margin"] - centre)),
            without_T=expit(constants.steepness * (part["margin"] - constants.centre)),
            by_regime=plain.predict_proba(coordinates(part))[:, 1] if plain else rows["learned_at"].notna().mean(),
            **constants._asdict(), **late._asdict(),
        )  # fmt: skip
        found.append(part)
    return validate_sorted(FATE_LATE, pd.concat(found, ignore_index=True)[list(FATE_LATE.columns)])


def fate_step(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """The step in eps_min that replicas have by T, and the one that the law says, wherever a grid crosses it."""
    courses = job.config_section("courses", dict[str, LearningStudy])
    constants, late = fit_late_learning(*studies_with_role(courses, tables, "fit"))
    grids = {
        name: course
        for name, course in courses.items()
        if course.role == "point" and f"{name}_fate" in tables
    }
    whole = pd.concat([tables[f"{name}_fate"] for name in grids])
    whole = whole[(whole["latents"] == "plain") & (whole["N"] > 0)].drop_duplicates([*AXES, "seed"])
    others, rows = [axis for axis in AXES if axis != "eps_min"], []
    course = next(iter(grids.values()))
    for cell, part in whole.groupby(others):
        at = point_of(course, {**dict(zip(others, cell, strict=True)), "eps_min": 1.0})
        for T in evaluation_steps(int(part["T"].min()), course.looked):
            shares = (part["learned_at"] <= T).groupby(part["eps_min"]).mean()
            if len(shares) < 3 or not shares.iloc[0] < 0.5 <= shares.iloc[-1]:
                continue
            # The share may fall by chance: the first crossing of its running maximum.
            measured = np.interp(0.5, shares.cummax(), shares.index)
            predicted = critical_frequency.critical_frequency(
                at, critical_frequency.fit_at_step(at, T, constants, late)
            )
            rows.append(
                {
                    **dict(zip(others, cell, strict=True)),
                    "T": T,
                    "measured": measured,
                    "predicted": predicted,
                }
            )
    # Grids that cross the step nowhere have no rows, and columns then no type of their own.
    types = {name: column.dtype.type for name, column in FATE_STEP.columns.items()}
    return validate_sorted(FATE_STEP, pd.DataFrame(rows, columns=list(types)).astype(types))
