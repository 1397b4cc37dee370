"""Contrastive training of all arms and replicas of a cell, and what is recorded of it.

Axes: S replicas, N training pairs, L tokens, m neurons, p coordinates of a weight, d features, R
recorded steps, q numbers of a recorded neuron. Equations are those of imbalance_and_pruning.
"""

from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model import stream_names
from rarefeat.model.arms import ARMS
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.contrastive import infonce_floor
from rarefeat.model.device import any_or_gpu
from rarefeat.model.neurons import alignment_metrics, minority_overlap
from rarefeat.model.randomness import make_generators
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.rooms import LISTENERS, mark
from rarefeat.model.sparse_coding import aggregated_sign
from rarefeat.training.border import own_rules, train_apart
from rarefeat.training.loop import Change, PairSource, View, train
from rarefeat.training.step import TrainState, batch_loss, replicas_per_batch
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.run.cli_helpers import report_losses

MOMENT_WINDOW_STEPS = 100
"""Window of the running means that a rule may read (steps)."""

Metrics = dict[str, Float[Tensor, " S"]]
"""Metrics of S replicas by name."""


class TrainedEncoder(NamedTuple):
    """Trained encoders of S replicas of one arm.

    A recorded neuron is <w_i, M_j>, ||w_i|| and b_i, d + 2 numbers; directions of a colour nuisance
    follow the d features.
    """

    weights: Float[Tensor, "S m p"]
    """Weights in the coordinates of the simulator."""
    bias: Float[Tensor, "S m"]
    T1: Int[Tensor, " S"]
    """Step that ended stage 1; -1 for none."""
    T2: Int[Tensor, " S"]
    """Step at which some neuron has d times its square at T1, eq. (61); -1 for none."""
    history: Float[Tensor, "S R m q"]
    """Neurons at the recorded steps; R is 0 unless `training.history`."""
    ends: Float[Tensor, "S ends m q"]
    """Neurons at T1 and T2, NaN where not reached; none unless `training.history`."""
    loss: Float[Tensor, " S"]
    """InfoNCE of the last batch without a mask (nat); infinite if diverged."""
    query_key: Float[Tensor, "S ..."] = torch.empty(0)
    """W_Q and W_K, (S, 2, P, P), where they change; else no numbers."""


ALWAYS = TrainedEncoder._fields[:-1]
"""Tensors that every encoder has."""


class PruningArm:
    """An arm of the config: its rule masks neurons or weights from the onset on."""

    def __init__(self, arm: Arm, namespace: str, seeds: list[int]):
        self.arm, self.label, self.rule = arm, arm.label, ARMS[arm.arm].rule
        self.reads_moments = ARMS[arm.arm].moments
        self.generators = make_generators(namespace, seeds, stream_names.RULE_PREFIX + arm.label)

    def change(self, view: View) -> Change:
        """Return its mask; none before the onset."""
        if view.context.step >= self.arm.onset:
            mark(view.state.weights, view.state.bias)
        if not self.rule or view.context.step < self.arm.onset:
            return Change()
        context = view.context._replace(alpha=self.arm.alpha, generators=self.generators)
        return Change(self.rule(context), self.arm.pruned_update)

    def after(self, state: TrainState) -> TrainState:
        """Return the state as it is."""
        return state


class Trajectories:
    """Recorder of metrics, of the encoders at T, and of the neurons' history where it is wanted."""

    def __init__(self, source: PairSource, data: Data, training: Training, labels: list[str]):
        self.source, self.config, self.d, self.step = source, training, data.d, 0
        self.recorded_steps = set(log_spaced(training.T))
        S, m, _ = source.weights.shape
        size = S, 2 * training.history, m, source.directions.shape[-1] + 2
        ends = torch.full(size, torch.nan, device=source.weights.device)
        none = torch.full((S,), -1, device=ends.device)
        self.history: dict[str, list[Tensor]] = {label: [ends[:, :0]] for label in labels}
        self.reached = dict.fromkeys(labels, (none, ends))  # T2, and the neurons at T1 and T2
        self.encoders: dict[str, TrainedEncoder] = {}
        self.metrics: dict[int, dict[str, Metrics]] = {}

    def neurons(self, state: TrainState) -> Float[Tensor, "S 1 m q"]:
        """Return the neurons, as in the history of a `TrainedEncoder`."""
        columns = state.weights.norm(dim=-1, keepdim=True), state.bias[..., None]
        return torch.cat([matmul(state.weights, self.source.directions), *columns], -1)[:, None]

    def before(self, view: View, changes: dict[str, Change]) -> None:
        """Record metrics and neurons; at T, the encoders."""
        context, state = view.context, view.state
        step = self.step = context.step
        is_recorded = step in self.recorded_steps
        if not is_recorded and not LISTENERS:
            return
        loss = batch_loss(view.dense, self.config)
        report_losses(step, self.source.seeds, loss, is_recorded)
        if not is_recorded:
            return
        norms = context.weights.norm(dim=-1)
        of_features = context.weights, context.dictionary, context.n_minority
        shared = alignment_metrics(*of_features) | {
            "loss": loss,
            "loss_floor": infonce_floor(aggregated_sign(view.batch.latents[:, 0])),
            "weight_norm": norms.mean(-1),
            "bias_share": (context.bias / norms).mean(-1),
        }
        neurons = [self.neurons(state)] if self.config.history else []
        metrics = self.metrics.setdefault(step, {})
        for label, change in changes.items():
            metrics[label] = dict(shared)
            if change.mask is not None:
                overlap = minority_overlap(change.mask, *of_features)
                metrics[label]["mask_minority_overlap"] = overlap
            self.history[label] += neurons
        if step == self.config.T:
            loss = loss.masked_fill(state.diverged, torch.inf)
            query_key = loss.new_empty(len(loss), 0) if view.query_key is None else view.query_key
            for label in changes:
                metrics[label] |= {"T1": state.T1}
                T2, ends = self.reached[label]
                history = torch.cat(self.history[label], 1)
                self.encoders[label] = TrainedEncoder(
                    state.weights, state.bias, state.T1, T2, history, ends, loss, query_key
                )

    def after(self, labels: list[str], before: TrainState, state: TrainState) -> None:
        """Keep the neurons of the step at which stage 1 or stage 2 ends, eq. (61)."""
        if not self.config.history:
            return
        T2, ends = self.reached[labels[0]]
        starting = (before.T1 < 0) & (state.T1 >= 0)
        norms = state.weights.norm(dim=-1)
        grown = (norms.square() >= self.d * ends[:, 0, :, -2].square()).any(-1) & (T2 < 0)
        reached = torch.stack([starting, grown], 1)[..., None, None]
        if any_or_gpu(reached):
            ends = torch.where(reached, self.neurons(state), ends)
            T2 = torch.where(grown, self.step + 1, T2)
            self.reached |= dict.fromkeys(labels, (T2, ends))


