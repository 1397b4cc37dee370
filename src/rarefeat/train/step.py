"""Training step of the contrastive encoder for S replicas: eq. (1)-(5), Algorithm 1.

A training is a loop over `forward`, `apply_mask`, `loss_gradient` and `apply_step`. The caller
draws the tokens, chooses the mask, and records the state before and after; nothing here records.
Axes: S replicas, n samples (2 K or 3 K of a batch of K positive pairs), L tokens, P coordinates of
a token, m neurons, p coordinates of a weight. Equations are those of imbalance_and_pruning.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from rarefeat.model.bias import BiasContext, BiasRule, is_stage_one_over
from rarefeat.model.contrastive import (
    bias_gradient,
    infonce,
    probabilities,
    weight_gradient_coefficients,
)
from rarefeat.model.device import any_or_gpu, is_on_cpu
from rarefeat.model.encoder import attend, embed, pre_activations
from rarefeat.model.neurons import feature_share
from rarefeat.model.randomness import Generators
from rarefeat.model.simulators import ReducedSimulator, Simulator

MAX_NORM = 1e12
"""Largest norm of a neuron: far above any meaningful one, and its similarities fit into float32."""
BATCH_BYTES = 2.4e6
"""Size of the tokens of the replicas in one tensor program (bytes).

Large enough to share the overhead of each call, and small enough for the cache.
"""

Gradient = Literal["unmasked", "masked_keys", "straight_through"]
"""What the gradient sees of a mask: the logits alone, eq. (5); the keys too; or all of it."""


class StepConfig(Protocol):
    """Hyper-parameters of a step, from a section of the config."""

    K: int
    """Positive pairs of a batch."""
    tau: float
    """Temperature."""
    eta: float
    """Learning rate."""
    lambda_: float | Tensor
    """Weight decay: one number for all replicas, or a tensor of shape (S, 1, 1)."""


class TrainState(NamedTuple):
    """State of S replicas between two steps."""

    weights: Tensor
    """Weights w_i in the coordinates of the simulator, of shape (S, m, p)."""
    bias: Tensor
    """Biases b_i, of shape (S, m)."""
    T1: Tensor
    """Step that ended stage 1, of shape (S,); -1 while stage 1 lasts."""
    diverged: Tensor
    """Whether a neuron would have exceeded `MAX_NORM`, bool (S,).

    Such a step is not taken, so that the weights of a diverged replica may look normal.
    """


class ForwardOutput(NamedTuple):
    """Output of a network for a batch: K first views, K second ones and maybe K negatives."""

    pre: Tensor
    """Pre-activations, of shape (S, 2 K or 3 K, L, m)."""
    f: Tensor
    """Embeddings, of shape (S, 2 K or 3 K, m)."""

    def views(self, K: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return f(X), f(Y) and the embeddings of separate negatives, of shape (S, K, m) each.

        The negatives are None where the batch has none of their own.
        """
        f_x, f_y, *others = self.f.split(K, dim=1)
        return f_x, f_y, others[0] if others else None


def initial_state(weights: Tensor) -> TrainState:
    """Return the state before the first step.

    weights (S, m, p).
    """
    S, m, _ = weights.shape
    device = weights.device
    none = torch.full((S,), -1, device=device)
    return TrainState(
        weights,
        torch.zeros(S, m, device=device),
        none,
        torch.zeros(S, dtype=torch.bool, device=device),
    )


def forward(attended: Tensor, state: TrainState) -> ForwardOutput:
    """Compute pre-activations and embeddings of the dense (unmasked) network, eq. (4).

    attended (S, n, L, P).
    """
    pre = pre_activations(attended, state.weights)
    return ForwardOutput(pre, embed(pre, state.bias))


def apply_mask(
    dense: ForwardOutput,
    mask: Tensor,
    attended: Tensor,
    state: TrainState,
    gradient: Gradient = "unmasked",
) -> ForwardOutput:
    """Compute the output of the network with pruned neurons or weights removed.

    mask (S, m) or (S, m, p), attended (S, n, L, P).
    """
    if mask.dim() > 2:
        return forward(attended, state._replace(weights=state.weights.masked_fill(mask, 0.0)))
    pre = (
        dense.pre.masked_fill(mask[:, None, None], 0.0)
        if gradient == "straight_through"
        else dense.pre
    )
    return ForwardOutput(pre, dense.f.masked_fill(mask[:, None], 0.0))


