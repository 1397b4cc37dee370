"""The interventions of a sweep, as arms of the training loop (training/loop.py).

Data, training and noise at a cell of a sweep are here, too, also where its regime is drawn.

Purposes of the random streams, in the namespace `draws`: train, those of `PairSource`, revived.
Axes: S replicas, N training pairs, L tokens, m neurons, p coordinates of a weight, d features.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.model import arms as rules
from rarefeat.model.activation_moments import Moments
from rarefeat.model.bias import BiasContext, follow
from rarefeat.model.encoder import embed
from rarefeat.model.neurons import absolute_cosines, feature_share
from rarefeat.model.pruning import mask_smallest
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import (
    Generators,
    ReducedSimulator,
    chi_variables,
    robust_cholesky,
    standard_normals,
)
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.stages.critical_frequency import TrainingPoint
from rarefeat.studies.selection.config import Intervention, LatinHypercube
from rarefeat.studies.selection.scores import SILENT_LAST, compute_score, effective_rate
from rarefeat.training import loop
from rarefeat.training.loop import Change, PairSource, View
from rarefeat.training.step import TrainState, batch_loss
from rarefeat.workflow.config.model import Data, Training

CORE_RULES = {
    "norm": rules.mask_smallest_norms,
    "random": rules.mask_random_neurons,
    "largest": rules.mask_largest_norms,
    "oracle_all": rules.mask_oracle_all,
    "oracle_gated": rules.mask_oracle_gated,
    "oracle_nearest": rules.mask_oracle_nearest,
}
"""Masks that are rules of the core; they read no moments."""


class ArmReplicas(NamedTuple):
    """Replicas of one arm at T."""

    state: TrainState
    cosine_at_T1: Float[Tensor, " S"]
    """Largest cosine to the rare feature at T1; NaN until then."""
    chosen: Bool[Tensor, "S m"]
    """Neurons that the rule chose last."""
    idle: Float[Tensor, "S m"]
    """Batches in a row in which no sample opened the gate of a neuron."""
    young: Bool[Tensor, "S m"]
    """Neurons that were re-initialised and have no bias yet."""
    revivals: Float[Tensor, " S"]
    """Number of neurons that were re-initialised so far."""
    loss: Float[Tensor, " S"]
    """Unmasked InfoNCE of the batch of the last step."""


class ScoredState(NamedTuple):
    """The dense replicas at a step, with the moments that scores are computed from."""

    step: int
    weights: Float[Tensor, "S m p"]
    batch: Moments
    running: Moments


def latents(draws: str, point: TrainingPoint, seeds: list[int]) -> Int[Tensor, "S N 2 L d"]:
    """Draw the training pairs, which are those of the chain."""
    data = point.data
    chance = activation_probability(frequencies(data.d, data.minority, point.eps_min), data.C)
    return torch.stack(
        [latent_pairs(data.N, data.L, chance, generator(draws, seed, "train")) for seed in seeds]
    )


class InterventionArm:
    """An intervention with what it remembers: neurons that it chose, silent and young ones."""

    def __init__(
        self, arm: Intervention, point: TrainingPoint, source: PairSource, patience: int,
        scored: bool, revived: Generators,
    ):  # fmt: skip
        self.arm, self.point, self.source, self.label = arm, point, source, arm.label
        self.patience, self.revived = patience, revived
        by_score = bool(arm.mask) and arm.mask not in CORE_RULES
        self.reads_moments = scored or by_score or bool(arm.threshold)
        S, m, _ = source.weights.shape
        self.chosen = self.young = torch.zeros(S, m, dtype=torch.bool)
        self.idle, self.revivals = torch.zeros(S, m), torch.zeros(S)

    def change(self, view: View) -> Change:
        """Return its mask, gates and bias at a step, and choose neurons for it."""
        arm, state, dense, step = self.arm, view.state, view.dense, view.context.step
        self.idle = torch.where((dense.f != 0).any(1), 0.0, self.idle + 1)
        self.chosen = self.choose(view)
        change = Change(gradient="masked_keys" if arm.masked_keys else "unmasked")
        if arm.mask and step >= arm.onset:
            mask = apply_stop(arm, self.chosen, state.weights.norm(dim=-1))
            change = change._replace(mask=mask)
        if arm.threshold or arm.delay:
            rule = partial(bias_after_step, arm, self.point, view.context.moments)
            change = change._replace(bias_rule=rule)
        silent = (self.idle >= self.patience) & (state.bias > 0)
        if step == self.point.training.T:
            return change
        if arm.reopened and silent.any():
            # Gate and key of a neuron with a closed gate are 0; each alone stops its gradient.
            gates = state.bias.masked_fill(silent, 0.0)
            dense = dense._replace(f=embed(dense.pre, gates))
            return change._replace(dense=dense, gate_bias=gates, gradient="unmasked")
        if arm.revived and (silent.any() or self.young.any()):
            self.young, self.idle = self.young | silent, self.idle.masked_fill(silent, 0.0)
            self.revivals = self.revivals + silent.sum(-1)
            sigma_0 = self.point.training.sigma_0
            options = {"which": silent, "sigma_0": sigma_0, "generators": self.revived}
            renew = partial(reinitialise_neurons, self.source.simulator, **options)
            return change._replace(after_descent=renew)
        return change

    def choose(self, view: View) -> Bool[Tensor, "S m"]:
        """Return the neurons that its rule prunes; the last ones between two choices."""
        arm, context = self.arm, view.context
        since = context.step - arm.onset
        if not arm.mask or since < 0 or (arm.renewed and since % arm.renewed):
            return self.chosen
        alpha = ratio(arm, self.point, context.step)
        if arm.mask in CORE_RULES:
            return CORE_RULES[arm.mask](context._replace(alpha=alpha))
        moments = view.batch_moments if arm.source == "batch" else context.moments
        return mask_smallest(compute_score(arm.mask, moments, context.draw), alpha)

    def after(self, state: TrainState) -> TrainState:
        """Keep the bias of young neurons at 0 until eq. (34) holds for them."""
        if self.young.any():
            share = feature_share(state.weights, self.source.simulator.dictionary)
            self.young = self.young & (share < 0.5)
            state = state._replace(bias=state.bias.masked_fill(self.young, 0.0))
        return state


class Ends:
    """Recorder of the dense replicas at scored steps, of the cosine at T1, and of the end."""

    def __init__(
        self, source: PairSource, training: Training, arms: list[InterventionArm], scored: list[int]
    ):
        self.training, self.scored, self.states = training, scored, []
        self.dictionary = source.simulator.dictionary
        self.arms, self.replicas = {arm.label: arm for arm in arms}, {}
        self.at_T1 = dict.fromkeys(self.arms, torch.full((len(source.weights),), torch.nan))

    def before(self, view: View, changes: dict[str, Change]) -> None:
        """Keep the dense replicas at scored steps, and every arm at T."""
        context = view.context
        if "dense" in changes and context.step in self.scored:
            moments = view.batch_moments, context.moments
            self.states.append(ScoredState(context.step, view.state.weights, *moments))
        if context.step == self.training.T:
            loss = batch_loss(view.dense, self.training)
            for label in changes:
                arm = self.arms[label]
                chosen = apply_stop(arm.arm, arm.chosen, view.state.weights.norm(dim=-1))
                self.replicas[label] = ArmReplicas(
                    view.state, self.at_T1[label], chosen, arm.idle, arm.young, arm.revivals, loss
                )

    def after(self, labels: list[str], before: TrainState, state: TrainState) -> None:
        """Keep the largest cosine to the rare feature where stage 1 ends with this step."""
        ending = (before.T1 < 0) & (state.T1 >= 0)
        if not ending.any():
            return
        largest = absolute_cosines(state.weights, self.dictionary)[..., -1].amax(-1)
        for label in labels:
            self.at_T1[label] = torch.where(ending, largest, self.at_T1[label])


def train(
    draws: str, point: TrainingPoint, arms: list[Intervention], scored: list[int], memory: int,
    patience: int, seeds: list[int], label: str = "train",
) -> tuple[dict[str, ArmReplicas], list[ScoredState], Float[Tensor, "S m"]]:  # fmt: skip
    """Train every arm on the same tokens; an arm and seed does not depend on the others.

    Returns the replicas at T by arm, the dense ones at the `scored` steps, and the uniform draws of
    the score `random`; `memory` and `patience` are those of the config.
    """
    pairs = latents(draws, point, seeds)
    source = PairSource(draws, "reduced", point.data, point.training, point.sigma, seeds, pairs)
    own = [
        InterventionArm(
            arm, point, source, patience, bool(scored) and arm.label == "dense",
            [generator(draws, seed, "revived") for seed in seeds],
        )
        for arm in arms
    ]  # fmt: skip
    recorder, end = Ends(source, point.training, own, scored), point.training.bias.T1
    loop.train(source, point.training, own, recorder, end, memory, label=label)
    return recorder.replicas, recorder.states, source.uniforms


def ratio(arm: Intervention, point: TrainingPoint, step: int) -> float:
    """Return the fraction of neurons that a rule prunes at a step."""
    alpha = arm.alpha or 1 / point.data.d
    if not arm.schedule:
        return alpha
    passed = (step - arm.onset) / (point.training.T - arm.onset)
    return alpha * (passed if arm.schedule == "rising" else 1 - passed)


def apply_stop(
    arm: Intervention, chosen: Bool[Tensor, "S m"], norms: Float[Tensor, "S m"]
) -> Bool[Tensor, "S m"]:
    """Return the mask of an arm: with `stop`, only chosen neurons smaller than the others."""
    if not arm.stop:
        return chosen
    others = (norms * ~chosen).sum(-1, keepdim=True) / (~chosen).sum(-1, keepdim=True)
    return chosen & (norms < others)


def bias_after_step(
    arm: Intervention, point: TrainingPoint, mean: Moments | None, context: BiasContext
) -> Float[Tensor, "S m"]:
    """Return the bias after a step: in proportion to norm or rate, from `delay` after T1 on."""
    bias = follow(context.norms, point.data.d, point.training.bias.share)
    if arm.threshold:
        # From the activation without a bias: a closed gate would fix its own threshold.
        rates = effective_rate(mean.linear_second, mean.linear_fourth)
        rates = rates.masked_fill(rates >= SILENT_LAST, 0.0)
        values = rates * context.norms if arm.threshold == "norm_and_rate" else rates
        bias = bias.mean(-1, keepdim=True) * values / values.mean(-1, keepdim=True)
    has_bias = (context.T1 >= 0) & (context.step >= context.T1 + arm.delay)
    return torch.where(has_bias[:, None], bias, 0.0)


def reinitialise_neurons(
    simulator: ReducedSimulator, weights: Float[Tensor, "S m p"], which: Bool[Tensor, "S m"],
    sigma_0: float, generators: Generators,
) -> Float[Tensor, "S m p"]:  # fmt: skip
    """Draw some neurons again from the initial distribution, N(0, sigma_0^2) in R^d1.

    The distribution is exact: a new neuron has Gaussian coordinates in the span of the other
    neurons, and beyond it a length with a chi distribution. A replica draws only if it has such a
    neuron.
    """
    result, d, nu = weights.clone(), simulator.d, simulator.nu
    for s, i in which.nonzero().tolist():
        rng = [generators[s]]
        row = sigma_0 * standard_normals(1, 1, simulator.p, rng)[0, 0]
        if not nu:
            result[s, i] = row
            continue
        beyond = sigma_0 * chi_variables(1, 1, nu, rng)[0, 0, 0]
        within, coordinates = result[s, :, d:].double(), row[d:].double()
        gram = within @ within.T
        gram[i] = gram[:, i] = within @ coordinates
        gram[i, i] = coordinates.square().sum() + beyond.double() ** 2
        features = result[s : s + 1, :, :d].clone()
        features[0, i] = row[:d]
        result[s] = simulator.join_coordinates(features, robust_cholesky(gram[None]).float())[0]
    return result


def point_of(cell: Mapping[str, float]) -> str:
    """Return the point of a cell, without eps_min, as in tables: `share=0.2, lambda=0.05`."""
    return ", ".join(f"{axis}={value:g}" for axis, value in cell.items() if axis != "eps_min")


def training_point(
    data: Data, training: Training, sigma: float, hypercube: LatinHypercube | None,
    cell: Mapping[str, float],
) -> TrainingPoint:  # fmt: skip
    """Return the training point of a cell of a sweep.

    In a drawn regime, sigma_0 and sigma are scaled by d1^(-1/2), lambda is drawn in units of the
    growth rate of a frequent feature, and eta is such that a frequent feature grows by
    `hypercube.growth` per step.
    """
    values = hypercube.values()[int(cell["regime"])] if hypercube else cell
    sizes = {name: values[name] for name in ("C", "L", "d", "d1") if name in values}
    scale = math.sqrt(data.d1 / sizes.get("d1", data.d1))
    update = {name: values[name] for name in ("tau", "m") if name in values}
    update["sigma_0"] = scale * values.get("sigma_0", training.sigma_0)
    if "share" in values:
        update["bias"] = training.bias.model_copy(update={"share": values["share"]})
    if "lambda" in values:
        update["lambda_"] = values["lambda"]
    data, training = data.model_copy(update=sizes), training.model_copy(update=update)
    result = TrainingPoint(data, training, scale * sigma, cell["eps_min"])
    if not hypercube:
        return result
    rate = result.growth_rate
    decay = values.get("lambda", training.lambda_ / rate)
    rates = {"lambda_": decay * rate, "eta": hypercube.growth / (rate * (1 - decay))}
    return result._replace(training=training.model_copy(update=rates))