def train_arms(
    namespace: str,
    kind: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    latents: Int[Tensor, "S N 2 L d"],
    label: str,
    weights: Float[Tensor, "S m p"] | None = None,
) -> tuple[dict[str, TrainedEncoder], dict[int, dict[str, Metrics]]]:
    """Train arms of some seeds together; return encoders, and metrics by step and arm."""
    source = PairSource(namespace, kind, data, training, sigma, seeds, latents, weights)
    recorder = Trajectories(source, data, training, [arm.label for arm in arms])
    ways = [PruningArm(arm, namespace, seeds) for arm in arms]
    train(source, training, ways, recorder, training.bias.T1, MOMENT_WINDOW_STEPS, label=label)
    return recorder.encoders, recorder.metrics


def pretrain(
    namespace: str,
    kind: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    latents: Int[Tensor, "S N 2 L d"],
    label: str = "pretrain",
    weights: Float[Tensor, "S m p"] | None = None,
) -> tuple[dict[str, TrainedEncoder], list[dict]]:
    """Train every arm of one cell on the same tokens; an arm does not depend on the others.

    A processor trains some seeds at a time; an arm of own code each seed alone, in a room.
    """
    if kind == "reduced" and (wrong := [arm.arm for arm in arms if ARMS[arm.arm].single_weights]):
        raise RarefeatError(
            f"arms: {wrong[0]} masks single weights in R^d1, got simulator: reduced;"
            " set simulator: direct"
        )
    width = data.d1 if kind == "direct" else min(data.d1, data.d + training.m)
    # A GPU takes the whole block at once; the cache of a CPU holds the tokens of a few replicas.
    size = replicas_per_batch(training.K, data.L, width) if training.device == "cpu" else len(seeds)
    encoders, trajectory = {}, []
    for own, some_arms in group_by_own(arms, training):

        def run(some: list[int], training: Training, arms: list[Arm] = some_arms) -> tuple:
            rows = [seeds.index(seed) for seed in some]
            start = None if weights is None else weights[rows]
            trained, metrics = train_arms(
                namespace, kind, data, training, arms, sigma, some, latents[rows], label, start
            )
            steps = [
                {"seed": seed, **arm.model_dump(), "step": step, "metric": name, "value": value}
                for step, of_arm in metrics.items()
                for arm in arms
                for name, values in of_arm[arm.label].items()
                for seed, value in zip(some, values.double().tolist(), strict=True)
            ]
            return {
                arm: TrainedEncoder(*(tensor.cpu() for tensor in encoder))
                for arm, encoder in trained.items()
            }, steps

        parts = train_apart(run, namespace, seeds, training, own, size, label)
        for arm in some_arms:
            fields = zip(*(trained[arm.label] for trained, _ in parts), strict=True)
            encoders[arm.label] = TrainedEncoder(*map(torch.cat, fields))
        trajectory += [row for _, steps in parts for row in steps]
    return encoders, trajectory


def group_by_own(arms: list[Any], training: Any = None) -> list[tuple[list[str], list[Any]]]:
    """Return the built-in arms together, and each arm of own code with the names of that."""
    own = [(own_rules(arm, training), [arm]) for arm in arms]
    together = [arm for names, (arm,) in own if not names]
    return [([], together)] * bool(together) + [item for item in own if item[0]]