def batch_loss(output: ForwardOutput, config: StepConfig) -> Tensor:
    """Compute InfoNCE of the batch, eq. (1) without the l2 term.

    -> (S,).
    """
    f_x, f_y, negatives = output.views(config.K)
    return infonce(f_x, f_y, config.tau, negatives)


class LossGradient(NamedTuple):
    """Gradient of the loss of a batch."""

    coefficients: Tensor
    """Coefficients c of shape (S, K, L, m).

    d loss / d w_i is the sum of c_i z over the anchors' attended tokens z.
    """
    bias: Callable[[], Tensor]
    """Computes d loss / d b_i, of shape (S, m), for the rules that need it."""


def loss_gradient(
    dense: ForwardOutput,
    masked: ForwardOutput,
    gate_bias: Tensor,
    config: StepConfig,
    gradient: Gradient = "unmasked",
    weights: Tensor | None = None,
) -> LossGradient:
    """Compute the gradient of the batch loss under a pruning mask, eq. (5).

    The masked network always provides the softmax weights. `gradient` selects what else sees the
    mask.

    gate_bias (S, m), weights (S, K). imbalance_and_pruning, eq. (5), (19)-(21).
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
    attended: Tensor,
    config: StepConfig,
    stage_one_end: Literal["eq34"] | int,
    bias_rule: BiasRule,
    step: int,
    complement_draw: Tensor | None = None,
    after_descent: Callable[[Tensor], Tensor] | None = None,
) -> TrainState:
    """Take one training step: weight update with decay, end of stage 1, bias rule.

    attended (S, n, L, P).
    """
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
    T1 = state.T1
    if any_or_gpu(T1 < 0):
        over = (
            is_stage_one_over(feature_share(weights, simulator.dictionary))
            if stage_one_end == "eq34"
            else step + 1 >= stage_one_end
        )
        T1 = torch.where((T1 < 0) & over, step + 1, T1)
    bias = bias_rule(BiasContext(state.bias, state.weights, norms, T1, step + 1, gradient.bias))
    return TrainState(
        weights, bias, T1, state.diverged | stopped | ~(bias.abs() <= MAX_NORM).all(-1)
    )


class Kernel(NamedTuple):
    """Functions of a training step that exist twice, in torch and native."""

    simulator: Simulator
    """Simulator to pass to `apply_step`."""
    attended_tokens: Callable[[Tensor, float, Generators], Tensor]
    """Draws attended tokens of shape (S, n, L, P).

    Arguments: latents of shape (S, n, L, d), sigma, and the sources of the noise.
    """
    forward: Callable[[Tensor, TrainState], ForwardOutput]
    """See `forward`."""
    loss_gradient: Callable[..., LossGradient]
    """See `loss_gradient`."""


def make_kernel(
    name: Literal["auto", "torch", "native"],
    simulator: Simulator,
    sample_tokens: Callable[[Tensor, float, Generators], Tensor],
    scale: float = 1.0,
) -> Kernel:
    """Choose the functions of a training step.

    Native functions serve the reduced simulator on a CPU with at least as many dimensions beyond
    the span as neurons, and round otherwise than torch.
    Everything else trains in torch.
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
        from rarefeat.train.native_step import make_native_kernel

        return make_native_kernel(simulator, scale)

    def attended_tokens(latents: Tensor, sigma: float, generators: Generators) -> Tensor:
        return attend(sample_tokens(latents, sigma, generators), scale)

    return Kernel(simulator, attended_tokens, forward, loss_gradient)


def replicas_per_batch(K: int, L: int, width: int) -> int:
    """Return how many replicas share one tensor program; no bit of a result depends on it."""
    return max(1, int(BATCH_BYTES / (2 * K * L * width * 4)))
