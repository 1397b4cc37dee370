"""Validation of the critical-frequency model: its constants, and errors in other regimes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from rarefeat.model.logistic_fit import LogisticFit, fit_logistic
from rarefeat.stages import critical_frequency
from rarefeat.studies.selection.config import InterventionSweep, point_of
from rarefeat.studies.selection.critical_frequency import (
    estimate_critical_frequency,
    learned_matrix,
)
from rarefeat.studies.selection.regimes import point
from rarefeat.studies.selection.tables import SELECTION_FATE, SELECTION_LAW
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job


def replica_margins(
    name: str, sweep: InterventionSweep, table: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, critical_frequency.TrainingPoint]]:
    """Return the outcome of every dense replica with its log margin, and the training points."""
    seeds = list(range(sweep.first_seed, sweep.first_seed + sweep.seeds))
    dense = table[table["arm"] == "dense"].pivot(
        index=["point", "eps_min", "seed"], columns="quantity", values="value"
    )
    points, starts, rows = {}, {}, []
    for cell in sweep.cells():
        training_point = point(sweep.data, sweep.training, sweep.sigma, sweep.hypercube, cell)
        key = point_of(cell)
        if key not in points:
            points[key] = training_point
            starts[key] = critical_frequency.draw_initial_projections(
                sweep.draws, training_point, seeds
            )
        replicas = dense.loc[(key, training_point.eps_min)].reindex(seeds)
        threshold = training_point.threshold
        rows.append(
            pd.DataFrame(
                {
                    "study": name,
                    "point": key,
                    "eps_min": training_point.eps_min,
                    "seed": seeds,
                    "learned": replicas["learned"].to_numpy(),
                    "diverged": replicas["diverged"].to_numpy(),
                    "margin": critical_frequency.log_margin(starts[key], training_point).numpy(),
                    "ratio_at_T1": replicas["cosine_at_T1"].to_numpy() / threshold
                    if threshold
                    else np.nan,
                }
            )
        )
    return pd.concat(rows, ignore_index=True), points


def auc(values: np.ndarray, learned: np.ndarray) -> float:
    """Compute the probability that a replica that has learned has the larger value.

    Ties count half; NaN if all have learned, or none.
    """
    yes, no = values[learned > 0.5], values[learned <= 0.5]
    if not len(yes) or not len(no):
        return np.nan
    difference = yes[:, None] - no
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def fit_constants(outcomes: pd.DataFrame) -> LogisticFit:
    """Fit the two constants on replicas that did not diverge and that have a finite margin."""
    used = outcomes[np.isfinite(outcomes["margin"]) & (outcomes["diverged"] == 0)]
    return fit_logistic(used["margin"].to_numpy(), used["learned"].to_numpy())


def regime_rows(
    outcomes: pd.DataFrame,
    points: dict[str, critical_frequency.TrainingPoint],
    sweep: InterventionSweep,
    constants: LogisticFit,
) -> pd.DataFrame:
    """Return measured and predicted critical frequency of each regime, with its parameters."""
    rows, seeds = [], list(range(sweep.first_seed, sweep.first_seed + sweep.seeds))
    for key, group in outcomes.groupby("point", sort=False):
        data, training = points[key].data, points[key].training
        matrix = learned_matrix(group.assign(quantity="learned", value=group["learned"]))
        estimate = estimate_critical_frequency(matrix.index.to_numpy(), matrix.to_numpy())
        low, high = estimate.interval()
        start = critical_frequency.draw_initial_projections(sweep.draws, points[key], seeds)
        learned, ratio = group["learned"].to_numpy(), group["ratio_at_T1"].fillna(0.0).to_numpy()
        rows.append(
            {
                "study": group["study"].iloc[0],
                "point": key,
                "lambda": training.lambda_,
                "decay": training.lambda_ / points[key].growth_rate,
                "share": training.bias.share,
                "C": data.C,
                "L": data.L,
                "tau": training.tau,
                "d": data.d,
                "d1": data.d1,
                "m": training.m,
                "sigma_0": training.sigma_0,
                "eta": training.eta,
                "place": estimate.place,
                "step": estimate.value,
                "ci_low": low,
                "ci_high": high,
                "predicted": critical_frequency.critical_frequency(points[key], constants, start),
                "auc": auc(group["margin"].to_numpy(), learned),
                "auc_of_ratio": auc(ratio, learned),
                "learned": group["learned"].mean(),
                "probability": group["probability"].mean(),
                "diverged": int(group["diverged"].sum()),
                "n": len(seeds),
                "centre": constants.centre,
                "steepness": constants.steepness,
            }
        )
    return pd.DataFrame(rows)


def validate_model(
    tables: Mapping[str, pd.DataFrame], job: Job
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fit the model on the sweeps of role law_fit, and predict all sweeps of the job.

    Inputs: `STUDY_selection` of the sweeps with the roles `law_fit` and `law_test`. Config:
    `sweeps`.
    """
    sweeps = job.config_section("sweeps", dict[str, InterventionSweep])
    margins = {
        name: replica_margins(name, sweep, tables[f"{name}_selection"])
        for name, sweep in sweeps.items()
    }
    constants = fit_constants(
        pd.concat([margins[name][0] for name, sweep in sweeps.items() if sweep.role == "law_fit"])
    )
    outcomes, regimes = [], []
    for name, (table, points) in margins.items():
        probability = critical_frequency.learning_probability(
            torch.tensor(table["margin"].to_numpy()), constants
        )
        outcomes.append(table.assign(probability=probability.numpy()))
        regimes.append(regime_rows(outcomes[-1], points, sweeps[name], constants))
    return pd.concat(outcomes, ignore_index=True), pd.concat(regimes, ignore_index=True)


def selection_fate(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return every replica of the sweeps of the model, see `validate_model`."""
    return validate_sorted(SELECTION_FATE, validate_model(tables, job)[0])


def selection_law(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return every regime of the sweeps of the model, see `validate_model`."""
    return validate_sorted(SELECTION_LAW, validate_model(tables, job)[1])
