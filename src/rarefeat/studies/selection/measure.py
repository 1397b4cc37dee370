"""Measurements of every arm of a sweep at T, of the scores of the dense arm on the way, and of the
critical-frequency model: its constants, and errors in other regimes.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.model.divergence import diverged
from rarefeat.model.linear_probe import linear_probe
from rarefeat.model.logistic_fit import LogisticFit, fit_logistic
from rarefeat.model.neurons import absolute_cosines, alignment_metrics, minority_overlap
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import aggregated_sign, latent_pairs, regression_target
from rarefeat.model.theory import activation_probability
from rarefeat.model.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.stages import critical_frequency
from rarefeat.stages.critical_frequency import InitialProjections, TrainingPoint
from rarefeat.stages.probe import embed_pairs
from rarefeat.studies.selection.config import (
    SCORES,
    Intervention,
    InterventionSweep,
    LatinHypercube,
)
from rarefeat.studies.selection.critical_frequency import estimate_critical_frequency
from rarefeat.studies.selection.scores import compute_score, evaluate_score
from rarefeat.studies.selection.training import (
    ArmReplicas,
    ScoredState,
    point_of,
    train,
    training_point,
)
from rarefeat.training.step import replicas_per_batch
from rarefeat.workflow.config.model import Data, Training

SCORE_TYPES = {
    "seed": "int64", "step": "int64", "score": "str", "source": "str", "wanted": "int64",
    "auc": "float64", "precision": "float64",
}  # fmt: skip
"""Columns of the evaluations of scores, of which a sweep without scored steps has no rows."""


def quantities(
    point: TrainingPoint, replicas: ArmReplicas, dictionary: Float[Tensor, "S p d"], patience: int
) -> dict[str, Float[Tensor, " S"]]:
    """Compute the quantities of one arm at T; `__init__.py` says what each is."""
    minority, state, weights = len(point.data.minority), replicas.state, replicas.state.weights
    metrics = alignment_metrics(weights, dictionary, minority)
    names = ("max_alignment", "majority_alignment", "pure_minority_neurons", "feature_share")
    rare = absolute_cosines(weights, dictionary)[..., -minority:].amax((1, 2))
    has_diverged = state.diverged | diverged(replicas.loss, point.training.K, weights)
    return {name: metrics[name] for name in names} | {
        "learned": (rare >= HALF_LEARNED).double(),
        "largest_norm": weights.norm(dim=-1).amax(-1),
        "loss": replicas.loss,
        "diverged": has_diverged.double(),
        "silent_share": (replicas.idle >= patience).double().mean(-1),
        "revivals": replicas.revivals,
        "pruned_neurons": replicas.chosen.double().sum(-1),
        "pruned_overlap": minority_overlap(replicas.chosen, weights, dictionary, minority),
        "T1": torch.where(state.T1 >= 0, state.T1.double(), torch.nan),
        "cosine_at_T1": replicas.cosine_at_T1,
    }


def balanced_errors(
    draws: str, point: TrainingPoint, replicas: dict[str, ArmReplicas], seeds: list[int]
) -> dict[str, list[float]]:
    """Compute the test error of a linear head on data with equally frequent features.

    Streams: probe, test, probe noise, test noise.
    """
    data = point.data
    chance = activation_probability(torch.ones(data.d, dtype=torch.float64), data.C)
    errors: dict[str, list[float]] = {label: [] for label in replicas}
    for s, seed in enumerate(seeds):
        simulator = make_simulator("reduced", draws, data.d, data.d1, point.training.m, [seed])
        networks = [(arm.state.weights[[s]], arm.state.bias[[s]]) for arm in replicas.values()]
        target, samples = regression_target(draws, seed, data.d), []
        for n, purpose in ((data.probe_pairs, "probe"), (data.test_pairs, "test")):
            z = latent_pairs(n, data.L, chance, generator(draws, seed, purpose))[:, :1]
            noise = [generator(draws, seed, f"{purpose} noise")]
            views = embed_pairs(z, z, simulator, networks, point.sigma, point.scale, noise)
            labels = aggregated_sign(z[:, 0]).float() @ target
            samples.append([(view["balanced"][:, 0], labels) for view in views])
        for values, fit, test in zip(errors.values(), *samples, strict=True):
            values.append(linear_probe(*fit, *test)[0])
    return errors


def evaluate_scores(
    states: list[ScoredState],
    draw: Float[Tensor, "S m"],
    dictionary: Float[Tensor, "S p d"],
    seeds: list[int],
) -> list[tuple]:
    """Return how every score finds the neurons pure in the rare feature, rows of SCORE_TYPES."""
    rows = []
    for state in states:
        is_target = absolute_cosines(state.weights, dictionary)[..., -1] > PURE_COSINE
        for name in SCORES:
            for source in ("batch", "running"):
                values = compute_score(name, getattr(state, source), draw)
                for s, seed in enumerate(seeds):
                    found = evaluate_score(values[s], is_target[s])
                    rows.append((seed, state.step, name, source, int(is_target[s].sum()), *found))
    return rows


def measure_selection(
    cell: dict, seeds: list[int], label: str, draws: str, data: Data, training: Training,
    sigma: float, hypercube: LatinHypercube | None, arms: list[Intervention], scored: list[int],
    memory: int, patience: int, probed: bool,
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """Train the arms of a cell; return their quantities, and the evaluations of the scores."""
    point = training_point(data, training, sigma, hypercube, cell)
    data, training = point.data, point.training
    rows, score_rows = [], []
    size = replicas_per_batch(training.K, data.L, min(data.d1, data.d + training.m))
    for some in (seeds[first : first + size] for first in range(0, len(seeds), size)):
        replicas, states, draw = train(draws, point, arms, scored, memory, patience, some, label)
        simulator = make_simulator("reduced", draws, data.d, data.d1, training.m, some)
        errors = balanced_errors(draws, point, replicas, some) if probed else {}
        for arm, of_arm in replicas.items():
            measured = quantities(point, of_arm, simulator.dictionary, patience)
            values = {name: value.tolist() for name, value in measured.items()}
            values |= {"balanced_mse": errors[arm]} if probed else {}
            rows += [
                {"seed": seed, "arm": arm, "quantity": name, "value": value}
                for name, of_seeds in values.items()
                for seed, value in zip(some, of_seeds, strict=True)
            ]
        score_rows += evaluate_scores(states, draw, simulator.dictionary, some)
    scores = pd.DataFrame(score_rows, columns=list(SCORE_TYPES)).astype(SCORE_TYPES)
    keys = {"point": point_of(cell), "eps_min": float(cell["eps_min"])}
    return pd.DataFrame(rows).assign(**keys), scores.assign(**keys)


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
    """Compute the probability that who has learned has the larger value; NaN if all or none."""
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
