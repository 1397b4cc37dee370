"""The training loop: eq. (1)-(5) and Algorithm 1 of S replicas, for any number of arms.

All arms see the same tokens. At every step an arm says what it changes of the dense step (a mask, a
gate, the bias, the weights afterwards); a recorder looks on. Arms that have changed nothing so far
are one training. Axes: S replicas, K pairs of a batch, L tokens, m neurons, p coordinates.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.model.arms import PruningContext
from rarefeat.model.bias import BiasRule, make_bias_rule
from rarefeat.model.contrastive import probabilities
from rarefeat.model.device import any_or_gpu
from rarefeat.model.positive_pairs import PairSampler
from rarefeat.model.randomness import draw, make_generators
from rarefeat.model.simulators import Simulator, make_simulator, to_device
from rarefeat.model.sparse_coding import balancing_weights
from rarefeat.train.step import (
    ForwardOutput,
    Gradient,
    Kernel,
    StepConfig,
    TrainState,
    apply_mask,
    apply_step,
    initial_state,
    make_kernel,
)
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.run.cli_helpers import progress


class Batch(NamedTuple):
    """What all arms share at a step."""

    attended: Tensor  # (S, 2 K or 3 K, L, P)
    latents: Tensor | None = None  # (S, 2, K, L, d)
    complement: Tensor | None = None  # `Simulator.draw_complement`
    pair_weights: Tensor | None = None  # (S, K); 1 by default
    summed: Tensor | None = (
        None  # what a network without a bias sees as well: the sum of the tokens
    )

    def tokens(self, state: TrainState) -> Tensor:
        """Return the tokens that a network gets."""
        return self.attended if self.summed is None or state.bias.any() else self.summed


class Change(NamedTuple):
    """What an arm changes of the dense step of eq. (1)-(4); nothing by default."""

    mask: Tensor | None = None  # bool (S, m) or (S, m, p), True where pruned
    gradient: Gradient = "unmasked"
    dense: ForwardOutput | None = None  # keys and pre-activations for the gradient
    gate_bias: Tensor | None = None  # (S, m)
    bias_rule: BiasRule | None = None
    after_descent: Callable[[Tensor], Tensor] | None = None

    @property
    def acts(self) -> bool:
        """Whether the step differs from the dense one; an empty mask does not."""
        masked = self.mask is not None and any_or_gpu(self.mask)
        return bool(masked or self.gate_bias is not None or self.bias_rule or self.after_descent)


DENSE = Change()


class View(NamedTuple):
    """One training before a step, as arms and recorders see it."""

    context: PruningContext
    state: TrainState
    dense: ForwardOutput
    batch: Batch
    batch_moments: Moments | None = None  # of this batch alone; `context.moments` is the mean


class Arm(Protocol):
    """One arm, with whatever it remembers."""

    label: str
    reads_moments: bool

    def change(self, view: View) -> Change:
        """Return what it changes of the step."""

    def after(self, state: TrainState) -> TrainState:
        """Return the state after a step of its own."""


class Recorder(Protocol):
    """Looks on."""

    def before(self, view: View, changes: dict[str, Change]) -> None:
        """See a training before a step, and the changes of its arms; at T, of no further step."""

    def after(self, labels: list[str], before: TrainState, state: TrainState) -> None:
        """See the states before and after a step of some arms."""


class Source(Protocol):
    """What the loop draws from, once per step for all arms."""

    simulator: Simulator
    kernel: Kernel
    n_minority: int
    uniforms: Tensor | None  # (S, m), drawn once
    weights: Tensor  # W(0), (S, m, p)
    bias_rule: BiasRule | None

    def draw(self) -> Batch:
        """Draw the batch of the next step."""


def batches(
    namespace: str, seeds: list[int], N: int, K: int, device: str = "cpu"
) -> Iterator[Tensor]:
    """Yield the indices (S, K) of the pairs of each step: every epoch is a new order of the N."""
    generators = make_generators(namespace, seeds, stream_names.BATCHES)
    while True:
        order = torch.stack([torch.randperm(N, generator=g) for g in generators]).to(device)
        yield from order[:, : N // K * K].split(K, dim=1)


class PairSource:
    """Positive pairs of the data model that come back with fresh noise: those of the chain.

    Streams: those of the simulator and of `PairSampler`; weights, noise, complement, random mask,
    batches. What is drawn once is drawn on the CPU, the rest on the device of the training.
    """

    def __init__(
        self, namespace: str, kind: Literal["direct", "reduced"], data: Data, training: Training,
        sigma: float, seeds: list[int], train: Tensor, weights: Tensor | None = None,
    ):  # fmt: skip
        S, device, streams = len(seeds), training.device, stream_names
        made = lambda *args: make_generators(namespace, seeds, *args)  # noqa: E731
        simulator = make_simulator(kind, namespace, data.d, data.d1, training.m, seeds)
        self.simulator = to_device(simulator, device)
        self.noise, self.complement = made(streams.NOISE, device), made(streams.COMPLEMENT, device)
        pairs = PairSampler(data.views, self.simulator, kind, namespace, seeds)
        reweighted = data.balance == "reweighted"
        self.kernel = make_kernel(
            "torch" if reweighted else training.kernel,  # no native function weights pairs
            self.simulator, pairs.sample_pair_tokens, training.logit_scale(data.d1),
        )  # fmt: skip
        self.n_minority, self.sigma, self.K = len(data.minority), sigma, training.K
        self.pair_weights = (
            balancing_weights(train, self.n_minority).flatten().float().to(device)
            if reweighted
            else None
        )
        self.directions = self.simulator.dictionary
        if data.views.colour:
            self.directions = torch.cat([self.directions, pairs.directions], -1)
        self.uniforms = draw(torch.rand, made(streams.RANDOM_MASK), training.m).to(device)
        if weights is None:
            weights = self.simulator.initial_weights(training.sigma_0, made(streams.WEIGHTS))
        self.weights = weights.to(device)
        self.bias_rule = make_bias_rule(training.bias, data.d, training.eta)
        self.order = batches(namespace, seeds, data.N, training.K, device)
        self.train = train.to(device).flatten(0, 1)
        self.first_row = data.N * torch.arange(S, device=device)[:, None]

    def draw(self) -> Batch:
        """Draw the batch of the next step."""
        rows, shape = (self.first_row + next(self.order)).flatten(), (len(self.first_row), self.K)
        latents = self.train.index_select(0, rows).unflatten(0, shape).transpose(1, 2)
        tokens = latents.flatten(1, 2).float()
        attended = self.kernel.attended_tokens(tokens, self.sigma, self.noise)
        weights = None if self.pair_weights is None else self.pair_weights[rows].view(shape)
        return Batch(attended, latents, self.simulator.draw_complement(self.complement), weights)


class Group(NamedTuple):
    """Arms that are one training to the last bit, as none has changed a step so far."""

    arms: Sequence[Any]
    state: TrainState
    mean: Moments | None = None
    norms: Tensor | None = None  # a step before


def train(
    source: Source,
    config: StepConfig,
    arms: Sequence[Arm],
    recorder: Recorder,
    stage_one_end: Literal["eq34"] | int,
    window: int = 100,
    look_at_end: bool = True,
    label: str = "train",
) -> None:
    """Take `config.T` steps of every arm; the result of an arm does not depend on the others.

    `window` is that of the running moments (steps). With `look_at_end` the recorder sees one more
    batch, after the last step.
    """
    groups, last = [Group(arms, initial_state(source.weights))], config.T
    steps = range(last + look_at_end)
    for step in progress(steps, len(steps), label):
        batch, current, groups = source.draw(), groups, []
        for group in current:
            view, group = look(source, batch, group, config, step, window)
            changes = {arm.label: arm.change(view) for arm in group.arms}
            recorder.before(view, changes)
            if step == last:
                continue
            for some in split(group.arms, changes):
                labels = [arm.label for arm in some]
                change = changes[labels[0]] if changes[labels[0]].acts else DENSE
                state = take_step(source, view, change, config, stage_one_end, step)
                if change.acts:
                    state = some[0].after(state)
                recorder.after(labels, view.state, state)
                groups.append(group._replace(arms=some, state=state))


def look(
    source: Source, batch: Batch, group: Group, config: StepConfig, step: int, window: int
) -> tuple[View, Group]:
    """Return what the arms of a group see before a step, and the group with its running means."""
    state, K = group.state, config.K
    dense = source.kernel.forward(batch.tokens(state), state)
    f_x, f_y, negatives = dense.views(K)
    moments = None
    if any(arm.reads_moments for arm in group.arms):
        residual = 1 - probabilities(f_x, f_y, config.tau, negatives).diagonal(dim1=-2, dim2=-1)
        norms = state.weights.norm(dim=-1)
        before = norms if group.norms is None else group.norms
        moments = batch_moments(f_x, f_y, dense.pre[:, :K].sum(2), residual, norms, before)
        mean = update_running_moments(group.mean, moments, step, window)
        group = group._replace(mean=mean, norms=norms)
    context = PruningContext(
        state.weights, source.simulator.dictionary, source.n_minority, 0.0, source.uniforms,
        state.bias, f_x, f_y, group.mean, step,
    )  # fmt: skip
    return View(context, state, dense, batch, moments), group


def split(arms: Sequence[Arm], changes: dict[str, Change]) -> list[list[Arm]]:
    """Return the arms that take the dense step, together; and each other arm by itself."""
    acting = [arm for arm in arms if changes[arm.label].acts]
    idle = [arm for arm in arms if not changes[arm.label].acts]
    return ([idle] if idle else []) + [[arm] for arm in acting]


def take_step(
    source: Source, view: View, change: Change, config: StepConfig, stage_one_end: Any, step: int
) -> TrainState:
    """Take one step of eq. (5) with what an arm changes of it."""
    state, mode = view.state, change.gradient
    x = view.batch.tokens(state)
    masked = (
        view.dense if change.mask is None else apply_mask(view.dense, change.mask, x, state, mode)
    )
    dense = view.dense if change.dense is None else change.dense
    gates = state.bias if change.gate_bias is None else change.gate_bias
    weights = view.batch.pair_weights
    gradient = source.kernel.loss_gradient(
        dense, masked, gates, config, mode, **({} if weights is None else {"weights": weights})
    )
    return apply_step(
        source.kernel.simulator, state, gradient, x, config, stage_one_end,
        change.bias_rule or source.bias_rule, step, view.batch.complement, change.after_descent,
    )  # fmt: skip
