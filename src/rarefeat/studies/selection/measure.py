"""Measurements of every arm of a sweep at T, and of the scores of the dense arm on the way."""

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.model.divergence import diverged
from rarefeat.model.linear_probe import linear_probe
from rarefeat.model.neurons import absolute_cosines, alignment_metrics, minority_overlap
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import aggregated_sign, latent_pairs, regression_target
from rarefeat.model.theory import activation_probability
from rarefeat.model.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.stages.critical_frequency import TrainingPoint
from rarefeat.stages.probe import embed_pairs
from rarefeat.studies.selection.config import SCORES, Intervention, LatinHypercube
from rarefeat.studies.selection.regimes import point_of, training_point
from rarefeat.studies.selection.scores import compute_score, evaluate_score
from rarefeat.studies.selection.training import ArmReplicas, ScoredState, train
from rarefeat.training.step import replicas_per_batch
from rarefeat.workflow.config.model import Data, Training

SCORE_TYPES = {
    "seed": "int64", "step": "int64", "score": "str", "source": "str", "wanted": "int64",
    "auc": "float64", "precision": "float64",
}  # fmt: skip
"""Columns of the evaluations of scores, of which a sweep without scored steps has no rows."""


def quantities(
    point: TrainingPoint,
    replicas: ArmReplicas,
    dictionary: Float[Tensor, "S p d"],
    patience: int,
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
        "cosine_at_T1": replicas.at_T1[:, 0],
        "second_cosine_at_T1": replicas.at_T1[:, 1],
        "strength_at_T1": replicas.at_T1[:, 2],
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
