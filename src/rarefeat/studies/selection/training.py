"""Contrastive training under the interventions of a sweep.

The steps are those of the chain (imbalance_and_pruning, eq. (1)-(5)), with other masks, biases and
gates. The arms dense, norm, random, largest and those of the oracles have the encoders of the
chain to the last bit; a test asserts it.

Purposes of the random streams, in the namespace `draws`: train, weights, noise, complement, random
mask and the order of batches, as in the chain; revived.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.chain.critical_frequency import TrainingPoint
from rarefeat.chain.pretrain import batches
from rarefeat.config.model import Training
from rarefeat.core import arms as rules
from rarefeat.core.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.core.batch_invariant import matmul
from rarefeat.core.bias import BiasContext, follow
from rarefeat.core.contrastive import probabilities
from rarefeat.core.encoder import embed
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
    ForwardOutput,
    TrainState,
    apply_mask,
    apply_step,
    batch_loss,
    initial_state,
    make_kernel,
)
from rarefeat.run.cli_helpers import progress
from rarefeat.studies.selection.config import Intervention
from rarefeat.studies.selection.scores import SILENT_LAST, compute_score, effective_rate

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
    """S replicas of one arm."""

    state: TrainState
    """State in the coordinates of the simulator `reduced`."""
    previous_norms: Tensor
    """||w_i|| a step before, (S, m)."""
    at_T1: Tensor
    """Metrics of the rare feature at T1, (S, 3), NaN until then.

    Largest cosine, second largest cosine, and fraction of the strength of all features.
    """
    mean: Moments | None
    """Running mean of the moments; None for an arm that reads none."""
    chosen: Tensor
    """Neurons that the rule chose last, bool (S, m)."""
    idle: Tensor
    """Batches in a row in which no sample opened the gate of a neuron, (S, m)."""
    young: Tensor
    """Neurons that were re-initialised and have no bias yet, bool (S, m)."""
    revivals: Tensor
    """Number of neurons that were re-initialised so far, (S,)."""
    loss: Tensor
    """Unmasked InfoNCE of the batch of the last step, (S,)."""


class ScoredState(NamedTuple):
    """The dense replicas at a step, with the moments that scores are computed from."""

    step: int
    weights: Tensor
    batch: Moments
    running: Moments


def latents(draws: str, point: TrainingPoint, seeds: list[int]) -> Tensor:
    """Draw the training pairs, those of the chain.

    Parameters
    ----------
    draws : str
        Namespace of the random streams.
    point : TrainingPoint
        Data and frequency.
    seeds : list of int
        Seeds.

    Returns
    -------
    int8 Tensor of shape (S, N, 2, L, d)
        Latents of both views.
    """
    data = point.data
    chance = activation_probability(frequencies(data.d, data.minority, point.eps_min), data.C)
    return torch.stack(
        [latent_pairs(data.N, data.L, chance, generator(draws, seed, "train")) for seed in seeds]
    )


def train(
    draws: str,
    point: TrainingPoint,
    arms: list[Intervention],
    scored: list[int],
    memory: int,
    patience: int,
    seeds: list[int],
    label: str = "train",
) -> tuple[dict[str, ArmReplicas], list[ScoredState], Tensor]:
    """Train every arm on the same tokens.

    The result of an arm and seed does not depend on the other arms, nor on the other seeds.

    Parameters
    ----------
    draws : str
        Namespace of the random streams.
    point : TrainingPoint
        Data, training and noise.
    arms : list of Intervention
        Arms.
    scored : list of int
        Steps at which the arm `dense` is recorded with its moments.
    memory : int
        Steps of the running mean.
    patience : int
        Batches without an open gate after which a neuron is silent.
    seeds : list of int
        Seeds.
    label : str
        Label of the progress display.

    Returns
    -------
    replicas : dict of str to ArmReplicas
        Replicas at T, by label of the arm.
    states : list of ScoredState
        The dense replicas at the scored steps.
    draw : Tensor of shape (S, m)
        Uniform draws of the score `random`.
    """
    data, training, S = point.data, point.training, len(seeds)
    K, T = training.K, training.T

    def streams(purpose: str) -> Generators:
        return [generator(draws, seed, purpose) for seed in seeds]

    simulator = make_simulator("reduced", draws, data.d, data.d1, training.m, seeds)
    kernel = make_kernel(training.kernel, simulator, simulator.sample_tokens, point.scale)
    weights = simulator.initial_weights(training.sigma_0, streams("weights"))
    noise, complement = streams("noise"), streams("complement")
    draw = torch.stack([torch.rand(training.m, generator=rng) for rng in streams("random mask")])
    no_neurons = torch.zeros(S, training.m, dtype=torch.bool)
    undefined = torch.full((S,), torch.nan)
    initial = ArmReplicas(
        state=initial_state(weights),
        previous_norms=weights.norm(dim=-1),
        at_T1=undefined[:, None].repeat(1, 3),
        mean=None,
        chosen=no_neurons,
        idle=torch.zeros(S, training.m),
        young=no_neurons,
        revivals=torch.zeros(S),
        loss=undefined,
    )
    replicas = {arm.label: initial for arm in arms}
    # An arm draws when it re-initialises a neuron: each arm has generators of its own, of one key.
    revived = {arm.label: streams("revived") for arm in arms}
    pairs, states = latents(draws, point, seeds).flatten(0, 1), []
    first_row, order = data.N * torch.arange(S)[:, None], batches(draws, seeds, data.N, K)

    for step in progress(range(T + 1), T + 1, label):
        rows = (first_row + next(order)).flatten()
        batch = pairs.index_select(0, rows).unflatten(0, (S, K)).transpose(1, 2)
        attended = kernel.attended_tokens(batch.flatten(1, 2).float(), point.sigma, noise)
        complement_draw = simulator.draw_complement(complement)
        for arm in arms:
            current = replicas[arm.label]
            state = current.state
            dense, norms = kernel.forward(attended, state), state.weights.norm(dim=-1)

            mean, moments = current.mean, None
            is_scored = bool(scored) and arm.label == "dense"
            if is_scored or needs_moments(arm):
                moments = measure_moments(
                    dense, current, norms, training, is_scored or arm.mask == "residual"
                )
                mean = update_running_moments(mean, moments, step, memory)
                if is_scored and step in scored:
                    states.append(ScoredState(step, state.weights, moments, mean))
            idle = torch.where((dense.f != 0).any(1), 0.0, current.idle + 1)

            context = rules.PruningContext(
                state.weights,
                simulator.dictionary,
                len(data.minority),
                draw=draw,
                moments=moments if arm.source == "batch" else mean,
                step=step,
            )
            chosen = choose_neurons(arm, point, context, current.chosen)
            mask = apply_stop(arm, chosen, norms)
            if step == T:
                replicas[arm.label] = current._replace(
                    mean=mean, chosen=mask, idle=idle, loss=batch_loss(dense, training)
                )
                continue

            has_mask = arm.mask and step >= arm.onset
            masked = apply_mask(dense, mask, attended, state) if has_mask else dense
            mode = "masked_keys" if arm.masked_keys else "unmasked"
            gate_bias, after_descent = state.bias, None
            young, revivals = current.young, current.revivals
            silent = (idle >= patience) & (state.bias > 0)
            if arm.reopened and silent.any():
                # Gate and key of a neuron with a closed gate are 0; each alone stops its gradient.
                gate_bias = state.bias.masked_fill(silent, 0.0)
                dense, mode = dense._replace(f=embed(dense.pre, gate_bias)), "unmasked"
            if arm.revived and silent.any():
                after_descent = partial(
                    reinitialise_neurons,
                    simulator,
                    which=silent,
                    sigma_0=training.sigma_0,
                    generators=revived[arm.label],
                )
                young, idle = young | silent, idle.masked_fill(silent, 0.0)
                revivals = revivals + silent.sum(-1)
            next_state = apply_step(
                kernel.simulator,
                state,
                kernel.loss_gradient(dense, masked, gate_bias, training, mode),
                attended,
                training,
                training.bias.T1,
                partial(bias_after_step, arm, point, mean),
                step,
                complement_draw,
                after_descent,
            )
            if young.any():
                # Eq. (34) holds for a neuron once half of its square lies in the features.
                young = young & (feature_share(next_state.weights, simulator.dictionary) < 0.5)
                next_state = next_state._replace(bias=next_state.bias.masked_fill(young, 0.0))
            at_T1 = metrics_at_T1(current, next_state, simulator.dictionary)
            replicas[arm.label] = ArmReplicas(
                next_state, norms, at_T1, mean, chosen, idle, young, revivals, current.loss
            )
    return replicas, states, draw


def needs_moments(arm: Intervention) -> bool:
    """Return whether an arm reads moments."""
    return bool(arm.threshold) or (bool(arm.mask) and arm.mask not in CORE_RULES)


def measure_moments(
    dense: ForwardOutput,
    current: ArmReplicas,
    norms: Tensor,
    training: Training,
    with_residual: bool,
) -> Moments:
    """Compute the moments of the batch of a step.

    Parameters
    ----------
    dense : ForwardOutput
        Output of the dense network, of 2 K views.
    current : ArmReplicas
        Replicas before the step.
    norms : Tensor of shape (S, m)
        Norms ||w_i||.
    training : Training
        Batch size and temperature.
    with_residual : bool
        Whether to compute the residual, which is 0 otherwise.

    Returns
    -------
    Moments
    """
    K = training.K
    f_x, f_y, _ = dense.views(K)
    residual = torch.zeros(len(norms), K)
    if with_residual:
        residual = 1 - probabilities(f_x, f_y, training.tau).diagonal(dim1=-2, dim2=-1)
    linear = dense.pre[:, :K].sum(2)
    return batch_moments(f_x, f_y, linear, residual, norms, current.previous_norms)


def choose_neurons(
    arm: Intervention, point: TrainingPoint, context: rules.PruningContext, previous: Tensor
) -> Tensor:
    """Choose the neurons that the rule of an arm prunes at a step.

    Parameters
    ----------
    arm : Intervention
        Arm.
    point : TrainingPoint
        Data and training.
    context : PruningContext
        State at the step.
    previous : bool Tensor of shape (S, m)
        Neurons that were chosen last.

    Returns
    -------
    bool Tensor of shape (S, m)
        The previous ones without a mask, before the onset, and between two choices.
    """
    if (
        not arm.mask
        or context.step < arm.onset
        or (arm.renewed and (context.step - arm.onset) % arm.renewed)
    ):
        return previous
    alpha = ratio(arm, point, context.step)
    if arm.mask in CORE_RULES:
        return CORE_RULES[arm.mask](context._replace(alpha=alpha))
    return mask_smallest(compute_score(arm.mask, context.moments, context.draw), alpha)


def ratio(arm: Intervention, point: TrainingPoint, step: int) -> float:
    """Return the fraction of neurons that a rule prunes at a step.

    Parameters
    ----------
    arm : Intervention
        Arm; its alpha, 1/d if that is 0, follows its schedule from the onset to T.
    point : TrainingPoint
        Data and training.
    step : int
        Step, counted from 0.
    """
    alpha = arm.alpha or 1 / point.data.d
    if not arm.schedule:
        return alpha
    passed = (step - arm.onset) / (point.training.T - arm.onset)
    return alpha * (passed if arm.schedule == "rising" else 1 - passed)


def apply_stop(arm: Intervention, chosen: Tensor, norms: Tensor) -> Tensor:
    """Return the mask of an arm: with `stop`, only chosen neurons with a small norm.

    Parameters
    ----------
    arm : Intervention
        Arm.
    chosen : bool Tensor of shape (S, m)
        Neurons that the rule chose.
    norms : Tensor of shape (S, m)
        Norms ||w_i||.

    Returns
    -------
    bool Tensor of shape (S, m)
        With `stop`, the chosen neurons below the mean norm of the others.
    """
    if not arm.stop:
        return chosen
    others = (norms * ~chosen).sum(-1, keepdim=True) / (~chosen).sum(-1, keepdim=True)
    return chosen & (norms < others)


def metrics_at_T1(current: ArmReplicas, next_state: TrainState, dictionary: Tensor) -> Tensor:
    """Return the metrics of the rare feature at T1, updated where stage 1 ends with this step.

    Parameters
    ----------
    current : ArmReplicas
        Replicas before the step.
    next_state : TrainState
        State after the step.
    dictionary : Tensor of shape (S, p, d)
        Features as columns; the rare one is the last.

    Returns
    -------
    Tensor of shape (S, 3)
        See `ArmReplicas.at_T1`.
    """
    ending = (current.state.T1 < 0) & (next_state.T1 >= 0)
    if not ending.any():
        return current.at_T1
    strength = matmul(next_state.weights, dictionary).square().sum(1)
    cosines = absolute_cosines(next_state.weights, dictionary)[..., -1].topk(2, dim=-1).values
    reached = torch.cat([cosines, strength[:, -1:] / strength.sum(-1, keepdim=True)], -1)
    return torch.where(ending[:, None], reached, current.at_T1)


def bias_after_step(
    arm: Intervention, point: TrainingPoint, mean: Moments | None, context: BiasContext
) -> Tensor:
    """Return the bias after a step.

    Parameters
    ----------
    arm : Intervention
        Arm.
    point : TrainingPoint
        Data and training.
    mean : Moments or None
        Running mean of the moments, for an arm with `threshold`.
    context : BiasContext
        State after the descent.

    Returns
    -------
    Tensor of shape (S, m)
        0 until T1 and the delay of the arm.
    """
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
    simulator: ReducedSimulator,
    weights: Tensor,
    which: Tensor,
    sigma_0: float,
    generators: Generators,
) -> Tensor:
    """Draw some neurons again from the initial distribution, N(0, sigma_0^2) in R^d1.

    The distribution is exact. A new neuron has Gaussian coordinates in the span of the other
    neurons, and beyond it a length with a chi distribution. A replica draws only if it has such a
    neuron.

    Parameters
    ----------
    simulator : ReducedSimulator
        Simulator of the S replicas.
    weights : Tensor of shape (S, m, p)
        Weights.
    which : bool Tensor of shape (S, m)
        Neurons to re-initialise.
    sigma_0 : float
        Standard deviation.
    generators : list of torch.Generator
        Generator of each replica.

    Returns
    -------
    Tensor of shape (S, m, p)
        New weights; those of the other neurons have the same inner products as before.
    """
    result = weights.clone()
    for s in which.any(-1).nonzero().flatten().tolist():
        for i in which[s].nonzero().flatten().tolist():
            rng = [generators[s]]
            row = sigma_0 * standard_normals(1, 1, simulator.p, rng)[0, 0]
            beyond = (
                sigma_0 * chi_variables(1, 1, simulator.nu, rng)[0, 0, 0]
                if simulator.nu
                else torch.tensor(0.0)
            )
            within = result[s, :, simulator.d :].double()
            coordinates = row[simulator.d :].double()
            across = within @ coordinates
            gram = within @ within.T
            gram[i], gram[:, i] = across, across
            gram[i, i] = coordinates.square().sum() + beyond.double() ** 2
            features = result[s : s + 1, :, : simulator.d].clone()
            features[0, i] = row[: simulator.d]
            if simulator.nu:
                cholesky = robust_cholesky(gram[None]).float()
                result[s] = simulator.join_coordinates(features, cholesky)[0]
            else:
                result[s, i] = row
    return result
