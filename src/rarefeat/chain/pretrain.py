"""Stage 2: contrastive training at one point, every arm and replica of a block of seeds at once (eq. 1-5, Algorithm 1)."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rarefeat.config.model import Arm, Data, Training
from rarefeat.core.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.core.arms import ARMS, PruningContext
from rarefeat.core.batch_invariant import matmul
from rarefeat.core.bias import make_bias_rule
from rarefeat.core.contrastive import infonce_floor, probabilities
from rarefeat.core.device import any_or_gpu
from rarefeat.core.encoder import attend
from rarefeat.core.errors import RarefeatError
from rarefeat.core.neurons import alignment_metrics, minority_overlap
from rarefeat.core.positive_pairs import PairSampler
from rarefeat.core.randomness import Generators, draw, make_generators
from rarefeat.core.recorded_steps import log_spaced
from rarefeat.core.simulators import make_simulator, to_device
from rarefeat.core.sparse_coding import aggregated_sign
from rarefeat.core.training import (
    ForwardOutput,
    TrainState,
    apply_mask,
    apply_step,
    batch_loss,
    forward,
    initial_state,
    loss_gradient,
    replicas_per_batch,
)
from rarefeat.run.cli_helpers import progress
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs

MOMENT_WINDOW_STEPS = 100
"""Steps of the running means that a rule may read."""
DIVERGED_NORM = 1e6
"""Norms beyond this in every replica of every arm are a mistake of the config; in some of them, a result that tables tell."""
ALL_DIVERGED = "training diverged: norms of neurons pass 1e6 in every replica of every arm; lower eta, sigma or T"


def batches(study: str, seeds: list[int], N: int, K: int, device: str = "cpu") -> Iterator[Tensor]:
    """Indices of the training pairs of each step, (S, K): a new order each epoch, K without replacement."""
    generators = make_generators(study, seeds, "batches")
    while True:
        order = torch.stack([torch.randperm(N, generator=g) for g in generators]).to(device)
        yield from order[:, : N // K * K].split(K, dim=1)


class TrainedEncoder(NamedTuple):
    """What training changes, for S replicas of one arm."""

    weights: Tensor
    """(S, m, p), in the simulator's coordinates."""
    bias: Tensor
    """(S, m)."""
    T1: Tensor
    """(S,), the step that ended stage 1; -1 for none."""
    T2: Tensor
    """(S,), the step that ended stage 2: a neuron has grown d-fold in norm^2 since T1, eq. (61); -1 for none."""
    history: Tensor
    """(S, R, m, d + 2), <w_i, M_j>, ||w_i|| and b_i at the R recorded steps (log_spaced); R = 0 where they are not kept.

    With a colour nuisance, its directions stand after the d features.
    """
    ends: Tensor
    """(S, 2, m, d + 2), the same at T1 and at T2, where the history is kept; NaN until then."""
    loss: Tensor
    """(S,), unmasked InfoNCE of the last step's batch; infinite for a replica that has diverged."""


def summarise_neurons(weights: Tensor, bias: Tensor, directions: Tensor) -> Tensor:
    """What is kept of the neurons, (S, m, p), (S, m), (S, p, q) -> (S, m, q + 2): projections, norm and bias."""
    return torch.cat(
        [matmul(weights, directions), weights.norm(dim=-1, keepdim=True), bias[..., None]], -1
    )


class NeuronHistory(NamedTuple):
    """What is kept of neurons on their way: see TrainedEncoder."""

    T2: Tensor
    history: Tensor
    ends: Tensor

    def append_history(self, now: Tensor) -> "NeuronHistory":
        """With the neurons at one more recorded step."""
        return self._replace(history=torch.cat([self.history, now[:, None]], 1))

    def record_milestones(
        self, before: TrainState, after: TrainState, step: int, d: int, directions: Tensor
    ) -> "NeuronHistory":
        """With the neurons at T1, if stage 1 has ended with this step; and at T2, eq. (61), counted from there."""
        starting, norms = (before.T1 < 0) & (after.T1 >= 0), after.weights.norm(dim=-1)
        grown = (norms.square() >= d * self.ends[:, 0, :, -2].square()).any(-1) & (self.T2 < 0)
        now = torch.stack([starting, grown], 1)[..., None, None]
        if not any_or_gpu(now):
            return self
        # The bias at T1 is the first that the rule sets; that of T2 is that step's.
        ends = torch.where(
            now, summarise_neurons(after.weights, after.bias, directions)[:, None], self.ends
        )
        return self._replace(T2=torch.where(grown, step + 1, self.T2), ends=ends)


