"""Contrastive training under the arms of a sweep: the chain's steps (eq. 1-5), with other masks, biases and gates.

The arms dense, norm, random, largest and those of the oracles give the chain's encoders to the last digit (tests hold this).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.chain.pretrain import BYTES_AT_ONCE, LARGEST_NORM, batches
from rarefeat.core import bias as bias_rules
from rarefeat.core.contrastive import coefficients, infonce, probabilities
from rarefeat.core.encoder import attend, pre_activations, respond
from rarefeat.core.neurons import absolute_cosines, feature_share
from rarefeat.core.products import product
from rarefeat.core.pruning import oracle_gated_mask, oracle_mask, smallest
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import Generators, Reduced, chi, factor, make_simulator, normals
from rarefeat.core.sparse_coding import activation_probability, frequencies, latent_pairs
from rarefeat.run.command import progress
from rarefeat.studies.selection.config import Arm
from rarefeat.studies.selection.regimes import Point
from rarefeat.studies.selection.scores import SILENT_LAST, Averages, averages, rate, running, score


class Replicas(NamedTuple):
    """What training changes, for S replicas of one arm."""

    weights: Tensor
    """(S, m, p), in the coordinates of the simulator `reduced`."""
    bias: Tensor
    """(S, m)."""
    before: Tensor
    """||w_i|| a step before, (S, m)."""
    T1: Tensor
    """(S,), the step that ended stage 1; -1 for none."""
    at_T1: Tensor
    """(S, 3), of the rare feature at T1, NaN until then: largest and second largest cosine, share of all strength."""
    mean: Averages | None
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


class Judged(NamedTuple):
    """The dense replicas at a step, with what every score is read from."""

    step: int
    weights: Tensor
    batch: Averages
    running: Averages


def latents(draws: str, point: Point, seeds: list[int]) -> Tensor:
    """The training pairs that the chain has, int8 (S, N, 2, L, d)."""
    data = point.data
    chance = activation_probability(frequencies(data.d, data.minority, point.eps_min), data.C)
    return torch.stack([latent_pairs(data.N, data.L, chance, generator(draws, seed, "train")) for seed in seeds])


def train(
    draws: str, point: Point, arms: list[Arm], scored: list[int], memory: int, patience: int, seeds: list[int],
    label: str = "train",
) -> tuple[dict[str, Replicas], list[Judged], Tensor]:  # fmt: skip
    """Train every arm on the same tokens. What an arm becomes does not depend on the arms beside it, nor on the other seeds.

    Args:
        scored: steps at which the arm `dense` is kept with its averages. memory, patience: of the running mean, and of silence.

    Returns:
        The replicas by label of the arm, the dense ones at the scored steps, and the uniform draws of `random`, (S, m).
    """
    data, training, S = point.data, point.training, len(seeds)
    K, tau, eta, T = training.K, training.tau, training.eta, training.T
    space = make_simulator("reduced", draws, data.d, data.d1, training.m, seeds)
    initial = space.weights(training.sigma_0, [generator(draws, seed, "weights") for seed in seeds])
    draw = torch.stack([torch.rand(training.m, generator=generator(draws, seed, "random mask")) for seed in seeds])
    none, nothing = torch.full((S,), -1), torch.zeros(S, training.m, dtype=torch.bool)
    begun = Replicas(
        initial, torch.zeros(S, training.m), initial.norm(dim=-1), none, torch.full((S, 3), torch.nan), None, nothing,
        torch.zeros(S, training.m), nothing, torch.zeros(S), torch.full((S,), torch.nan),
    )  # fmt: skip
    found = {arm.label: begun for arm in arms}
    # Each arm has draws of its own, from the same key.
    streams = {arm.label: [generator(draws, seed, "complement") for seed in seeds] for arm in arms}
    fresh = {arm.label: [generator(draws, seed, "revived") for seed in seeds] for arm in arms}
    noise = [generator(draws, seed, "noise") for seed in seeds]
    pairs, kept = latents(draws, point, seeds).flatten(0, 1), []
    first_row, order = data.N * torch.arange(S)[:, None], batches(draws, seeds, data.N, K)

    for step in progress(range(T + 1), T + 1, label):
        rows = (first_row + next(order)).flatten()
        drawn = pairs.index_select(0, rows).unflatten(0, (S, K)).transpose(1, 2)
        attended = attend(space.tokens(drawn.flatten(1, 2).float(), point.sigma, noise))
        for arm in arms:
            now = found[arm.label]
            weights, bias = now.weights, now.bias
            pre = pre_activations(attended, weights)
            f = respond(pre, bias)
            f_x, f_y = f.split(K, dim=1)
            norms = weights.norm(dim=-1)

            # What the scores are read from; most arms read none.
            mean, batch = now.mean, None
            judging = bool(scored) and arm.label == "dense"
            if judging or watches(arm):
                needs = judging or arm.mask == "residual"
                left = 1 - probabilities(f_x, f_y, tau).diagonal(dim1=-2, dim2=-1) if needs else torch.zeros(S, K)
                batch = averages(f_x, f_y, pre[:, :K].sum(2), left, norms, now.before)
                mean = running(mean, batch, step, memory)
                if judging and step in scored:
                    kept.append(Judged(step, weights, batch, mean))
            idle = torch.where((f != 0).any(1), 0.0, now.idle + 1)

            chosen = choose(arm, point, now._replace(mean=mean, idle=idle), batch, space.dictionary, draw, step)
            mask = stopped(arm, chosen, norms)
            if step == T:
                found[arm.label] = now._replace(mean=mean, chosen=mask, idle=idle, loss=infonce(f_x, f_y, tau))
                continue

            # Eq. (5): the masked network gives the logits; embeddings, gates and the update are those of the dense one.
            masked = f.masked_fill(mask[:, None], 0.0) if arm.mask and step >= arm.onset else f
            p = probabilities(*masked.split(K, dim=1), tau)
            gates, keys = bias, masked[:, K:] if arm.masked_keys else f_y
            silent = (idle >= patience) & (bias > 0)
            if arm.reopened and silent.any():
                # Both a gate and a key of a shut neuron are 0, and with either its gradient.
                gates = bias.masked_fill(silent, 0.0)
                keys = respond(pre[:, K:], gates)
            descent = -eta * coefficients(pre[:, :K], gates, keys, p, tau)
            decay = 1 - eta * training.lambda_
            moved = space.step(weights, descent, attended[:, :K], decay, streams[arm.label])
            young, revivals = now.young, now.revivals
            if arm.revived and silent.any():
                moved = redrawn(space, moved, silent, training.sigma_0, fresh[arm.label])
                young, idle, revivals = young | silent, idle.masked_fill(silent, 0.0), revivals + silent.sum(-1)
            lost = ~(moved.norm(dim=-1) <= LARGEST_NORM).all(-1)
            if lost.any():
                moved = torch.where(lost[:, None, None], weights, moved)

            T1, at_T1 = end_of_stage_one(point, now, moved, space.dictionary, step)
            if young.any():
                young = young & (feature_share(moved, space.dictionary) < 0.5)
            bias = thresholds(arm, point, moved.norm(dim=-1), T1, step + 1, mean).masked_fill(young, 0.0)
            found[arm.label] = Replicas(moved, bias, norms, T1, at_T1, mean, chosen, idle, young, revivals, now.loss)
    return found, kept, draw


def watches(arm: Arm) -> bool:
    """Whether an arm reads averages."""
    return arm.mask not in ("", "norm", "random", "largest", "oracle_all", "oracle_gated") or bool(arm.threshold)


def choose(
    arm: Arm, point: Point, now: Replicas, batch: Averages | None, dictionary: Tensor, draw: Tensor, step: int
) -> Tensor:  # fmt: skip
    """What a rule prunes at a step, bool (S, m); between two choices, and before the onset, what it was."""
    if not arm.mask or step < arm.onset or (arm.renewed and (step - arm.onset) % arm.renewed):
        return now.chosen
    weights, minority = now.weights, len(point.data.minority)
    match arm.mask:
        case "oracle_all":
            return oracle_mask(weights, dictionary, minority)[..., 0]
        case "oracle_gated":
            return oracle_gated_mask(weights, dictionary, minority)[..., 0]
        case "largest":
            values = -weights.norm(dim=-1)
        case "norm":
            values = weights.norm(dim=-1)
        case "random":
            values = draw
        case _:
            values = score(arm.mask, batch if arm.source == "batch" else now.mean, draw)
    return smallest(values, ratio(arm, point, step))


def ratio(arm: Arm, point: Point, step: int) -> float:
    """The share of neurons that a rule prunes at a step."""
    whole = arm.alpha or 1 / point.data.d
    if not arm.schedule:
        return whole
    passed = (step - arm.onset) / (point.training.T - arm.onset)
    return whole * (passed if arm.schedule == "rising" else 1 - passed)


def stopped(arm: Arm, chosen: Tensor, norms: Tensor) -> Tensor:
    """Of what is chosen, with `stop` only what is below the mean norm of the others, bool (S, m)."""
    if not arm.stop:
        return chosen
    others = (norms * ~chosen).sum(-1, keepdim=True) / (~chosen).sum(-1, keepdim=True)
    return chosen & (norms < others)


def end_of_stage_one(point: Point, now: Replicas, moved: Tensor, dictionary: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """T1 after a step, and what was learned of the rare feature by then."""
    waiting = now.T1 < 0
    if not waiting.any():
        return now.T1, now.at_T1
    rule = point.training.bias.T1
    over = bias_rules.stage_one_over(feature_share(moved, dictionary)) if rule == "eq34" else torch.tensor(step + 1 >= rule)
    ending = waiting & over
    if not ending.any():
        return now.T1, now.at_T1
    strength = product(moved, dictionary).square().sum(1)
    cosines = absolute_cosines(moved, dictionary)[..., -1].topk(2, dim=-1).values
    reached = torch.cat([cosines, strength[:, -1:] / strength.sum(-1, keepdim=True)], -1)
    return torch.where(ending, step + 1, now.T1), torch.where(ending[:, None], reached, now.at_T1)


def thresholds(arm: Arm, point: Point, norms: Tensor, T1: Tensor, step: int, mean: Averages | None) -> Tensor:
    """The bias after a step, (S, m): 0 until T1 and the arm's delay."""
    found = bias_rules.follow(norms, point.data.d, point.training.bias.share)
    if arm.threshold:
        # Of the linear answer: a gate that the bias shuts would fix its own threshold.
        rates = rate(mean.linear_second, mean.linear_fourth)
        rates = rates.masked_fill(rates >= SILENT_LAST, 0.0)
        values = rates * norms if arm.threshold == "norm_and_rate" else rates
        found = found.mean(-1, keepdim=True) * values / values.mean(-1, keepdim=True)
    begun = (T1 >= 0) & (step >= T1 + arm.delay)
    return torch.where(begun[:, None], found, 0.0)


