"""One training step of the contrastive encoder: eq. (1)-(5) and Algorithm 1, for S replicas at once.

A training is a loop over `forward`, a mask, `loss_gradient` and `apply_step`. Who writes the loop draws the tokens, chooses the mask, and
records what it wants of the state before and after; nothing here records.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from rarefeat.core.bias import BiasContext, BiasRule, is_stage_one_over
from rarefeat.core.contrastive import (
    bias_gradient,
    infonce,
    probabilities,
    weight_gradient_coefficients,
)
from rarefeat.core.device import any_or_gpu
from rarefeat.core.encoder import embed, pre_activations
from rarefeat.core.neurons import feature_share
from rarefeat.core.simulators import Simulator

MAX_NORM = 1e12
"""No step takes a neuron further: far beyond any reading, and similarities of it are finite in float32."""
BATCH_BYTES = 2.4e6
"""Of the tokens of the replicas in one tensor program: enough to share the overhead of each call, few enough for the cache."""

Gradient = Literal["unmasked", "masked_keys", "straight_through"]
"""What the gradient sees of a mask: the logits alone, eq. (5); the keys too; or the whole masked network."""


class StepConfig(Protocol):
    """What a step needs of a section of the config."""

    K: int
    tau: float
    eta: float
    lambda_: float | Tensor
    """One for all replicas, or theirs, (S, 1, 1)."""


class TrainState(NamedTuple):
    """What a step changes."""

    weights: Tensor
    """w_i in the simulator's coordinates, (S, m, p)."""
    bias: Tensor
    """b_i, (S, m)."""
    T1: Tensor
    """The step that ended stage 1, (S,); -1 for none."""
    diverged: Tensor
    """bool (S,): a step would have taken a neuron beyond LARGEST_NORM, and was not taken. What is left may look healthy."""


class ForwardOutput(NamedTuple):
    """What a network answers to a batch: K first views, K second ones and, in some studies, K other negatives."""

    pre: Tensor
    """Pre-activations, (S, 2 K or 3 K, L, m)."""
    f: Tensor
    """Embeddings, (S, 2 K or 3 K, m)."""

    def views(self, K: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """f(X), f(Y) and the other negatives' embeddings, (S, K, m) each."""
        f_x, f_y, *others = self.f.split(K, dim=1)
        return f_x, f_y, others[0] if others else None


def initial_state(weights: Tensor) -> TrainState:
    """Before the first step, from W(0)."""
    S, m, _ = weights.shape
    at = weights.device
    none = torch.full((S,), -1, device=at)
    return TrainState(
        weights, torch.zeros(S, m, device=at), none, torch.zeros(S, dtype=torch.bool, device=at)
    )


def forward(attended: Tensor, state: TrainState) -> ForwardOutput:
    """Of the whole network to attended tokens, (S, n, L, P)."""
    pre = pre_activations(attended, state.weights)
    return ForwardOutput(pre, embed(pre, state.bias))


def apply_mask(
    whole: ForwardOutput,
    mask: Tensor,
    attended: Tensor,
    state: TrainState,
    gradient: Gradient = "unmasked",
) -> ForwardOutput:
    """Of the network without what is pruned: neurons, bool (S, m), or single weights, bool (S, m, p)."""
    if mask.dim() > 2:
        return forward(attended, state._replace(weights=state.weights.masked_fill(mask, 0.0)))
    # The gradient alone would read pre-activations of pruned neurons.
    pre = (
        whole.pre.masked_fill(mask[:, None, None], 0.0)
        if gradient == "straight_through"
        else whole.pre
    )
    return ForwardOutput(pre, whole.f.masked_fill(mask[:, None], 0.0))


def batch_loss(whole: ForwardOutput, at: StepConfig) -> Tensor:
    """InfoNCE of the batch, eq. (1) without the l2 term, (S,)."""
    f_x, f_y, negatives = whole.views(at.K)
    return infonce(f_x, f_y, at.tau, negatives)


class LossGradient(NamedTuple):
    """The gradient of a batch's loss."""

    coefficients: Tensor
    """d loss / d w_i is their sum with the anchors' attended tokens, (S, K, L, m)."""
    bias: Callable[[], Tensor]
    """d loss / d b_i, (S, m), where a rule asks for it."""


def loss_gradient(
    whole: ForwardOutput,
    pruned: ForwardOutput,
    gates: Tensor,
    at: StepConfig,
    gradient: Gradient = "unmasked",
) -> LossGradient:
    """Eq. (5): the masked network gives the logits; embeddings, gates and the update are those of the whole one.

    Args:
        pruned: the masked network's answer; the whole one's, where nothing is masked. gates: biases that the gradient sees.
    """
    f_x, f_y, negatives = pruned.views(at.K)
    p = probabilities(f_x, f_y, at.tau, negatives)
    if gradient == "unmasked":
        _, f_y, negatives = whole.views(at.K)
    pre = (pruned if gradient == "straight_through" else whole).pre[:, : at.K]
    of = pre, gates, f_y, p, at.tau, negatives
    return LossGradient(weight_gradient_coefficients(*of), partial(bias_gradient, *of))


def apply_step(
    space: Simulator,
    state: TrainState,
    found: LossGradient,
    attended: Tensor,
    at: StepConfig,
    ends: Literal["eq34"] | int,
    rule: BiasRule,
    step: int,
    beyond: Tensor | None = None,
    redrawn: Callable[[Tensor], Tensor] | None = None,
) -> TrainState:
    """The replicas after a step of gradient descent with weight decay; then stage 1 may end, and the bias follows its rule.

    Args:
        attended: (S, n, L, P), the anchors first. ends: eq. (34) or the step that ends stage 1. step: counted from 0.
        beyond: of Simulator.beyond. redrawn: what is done to the weights after the descent.
    """
    decay = torch.as_tensor(1 - at.eta * at.lambda_, dtype=state.weights.dtype)
    weights = space.descend(
        state.weights, -at.eta * found.coefficients, attended[:, : at.K], decay, beyond
    )
    if redrawn:
        weights = redrawn(weights)
    norms = weights.norm(dim=-1)
    stopped = ~(norms <= MAX_NORM).all(-1)
    if any_or_gpu(stopped):
        weights = torch.where(stopped[:, None, None], state.weights, weights)
        norms = weights.norm(dim=-1)
    T1 = state.T1
    if any_or_gpu(T1 < 0):
        over = (
            is_stage_one_over(feature_share(weights, space.dictionary))
            if ends == "eq34"
            else step + 1 >= ends
        )
        T1 = torch.where((T1 < 0) & over, step + 1, T1)
    bias = rule(BiasContext(state.bias, state.weights, norms, T1, step + 1, found.bias))
    return TrainState(
        weights, bias, T1, state.diverged | stopped | ~(bias.abs() <= MAX_NORM).all(-1)
    )


def replicas_per_batch(K: int, L: int, width: int) -> int:
    """How many replicas share a tensor program; no bit depends on it. width: coordinates of a token."""
    return max(1, int(BATCH_BYTES / (2 * K * L * width * 4)))
