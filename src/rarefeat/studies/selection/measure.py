"""One cell and block of a sweep: what every arm made of the rare feature, and how each score finds its neurons."""

import pandas as pd
import torch
from torch import Tensor

from rarefeat.chain.critical_frequency import TrainingPoint
from rarefeat.config.model import Data, Training
from rarefeat.core.divergence import diverged
from rarefeat.core.encoder import attend, embed, pre_activations
from rarefeat.core.linear_probe import linear_probe
from rarefeat.core.neurons import absolute_cosines, alignment_metrics, minority_overlap
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import make_simulator
from rarefeat.core.sparse_coding import aggregated_sign, latent_pairs, regression_target
from rarefeat.core.theory import activation_probability
from rarefeat.core.thresholds import PURE_COSINE
from rarefeat.core.training import replicas_per_batch
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.selection.config import SCORES, Intervention, LatinHypercube, point_of
from rarefeat.studies.selection.regimes import point
from rarefeat.studies.selection.scores import compute_score, evaluate_score
from rarefeat.studies.selection.training import ArmReplicas, ScoredState, train

CHUNK = 500
LEARNED = 0.5
"""Absolute cosine of a neuron to the rare feature from which it is learned."""
NUMBERS = {"seed": "int64", "arm": "str", "quantity": "str", "value": "float64"}
FOUND = {
    "seed": "int64",
    "step": "int64",
    "score": "str",
    "source": "str",
    "wanted": "int64",
    "auc": "float64",
    "precision": "float64",
}


def numbers(
    at: TrainingPoint, replicas: ArmReplicas, dictionary: Tensor, patience: int
) -> dict[str, Tensor]:
    """Quantities of one arm at T, (S,) each."""
    minority, state = len(at.data.minority), replicas.state
    weights = state.weights
    metrics = alignment_metrics(weights, dictionary, minority)
    names = ("max_alignment", "majority_alignment", "pure_minority_neurons", "feature_share")
    found = {name: metrics[name] for name in names}
    rare = absolute_cosines(weights, dictionary)[..., -minority:].amax((1, 2))
    return found | {
        "learned": (rare >= LEARNED).double(),
        "largest_norm": weights.norm(dim=-1).amax(-1),
        "loss": replicas.loss,
        "diverged": (state.diverged | diverged(replicas.loss, at.training.K, weights)).double(),
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
    draws: str, at: TrainingPoint, found: dict[str, ArmReplicas], seeds: list[int]
) -> dict[str, list[float]]:
    """Test error of a linear head on data in which every feature is equally frequent, by arm, a number for each seed."""
    data = at.data
    chance = activation_probability(torch.ones(data.d, dtype=torch.float64), data.C)
    errors: dict[str, list[float]] = {label: [] for label in found}
    for index, seed in enumerate(seeds):
        space = make_simulator("reduced", draws, data.d, data.d1, at.training.m, [seed])
        networks = [
            (arm.state.weights[index : index + 1], arm.state.bias[index : index + 1])
            for arm in found.values()
        ]
        w_star, parts = regression_target(draws, seed, data.d), []
        for n, keyed, purpose in (
            (data.probe_pairs, seed, "probe"),
            (data.test_pairs, data.test_seed, "test"),
        ):
            z = latent_pairs(n, data.L, chance, generator(draws, keyed, purpose))[:, 0]
            noise = generator(draws, seed, f"{purpose} noise")
            embedded: list[list[Tensor]] = [[] for _ in networks]
            for chunk in z.split(CHUNK):
                attended = attend(space.sample_tokens(chunk[None].float(), at.sigma, [noise]))
                for own, (weights, bias) in zip(embedded, networks, strict=True):
                    own.append(embed(pre_activations(attended, weights), bias)[0])
            parts.append(
                ([torch.cat(own) for own in embedded], aggregated_sign(z).float() @ w_star)
            )
        (fitted, labels), (tested, test_labels) = parts
        for own, f_fit, f_test in zip(errors.values(), fitted, tested, strict=True):
            own.append(linear_probe(f_fit, labels, f_test, test_labels)[0])
    return errors


def judgements(
    kept: list[ScoredState], draw: Tensor, dictionary: Tensor, seeds: list[int]
) -> list[dict]:
    """How every score, from one batch and from the running mean, finds the rare feature's neurons at each step kept."""
    rows = []
    for at in kept:
        wanted = absolute_cosines(at.weights, dictionary)[..., -1] > PURE_COSINE
        for name in SCORES:
            for source in ("batch", "running"):
                values = compute_score(name, getattr(at, source), draw)
                for s, seed in enumerate(seeds):
                    auc, precision = evaluate_score(values[s], wanted[s])
                    number = int(wanted[s].sum())
                    rows.append(
                        {"seed": seed, "step": at.step, "score": name, "source": source, "wanted": number, "auc": auc,
                         "precision": precision}
                    )  # fmt: skip
    return rows


def measure(job: Job) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The numbers of every arm and seed, and the judgements of the scores; the second is empty where no step is scored."""
    drawn = job.config_section("drawn", LatinHypercube | None) if job.config.get("drawn") else None
    sigma = job.config_section("sigma", float) if "sigma" in job.config else 0.0
    at = point(
        job.config_section("data", Data),
        job.config_section("training", Training),
        sigma,
        drawn,
        job.cell_object,
    )
    draws, arms, patience = (
        job.config_section("draws", str),
        job.config_section("arms", list[Intervention]),
        job.config_section("patience", int),
    )
    scored, memory = job.config.get("scored", []), job.config_section("memory", int)
    of_arms, of_scores, seeds = [], [], job.seed_list
    size = replicas_per_batch(at.training.K, at.data.L, min(at.data.d1, at.data.d + at.training.m))
    for first in range(0, len(seeds), size):
        now = seeds[first : first + size]
        found, kept, draw = train(
            draws,
            at,
            arms,
            scored,
            memory,
            patience,
            now,
            f"{job.study}/{job.cell_object.path} from seed {now[0]}",
        )
        space = make_simulator("reduced", draws, at.data.d, at.data.d1, at.training.m, now)
        errors = balanced_errors(draws, at, found, now) if job.config.get("probed") else {}
        for label, replicas in found.items():
            quantities = {
                name: values.tolist()
                for name, values in numbers(at, replicas, space.dictionary, patience).items()
            }
            if errors:
                quantities["balanced_mse"] = errors[label]
            of_arms += [
                {"seed": seed, "arm": label, "quantity": name, "value": value}
                for name, values in quantities.items()
                for seed, value in zip(now, values, strict=True)
            ]
        of_scores += judgements(kept, draw, space.dictionary, now)
    return pd.DataFrame(of_arms, columns=list(NUMBERS)).astype(NUMBERS), pd.DataFrame(
        of_scores, columns=list(FOUND)
    ).astype(FOUND)


def measure_selection(read: JobInputs, job: Job) -> tuple[pd.DataFrame, ...]:
    """The stage of a cell and block: its numbers and judgements, each row with its point and eps_min."""
    return tuple(
        found.assign(point=point_of(job.cell_object), eps_min=float(job.cell["eps_min"]))
        for found in measure(job)
    )