def redrawn(space: Reduced, weights: Tensor, which: Tensor, sigma_0: float, generators: Generators) -> Tensor:
    """The weights with some neurons drawn anew as at the start, N(0, sigma_0^2) in every direction of R^d1, exact in law.

    A new neuron meets the span of the others in Gaussian coordinates, and what it has beyond has a chi length: (S, m, p),
    bool (S, m) -> (S, m, p). A replica draws only where it has such a neuron.
    """
    found = weights.clone()
    for s in which.any(-1).nonzero().flatten().tolist():
        for i in which[s].nonzero().flatten().tolist():
            g = [generators[s]]
            row = sigma_0 * normals(1, 1, space.p, g)[0, 0]
            beyond = sigma_0 * chi(1, 1, space.nu, g)[0, 0, 0] if space.nu else torch.tensor(0.0)
            within = found[s, :, space.d :].double()
            own = row[space.d :].double()
            across = within @ own
            gram = within @ within.T
            gram[i], gram[:, i] = across, across
            gram[i, i] = own.square().sum() + beyond.double() ** 2
            features = found[s : s + 1, :, : space.d].clone()
            features[0, i] = row[: space.d]
            if space.nu:
                found[s] = space.join(features, factor(gram[None]).float())[0]
            else:
                found[s, i] = row
    return found


def at_once(point: Point) -> int:
    """Replicas in one tensor program, as the chain counts them."""
    data, training = point.data, point.training
    width = min(data.d1, data.d + training.m)
    return max(1, int(BYTES_AT_ONCE / (2 * training.K * data.L * width * 4)))