class ArmGroup(NamedTuple):
    """A training, and the arms that it is: those that no mask has parted yet are one, to the last bit."""

    arms: list[Arm]
    state: TrainState
    course: NeuronHistory
    mean: Moments | None = None
    """Running means over MEMORY steps, where a rule may read them."""
    norms: Tensor | None = None
    """||w_i|| a step before, (S, m), with these."""

    def update_moments(self, whole: ForwardOutput, training: Training, step: int) -> "ArmGroup":
        """With the running means of one more step, where a rule may read them."""
        if not any(ARMS[arm.arm].moments for arm in self.arms):
            return self
        f_x, f_y, negatives = whole.views(training.K)
        left = 1 - probabilities(f_x, f_y, training.tau, negatives).diagonal(dim1=-2, dim2=-1)
        norms = self.state.weights.norm(dim=-1)
        before = norms if self.norms is None else self.norms
        batch = batch_moments(f_x, f_y, whole.pre[:, : training.K].sum(2), left, norms, before)
        return self._replace(
            mean=update_running_moments(self.mean, batch, step, MOMENT_WINDOW_STEPS), norms=norms
        )


def compute_mask(arm: Arm, seen: PruningContext, own: Generators) -> Tensor | None:
    """What an arm prunes at a step, bool (S, m) or (S, m, p); None for an arm without a mask, and before its onset.

    Args:
        own: generators of the arm alone, one for each replica.
    """
    rule = ARMS[arm.arm].rule
    return (
        rule(seen._replace(alpha=arm.alpha, generators=own))
        if rule and seen.step >= arm.onset
        else None
    )


def split_by_mask(
    arms: list[Arm], masks: dict[str, Tensor | None]
) -> list[tuple[list[Arm], Tensor | None]]:
    """The arms that mask nothing at a step, which stay together; then each of the others with its mask."""
    pruning = [arm for arm in arms if (mask := masks[arm.label]) is not None and any_or_gpu(mask)]
    idle = [arm for arm in arms if arm not in pruning]
    return ([(idle, None)] if idle else []) + [([arm], masks[arm.label]) for arm in pruning]


def recorded_metrics(seen: PruningContext, loss: Tensor, floor: Tensor) -> dict[str, Tensor]:
    """The metrics of a step, (S,) each."""
    norms = seen.weights.norm(dim=-1)
    means = {"weight_norm": norms.mean(-1), "bias_share": (seen.bias / norms).mean(-1)}
    return (
        alignment_metrics(seen.weights, seen.dictionary, seen.minority)
        | {"loss": loss, "loss_floor": floor}
        | means
    )


def overlap_metric(mask: Tensor | None, seen: PruningContext) -> dict[str, Tensor]:
    """What of an arm's mask lies in neurons of the minority."""
    if mask is None:
        return {}
    return {
        "mask_minority_overlap": minority_overlap(
            mask, seen.weights, seen.dictionary, seen.minority
        )
    }


def pretrain(
    study: str,
    simulator: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    train: Tensor,
    label: str = "pretrain",
) -> tuple[dict[str, TrainedEncoder], list[dict]]:
    """Train every arm of one point on the same tokens. What an arm becomes does not depend on the arms beside it.

    Args:
        train: latent training pairs, int8 (S, N, 2, L, d).

    Returns:
        The encoders by label of the arm, and the trajectory, a row {seed, the keys of the arm, step, metric, value} for each.
        Losses are those of the step's own batch, unmasked, without the l2 term. A replica that has diverged is no longer
        updated, so that its weights stay finite, and has an infinite loss.

    Raises:
        RarefeatError: for a mask of single weights under the reduced simulator.
    """
    if simulator == "reduced" and (
        wrong := [arm.arm for arm in arms if ARMS[arm.arm].single_weights]
    ):
        raise RarefeatError(
            f"arm {wrong[0]} masks single weights in R^d1, which only the simulator direct has"
        )
    encoders, courses = train_arms(
        study, simulator, data, training, arms, sigma, seeds, train, label
    )
    trajectory = [
        {"seed": seed, **arm.model_dump(), "step": step, "metric": name, "value": float(value)}
        for step, found in courses.items()
        for arm in arms
        for name, values in found[arm.label].items()
        for seed, value in zip(seeds, values.tolist(), strict=True)
    ]
    return {
        arm: TrainedEncoder(*(part.cpu() for part in encoder)) for arm, encoder in encoders.items()
    }, trajectory


