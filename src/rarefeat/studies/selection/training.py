"""Contrastive training under the arms of a sweep: the chain's steps (eq. 1-5), with other masks, biases and gates.

The arms dense, norm, random, largest and those of the oracles give the chain's encoders to the last digit (tests hold this).
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.chain.critical_frequency import TrainingPoint
from rarefeat.chain.pretrain import batches
from rarefeat.core import arms as rules
from rarefeat.core.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.core.batch_invariant import matmul
from rarefeat.core.bias import BiasContext, follow
from rarefeat.core.contrastive import probabilities
from rarefeat.core.encoder import attend, embed
from rarefeat.core.neurons import absolute_cosines, feature_share
from rarefeat.core.pruning import mask_smallest
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import (
    Generators,
    ReducedSimulator,
    chi_variables,
    make_simulator,
    robust_cholesky,
    standard_normals,
)
from rarefeat.core.sparse_coding import frequencies, latent_pairs
from rarefeat.core.theory import activation_probability
from rarefeat.core.training import (
    TrainState,
    apply_mask,
    apply_step,
    batch_loss,
    forward,
    initial_state,
    loss_gradient,
)
from rarefeat.run.cli_helpers import progress
from rarefeat.studies.selection.config import Intervention
from rarefeat.studies.selection.scores import SILENT_LAST, compute_score, effective_rate

OF_CORE = {
    "norm": rules.mask_smallest_norms, "random": rules.mask_random_neurons, "largest": rules.mask_largest_norms,
    "oracle_all": rules.mask_oracle_all, "oracle_gated": rules.mask_oracle_gated, "oracle_nearest": rules.mask_oracle_nearest,
}  # fmt: skip
"""Masks that are rules of the core, which read no moments."""


class ArmReplicas(NamedTuple):
    """S replicas of one arm."""

    state: TrainState
    """In the coordinates of the simulator `reduced`."""
    before: Tensor
    """||w_i|| a step before, (S, m)."""
    at_T1: Tensor
    """(S, 3), of the rare feature at T1, NaN until then: largest and second largest cosine, share of all strength."""
    mean: Moments | None
    """Running mean; None for an arm that reads none."""
    chosen: Tensor
    """bool (S, m), what the rule chose last."""
    idle: Tensor
    """(S, m), batches in a row in which no sample opened the neuron."""
    young: Tensor
    """bool (S, m), drawn anew and still in a stage 1 of its own."""
    revivals: Tensor
    """(S,), neurons drawn anew so far."""
    loss: Tensor
    """(S,), unmasked InfoNCE of the last step's batch."""


class ScoredState(NamedTuple):
    """The dense replicas at a step, with what every score is read from."""

    step: int
    weights: Tensor
    batch: Moments
    running: Moments


def latents(draws: str, point: TrainingPoint, seeds: list[int]) -> Tensor:
    """The training pairs that the chain has, int8 (S, N, 2, L, d)."""
    data = point.data
    chance = activation_probability(frequencies(data.d, data.minority, point.eps_min), data.C)
    return torch.stack(
        [latent_pairs(data.N, data.L, chance, generator(draws, seed, "train")) for seed in seeds]
    )


