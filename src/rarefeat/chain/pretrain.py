"""Pipeline stage 2: contrastive training of all arms and replicas of a cell.

Axes: S replicas, N training pairs, K pairs of a batch, 2 views, L tokens, m neurons, p coordinates
of a weight, d features, R recorded steps. Equations are those of imbalance_and_pruning.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rarefeat.config.model import Arm, Data, Training
from rarefeat.core import stream_names
from rarefeat.core.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.core.arms import ARMS, PruningContext, Rule
from rarefeat.core.batch_invariant import matmul
from rarefeat.core.bias import make_bias_rule
from rarefeat.core.contrastive import infonce_floor, probabilities
from rarefeat.core.device import any_or_gpu
from rarefeat.core.errors import RarefeatError
from rarefeat.core.neurons import alignment_metrics, minority_overlap
from rarefeat.core.positive_pairs import PairSampler
from rarefeat.core.randomness import Generators, draw, make_generators
from rarefeat.core.recorded_steps import log_spaced
from rarefeat.core.simulators import make_simulator, to_device
from rarefeat.core.sparse_coding import aggregated_sign, balancing_weights
from rarefeat.core.training import (
    ForwardOutput,
    TrainState,
    apply_mask,
    apply_step,
    batch_loss,
    initial_state,
    make_kernel,
    replicas_per_batch,
)
from rarefeat.run.cli_helpers import progress
from rarefeat.run.job_inputs import JobInputs

MOMENT_WINDOW_STEPS = 100
"""Window of the running means that a rule may read (steps)."""
DIVERGED_NORM = 1e6
"""Norm of a neuron above which its replica has diverged.

