"""The training loop: Algorithm 1 of S replicas, for any number of arms on the same tokens.

At every step a `Source` draws a batch, each `Arm` says what it changes of the dense step of
eq. (1)-(5), and a `Recorder` looks on. Arms that have changed nothing so far are one training.
The step itself is in step.py. Equations are those of imbalance_and_pruning.
Axes: S replicas, N training pairs, K pairs of a batch, n samples (2 K, or 3 K with separate
negatives), L tokens, P coordinates of a token, m neurons, p coordinates of a weight, d features.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.model.arms import PruningContext
from rarefeat.model.bias import BiasRule, make_bias_rule
from rarefeat.model.contrastive import probabilities
from rarefeat.model.device import any_or_gpu
from rarefeat.model.encoder import QueryKey, attend
from rarefeat.model.positive_pairs import PairSampler
from rarefeat.model.randomness import draw, make_generators
from rarefeat.model.simulators import Simulator, make_simulator, to_device
from rarefeat.model.sparse_coding import balancing_weights
from rarefeat.training.step import (
    ForwardOutput,
    Gradient,
    Kernel,
    StageOneEnd,
    StepConfig,
    TrainState,
    apply_mask,
    apply_step,
    initial_state,
    make_kernel,
    step_attention,
)
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.run.cli_helpers import progress


class Batch(NamedTuple):
    """What all arms share at a step."""

    attended: Float[Tensor, "S n L P"]
    """Tokens after attention; before it where that is each network's own."""
    latents: Int[Tensor, "S 2 K L d"] | None = None
    complement: Float[Tensor, "S m q"] | None = None
    """The result of `Simulator.draw_complement`."""
    pair_weights: Float[Tensor, "S K"] | None = None
    """Weights of the pairs in the loss; 1 by default."""
    summed: Float[Tensor, "S n 1 P"] | None = None
    """The sum of the tokens, if that is what a network without a bias gets."""

    def tokens(self, state: TrainState, query_key: QueryKey | None) -> Float[Tensor, "S n L P"]:
        """Return the tokens that a network gets."""
        if query_key is not None:
            return attend(self.attended, query_key=query_key)
        return self.attended if self.summed is None or state.bias.any() else self.summed


class Change(NamedTuple):
    """What an arm changes of the dense step of eq. (1)-(4); nothing by default."""

    mask: Bool[Tensor, "S m"] | Bool[Tensor, "S m p"] | None = None
    """True where neurons or weights are pruned."""
    gradient: Gradient = "unmasked"
    """What the gradient sees of the mask."""
    dense: ForwardOutput | None = None
    """Keys and pre-activations for the gradient."""
    gate_bias: Float[Tensor, "S m"] | None = None
    """Bias of the gates in the gradient."""
    bias_rule: BiasRule | None = None
    after_descent: Callable[[Tensor], Tensor] | None = None
    """Maps the weights after the descent to those of the next step."""

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
    tokens: Float[Tensor, "S n L P"]
    """What the network gets of the batch."""
    batch_moments: Moments | None = None
    """Moments of this batch alone; those of `context` are running means."""
    query_key: QueryKey | None = None
    """W_Q and W_K, where they change."""


class Source(Protocol):
    """What the loop draws from, once per step for all arms."""

    simulator: Simulator
    kernel: Kernel
    n_minority: int
    uniforms: Float[Tensor, "S m"] | None
    """Uniform numbers, drawn once."""
    weights: Float[Tensor, "S m p"]
    """W(0)."""
    bias_rule: BiasRule | None
    query_key: QueryKey | None
    """W_Q(0) and W_K(0), where they change."""

    def draw(self) -> Batch:
        """Draw the batch of the next step."""


class Arm(Protocol):
    """One arm, with whatever it remembers."""

    label: str
    reads_moments: bool

    def change(self, view: View) -> Change:
        """Return what it changes of the step."""

    def after(self, state: TrainState) -> TrainState:
        """Return the state after a step that it has changed."""