def train(
    draws: str, point: TrainingPoint, arms: list[Intervention], scored: list[int], memory: int, patience: int, seeds: list[int],
    label: str = "train",
) -> tuple[dict[str, ArmReplicas], list[ScoredState], Tensor]:  # fmt: skip
    """Train every arm on the same tokens. What an arm becomes does not depend on the arms beside it, nor on the other seeds.

    Args:
        scored: steps at which the arm `dense` is kept with its averages. memory, patience: of the running mean, and of silence.

    Returns:
        The replicas by label of the arm, the dense ones at the scored steps, and the uniform draws of `random`, (S, m).
    """
    data, training, S = point.data, point.training, len(seeds)
    K, T = training.K, training.T

    def streams(purpose: str) -> Generators:
        return [generator(draws, seed, purpose) for seed in seeds]

    space = make_simulator("reduced", draws, data.d, data.d1, training.m, seeds)
    initial, noise, complement = (
        space.initial_weights(training.sigma_0, streams("weights")),
        streams("noise"),
        streams("complement"),
    )
    draw = torch.stack([torch.rand(training.m, generator=g) for g in streams("random mask")])
    nothing = torch.zeros(S, training.m, dtype=torch.bool)
    unknown = torch.full((S,), torch.nan)
    begun = ArmReplicas(
        initial_state(initial), initial.norm(dim=-1), unknown[:, None].repeat(1, 3), None, nothing, torch.zeros(S, training.m), nothing,
        torch.zeros(S), unknown,
    )  # fmt: skip
    found = {arm.label: begun for arm in arms}
    # What an arm draws anew depends on the arm: each has draws of its own, from the same key.
    fresh = {arm.label: streams("revived") for arm in arms}
    pairs, kept = latents(draws, point, seeds).flatten(0, 1), []
    first_row, order = data.N * torch.arange(S)[:, None], batches(draws, seeds, data.N, K)

    for step in progress(range(T + 1), T + 1, label):
        rows = (first_row + next(order)).flatten()
        drawn = pairs.index_select(0, rows).unflatten(0, (S, K)).transpose(1, 2)
        attended = attend(space.sample_tokens(drawn.flatten(1, 2).float(), point.sigma, noise))
        beyond = space.draw_complement(complement)
        for arm in arms:
            now = found[arm.label]
            state = now.state
            whole, norms = forward(attended, state), state.weights.norm(dim=-1)

            # What the scores are read from; most arms read none.
            mean, batch = now.mean, None
            judging = bool(scored) and arm.label == "dense"
            if judging or needs_moments(arm):
                f_x, f_y, _ = whole.views(K)
                needs = judging or arm.mask == "residual"
                left = (
                    1 - probabilities(f_x, f_y, training.tau).diagonal(dim1=-2, dim2=-1)
                    if needs
                    else torch.zeros(S, K)
                )
                batch = batch_moments(f_x, f_y, whole.pre[:, :K].sum(2), left, norms, now.before)
                mean = update_running_moments(mean, batch, step, memory)
                if judging and step in scored:
                    kept.append(ScoredState(step, state.weights, batch, mean))
            idle = torch.where((whole.f != 0).any(1), 0.0, now.idle + 1)

            source = batch if arm.source == "batch" else mean
            seen = rules.PruningContext(
                state.weights,
                space.dictionary,
                len(data.minority),
                draw=draw,
                moments=source,
                step=step,
            )
            chosen = choose_neurons(arm, point, seen, now.chosen)
            mask = apply_stop(arm, chosen, norms)
            if step == T:
                found[arm.label] = now._replace(
                    mean=mean, chosen=mask, idle=idle, loss=batch_loss(whole, training)
                )
                continue

            pruned = (
                apply_mask(whole, mask, attended, state)
                if arm.mask and step >= arm.onset
                else whole
            )
            gates, how, redraw = state.bias, "masked_keys" if arm.masked_keys else "unmasked", None
            young, revivals = now.young, now.revivals
            silent = (idle >= patience) & (state.bias > 0)
            if arm.reopened and silent.any():
                # Both a gate and a key of a shut neuron are 0, and with either its gradient.
                gates = state.bias.masked_fill(silent, 0.0)
                whole, how = whole._replace(f=embed(whole.pre, gates)), "unmasked"
            if arm.revived and silent.any():
                redraw = partial(
                    reinitialise_neurons,
                    space,
                    which=silent,
                    sigma_0=training.sigma_0,
                    generators=fresh[arm.label],
                )
                young, idle, revivals = (
                    young | silent,
                    idle.masked_fill(silent, 0.0),
                    revivals + silent.sum(-1),
                )
            gradient = loss_gradient(whole, pruned, gates, training, how)
            rule = partial(bias_after_step, arm, point, mean)
            after = apply_step(
                space,
                state,
                gradient,
                attended,
                training,
                training.bias.T1,
                rule,
                step,
                beyond,
                redraw,
            )
            if young.any():
                young = young & (feature_share(after.weights, space.dictionary) < 0.5)
                after = after._replace(bias=after.bias.masked_fill(young, 0.0))
            at_T1 = metrics_at_T1(now, after, space.dictionary)
            found[arm.label] = ArmReplicas(
                after, norms, at_T1, mean, chosen, idle, young, revivals, now.loss
            )
    return found, kept, draw


def needs_moments(arm: Intervention) -> bool:
    """Whether an arm reads moments."""
    return bool(arm.threshold) or (bool(arm.mask) and arm.mask not in OF_CORE)


