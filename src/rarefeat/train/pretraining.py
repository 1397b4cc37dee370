"""Contrastive training of all arms and replicas of a cell, and what is recorded of it.

Axes: S replicas, N training pairs, m neurons, p coordinates of a weight, d features, R recorded
steps. Equations are those of imbalance_and_pruning.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model import stream_names
from rarefeat.model.arms import ARMS, PruningContext
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.contrastive import infonce_floor
from rarefeat.model.device import any_or_gpu
from rarefeat.model.neurons import alignment_metrics, minority_overlap
from rarefeat.model.randomness import make_generators
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.sparse_coding import aggregated_sign
from rarefeat.train.loop import Change, PairSource, View, train
from rarefeat.train.step import TrainState, batch_loss
from rarefeat.workflow.config.model import Arm, Data, Training

MOMENT_WINDOW_STEPS = 100
"""Window of the running means that a rule may read (steps)."""


class TrainedEncoder(NamedTuple):
    """Trained encoders of S replicas of one arm.

    A neuron of the history is <w_i, M_j>, ||w_i|| and b_i: d + 2 numbers; directions of a colour
    nuisance follow the d features.
    """

    weights: Tensor  # (S, m, p), in the coordinates of the simulator
    bias: Tensor  # (S, m)
    T1: Tensor  # (S,): the step that ended stage 1; -1 for none
    T2: Tensor  # (S,): that at which some neuron has d times its square at T1, eq. (61); -1 for none
    history: Tensor  # (S, R, m, d + 2) at the recorded steps; R = 0 unless `training.history`
    ends: Tensor  # (S, 2, m, d + 2) at T1 and T2, NaN where not reached; (S, 0, ...) likewise
    loss: Tensor  # (S,): InfoNCE of the last batch without a mask (nat); infinite if diverged


class PruningArm:
    """An arm of the config: its rule masks neurons or weights from the onset on."""

    def __init__(self, arm: Arm, namespace: str, seeds: list[int]):
        self.arm, self.label, self.rule = arm, arm.label, ARMS[arm.arm].rule
        self.reads_moments = ARMS[arm.arm].moments
        self.generators = make_generators(namespace, seeds, stream_names.RULE_PREFIX + arm.label)

    def change(self, view: View) -> Change:
        """Return its mask; none before the onset."""
        if not self.rule or view.context.step < self.arm.onset:
            return Change()
        own = {"alpha": self.arm.alpha, "generators": self.generators}
        return Change(self.rule(view.context._replace(**own)), self.arm.pruned_update)

    def after(self, state: TrainState) -> TrainState:
        """Return the state as it is."""
        return state


class Trajectories:
    """Recorder of metrics, and of the neurons' history where it is wanted."""

    def __init__(self, source: PairSource, data: Data, training: Training, labels: list[str]):
        self.source, self.config, self.d, self.step = source, training, data.d, 0
        self.T = training.T
        self.wanted, self.with_history = set(log_spaced(training.T)), training.history
        S, m, _ = source.weights.shape
        size = S, 2 * training.history, m, source.directions.shape[-1] + 2
        ends = torch.full(size, torch.nan, device=source.weights.device)
        none = torch.full((S,), -1, device=ends.device)
        self.history: dict[str, list[Tensor]] = {label: [ends[:, :0]] for label in labels}
        self.reached = dict.fromkeys(labels, (none, ends))  # T2, and the neurons at T1 and T2
        self.encoders: dict[str, TrainedEncoder] = {}
        self.metrics: dict[int, dict[str, dict[str, Tensor]]] = {}

    def neurons(self, state: TrainState) -> Tensor:
        """Return the neurons, (S, m, d + 2)."""
        columns = state.weights.norm(dim=-1, keepdim=True), state.bias[..., None]
        return torch.cat([matmul(state.weights, self.source.directions), *columns], -1)

    def before(self, view: View, changes: dict[str, Change]) -> None:
        """Record metrics and neurons; at T, the encoders."""
        context, state = view.context, view.state
        step = self.step = view.context.step
        if step not in self.wanted and step != self.T:
            return
        loss = batch_loss(view.dense, self.config)
        if step in self.wanted:
            shared = recorded_metrics(
                context, loss, infonce_floor(aggregated_sign(view.batch.latents[:, 0]))
            )
            neurons = [self.neurons(state)[:, None]] if self.with_history else []
            for label, change in changes.items():
                own = shared | overlap_metric(change.mask, context)
                own |= {"T1": state.T1} if step == self.T else {}
                self.metrics.setdefault(step, {})[label] = own
                self.history[label] += neurons
        if step == self.T:
            loss = loss.masked_fill(state.diverged, torch.inf)
            for label in changes:
                T2, ends = self.reached[label]
                history = torch.cat(self.history[label], 1)
                self.encoders[label] = TrainedEncoder(
                    state.weights, state.bias, state.T1, T2, history, ends, loss
                )

    def after(self, labels: list[str], before: TrainState, state: TrainState) -> None:
        """Keep the neurons of the step at which stage 1 or stage 2 ends, eq. (61)."""
        if not self.with_history:
            return
        T2, ends = self.reached[labels[0]]
        starting = (before.T1 < 0) & (state.T1 >= 0)
        norms = state.weights.norm(dim=-1)
        grown = (norms.square() >= self.d * ends[:, 0, :, -2].square()).any(-1) & (T2 < 0)
        reached = torch.stack([starting, grown], 1)[..., None, None]
        if any_or_gpu(reached):
            ends = torch.where(reached, self.neurons(state)[:, None], ends)
            T2 = torch.where(grown, self.step + 1, T2)
            self.reached |= dict.fromkeys(labels, (T2, ends))


def recorded_metrics(context: PruningContext, loss: Tensor, floor: Tensor) -> dict[str, Tensor]:
    """Return the metrics of a recorded step that do not depend on the mask, (S,) each."""
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
    arguments = mask, context.weights, context.dictionary, context.n_minority
    return {"mask_minority_overlap": minority_overlap(*arguments)}


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
    """Train every arm of one cell on the same tokens; an arm does not depend on the others.

    train (S, N, 2, L, d), weights (S, m, p).
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
    namespace, kind, data, training, arms, sigma, seeds, latents, label="train", weights=None
) -> tuple[dict[str, TrainedEncoder], dict[int, dict[str, dict[str, Tensor]]]]:
    """Train as `pretrain` does, without waiting for the GPU: encoders and metrics stay there."""
    source = PairSource(namespace, kind, data, training, sigma, seeds, latents, weights)
    recorder = Trajectories(source, data, training, [arm.label for arm in arms])
    own = [PruningArm(arm, namespace, seeds) for arm in arms]
    train(source, training, own, recorder, training.bias.T1, MOMENT_WINDOW_STEPS, label=label)
    return recorder.encoders, recorder.metrics