class Recorder(Protocol):
    """What looks on at the trainings, and keeps what it wants of them."""

    def before(self, view: View, changes: dict[str, Change]) -> None:
        """See a training before a step, and the changes of its arms; at T, of no further step."""

    def after(self, labels: list[str], before: TrainState, state: TrainState) -> None:
        """See the states before and after a step of some arms."""


class Group(NamedTuple):
    """Arms that are one training to the last bit, as none has changed a step so far."""

    arms: Sequence[Arm]
    state: TrainState
    mean: Moments | None = None
    """Running means."""
    norms: Float[Tensor, "S m"] | None = None
    """||w_i|| a step before."""
    query_key: QueryKey | None = None


def train(
    source: Source,
    config: StepConfig,
    arms: Sequence[Arm],
    recorder: Recorder,
    stage_one_end: StageOneEnd,
    window: int = 100,
    look_at_end: bool = True,
    label: str = "train",
) -> None:
    """Take `config.T` steps of every arm; the result of an arm does not depend on the others.

    `window` is that of the running moments (steps). With `look_at_end` the recorder sees one more
    batch, after the last step.
    """
    groups = [Group(arms, initial_state(source.weights), query_key=source.query_key)]
    steps = range(config.T + look_at_end)
    for step in progress(steps, len(steps), label):
        batch, current, groups = source.draw(), groups, []
        for group in current:
            view, group = look(source, batch, group, config, step, window)
            changes = {arm.label: arm.change(view) for arm in group.arms}
            recorder.before(view, changes)
            if step == config.T:
                continue  # After the last step there is a look, and no step.
            for alike, change in split(group.arms, changes):
                state, query_key = take_step(source, view, change, config, stage_one_end)
                if change.acts:
                    state = alike[0].after(state)
                recorder.after([arm.label for arm in alike], view.state, state)
                groups.append(group._replace(arms=alike, state=state, query_key=query_key))


def look(
    source: Source, batch: Batch, group: Group, config: StepConfig, step: int, window: int
) -> tuple[View, Group]:
    """Return what the arms of a group see before a step, and the group with its running means."""
    state, K = group.state, config.K
    tokens = batch.tokens(state, group.query_key)
    dense = source.kernel.forward(tokens, state)
    f_x, f_y, negatives = dense.views(K)
    moments = None
    if any(arm.reads_moments for arm in group.arms):
        residual = 1 - probabilities(f_x, f_y, config.tau, negatives).diagonal(dim1=-2, dim2=-1)
        norms = state.weights.norm(dim=-1)
        moments = batch_moments(f_x, f_y, dense.pre[:, :K].sum(2), residual, norms, group.norms)
        mean = update_running_moments(group.mean, moments, step, window)
        group = group._replace(mean=mean, norms=norms)
    context = PruningContext(
        weights=state.weights,
        dictionary=source.simulator.dictionary,
        n_minority=source.n_minority,
        draw=source.uniforms,
        bias=state.bias,
        f_x=f_x,
        f_y=f_y,
        moments=group.mean,
        step=step,
    )
    return View(context, state, dense, batch, tokens, moments, group.query_key), group


def split(arms: Sequence[Arm], changes: dict[str, Change]) -> list[tuple[list[Arm], Change]]:
    """Return the arms that take the dense step, together, and each other arm with its change."""
    idle = [arm for arm in arms if not changes[arm.label].acts]
    acting = [([arm], changes[arm.label]) for arm in arms if arm not in idle]
    return [(idle, DENSE), *acting] if idle else acting


def take_step(
    source: Source, view: View, change: Change, config: StepConfig, stage_one_end: StageOneEnd
) -> tuple[TrainState, QueryKey | None]:
    """Take one step of eq. (5) with what an arm changes of it; return W_Q and W_K, too."""
    state, dense, batch = view.state, view.dense, view.batch
    x, mode = view.tokens, change.gradient
    masked = dense if change.mask is None else apply_mask(dense, change.mask, x, state, mode)
    gates = state.bias if change.gate_bias is None else change.gate_bias
    # Native functions weight no pairs, and take no such argument.
    weights = {} if batch.pair_weights is None else {"weights": batch.pair_weights}
    gradient = source.kernel.loss_gradient(
        change.dense or dense, masked, gates, config, mode, **weights
    )
    query_key = view.query_key
    if query_key is not None:
        query_key = step_attention(query_key, state.weights, gradient, batch.attended, config)
    state = apply_step(
        source.kernel.simulator,
        state,
        gradient,
        x,
        config,
        stage_one_end,
        change.bias_rule or source.bias_rule,
        view.context.step,
        batch.complement,
        change.after_descent,
    )
    return state, query_key


