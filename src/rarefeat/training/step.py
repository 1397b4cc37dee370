"""Training step of the contrastive encoder for S replicas: eq. (1)-(5), Algorithm 1.

The loop (loop.py) calls `forward`, `apply_mask`, `loss_gradient` and `apply_step`. The caller draws
the tokens, chooses the mask, and records the state before and after; nothing here records.
Axes: S replicas, n samples (2 K or 3 K of a batch of K positive pairs), L tokens, P coordinates of
a token, m neurons, p coordinates of a weight, d features. Equations are those of
imbalance_and_pruning.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.model.batch_invariant import matmul
from rarefeat.model.bias import BiasContext, BiasRule, is_stage_one_over
from rarefeat.model.contrastive import (
    bias_gradient,
    infonce,
    probabilities,
    weight_gradient_coefficients,
)
from rarefeat.model.device import any_or_gpu, is_on_cpu
from rarefeat.model.encoder import QueryKey, attend, attention_gradient, embed, pre_activations
from rarefeat.model.neurons import feature_share
from rarefeat.model.randomness import Generators
from rarefeat.model.simulators import ReducedSimulator, Simulator
from rarefeat.training.native_cache import compile_once

MAX_NORM = 1e12
"""Largest norm of a neuron: far above any meaningful one, and its similarities fit into float32."""
BATCH_BYTES = 2.4e6
"""Size of the tokens of the replicas in one tensor program (bytes).

Large enough to share the overhead of each call, and small enough for the cache.
"""

Gradient = Literal["unmasked", "masked_keys", "straight_through"]
"""What the gradient sees of a mask: the logits alone, eq. (5); the keys too; or all of it."""
StageOneEnd = Literal["eq34"] | int
"""Stage 1 ends by eq. (34), or with a step."""


class StepConfig(Protocol):
    """Hyper-parameters of a training, from a section of the config."""

    T: int
    """Steps."""
    K: int
    """Positive pairs of a batch."""
    tau: float
    """Temperature."""
    eta: float
    """Learning rate."""
    lambda_: float | Float[Tensor, "S 1 1"]
    """Weight decay of all replicas, or of each."""
    attention: str
    """What W_Q and W_K do, see `Training`; read where a source has them."""


class TrainState(NamedTuple):
    """State of S replicas between two steps."""

    weights: Float[Tensor, "S m p"]
    """Weights w_i in the coordinates of the simulator."""
    bias: Float[Tensor, "S m"]
    """Biases b_i."""
    T1: Int[Tensor, " S"]
    """Step that ended stage 1; -1 while stage 1 lasts."""
    diverged: Bool[Tensor, " S"]
    """Whether a neuron would have exceeded `MAX_NORM`.

    Such a step is not taken, so that the weights of a diverged replica may look normal.
    """


class ForwardOutput(NamedTuple):
    """Output of a network for a batch: K first views, K second ones and maybe K negatives."""

    pre: Float[Tensor, "S n L m"]
    """Pre-activations."""
    f: Float[Tensor, "S n m"]
    """Embeddings."""

    def views(
        self, K: int
    ) -> tuple[Float[Tensor, "S K m"], Float[Tensor, "S K m"], Float[Tensor, "S K m"] | None]:
        """Return f(X), f(Y) and the embeddings of negatives, None where the batch has none."""
        f_x, f_y, *others = self.f.split(K, dim=1)
        return f_x, f_y, others[0] if others else None


def initial_state(weights: Float[Tensor, "S m p"]) -> TrainState:
    """Return the state before the first step, without a bias."""
    S, m, _ = weights.shape
    device = weights.device
    return TrainState(
        weights,
        torch.zeros(S, m, device=device),
        torch.full((S,), -1, device=device),
        torch.zeros(S, dtype=torch.bool, device=device),
    )


def forward(attended: Float[Tensor, "S n L P"], state: TrainState) -> ForwardOutput:
    """Compute pre-activations and embeddings of the dense (unmasked) network, eq. (4)."""
    pre = pre_activations(attended, state.weights)
    return ForwardOutput(pre, embed(pre, state.bias))


def apply_mask(
    dense: ForwardOutput,
    mask: Bool[Tensor, "S m"] | Bool[Tensor, "S m p"],
    attended: Float[Tensor, "S n L P"],
    state: TrainState,
    gradient: Gradient = "unmasked",
) -> ForwardOutput:
    """Compute the output of the network with pruned neurons or weights removed."""
    if mask.dim() > 2:
        return forward(attended, state._replace(weights=state.weights.masked_fill(mask, 0.0)))
    pre = (
        dense.pre.masked_fill(mask[:, None, None], 0.0)
        if gradient == "straight_through"
        else dense.pre
    )
    return ForwardOutput(pre, dense.f.masked_fill(mask[:, None], 0.0))


def batch_loss(output: ForwardOutput, config: StepConfig) -> Float[Tensor, " S"]:
    """Compute InfoNCE of the batch (nat), eq. (1) without the l2 term."""
    f_x, f_y, negatives = output.views(config.K)
    return infonce(f_x, f_y, config.tau, negatives)


class LossGradient(NamedTuple):
    """Gradient of the loss of a batch."""

    coefficients: Float[Tensor, "S K L m"]
    """Coefficients c: d loss / d w_i is the sum of c_i z over the anchors' attended tokens z."""
    bias: Callable[[], Float[Tensor, "S m"]]
    """Computes d loss / d b_i, for the rules that need it."""