def train_arms(
    study: str,
    simulator: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    train: Tensor,
    label: str,
) -> tuple[dict[str, TrainedEncoder], dict[int, dict[str, dict[str, Tensor]]]]:
    """`pretrain` without a wait for the device: the metrics, (S,) each, by recorded step, arm and name, and all on the device.

    What is drawn once, and which pairs are in a batch, is drawn on the processor; what is drawn at each step, on the device.
    """
    S, K, T, minority, device = (
        len(seeds),
        training.K,
        training.T,
        len(data.minority),
        training.device,
    )
    space = to_device(make_simulator(simulator, study, data.d, data.d1, training.m, seeds), device)
    noise, complement = (
        make_generators(study, seeds, purpose, device) for purpose in ("noise", "complement")
    )
    pairs = PairSampler(data.views, space, simulator, study, seeds)
    directions = (
        torch.cat([space.dictionary, pairs.directions], -1)
        if data.views.colour
        else space.dictionary
    )
    # One draw for the whole training: the control prunes the same neurons at every step.
    draw_ = draw(torch.rand, make_generators(study, seeds, "random mask"), training.m).to(device)
    own = {arm.label: make_generators(study, seeds, f"rule {arm.label}") for arm in arms}
    size = training.m, directions.shape[-1] + 2
    nothing = torch.full((S, 2 if training.history else 0, *size), torch.nan, device=device)
    first = initial_state(
        space.initial_weights(training.sigma_0, make_generators(study, seeds, "weights")).to(device)
    )
    trainings = [ArmGroup(arms, first, NeuronHistory(first.T1, nothing[:, :0], nothing))]
    rule = make_bias_rule(training.bias, data.d, training.eta)
    recorded, order = set(log_spaced(T)), batches(study, seeds, data.N, K, device)
    train, first_row = (
        train.to(device).flatten(0, 1),
        data.N * torch.arange(S, device=device)[:, None],
    )
    encoders, courses = {}, {}

    for step in progress(range(T + 1), T + 1, label):
        # Two views of K pairs, and negatives of another kind where there are some: attended tokens (S, 2 K or 3 K, L, P), the
        # same for every arm.
        rows = (first_row + next(order)).flatten()
        latents = train.index_select(0, rows).unflatten(0, (S, K)).transpose(1, 2)
        attended = attend(pairs.sample_pair_tokens(latents.flatten(1, 2).float(), sigma, noise))
        beyond = space.draw_complement(complement)
        now, trainings, found = trainings, [], {}
        for begun in now:
            state = begun.state
            whole = forward(attended, state)
            alike, _, course, mean, norms = begun.update_moments(whole, training, step)
            f_x, f_y, _ = whole.views(K)
            seen = PruningContext(
                state.weights,
                space.dictionary,
                minority,
                0.0,
                draw_,
                state.bias,
                f_x,
                f_y,
                mean,
                step,
            )
            masks = {arm.label: compute_mask(arm, seen, own[arm.label]) for arm in alike}
            if step in recorded:
                metrics = recorded_metrics(
                    seen, batch_loss(whole, training), infonce_floor(aggregated_sign(latents[:, 0]))
                )
                found |= {
                    label: metrics | overlap_metric(mask, seen) for label, mask in masks.items()
                }
                if training.history:
                    course = course.append_history(
                        summarise_neurons(state.weights, state.bias, directions)
                    )
            if step == T:
                end = batch_loss(whole, training).masked_fill(state.diverged, torch.inf)
                encoders |= {
                    label: TrainedEncoder(state.weights, state.bias, state.T1, *course, end)
                    for label in masks
                }
                continue
            for arms_now, mask in split_by_mask(alike, masks):
                how = arms_now[0].pruned_update
                pruned = whole if mask is None else apply_mask(whole, mask, attended, state, how)
                gradient = loss_gradient(whole, pruned, state.bias, training, how)
                after = apply_step(
                    space, state, gradient, attended, training, training.bias.T1, rule, step, beyond
                )
                on = (
                    course.record_milestones(state, after, step, data.d, directions)
                    if training.history
                    else course
                )
                trainings.append(ArmGroup(arms_now, after, on, mean, norms))
        if step == T:
            found = {
                label: metrics | {"T1": encoders[label].T1} for label, metrics in found.items()
            }
        if found:
            courses[step] = found
    return encoders, courses


def have_all_diverged(weights: Tensor, loss: Tensor) -> bool:
    """Whether every replica of an arm is beyond what any config can mean."""
    return bool(((weights.norm(dim=-1).amax(-1) > DIVERGED_NORM) | loss.isinf()).all())


def stage(read: JobInputs, job: Job) -> tuple[dict[str, Tensor], list[dict]]:
    """The stage: encoders and trajectories."""
    draws, simulator, data = (
        job.config_section("draws", str),
        job.config_section("simulator", str),
        job.config_section("data", Data),
    )
    training, arms, seeds = (
        job.config_section("training", Training),
        job.config_section("arms", list[Arm]),
        job.seed_list,
    )
    (train,) = read.file("latents").tensors("train")
    width = data.d1 if simulator == "direct" else min(data.d1, data.d + training.m)
    # A device takes the block at once; the cache of a processor holds a few replicas.
    size = replicas_per_batch(training.K, data.L, width) if training.device == "cpu" else len(seeds)
    parts, trajectory = [], []
    for first in range(0, len(seeds), size):
        now = slice(first, first + size)
        label = f"{job.label} from seed {seeds[first]}"
        encoders, rows = pretrain(
            draws, simulator, data, training, arms, job.cell["sigma"], seeds[now], train[now], label
        )
        parts.append(
            {
                f"{arm}/{name}": value
                for arm, encoder in encoders.items()
                for name, value in encoder._asdict().items()
            }
        )
        trajectory += rows
    encoders = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    if all(
        have_all_diverged(encoders[f"{arm.label}/weights"], encoders[f"{arm.label}/loss"])
        for arm in arms
    ):
        raise RarefeatError(ALL_DIVERGED)
    return encoders, trajectory
