"""Validation of the critical-frequency model: its constants, and errors in other regimes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from rarefeat.model.logistic_fit import LogisticFit, fit_logistic
from rarefeat.stages import critical_frequency
from rarefeat.stages.critical_frequency import InitialProjections, TrainingPoint
from rarefeat.studies.selection.config import InterventionSweep
from rarefeat.studies.selection.critical_frequency import estimate_critical_frequency
from rarefeat.studies.selection.regimes import point_of, training_point

Regimes = dict[str, tuple[TrainingPoint, InitialProjections]]
"""By point: hyper-parameters, of which eps_min is not read, and the initial projections."""


def replica_margins(
    name: str, sweep: InterventionSweep, table: pd.DataFrame
) -> tuple[pd.DataFrame, Regimes]:
    """Return the outcome of every dense replica with its log margin, and the regimes."""
    seeds = list(range(sweep.first_seed, sweep.first_seed + sweep.seeds))
    dense = table[table["arm"] == "dense"].pivot(
        index=["point", "eps_min", "seed"], columns="quantity", values="value"
    )
    regimes, rows = {}, []
    for cell in sweep.cells():
        at = training_point(sweep.data, sweep.training, sweep.sigma, sweep.hypercube, cell.values)
        key = point_of(cell.values)
        if key not in regimes:
            draw = critical_frequency.draw_initial_projections
            regimes[key] = at, draw(sweep.draws, at, seeds)
        replicas = dense.loc[(key, at.eps_min)].reindex(seeds)
        cosine = replicas["cosine_at_T1"].to_numpy()
        columns = {
            "study": name,
            "point": key,
            "eps_min": at.eps_min,
            "seed": seeds,
            "learned": replicas["learned"].to_numpy(),
            "diverged": replicas["diverged"].to_numpy(),
            "margin": critical_frequency.log_margin(regimes[key][1], at).numpy(),
            "ratio_at_T1": cosine / at.threshold if at.threshold else np.nan,
        }
        rows.append(pd.DataFrame(columns))
    return pd.concat(rows, ignore_index=True), regimes


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


def regime_rows(outcomes: pd.DataFrame, regimes: Regimes, constants: LogisticFit) -> pd.DataFrame:
    """Return measured and predicted critical frequency of each regime, with its parameters."""
    rows = []
    for (study, key), group in outcomes.groupby(["study", "point"], sort=False):
        at, start = regimes[key]
        data, training = at.data, at.training
        matrix = group.pivot(index="eps_min", columns="seed", values="learned").sort_index()
        learned, ratio = group["learned"].to_numpy(), group["ratio_at_T1"].fillna(0.0).to_numpy()
        rows.append(
            {
                "study": study,
                "point": key,
                "lambda": training.lambda_,
                "decay": training.lambda_ / at.growth_rate,
                "share": training.bias.share,
                **{name: getattr(data, name) for name in ("C", "L", "d", "d1")},
                **{name: getattr(training, name) for name in ("tau", "m", "sigma_0", "eta")},
                **estimate_critical_frequency(matrix).columns(),
                "predicted": critical_frequency.critical_frequency(at, constants, start),
                "auc": auc(group["margin"].to_numpy(), learned),
                "auc_of_ratio": auc(ratio, learned),
                "learned": group["learned"].mean(),
                "probability": group["probability"].mean(),
                "diverged": int(group["diverged"].sum()),
                "n": matrix.shape[1],
                "centre": constants.centre,
                "steepness": constants.steepness,
            }
        )
    return pd.DataFrame(rows)


def validate_model(
    tables: Mapping[str, pd.DataFrame], sweeps: dict[str, InterventionSweep]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fit the model on the sweeps of role law_fit; predict all replicas, and all regimes."""
    margins = {
        name: replica_margins(name, sweep, tables[f"{name}_selection"])
        for name, sweep in sweeps.items()
    }
    constants = fit_constants(
        pd.concat([margins[name][0] for name, sweep in sweeps.items() if sweep.role == "law_fit"])
    )
    outcomes, rows = [], []
    for table, regimes in margins.values():
        probability = critical_frequency.learning_probability(
            torch.tensor(table["margin"].to_numpy()), constants
        )
        outcomes.append(table.assign(probability=probability.numpy()))
        rows.append(regime_rows(outcomes[-1], regimes, constants))
    return pd.concat(outcomes, ignore_index=True), pd.concat(rows, ignore_index=True)


def selection_fate(
    tables: Mapping[str, pd.DataFrame], sweeps: dict[str, InterventionSweep]
) -> pd.DataFrame:
    """Return every replica of the sweeps of the model."""
    keys = ["study", "point", "eps_min", "seed"]
    return validate_model(tables, sweeps)[0].sort_values(keys, ignore_index=True)


def selection_law(
    tables: Mapping[str, pd.DataFrame], sweeps: dict[str, InterventionSweep]
) -> pd.DataFrame:
    """Return every regime of the sweeps of the model."""
    return validate_model(tables, sweeps)[1].sort_values(["study", "point"], ignore_index=True)
