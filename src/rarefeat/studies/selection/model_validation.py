"""The law for the step held against what replicas did: its two constants from some regimes, its errors on others."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from rarefeat.chain import critical_frequency
from rarefeat.core.logistic_fit import LogisticFit, fit_logistic
from rarefeat.run.job import Job
from rarefeat.storage.schema import validate_sorted
from rarefeat.studies.selection.config import InterventionSweep, point_of
from rarefeat.studies.selection.critical_frequency import (
    estimate_critical_frequency,
    learned_matrix,
)
from rarefeat.studies.selection.regimes import point
from rarefeat.studies.selection.tables import SELECTION_FATE, SELECTION_LAW


def replica_margins(
    name: str, sweep: InterventionSweep, table: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, critical_frequency.TrainingPoint]]:
    """What every dense replica of a study did, beside the law's margin from its initial weights; and the study's points."""
    seeds = list(range(sweep.first_seed, sweep.first_seed + sweep.seeds))
    dense = table[table["arm"] == "dense"].pivot(
        index=["point", "eps_min", "seed"], columns="quantity", values="value"
    )
    points, starts, rows = {}, {}, []
    for cell in sweep.cells():
        at, key = point(sweep.data, sweep.training, sweep.sigma, sweep.drawn, cell), point_of(cell)
        if key not in points:
            points[key], starts[key] = (
                at,
                critical_frequency.draw_initial_projections(sweep.draws, at, seeds),
            )
        found = dense.loc[(key, at.eps_min)].reindex(seeds)
        rows.append(
            pd.DataFrame(
                {"study": name, "point": key, "eps_min": at.eps_min, "seed": seeds, "learned": found["learned"].to_numpy(),
                 "diverged": found["diverged"].to_numpy(), "margin": critical_frequency.log_margin(starts[key], at).numpy(),
                 "ratio_at_T1": found["cosine_at_T1"].to_numpy() / at.threshold if at.threshold else np.nan}
            )
        )  # fmt: skip
    return pd.concat(rows, ignore_index=True), points


def auc(values: np.ndarray, learned: np.ndarray) -> float:
    """Probability that a replica that has learned has the larger value, ties as a half; NaN without one of either."""
    yes, no = values[learned > 0.5], values[learned <= 0.5]
    if not len(yes) or not len(no):
        return np.nan
    difference = yes[:, None] - no
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def fit_constants(fate: pd.DataFrame) -> LogisticFit:
    """The constants from replicas that did not diverge, and for which a bias gives a margin."""
    used = fate[np.isfinite(fate["margin"]) & (fate["diverged"] == 0)]
    return fit_logistic(used["margin"].to_numpy(), used["learned"].to_numpy())


def regime_rows(
    fate: pd.DataFrame,
    points: dict[str, critical_frequency.TrainingPoint],
    sweep: InterventionSweep,
    constants: LogisticFit,
) -> pd.DataFrame:
    """A row for each regime: its parameters, the step measured and predicted, and how well the fate of replicas is told."""
    rows, seeds = [], list(range(sweep.first_seed, sweep.first_seed + sweep.seeds))
    for key, part in fate.groupby("point", sort=False):
        at, training = points[key], points[key].training
        wide = learned_matrix(part.assign(quantity="learned", value=part["learned"]))
        measured = estimate_critical_frequency(wide.index.to_numpy(), wide.to_numpy())
        low, high = measured.interval()
        rows.append(
            {
                "study": part["study"].iloc[0], "point": key, "lambda": training.lambda_, "decay": training.lambda_ / at.growth_rate,
                "share": training.bias.share, "C": at.data.C, "L": at.data.L, "tau": training.tau, "d": at.data.d,
                "d1": at.data.d1, "m": training.m, "sigma_0": training.sigma_0, "eta": training.eta,
                "place": measured.place, "step": measured.value, "ci_low": low, "ci_high": high,
                "predicted": critical_frequency.critical_frequency(at, constants, critical_frequency.draw_initial_projections(sweep.draws, at, seeds)),
                "auc": auc(part["margin"].to_numpy(), part["learned"].to_numpy()),
                "auc_of_ratio": auc(part["ratio_at_T1"].fillna(0.0).to_numpy(), part["learned"].to_numpy()),
                "learned": part["learned"].mean(), "probability": part["probability"].mean(),
                "diverged": int(part["diverged"].sum()), "n": len(seeds),
                "centre": constants.centre, "steepness": constants.steepness,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def validate_model(
    tables: Mapping[str, pd.DataFrame], job: Job
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every replica with its probability by the law, and every regime with the law's errors."""
    sweeps = job.config_section("sweeps", dict[str, InterventionSweep])
    found = {
        name: replica_margins(name, sweep, tables[f"{name}_selection"])
        for name, sweep in sweeps.items()
    }
    constants = fit_constants(
        pd.concat([found[name][0] for name, sweep in sweeps.items() if sweep.role == "law_fit"])
    )
    fates, rows = [], []
    for name, (fate, points) in found.items():
        margins = torch.tensor(fate["margin"].to_numpy())
        fates.append(
            fate.assign(
                probability=critical_frequency.learning_probability(margins, constants).numpy()
            )
        )
        rows.append(regime_rows(fates[-1], points, sweeps[name], constants))
    return pd.concat(fates, ignore_index=True), pd.concat(rows, ignore_index=True)


def selection_fate(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Every replica of the sweeps of the law."""
    return validate_sorted(SELECTION_FATE, validate_model(tables, job)[0])


def selection_law(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Every regime of the sweeps of the law."""
    return validate_sorted(SELECTION_LAW, validate_model(tables, job)[1])