Beyond it in every replica of every arm, the config is wrong; in some of them, it is a result.
"""
ALL_DIVERGED = (
    "training diverged: norms of neurons pass 1e6 in every replica of every arm;"
    " lower eta, sigma or T"
)


def batches(
    namespace: str, seeds: list[int], N: int, K: int, device: str = "cpu"
) -> Iterator[Tensor]:
    """Yield the indices of the training pairs of each step, without end.

    Every epoch visits the pairs in a new order, without replacement; N mod K of them are left out.
    Random stream: "batches".

    Parameters
    ----------
    namespace : str
        Namespace of the random streams.
    seeds : list of int
        One seed per replica.
    N : int
        Number of training pairs.
    K : int
        Pairs of a batch.
    device : str
        Device of the indices.

    Yields
    ------
    int64 Tensor of shape (S, K)
    """
    generators = make_generators(namespace, seeds, stream_names.BATCHES)
    while True:
        order = torch.stack([torch.randperm(N, generator=g) for g in generators]).to(device)
        yield from order[:, : N // K * K].split(K, dim=1)


class TrainedEncoder(NamedTuple):
    """Trained encoders of S replicas of one arm."""

    weights: Tensor
    """Weights in the coordinates of the simulator, of shape (S, m, p)."""
    bias: Tensor
    """Biases, of shape (S, m)."""
    T1: Tensor
    """Step that ended stage 1, of shape (S,); -1 for none."""
    T2: Tensor
    """Step that ended stage 2, of shape (S,); -1 for none, and without a history.

    At T2 some neuron has d times its squared norm at T1, eq. (61).
    """
    history: Tensor
    """<w_i, M_j>, ||w_i|| and b_i at the recorded steps, of shape (S, R, m, d + 2).

    R = 0 unless `training.history` is true. The directions of a colour nuisance follow the d
    features.
    """
    ends: Tensor
    """<w_i, M_j>, ||w_i|| and b_i at T1 and at T2, of shape (S, 2, m, d + 2).

    NaN where T1 or T2 is not reached. The second axis is empty without a history.
    """
    loss: Tensor
    """InfoNCE of the last step's batch without a mask, of shape (S,) (nat).

    Infinite for a replica that has diverged.
    """


def summarise_neurons(weights: Tensor, bias: Tensor, directions: Tensor) -> Tensor:
    """Return the projections, norm and bias of each neuron, which the history stores.

    Parameters
    ----------
    weights : Tensor of shape (S, m, p)
        Weights.
    bias : Tensor of shape (S, m)
        Biases.
    directions : Tensor of shape (S, p, q)
        Directions as columns.

    Returns
    -------
    Tensor of shape (S, m, q + 2)
    """
    return torch.cat(
        [matmul(weights, directions), weights.norm(dim=-1, keepdim=True), bias[..., None]], -1
    )


class NeuronHistory(NamedTuple):
    """History of the neurons of S replicas, as in `TrainedEncoder`, up to a step."""

    T2: Tensor
    """Step that ended stage 2, of shape (S,); -1 for none."""
    history: Tensor
    """Neurons at the recorded steps, of shape (S, R, m, d + 2)."""
    ends: Tensor
    """Neurons at T1 and at T2, of shape (S, 2, m, d + 2)."""

    def append_history(self, neurons: Tensor) -> "NeuronHistory":
        """Return a copy with the neurons, of shape (S, m, d + 2), at one more recorded step."""
        return self._replace(history=torch.cat([self.history, neurons[:, None]], 1))

    def record_milestones(
        self, previous: TrainState, current: TrainState, step: int, d: int, directions: Tensor
    ) -> "NeuronHistory":
        """Return a copy with the neurons at T1 and T2 filled in if this step reaches them.

        T1 is the step at which stage 1 ends. T2 is the first later step at which the squared norm
        of some neuron is d times its value at T1, eq. (61). The bias at T1 is the first one that
        the rule sets.

        Parameters
        ----------
        previous, current : TrainState
            States before and after the step.
        step : int
            Step number, counted from 0.
        d : int
            Number of features.
        directions : Tensor of shape (S, p, q)
            Directions of the projections.

        Returns
        -------
        NeuronHistory
        """
        starting = (previous.T1 < 0) & (current.T1 >= 0)
        norms = current.weights.norm(dim=-1)
        grown = (norms.square() >= d * self.ends[:, 0, :, -2].square()).any(-1) & (self.T2 < 0)
        reached = torch.stack([starting, grown], 1)[..., None, None]
        if not any_or_gpu(reached):
            return self
        neurons = summarise_neurons(current.weights, current.bias, directions)
        ends = torch.where(reached, neurons[:, None], self.ends)
        return self._replace(T2=torch.where(grown, step + 1, self.T2), ends=ends)


class ArmGroup(NamedTuple):
    """Training of one or several arms that no mask has distinguished so far, to the last bit."""

    arms: list[Arm]
    """Arms of the group."""
    state: TrainState
    """State of their common training."""
    history: NeuronHistory
    """History of their neurons."""
    moments: Moments | None = None
    """Running means over `MOMENT_WINDOW_STEPS` steps; None unless a rule may read them."""
    previous_norms: Tensor | None = None
    """||w_i|| a step before, of shape (S, m); None unless a rule may read running means."""

    def update_moments(self, dense: ForwardOutput, training: Training, step: int) -> "ArmGroup":
        """Return a copy with updated running means; the group itself if no rule may read them.

        Parameters
        ----------
        dense : ForwardOutput
            Output of the dense network for the batch.
        training : Training
            Provides the batch size K and the temperature tau.
        step : int
            Step number, counted from 0.

        Returns
        -------
        ArmGroup
        """
        if not any(ARMS[arm.arm].moments for arm in self.arms):
            return self
        f_x, f_y, negatives = dense.views(training.K)
        p = probabilities(f_x, f_y, training.tau, negatives)
        residual = 1 - p.diagonal(dim1=-2, dim2=-1)
        norms = self.state.weights.norm(dim=-1)
        previous = norms if self.previous_norms is None else self.previous_norms
        batch = batch_moments(
            f_x, f_y, dense.pre[:, : training.K].sum(2), residual, norms, previous
        )
        return self._replace(
            moments=update_running_moments(self.moments, batch, step, MOMENT_WINDOW_STEPS),
            previous_norms=norms,
        )


def compute_mask(
    arm: Arm, rule: Rule | None, context: PruningContext, generators: Generators
) -> Tensor | None:
    """Compute the mask of an arm at a step.

    Parameters
    ----------
    arm : Arm
        Arm.
    rule : Rule or None
        Pruning rule of the arm, made once per training; None for an arm without a mask.
    context : PruningContext
        State before the step; its `alpha` and `generators` are replaced by those of the arm.
    generators : Generators
        Sources of randomness for this arm alone.

    Returns
    -------
    bool Tensor of shape (S, m) or (S, m, p), or None
        True where pruned. None for an arm without a mask, and before its onset.
    """
    return (
        rule(context._replace(alpha=arm.alpha, generators=generators))
        if rule and context.step >= arm.onset
        else None
    )


def split_by_mask(
    arms: list[Arm], masks: dict[str, Tensor | None]
) -> list[tuple[list[Arm], Tensor | None]]:
    """Split arms that share one training into groups with equal masks.

    Arms without a mask, or whose mask is empty at this step, are still identical and stay in one
    group. Every other arm becomes a group of its own.

    Parameters
    ----------
    arms : list of Arm
        Arms that have been identical so far.
    masks : dict of str to Tensor or None
        Mask of each arm by its label.

    Returns
    -------
    list of (list of Arm, Tensor or None)
        The group without a mask first, if it is not empty.
    """
    pruning = [arm for arm in arms if (mask := masks[arm.label]) is not None and any_or_gpu(mask)]
    idle = [arm for arm in arms if arm not in pruning]
    return ([(idle, None)] if idle else []) + [([arm], masks[arm.label]) for arm in pruning]


def recorded_metrics(context: PruningContext, loss: Tensor, floor: Tensor) -> dict[str, Tensor]:
    """Compute the metrics of a recorded step that do not depend on the mask.

    Parameters
    ----------
    context : PruningContext
        State before the step.
    loss, floor : Tensor of shape (S,)
        Loss of the batch, and the floor below it (nat).

    Returns
    -------
    dict of str to Tensor of shape (S,)
    """
    norms = context.weights.norm(dim=-1)
    means = {"weight_norm": norms.mean(-1), "bias_share": (context.bias / norms).mean(-1)}
    return (
        alignment_metrics(context.weights, context.dictionary, context.n_minority)
        | {"loss": loss, "loss_floor": floor}
        | means
    )


def overlap_metric(mask: Tensor | None, context: PruningContext) -> dict[str, Tensor]:
    """Return the fraction of a mask in neurons of the minority; nothing without a mask."""
    if mask is None:
        return {}
    return {
        "mask_minority_overlap": minority_overlap(
            mask, context.weights, context.dictionary, context.n_minority
        )
    }


def pretrain(
    namespace: str,
    kind: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    train: Tensor,
    label: str = "pretrain",
    weights: Tensor | None = None,
) -> tuple[dict[str, TrainedEncoder], list[dict]]:
    """Train every arm of one cell on the same tokens.

    The result of an arm does not depend on the other arms.

    Parameters
    ----------
    namespace : str
        Namespace of the random streams.
    kind : {"direct", "reduced"}
        Name of the simulator.
    data : Data
        Hyper-parameters of the data.
    training : Training
        Hyper-parameters of the training.
    arms : list of Arm
        Arms to train.
    sigma : float
        Standard deviation of the noise per coordinate.
    seeds : list of int
        One seed per replica.
    train : int8 Tensor of shape (S, N, 2, L, d)
        Latent training pairs.
    label : str
        Label of the progress display.
    weights : Tensor of shape (S, m, p), optional
        Initial weights W(0); drawn by the simulator if not given.

    Returns
    -------
    encoders : dict of str to TrainedEncoder
        Encoders by the label of the arm, on the CPU.
    trajectory : list of dict
        One row {seed, keys of the arm, step, metric, value} for each recorded metric. Losses are
        those of the step's own batch, without a mask and without the l2 term. A replica that has
        diverged is no longer updated, so that its weights stay finite, and has an infinite loss.

    Raises
    ------
    RarefeatError
        For a mask of single weights under the reduced simulator.
    """
    if kind == "reduced" and (wrong := [arm.arm for arm in arms if ARMS[arm.arm].single_weights]):
        raise RarefeatError(
            f"arms: {wrong[0]} masks single weights in R^d1, got simulator: reduced;"
            " set simulator: direct"
        )
    encoders, recorded = train_arms(
        namespace, kind, data, training, arms, sigma, seeds, train, label, weights
    )
    trajectory = [
        {"seed": seed, **arm.model_dump(), "step": step, "metric": name, "value": float(value)}
        for step, metrics in recorded.items()
        for arm in arms
        for name, values in metrics[arm.label].items()
        for seed, value in zip(seeds, values.tolist(), strict=True)
    ]
    return {
        arm: TrainedEncoder(*(tensor.cpu() for tensor in encoder))
        for arm, encoder in encoders.items()
    }, trajectory


def train_arms(
    namespace: str,
    kind: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    train: Tensor,
    label: str,
    weights: Tensor | None = None,
) -> tuple[dict[str, TrainedEncoder], dict[int, dict[str, dict[str, Tensor]]]]:
    """Train the arms of `pretrain` without waiting for the GPU.

    Quantities that are drawn once, and the pairs of each batch, are drawn on the CPU; those that
    are drawn at each step, on the device of the training. Random streams: those of the simulator
    and of `PairSampler`, "noise", "complement", "random mask", "weights", "batches", and
    "rule LABEL" of each arm.

    Parameters
    ----------
    namespace : str
        Namespace of the random streams.
    kind : {"direct", "reduced"}
        Name of the simulator.
    data : Data
        Hyper-parameters of the data.
    training : Training
        Hyper-parameters of the training.
    arms : list of Arm
        Arms to train.
    sigma : float
        Standard deviation of the noise per coordinate.
    seeds : list of int
        One seed per replica.
    train : int8 Tensor of shape (S, N, 2, L, d)
        Latent training pairs.
    label : str
        Label of the progress display.
    weights : Tensor of shape (S, m, p), optional
        Initial weights W(0); drawn by the simulator if not given.

    Returns
    -------
    encoders : dict of str to TrainedEncoder
        Encoders by the label of the arm, on the device.
    recorded : dict
        Metrics of shape (S,), on the device, by recorded step, label of the arm, and name.
    """
    S, K, T, n_minority, device = (
        len(seeds),
        training.K,
        training.T,
        len(data.minority),
        training.device,
    )
    simulator = to_device(
        make_simulator(kind, namespace, data.d, data.d1, training.m, seeds), device
    )
    noise, complement = (
        make_generators(namespace, seeds, purpose, device)
        for purpose in (stream_names.NOISE, stream_names.COMPLEMENT)
    )
    pairs = PairSampler(data.views, simulator, kind, namespace, seeds)
    reweighted = data.balance == "reweighted"
    kernel = make_kernel(
        "torch" if reweighted else training.kernel,  # no native function weights pairs
        simulator,
        pairs.sample_pair_tokens,
        training.logit_scale(data.d1),
    )
    weights_of_pairs = balancing_weights(train, n_minority) if reweighted else torch.empty(0)
    pair_weights = weights_of_pairs.flatten().float().to(device)
    directions = (
        torch.cat([simulator.dictionary, pairs.directions], -1)
        if data.views.colour
        else simulator.dictionary
    )
    # One draw for the whole training: the control prunes the same neurons at every step.
    uniforms = draw(
        torch.rand, make_generators(namespace, seeds, stream_names.RANDOM_MASK), training.m
    ).to(device)
    rule_generators = {
        arm.label: make_generators(namespace, seeds, stream_names.RULE_PREFIX + arm.label)
        for arm in arms
    }
    rules = {arm.label: ARMS[arm.arm].rule for arm in arms}
    size = training.m, directions.shape[-1] + 2
    no_ends = torch.full((S, 2 if training.history else 0, *size), torch.nan, device=device)
    if weights is None:
        weight_generators = make_generators(namespace, seeds, stream_names.WEIGHTS)
        weights = simulator.initial_weights(training.sigma_0, weight_generators)
    initial = initial_state(weights.to(device))
    groups = [ArmGroup(arms, initial, NeuronHistory(initial.T1, no_ends[:, :0], no_ends))]
    bias_rule = make_bias_rule(training.bias, data.d, training.eta)
    recorded_steps, order = set(log_spaced(T)), batches(namespace, seeds, data.N, K, device)
    train, first_row = (
        train.to(device).flatten(0, 1),
        data.N * torch.arange(S, device=device)[:, None],
    )
    encoders, recorded = {}, {}

    for step in progress(range(T + 1), T + 1, label):
        # Two views of K pairs, and separate negatives if there are some: attended tokens of shape
        # (S, 2 K or 3 K, L, P), the same for every arm.
        rows = (first_row + next(order)).flatten()
        latents = train.index_select(0, rows).unflatten(0, (S, K)).transpose(1, 2)
        attended = kernel.attended_tokens(latents.flatten(1, 2).float(), sigma, noise)
        weighting = {"weights": pair_weights[rows].view(S, K)} if reweighted else {}
        complement_draw = simulator.draw_complement(complement)
        current_groups, groups, metrics_by_arm = groups, [], {}
        for group in current_groups:
            state = group.state
            dense = kernel.forward(attended, state)
            same_arms, _, history, moments, norms = group.update_moments(dense, training, step)
            f_x, f_y, _ = dense.views(K)
            context = PruningContext(
                state.weights,
                simulator.dictionary,
                n_minority,
                0.0,
                uniforms,
                state.bias,
                f_x,
                f_y,
                moments,
                step,
            )
            masks = {
                arm.label: compute_mask(arm, rules[arm.label], context, rule_generators[arm.label])
                for arm in same_arms
            }
            if step in recorded_steps:
                metrics = recorded_metrics(
                    context,
                    batch_loss(dense, training),
                    infonce_floor(aggregated_sign(latents[:, 0])),
                )
                metrics_by_arm |= {
                    label: metrics | overlap_metric(mask, context) for label, mask in masks.items()
                }
                if training.history:
                    history = history.append_history(
                        summarise_neurons(state.weights, state.bias, directions)
                    )
            if step == T:
                loss = batch_loss(dense, training).masked_fill(state.diverged, torch.inf)
                encoders |= {
                    label: TrainedEncoder(state.weights, state.bias, state.T1, *history, loss)
                    for label in masks
                }
                continue
            for group_arms, mask in split_by_mask(same_arms, masks):
                mode = group_arms[0].pruned_update
                masked = dense if mask is None else apply_mask(dense, mask, attended, state, mode)
                gradient = kernel.loss_gradient(
                    dense, masked, state.bias, training, mode, **weighting
                )
                next_state = apply_step(
                    kernel.simulator,
                    state,
                    gradient,
                    attended,
                    training,
                    training.bias.T1,
                    bias_rule,
                    step,
                    complement_draw,
                )
                next_history = (
                    history.record_milestones(state, next_state, step, data.d, directions)
                    if training.history
                    else history
                )
                groups.append(ArmGroup(group_arms, next_state, next_history, moments, norms))
        if step == T:
            metrics_by_arm = {
                label: metrics | {"T1": encoders[label].T1}
                for label, metrics in metrics_by_arm.items()
            }
        if metrics_by_arm:
            recorded[step] = metrics_by_arm
    return encoders, recorded


def have_all_diverged(weights: Tensor, loss: Tensor) -> bool:
    """Return whether every replica of an arm has diverged.

    Parameters
    ----------
    weights : Tensor of shape (S, m, p)
        Weights after the last step.
    loss : Tensor of shape (S,)
        Loss of the last step (nat).

    Returns
    -------
    bool
        A replica has diverged if a norm exceeds `DIVERGED_NORM` or its loss is infinite.
    """
    return bool(((weights.norm(dim=-1).amax(-1) > DIVERGED_NORM) | loss.isinf()).all())


def stage(
    inputs: JobInputs, draws: str, simulator: str, data: Data, training: Training, arms: list[Arm]
) -> tuple[dict[str, Tensor], list[dict]]:
    """Train the arms of a cell and seed block.

    Inputs: `train` of the file of latents. Outputs: the tensors of `TrainedEncoder` as ARM/FIELD,
    and the rows of the trajectories. RarefeatError if every replica of every arm has diverged.
    """
    job, seeds = inputs.job, inputs.job.seed_list
    (train,) = inputs.file("latents").tensors("train")
    width = data.d1 if simulator == "direct" else min(data.d1, data.d + training.m)
    # A GPU takes the whole block at once; the cache of a CPU holds the tokens of a few replicas.
    size = replicas_per_batch(training.K, data.L, width) if training.device == "cpu" else len(seeds)
    chunks, trajectory = [], []
    for first in range(0, len(seeds), size):
        chunk = slice(first, first + size)
        label = f"{job.label} from seed {seeds[first]}"
        encoders, rows = pretrain(
            draws,
            simulator,
            data,
            training,
            arms,
            job.cell["sigma"],
            seeds[chunk],
            train[chunk],
            label,
        )
        chunks.append(
            {
                f"{arm}/{name}": value
                for arm, encoder in encoders.items()
                for name, value in encoder._asdict().items()
            }
        )
        trajectory += rows
    encoders = {name: torch.cat([tensors[name] for tensors in chunks]) for name in chunks[0]}
    if all(
        have_all_diverged(encoders[f"{arm.label}/weights"], encoders[f"{arm.label}/loss"])
        for arm in arms
    ):
        raise RarefeatError(ALL_DIVERGED)
    return encoders, trajectory