def batches(
    namespace: str, seeds: list[int], N: int, K: int, device: str = "cpu"
) -> Iterator[Int[Tensor, "S K"]]:
    """Yield the indices of the pairs of each step: every epoch has a new order of the N pairs, of
    which it leaves N mod K out.
    """
    generators = make_generators(namespace, seeds, stream_names.BATCHES)
    while True:
        order = torch.stack([torch.randperm(N, generator=g) for g in generators]).to(device)
        yield from order[:, : N // K * K].split(K, dim=1)


class PairSource:
    """Positive pairs of the data model that come back with fresh noise.

    Random streams: those of the simulator and of `PairSampler`; weights, noise, complement, random
    mask, batches. What is drawn once is drawn on the CPU, the rest on the device of the training.
    """

    def __init__(
        self,
        namespace: str,
        kind: Literal["direct", "reduced"],
        data: Data,
        training: Training,
        sigma: float,
        seeds: list[int],
        latents: Int[Tensor, "S N 2 L d"],
        weights: Float[Tensor, "S m p"] | None = None,
    ):
        device, generators = training.device, partial(make_generators, namespace, seeds)
        self.seeds = seeds
        simulator = make_simulator(kind, namespace, data.d, data.d1, training.m, seeds)
        self.simulator = to_device(simulator, device)
        pairs = PairSampler(data.views, self.simulator, kind, namespace, seeds)
        reweighted = data.balance == "reweighted"
        scale, self.query_key = training.first_logit_scale(data.d1), None
        if training.attention != "fixed":
            identity = math.sqrt(scale) * torch.eye(data.d1, device=device)
            self.query_key = identity.repeat(len(seeds), 2, 1, 1)
        self.kernel = make_kernel(
            "torch" if reweighted else training.kernel,
            self.simulator,
            pairs.sample_pair_tokens,
            scale if self.query_key is None else None,
        )
        self.directions = self.simulator.dictionary
        if data.views.colour:
            self.directions = torch.cat([self.directions, pairs.directions], -1)
        self.n_minority, self.sigma, self.K = len(data.minority), sigma, training.K
        self.bias_rule = make_bias_rule(training.bias, data.d, training.eta)

        uniforms = draw(torch.rand, generators(stream_names.RANDOM_MASK), training.m)
        self.uniforms = uniforms.to(device)
        if weights is None:
            weights = simulator.initial_weights(training.sigma_0, generators(stream_names.WEIGHTS))
        self.weights = weights.to(device)

        self.noise = generators(stream_names.NOISE, device)
        self.complement = generators(stream_names.COMPLEMENT, device)
        self.order = batches(namespace, seeds, data.N, training.K, device)
        self.latents = latents.to(device).flatten(0, 1)
        self.first_row = data.N * torch.arange(len(seeds), device=device)[:, None]
        self.pair_weights = None
        if reweighted:
            pair_weights = balancing_weights(latents, self.n_minority)
            self.pair_weights = pair_weights.flatten().float().to(device)

    def draw(self) -> Batch:
        """Draw the batch of the next step."""
        rows, shape = (self.first_row + next(self.order)).flatten(), (len(self.first_row), self.K)
        latents = self.latents.index_select(0, rows).unflatten(0, shape).transpose(1, 2)
        tokens = latents.flatten(1, 2).float()
        attended = self.kernel.attended_tokens(tokens, self.sigma, self.noise)
        weights = None if self.pair_weights is None else self.pair_weights[rows].view(shape)
        return Batch(attended, latents, self.simulator.draw_complement(self.complement), weights)
