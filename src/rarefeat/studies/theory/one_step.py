"""One step from trained encoders, with and without the pruned set of Theorem 3.2.

The theorem prunes neurons of the minority feature and says what one step of eq. (5) then does.
Here the step is a mean over many fresh batches, from the same encoder with and without the mask:
their difference is the effect of the mask.
"""

import math
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rarefeat.model.arms import PruningContext, mask_oracle_all
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.contrastive import probabilities, weight_gradient_coefficients
from rarefeat.model.encoder import attend, embed, pre_activations
from rarefeat.model.neurons import absolute_cosines, ordinary_neurons
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import aggregated_sign, frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.model.thresholds import PURE_COSINE
from rarefeat.studies.theory.tables import ONE_STEP_ROWS
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

BATCHES = 100


def one_step(
    simulator: Literal["direct", "reduced"],
    name: str,
    data: Data,
    training: Training,
    eps_min: float,
    sigma: float,
    seed: int,
    weights: Tensor,
    bias: Tensor,
    batches: int = BATCHES,
) -> dict[str, float]:
    """Measure one step of one replica with and without the mask.

    The minority feature is the last one.

    weights (1, m, p), bias (1, m).
    """
    space = make_simulator(simulator, name, data.d, data.d1, training.m, [seed])
    pruned = mask_oracle_all(PruningContext(weights, space.dictionary, 1))[0]
    cosines = absolute_cosines(weights, space.dictionary)[0]
    pure = (cosines.amax(-1) > PURE_COSINE) & (cosines.argmax(-1) < data.d - 1)
    if not pruned.any() or not pure.any():
        return {}
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    latents = latent_pairs(
        batches * training.K, data.L, probability, generator(name, seed, "one step")
    )
    noise = [generator(name, seed, "one step noise")]
    identity = torch.eye(training.K)
    # Beside the whole set, a random quarter and half of it: how the mask's work grows with alpha.
    priority = torch.rand(training.m, generator=generator(name, seed, "one step subset"))
    order = priority.masked_fill(~pruned, torch.inf).argsort(stable=True)
    counts = {
        kind: -(-int(pruned.sum()) // share)
        for kind, share in (("quarter", 4), ("half", 2), ("masked", 1))
    }
    masks = {
        kind: torch.zeros_like(pruned).index_fill_(0, order[:count], True)
        for kind, count in counts.items()
    }
    steps = {kind: torch.zeros_like(weights[0]) for kind in ("dense", *masks)}
    pulls = {"positive": torch.zeros(int(pruned.sum())), "negative": torch.zeros(int(pruned.sum()))}
    drops: dict[str, list[Tensor]] = {kind: [] for kind in masks}
    holds_minority, positive, negative = [], [], []
    for batch in latents.split(training.K):
        z = batch.transpose(0, 1).flatten(0, 1)[None]
        attended = attend(
            space.sample_tokens(z.float(), sigma, noise), training.logit_scale(data.d1)
        )
        pre = pre_activations(attended, weights)
        f = embed(pre, bias)
        f_x, f_y = f.split(training.K, dim=1)
        p = {"dense": probabilities(f_x, f_y, training.tau)}
        for kind, mask in masks.items():
            p[kind] = probabilities(
                f_x.masked_fill(mask, 0.0), f_y.masked_fill(mask, 0.0), training.tau
            )
        attended_x = attended[:, : training.K, :, : weights.shape[-1]].flatten(1, 2)
        for kind in steps:
            c = weight_gradient_coefficients(pre[:, : training.K], bias, f_y, p[kind], training.tau)
            steps[kind] -= training.eta * matmul(c.flatten(1, 2).mT, attended_x)[0] / batches
        # The two parts of the gradient of eq. (21) along the minority feature, under the mask: the
        # positive and the negatives.
        towards = (attended_x @ space.dictionary)[0, :, -1].view(training.K, -1)
        gated = (towards[..., None] * (pre[0, : training.K].abs() >= bias[0])).sum(1)[:, pruned]
        error = (identity - p["masked"][0]) * identity
        others = p["masked"][0] * (1 - identity)
        sign = weights[0] @ space.dictionary[0, :, -1]
        pulls["positive"] += (
            ((error @ f_y[0])[:, pruned] * gated).sum(0) * sign[pruned].sign() / batches
        )
        pulls["negative"] += (
            ((others @ f_y[0])[:, pruned] * gated).sum(0) * sign[pruned].sign() / batches
        )
        for kind in masks:
            drops[kind].append((p[kind] - p["dense"])[0].diagonal())
        holds_minority.append(aggregated_sign(batch[:, 0])[:, -1] != 0)
        similarity = f_x[0][:, pruned] @ f_y[0][:, pruned].T
        positive.append(similarity.diagonal().mean())
        negative.append((similarity.sum() - similarity.trace()) / (training.K * (training.K - 1)))

    decay = training.eta * training.lambda_
    projections = weights[0] @ space.dictionary[0]
    metrics, grown = {}, {}
    for kind, step in steps.items():
        relative = (step @ space.dictionary[0]) / projections - decay
        grown[kind] = relative[pruned, -1].mean().item()
        if kind in ("dense", "masked"):
            metrics[f"growth_minority_{kind}"] = grown[kind]
            metrics[f"growth_majority_{kind}"] = (
                relative[pure].gather(1, cosines[pure].argmax(-1)[:, None]).mean().item()
            )
    metrics["growth_minority_gain"] = (
        metrics["growth_minority_masked"] - metrics["growth_minority_dense"]
    )
    metrics["growth_majority_gain"] = (
        metrics["growth_majority_masked"] - metrics["growth_majority_dense"]
    )
    metrics["gain_ratio"] = ratio(metrics["growth_majority_gain"], metrics["growth_minority_gain"])
    change, minority = torch.cat(drops["masked"]), torch.cat(holds_minority)
    lost = {kind: -torch.cat(changes).mean().item() for kind, changes in drops.items()}
    metrics["logit_drop"] = lost["masked"]
    metrics["gain_in_alpha"] = power(
        [counts[kind] for kind in masks], [grown[kind] - grown["dense"] for kind in masks]
    )
    metrics["logit_in_alpha"] = power(
        [counts[kind] for kind in masks], [lost[kind] for kind in masks]
    )
    metrics["logit_with_minority"] = change[minority].mean().item()
    metrics["logit_without_minority"] = change[~minority].mean().item()
    metrics["logit_leak"] = ratio(metrics["logit_without_minority"], metrics["logit_with_minority"])
    metrics["similarity_positive"] = torch.stack(positive).mean().item()
    metrics["similarity_negative"] = ratio(
        torch.stack(negative).mean().item(), metrics["similarity_positive"]
    )
    metrics["negative_share"] = ratio(
        pulls["negative"].sum().item(), pulls["positive"].sum().item()
    )
    metrics["pruned_neurons"] = float(pruned.sum())
    return metrics


def firing(
    simulator: Literal["direct", "reduced"], name: str, data: Data, training: Training,
    eps_min: float, sigma: float, seed: int,
    weights: Tensor, bias: Tensor, batches: int = BATCHES,
) -> dict[str, float]:  # fmt: skip
    """Measure the firing of neurons that Lemma E.1 bounds.

    N_i are the features that the neuron is ordinary for at its W(0) (Definition B.1).

    weights (1, m, p), bias (1, m).
    """
    space = make_simulator(simulator, name, data.d, data.d1, training.m, [seed])
    initial = space.initial_weights(training.sigma_0, [generator(name, seed, "weights")])
    of_neuron = ordinary_neurons(initial, space.dictionary, eps_min)[0].float()
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    latents = latent_pairs(
        batches * training.K, data.L, probability, generator(name, seed, "firing")
    )
    noise = [generator(name, seed, "firing noise")]
    fired, explained = torch.zeros(training.m), torch.zeros(training.m)
    for batch in latents[:, 0].split(training.K):
        attended = attend(
            space.sample_tokens(batch[None].float(), sigma, noise), training.logit_scale(data.d1)
        )
        fires = embed(pre_activations(attended, weights), bias)[0] != 0
        present = aggregated_sign(batch).abs().float() @ of_neuron.T > 0
        fired += fires.sum(0)
        explained += (fires & present).sum(0)
    return {
        "fires_with_its_features": ratio(explained.sum().item(), fired.sum().item()),
        "fires_at_most": fired.max().item() / len(latents) / probability.max().item(),
    }


def power(counts: list[int], effects: list[float]) -> float:
    """Fit the exponent of an effect in the number of pruned neurons.

    It is NaN for fewer than three distinct numbers, and where an effect is not positive.
    """
    if len(set(counts)) < 3 or min(effects) <= 0:
        return math.nan
    return float(np.polyfit(np.log(counts), np.log(effects), 1)[0])


def ratio(numerator: float, denominator: float) -> float:
    """Return a quotient; NaN for a denominator of 0, as silent neurons change nothing."""
    return numerator / denominator if denominator else math.nan


def read_one_step(inputs: JobInputs, job: Job, batches: int = BATCHES) -> pd.DataFrame:
    """Return a row per point, seed and metric of the dense arm.

    Inputs are the encoders of the study, config its section `Study`; the output is
    `STUDY_one_step`.
    """
    study, rows = job.config_section(job.study, Study), []
    for encoders in inputs.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        weights, bias = encoders.tensors("dense/weights", "dense/bias")
        for index, seed in enumerate(seeds):
            replica = weights[index : index + 1], bias[index : index + 1]
            settings = study.data, study.training, cell["eps_min"], cell["sigma"], seed
            metrics = one_step(study.simulator, study.draws, *settings, *replica, batches)
            metrics |= firing(study.simulator, study.draws, *settings, *replica, batches)
            rows += [
                {**cell.values, "seed": seed, "metric": metric, "value": value}
                for metric, value in metrics.items()
            ]
    # Types for a study without a neuron to prune, whose table is empty.
    types = {"eps_min": float, "sigma": float, "seed": "int64", "metric": str, "value": float}
    return validate(ONE_STEP_ROWS, pd.DataFrame(rows, columns=list(types)).astype(types))
