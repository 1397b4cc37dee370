"""What is read from the trained encoders of a study: milestones, and one step with a mask.

Milestones are what the theory speaks of, and say of how many replicas the rare feature is learned,
at half and at double each hyper-parameter, too. Theorem 3.2 prunes neurons of the minority feature
and says what one step of eq. (5) then does. Here the step is a mean over many fresh batches, from
the same encoder with and without the mask: their difference is the effect of the mask.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.model.arms import PruningContext, mask_oracle_all
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.contrastive import probabilities, weight_gradient_coefficients
from rarefeat.model.divergence import diverged
from rarefeat.model.encoder import attend, embed, pre_activations
from rarefeat.model.neurons import absolute_cosines, ordinary_neurons
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import aggregated_sign, frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.model.thresholds import PURE_COSINE
from rarefeat.stages.milestones import milestones
from rarefeat.statistics import fraction_interval, sign_test
from rarefeat.studies.theory import HALF_AND_DOUBLE, Theory
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.run.job_inputs import JobInputs

BATCHES = 100


def read_milestones(inputs: JobInputs, study: Study) -> pd.DataFrame:
    """Return a row per point, trained arm, seed and metric."""
    data, training, rows = study.data, study.training, []
    for encoders in inputs.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        for arm in cell.trained:
            names = ("weights", "loss", "history", "ends", "T1", "T2")
            weights, loss, *recorded = encoders.tensors(*(f"{arm.label}/{name}" for name in names))
            has_diverged = diverged(loss, training.K, weights)
            for index, seed in enumerate(seeds):
                keys = {**cell.values, **arm.model_dump(), "seed": seed}
                history, ends, T1, T2 = (tensor[index] for tensor in recorded)
                metrics = milestones(
                    history, ends, int(T1), int(T2), data, training, cell["eps_min"], cell["sigma"],
                    generator(study.draws, seed, "directions"),
                )  # fmt: skip
                metrics |= {"diverged": float(has_diverged[index])}
                rows += [keys | {"metric": name, "value": value} for name, value in metrics.items()]
    return pd.DataFrame(rows)


def one_step(
    simulator: str, name: str, data: Data, training: Training, eps_min: float, sigma: float,
    seed: int, weights: Float[Tensor, "1 m p"], bias: Float[Tensor, "1 m"], batches: int = BATCHES,
) -> dict[str, float]:  # fmt: skip
    """Measure one step of one replica with and without the mask; the minority feature is last."""
    K, tau, decay = training.K, training.tau, training.eta * training.lambda_
    space = make_simulator(simulator, name, data.d, data.d1, training.m, [seed])
    dictionary = space.dictionary[0]
    pruned = mask_oracle_all(PruningContext(weights, space.dictionary, 1))[0]
    cosines = absolute_cosines(weights, space.dictionary)[0]
    pure = (cosines.amax(-1) > PURE_COSINE) & (cosines.argmax(-1) < data.d - 1)
    if not pruned.any() or not pure.any():
        return {}
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    latents = latent_pairs(batches * K, data.L, probability, generator(name, seed, "one step"))
    noise = [generator(name, seed, "one step noise")]
    identity = torch.eye(K)
    # Beside the whole set, a random quarter and half of it: how the mask's work grows with alpha.
    n_pruned = int(pruned.sum())
    priority = torch.rand(training.m, generator=generator(name, seed, "one step subset"))
    order = priority.masked_fill(~pruned, torch.inf).argsort(stable=True)
    counts = {"quarter": -(-n_pruned // 4), "half": -(-n_pruned // 2), "masked": n_pruned}
    masks = {
        kind: torch.zeros_like(pruned).index_fill_(0, order[:count], True)
        for kind, count in counts.items()
    }
    steps = {kind: torch.zeros_like(weights[0]) for kind in ("dense", *masks)}
    pulls = {kind: torch.zeros(n_pruned) for kind in ("positive", "negative")}
    drops: dict[str, list[Tensor]] = {kind: [] for kind in masks}
    holds_minority, positive, negative = [], [], []
    for batch in latents.split(K):
        z = batch.transpose(0, 1).flatten(0, 1)[None]
        tokens = space.sample_tokens(z.float(), sigma, noise)
        attended = attend(tokens, training.logit_scale(data.d1))
        pre = pre_activations(attended, weights)
        f_x, f_y = embed(pre, bias).split(K, dim=1)
        p = {"dense": probabilities(f_x, f_y, tau)}
        for kind, mask in masks.items():
            p[kind] = probabilities(f_x.masked_fill(mask, 0.0), f_y.masked_fill(mask, 0.0), tau)
        pre, attended = pre[:, :K], attended[:, :K, :, : weights.shape[-1]].flatten(1, 2)
        for kind in steps:
            c = weight_gradient_coefficients(pre, bias, f_y, p[kind], tau)
            steps[kind] -= training.eta * matmul(c.flatten(1, 2).mT, attended)[0] / batches
        # The two parts of the gradient of eq. (21) along the minority feature, under the mask: the
        # positive and the negatives.
        towards = (attended @ space.dictionary)[0, :, -1].view(K, -1)
        gated = (towards[..., None] * (pre[0].abs() >= bias[0])).sum(1)[:, pruned]
        sign = (weights[0] @ dictionary[:, -1])[pruned].sign()
        error = {
            "positive": (identity - p["masked"][0]) * identity,
            "negative": p["masked"][0] * (1 - identity),
        }
        for kind, part in error.items():
            pulls[kind] += ((part @ f_y[0])[:, pruned] * gated).sum(0) * sign / batches
        for kind in masks:
            drops[kind].append((p[kind] - p["dense"])[0].diagonal())
        holds_minority.append(aggregated_sign(batch[:, 0])[:, -1] != 0)
        similarity = f_x[0][:, pruned] @ f_y[0][:, pruned].T
        positive.append(similarity.diagonal().mean())
        negative.append((similarity.sum() - similarity.trace()) / (K * (K - 1)))

    projections, minority, majority = weights[0] @ dictionary, {}, {}
    own = cosines[pure].argmax(-1)[:, None]
    for kind, step in steps.items():
        relative = (step @ dictionary) / projections - decay
        minority[kind] = relative[pruned, -1].mean().item()
        majority[kind] = relative[pure].gather(1, own).mean().item()
    lost = {kind: -torch.cat(changes).mean().item() for kind, changes in drops.items()}
    change, holds = torch.cat(drops["masked"]), torch.cat(holds_minority)
    with_minority, without = change[holds].mean().item(), change[~holds].mean().item()
    gains = [minority[kind] - minority["dense"] for kind in masks]
    majority_gain = majority["masked"] - majority["dense"]
    similar, dissimilar = (torch.stack(parts).mean().item() for parts in (positive, negative))
    return {
        "growth_minority_dense": minority["dense"],
        "growth_majority_dense": majority["dense"],
        "growth_minority_masked": minority["masked"],
        "growth_majority_masked": majority["masked"],
        "growth_minority_gain": gains[-1],
        "growth_majority_gain": majority_gain,
        "gain_ratio": ratio(majority_gain, gains[-1]),
        "logit_drop": lost["masked"],
        "gain_in_alpha": power([*counts.values()], gains),
        "logit_in_alpha": power([*counts.values()], [*lost.values()]),
        "logit_with_minority": with_minority,
        "logit_without_minority": without,
        "logit_leak": ratio(without, with_minority),
        "similarity_positive": similar,
        "similarity_negative": ratio(dissimilar, similar),
        "negative_share": ratio(*(pulls[kind].sum().item() for kind in ("negative", "positive"))),
        "pruned_neurons": float(n_pruned),
    }


def firing(
    simulator: str, name: str, data: Data, training: Training, eps_min: float, sigma: float,
    seed: int, weights: Float[Tensor, "1 m p"], bias: Float[Tensor, "1 m"], batches: int = BATCHES,
) -> dict[str, float]:  # fmt: skip
    """Measure the firing that Lemma E.1 bounds; N_i is that of W(0) (Definition B.1)."""
    space = make_simulator(simulator, name, data.d, data.d1, training.m, [seed])
    initial = space.initial_weights(training.sigma_0, [generator(name, seed, "weights")])
    of_neuron = ordinary_neurons(initial, space.dictionary, eps_min)[0].float()
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    draws = generator(name, seed, "firing")
    latents = latent_pairs(batches * training.K, data.L, probability, draws)
    noise = [generator(name, seed, "firing noise")]
    fired, explained = torch.zeros(training.m), torch.zeros(training.m)
    for batch in latents[:, 0].split(training.K):
        tokens = space.sample_tokens(batch[None].float(), sigma, noise)
        attended = attend(tokens, training.logit_scale(data.d1))
        fires = embed(pre_activations(attended, weights), bias)[0] != 0
        present = aggregated_sign(batch).abs().float() @ of_neuron.T > 0
        fired += fires.sum(0)
        explained += (fires & present).sum(0)
    return {
        "fires_with_its_features": ratio(explained.sum().item(), fired.sum().item()),
        "fires_at_most": fired.max().item() / len(latents) / probability.max().item(),
    }


def power(counts: list[int], effects: list[float]) -> float:
    """Return the exponent of an effect in the number of pruned neurons; NaN if it has none."""
    if len(set(counts)) < 3 or min(effects) <= 0:
        return math.nan
    return float(np.polyfit(np.log(counts), np.log(effects), 1)[0])


def ratio(numerator: float, denominator: float) -> float:
    """Return a quotient; NaN for a denominator of 0, as silent neurons change nothing."""
    return numerator / denominator if denominator else math.nan


def read_one_step(inputs: JobInputs, study: Study, batches: int = BATCHES) -> pd.DataFrame:
    """Return a row per point, seed and metric of the dense arm."""
    rows = []
    for encoders in inputs.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        weights, bias = encoders.tensors("dense/weights", "dense/bias")
        for index, seed in enumerate(seeds):
            replica = (
                study.simulator, study.draws, study.data, study.training, cell["eps_min"],
                cell["sigma"], seed, weights[index : index + 1], bias[index : index + 1], batches,
            )  # fmt: skip
            metrics = one_step(*replica) | firing(*replica)
            rows += [(*cell.values.values(), seed, *item) for item in metrics.items()]
    # Types for a study without a neuron to prune, whose table is empty.
    types = {"eps_min": float, "sigma": float, "seed": "int64", "metric": str, "value": float}
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def half_and_double(tables: Mapping[str, pd.DataFrame], theory: Theory) -> pd.DataFrame:
    """Return who learns the feature under each setting, tested by McNemar against the study."""
    base, *varied = (find_learners(table) for table in tables.values())
    names = [name for name in theory.every_study() if name not in theory.studies]
    settings = [("", 1.0), *((key.rpartition(".")[2], f) for key, f in theory.settings())]
    values = ["", *(theory.varied(name)[1].partition(" = ")[2] for name in names)]
    rows = []
    for setting, value, learned in zip(settings, values, (base, *varied), strict=True):
        for eps_min in theory.sensitivity.eps_min:
            by_seed = learned[eps_min]
            low, high = fraction_interval(by_seed.to_numpy())
            share = by_seed.mean(), low, high, len(by_seed)
            rows.append((*setting, value, eps_min, *share, *sign_test(by_seed - base[eps_min])))
    table = pd.DataFrame(rows, columns=list(HALF_AND_DOUBLE.columns))
    return table.sort_values(list(HALF_AND_DOUBLE.keys), ignore_index=True)


def find_learners(milestones: pd.DataFrame) -> dict[float, pd.Series]:
    """Return by eps_min whether each seed's dense replica has learned the rare feature."""
    learned = milestones[(milestones["metric"] == "learned") & (milestones["arm"] == "dense")]
    return {
        eps_min: replicas.set_index("seed")["value"].dropna()
        for eps_min, replicas in learned.groupby("eps_min")
    }
