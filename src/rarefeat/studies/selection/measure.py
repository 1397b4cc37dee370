"""Stage of the study of selection: quantities of every arm, and dense scores."""

import pandas as pd
import torch
from torch import Tensor

from rarefeat.model.divergence import diverged
from rarefeat.model.encoder import attend, embed, pre_activations
from rarefeat.model.linear_probe import linear_probe
from rarefeat.model.neurons import absolute_cosines, alignment_metrics, minority_overlap
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import aggregated_sign, latent_pairs, regression_target
from rarefeat.model.theory import activation_probability
from rarefeat.model.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.stages.critical_frequency import TrainingPoint
from rarefeat.studies.selection.config import SCORES, Intervention, LatinHypercube, point_of
from rarefeat.studies.selection.regimes import point
from rarefeat.studies.selection.scores import compute_score, evaluate_score
from rarefeat.studies.selection.training import ArmReplicas, ScoredState, train
from rarefeat.training.step import replicas_per_batch
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

CHUNK = 500
"""Samples that are embedded at once."""
NUMBER_TYPES = {"seed": "int64", "arm": "str", "quantity": "str", "value": "float64"}
SCORE_TYPES = {
    "seed": "int64",
    "step": "int64",
    "score": "str",
    "source": "str",
    "wanted": "int64",
    "auc": "float64",
    "precision": "float64",
}


def quantities(
    training_point: TrainingPoint, replicas: ArmReplicas, dictionary: Tensor, patience: int
) -> dict[str, Tensor]:
    """Compute the quantities of one arm at T.

    dictionary (S, p, d) -> (S,).
    """
    minority, state = len(training_point.data.minority), replicas.state
    weights, K = state.weights, training_point.training.K
    metrics = alignment_metrics(weights, dictionary, minority)
    names = ("max_alignment", "majority_alignment", "pure_minority_neurons", "feature_share")
    rare = absolute_cosines(weights, dictionary)[..., -minority:].amax((1, 2))
    return {name: metrics[name] for name in names} | {
        "learned": (rare >= HALF_LEARNED).double(),
        "largest_norm": weights.norm(dim=-1).amax(-1),
        "loss": replicas.loss,
        "diverged": (state.diverged | diverged(replicas.loss, K, weights)).double(),
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
    draws: str, training_point: TrainingPoint, replicas: dict[str, ArmReplicas], seeds: list[int]
) -> dict[str, list[float]]:
    """Compute the test error of a linear head on data with equally frequent features."""
    data = training_point.data
    probabilities = activation_probability(torch.ones(data.d, dtype=torch.float64), data.C)
    errors: dict[str, list[float]] = {label: [] for label in replicas}
    for index, seed in enumerate(seeds):
        simulator = make_simulator(
            "reduced", draws, data.d, data.d1, training_point.training.m, [seed]
        )
        networks = [
            (arm.state.weights[index : index + 1], arm.state.bias[index : index + 1])
            for arm in replicas.values()
        ]
        w_star, samples = regression_target(draws, seed, data.d), []
        for n, purpose in ((data.probe_pairs, "probe"), (data.test_pairs, "test")):
            rng = generator(draws, seed, purpose)
            z = latent_pairs(n, data.L, probabilities, rng)[:, 0]
            noise = generator(draws, seed, f"{purpose} noise")
            embeddings: list[list[Tensor]] = [[] for _ in networks]
            for chunk in z.split(CHUNK):
                tokens = simulator.sample_tokens(chunk[None].float(), training_point.sigma, [noise])
                attended = attend(tokens, training_point.scale)
                for chunks, (weights, bias) in zip(embeddings, networks, strict=True):
                    chunks.append(embed(pre_activations(attended, weights), bias)[0])
            labels = aggregated_sign(z).float() @ w_star
            samples.append(([torch.cat(chunks) for chunks in embeddings], labels))
        (fit_embeddings, fit_labels), (test_embeddings, test_labels) = samples
        for values, f_fit, f_test in zip(
            errors.values(), fit_embeddings, test_embeddings, strict=True
        ):
            values.append(linear_probe(f_fit, fit_labels, f_test, test_labels)[0])
    return errors


def evaluate_scores(
    states: list[ScoredState], draw: Tensor, dictionary: Tensor, seeds: list[int]
) -> list[dict]:
    """Evaluate how every score finds the neurons that are pure in the rare feature.

    draw (S, m), dictionary (S, p, d).
    """
    rows = []
    for state in states:
        is_target = absolute_cosines(state.weights, dictionary)[..., -1] > PURE_COSINE
        for name in SCORES:
            for source in ("batch", "running"):
                values = compute_score(name, getattr(state, source), draw)
                for s, seed in enumerate(seeds):
                    auc, precision = evaluate_score(values[s], is_target[s])
                    rows.append(
                        {
                            "seed": seed,
                            "step": state.step,
                            "score": name,
                            "source": source,
                            "wanted": int(is_target[s].sum()),
                            "auc": auc,
                            "precision": precision,
                        }
                    )
    return rows


def measure(job: Job) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train the arms of a cell; return their quantities and the evaluations of the scores.

    The second table is empty where no step is scored.
    """
    hypercube = (
        job.config_section("drawn", LatinHypercube | None) if job.config.get("drawn") else None
    )
    sigma = job.config_section("sigma", float) if "sigma" in job.config else 0.0
    data, training = job.config_section("data", Data), job.config_section("training", Training)
    training_point = point(data, training, sigma, hypercube, job.cell_object)
    data, training = training_point.data, training_point.training
    draws, arms = job.config_section("draws", str), job.config_section("arms", list[Intervention])
    memory, patience = (job.config_section(name, int) for name in ("memory", "patience"))
    scored = job.config.get("scored", [])
    number_rows, score_rows = [], []
    size = replicas_per_batch(training.K, data.L, min(data.d1, data.d + training.m))
    for first in range(0, len(job.seed_list), size):
        seeds = job.seed_list[first : first + size]
        label = f"{job.study}/{job.cell_object.path} from seed {seeds[0]}"
        replicas, states, draw = train(
            draws, training_point, arms, scored, memory, patience, seeds, label
        )
        simulator = make_simulator("reduced", draws, data.d, data.d1, training.m, seeds)
        errors = (
            balanced_errors(draws, training_point, replicas, seeds)
            if job.config.get("probed")
            else {}
        )
        for arm, own_replicas in replicas.items():
            values_of = {
                name: values.tolist()
                for name, values in quantities(
                    training_point, own_replicas, simulator.dictionary, patience
                ).items()
            }
            if errors:
                values_of["balanced_mse"] = errors[arm]
            number_rows += [
                {"seed": seed, "arm": arm, "quantity": name, "value": value}
                for name, values in values_of.items()
                for seed, value in zip(seeds, values, strict=True)
            ]
        score_rows += evaluate_scores(states, draw, simulator.dictionary, seeds)
    numbers = pd.DataFrame(number_rows, columns=list(NUMBER_TYPES)).astype(NUMBER_TYPES)
    return numbers, pd.DataFrame(score_rows, columns=list(SCORE_TYPES)).astype(SCORE_TYPES)


def measure_selection(inputs: JobInputs, job: Job) -> tuple[pd.DataFrame, ...]:
    """Return quantities and evaluations of scores of a cell, with its point and eps_min.

    Inputs: none. Config: `draws`, `data`, `training`, `sigma`, `drawn`, `arms`, `scored`,
    `memory`, `patience`, `probed`.
    """
    return tuple(
        table.assign(point=point_of(job.cell_object), eps_min=float(job.cell["eps_min"]))
        for table in measure(job)
    )