def loss_gradient(
    dense: ForwardOutput,
    masked: ForwardOutput,
    gate_bias: Float[Tensor, "S m"],
    config: StepConfig,
    gradient: Gradient = "unmasked",
    weights: Float[Tensor, "S K"] | None = None,
) -> LossGradient:
    """Compute the gradient of the batch loss under a pruning mask, eq. (5) and (19)-(21).

    The masked network always provides the softmax weights; `gradient` selects what else sees the
    mask. `weights` are those of the pairs.
    """
    f_x, f_y, negatives = masked.views(config.K)
    p = probabilities(f_x, f_y, config.tau, negatives)
    if gradient == "unmasked":
        _, f_y, negatives = dense.views(config.K)
    pre = (masked if gradient == "straight_through" else dense).pre[:, : config.K]
    arguments = pre, gate_bias, f_y, p, config.tau, negatives, weights
    return LossGradient(
        weight_gradient_coefficients(*arguments), partial(bias_gradient, *arguments)
    )


def apply_step(
    simulator: Simulator,
    state: TrainState,
    gradient: LossGradient,
    attended: Float[Tensor, "S n L P"],
    config: StepConfig,
    stage_one_end: StageOneEnd,
    bias_rule: BiasRule,
    step: int,
    complement_draw: Float[Tensor, "S m q"] | None = None,
    after_descent: Callable[[Tensor], Tensor] | None = None,
) -> TrainState:
    """Take a step: W <- (1 - eta lambda) W - eta gradient, then the end of stage 1 and the bias."""
    decay = torch.as_tensor(1 - config.eta * config.lambda_, dtype=state.weights.dtype)
    weights = simulator.descend(
        state.weights,
        gradient.coefficients,
        attended[:, : config.K],
        decay,
        complement_draw,
        -config.eta,
    )
    if after_descent:
        weights = after_descent(weights)
    norms = weights.norm(dim=-1)
    stopped = ~(norms <= MAX_NORM).all(-1)
    if any_or_gpu(stopped):
        weights = torch.where(stopped[:, None, None], state.weights, weights)
        norms = weights.norm(dim=-1)
    T1 = end_stage_one(state.T1, weights, simulator.dictionary, stage_one_end, step + 1)
    bias = bias_rule(BiasContext(state.bias, state.weights, norms, T1, step + 1, gradient.bias))
    return TrainState(
        weights, bias, T1, state.diverged | stopped | ~(bias.abs() <= MAX_NORM).all(-1)
    )


def step_attention(
    query_key: QueryKey,
    weights: Float[Tensor, "S m P"],
    gradient: LossGradient,
    tokens: Float[Tensor, "S n L P"],
    config: StepConfig,
) -> QueryKey:
    """Return W_Q and W_K after a step of Algorithm 1, or of its decay alone, the control."""
    decay = config.lambda_ if config.attention != "trained_without_decay" else 0.0
    after = (1 - config.eta * decay) * query_key
    if config.attention == "decayed":
        return after
    c = gradient.coefficients
    by_attended = matmul(c.flatten(1, 2), weights).unflatten(1, c.shape[1:3])
    return after - config.eta * attention_gradient(tokens[:, : config.K], query_key, by_attended)


def end_stage_one(
    T1: Int[Tensor, " S"],
    weights: Float[Tensor, "S m p"],
    dictionary: Float[Tensor, "S p d"],
    stage_one_end: StageOneEnd,
    step: int,
) -> Int[Tensor, " S"]:
    """Return T1, which is `step` where stage 1 has just ended."""
    if not any_or_gpu(T1 < 0):
        return T1
    over = (
        is_stage_one_over(feature_share(weights, dictionary))
        if stage_one_end == "eq34"
        else step >= stage_one_end
    )
    return torch.where((T1 < 0) & over, step, T1)


Sampler = Callable[[Float[Tensor, "S n L d"], float, Generators], Float[Tensor, "S N L P"]]
"""Draws tokens from latents, sigma, and the sources of the noise."""


class Kernel(NamedTuple):
    """Functions of a training step that exist twice, in torch and native."""

    simulator: Simulator
    """Simulator to pass to `apply_step`."""
    attended_tokens: Sampler
    """Draws attended tokens."""
    forward: Callable[[Tensor, TrainState], ForwardOutput]
    """See `forward`."""
    loss_gradient: Callable[..., LossGradient]
    """See `loss_gradient`."""


def make_kernel(
    name: Literal["auto", "torch", "native"],
    simulator: Simulator,
    sample_tokens: Sampler,
    scale: float | None = 1.0,
) -> Kernel:
    """Choose the functions of a training step; native ones round otherwise than torch.

    They serve the reduced simulator on a CPU with at least as many dimensions beyond the span as
    neurons. `scale` is that of the attention's logits; None leaves tokens as they are.
    """
    # With fewer dimensions beyond the span than neurons the factors of a step are singular, which
    # only torch's are made for.
    if (
        name != "torch"
        and type(simulator) is ReducedSimulator
        and is_on_cpu(simulator.dictionary)
        and simulator.nu >= simulator.m
    ):
        # numba takes a third of a second to import.
        with compile_once():
            from rarefeat.training.native_step import make_native_kernel

        return make_native_kernel(simulator, scale)

    def attended_tokens(
        latents: Float[Tensor, "S n L d"], sigma: float, generators: Generators
    ) -> Float[Tensor, "S N L P"]:
        tokens = sample_tokens(latents, sigma, generators)
        return tokens if scale is None else attend(tokens, scale)

    return Kernel(simulator, attended_tokens, forward, loss_gradient)


def replicas_per_batch(K: int, L: int, width: int) -> int:
    """Return how many replicas share one tensor program; no bit of a result depends on it."""
    return max(1, int(BATCH_BYTES / (2 * K * L * width * 4)))