def choose_neurons(
    arm: Intervention, point: TrainingPoint, seen: rules.PruningContext, before: Tensor
) -> Tensor:
    """What a rule prunes at a step, bool (S, m); between two choices, and before the onset, what it was."""
    if (
        not arm.mask
        or seen.step < arm.onset
        or (arm.renewed and (seen.step - arm.onset) % arm.renewed)
    ):
        return before
    alpha = ratio(arm, point, seen.step)
    if arm.mask in OF_CORE:
        return OF_CORE[arm.mask](seen._replace(alpha=alpha))
    return mask_smallest(compute_score(arm.mask, seen.moments, seen.draw), alpha)


def ratio(arm: Intervention, point: TrainingPoint, step: int) -> float:
    """The share of neurons that a rule prunes at a step."""
    whole = arm.alpha or 1 / point.data.d
    if not arm.schedule:
        return whole
    passed = (step - arm.onset) / (point.training.T - arm.onset)
    return whole * (passed if arm.schedule == "rising" else 1 - passed)


def apply_stop(arm: Intervention, chosen: Tensor, norms: Tensor) -> Tensor:
    """Of what is chosen, with `stop` only what is below the mean norm of the others, bool (S, m)."""
    if not arm.stop:
        return chosen
    others = (norms * ~chosen).sum(-1, keepdim=True) / (~chosen).sum(-1, keepdim=True)
    return chosen & (norms < others)


def metrics_at_T1(now: ArmReplicas, after: TrainState, dictionary: Tensor) -> Tensor:
    """What was learned of the rare feature by T1, where stage 1 has ended with this step."""
    ending = (now.state.T1 < 0) & (after.T1 >= 0)
    if not ending.any():
        return now.at_T1
    strength = matmul(after.weights, dictionary).square().sum(1)
    cosines = absolute_cosines(after.weights, dictionary)[..., -1].topk(2, dim=-1).values
    reached = torch.cat([cosines, strength[:, -1:] / strength.sum(-1, keepdim=True)], -1)
    return torch.where(ending[:, None], reached, now.at_T1)


def bias_after_step(
    arm: Intervention, point: TrainingPoint, mean: Moments | None, moved: BiasContext
) -> Tensor:
    """The bias after a step, (S, m): 0 until T1 and the arm's delay."""
    found = follow(moved.norms, point.data.d, point.training.bias.share)
    if arm.threshold:
        # Of the linear answer: a gate that the bias shuts would fix its own threshold.
        rates = effective_rate(mean.linear_second, mean.linear_fourth)
        rates = rates.masked_fill(rates >= SILENT_LAST, 0.0)
        values = rates * moved.norms if arm.threshold == "norm_and_rate" else rates
        found = found.mean(-1, keepdim=True) * values / values.mean(-1, keepdim=True)
    begun = (moved.T1 >= 0) & (moved.step >= moved.T1 + arm.delay)
    return torch.where(begun[:, None], found, 0.0)


def reinitialise_neurons(
    space: ReducedSimulator, weights: Tensor, which: Tensor, sigma_0: float, generators: Generators
) -> Tensor:
    """The weights with some neurons drawn anew as at the start, N(0, sigma_0^2) in every direction of R^d1, exact in law.

    A new neuron meets the span of the others in Gaussian coordinates, and what it has beyond has a chi length: (S, m, p),
    bool (S, m) -> (S, m, p). A replica draws only where it has such a neuron.
    """
    found = weights.clone()
    for s in which.any(-1).nonzero().flatten().tolist():
        for i in which[s].nonzero().flatten().tolist():
            g = [generators[s]]
            row = sigma_0 * standard_normals(1, 1, space.p, g)[0, 0]
            beyond = (
                sigma_0 * chi_variables(1, 1, space.nu, g)[0, 0, 0]
                if space.nu
                else torch.tensor(0.0)
            )
            within = found[s, :, space.d :].double()
            own = row[space.d :].double()
            across = within @ own
            gram = within @ within.T
            gram[i], gram[:, i] = across, across
            gram[i, i] = own.square().sum() + beyond.double() ** 2
            features = found[s : s + 1, :, : space.d].clone()
            features[0, i] = row[: space.d]
            if space.nu:
                found[s] = space.join_coordinates(features, robust_cholesky(gram[None]).float())[0]
            else:
                found[s, i] = row
    return found
