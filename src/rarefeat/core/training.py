"""One training step of the contrastive encoder: eq. (1)-(5) and Algorithm 1, for S replicas at once.

A training is a loop over `answer`, a mask, `slopes` and `update`. Who writes the loop draws the tokens, chooses the mask, and
records what it wants of the state before and after; nothing here records.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from rarefeat.core.bias import BiasRule, Moved, stage_one_over
from rarefeat.core.contrastive import bias_gradient, coefficients, infonce, probabilities
from rarefeat.core.device import anywhere
from rarefeat.core.encoder import pre_activations, respond
from rarefeat.core.neurons import feature_share
from rarefeat.core.simulators import Simulator

LARGEST_NORM = 1e12
"""No step takes a neuron further: far beyond any reading, and similarities of it are finite in float32."""
BYTES_AT_ONCE = 2.4e6
"""Of the tokens of the replicas in one tensor program: enough to share the overhead of each call, few enough for the cache."""

Gradient = Literal["unmasked", "masked_keys", "straight_through"]
"""What the gradient sees of a mask: the logits alone, eq. (5); the keys too; or the whole masked network."""


class Settings(Protocol):
    """What a step needs of a section of the config."""

    K: int
    tau: float
    eta: float
    lambda_: float | Tensor
    """One for all replicas, or theirs, (S, 1, 1)."""


class State(NamedTuple):
    """What a step changes."""

    weights: Tensor
    """w_i in the simulator's coordinates, (S, m, p)."""
    bias: Tensor
    """b_i, (S, m)."""
    T1: Tensor
    """The step that ended stage 1, (S,); -1 for none."""
    diverged: Tensor
    """bool (S,): a step would have taken a neuron beyond LARGEST_NORM, and was not taken. What is left may look healthy."""


class Answer(NamedTuple):
    """What a network answers to a batch: K first views, K second ones and, in some studies, K other negatives."""

    pre: Tensor
    """Pre-activations, (S, 2 K or 3 K, L, m)."""
    f: Tensor
    """Embeddings, (S, 2 K or 3 K, m)."""

    def views(self, K: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """f(X), f(Y) and the other negatives' embeddings, (S, K, m) each."""
        f_x, f_y, *others = self.f.split(K, dim=1)
        return f_x, f_y, others[0] if others else None


def start(weights: Tensor) -> State:
    """Before the first step, from W(0)."""
    S, m, _ = weights.shape
    at = weights.device
    none = torch.full((S,), -1, device=at)
    return State(weights, torch.zeros(S, m, device=at), none, torch.zeros(S, dtype=torch.bool, device=at))


def answer(attended: Tensor, state: State) -> Answer:
    """Of the whole network to attended tokens, (S, n, L, P)."""
    pre = pre_activations(attended, state.weights)
    return Answer(pre, respond(pre, state.bias))


def masked(whole: Answer, mask: Tensor, attended: Tensor, state: State, gradient: Gradient = "unmasked") -> Answer:
    """Of the network without what is pruned: neurons, bool (S, m), or single weights, bool (S, m, p)."""
    if mask.dim() > 2:
        return answer(attended, state._replace(weights=state.weights.masked_fill(mask, 0.0)))
    # The gradient alone would read pre-activations of pruned neurons.
    pre = whole.pre.masked_fill(mask[:, None, None], 0.0) if gradient == "straight_through" else whole.pre
    return Answer(pre, whole.f.masked_fill(mask[:, None], 0.0))


def loss(whole: Answer, at: Settings) -> Tensor:
    """InfoNCE of the batch, eq. (1) without the l2 term, (S,)."""
    f_x, f_y, negatives = whole.views(at.K)
    return infonce(f_x, f_y, at.tau, negatives)


class Slopes(NamedTuple):
    """The gradient of a batch's loss."""

    coefficients: Tensor
    """d loss / d w_i is their sum with the anchors' attended tokens, (S, K, L, m)."""
    bias: Callable[[], Tensor]
    """d loss / d b_i, (S, m), where a rule asks for it."""


def slopes(whole: Answer, pruned: Answer, gates: Tensor, at: Settings, gradient: Gradient = "unmasked") -> Slopes:
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
    return Slopes(coefficients(*of), partial(bias_gradient, *of))


def update(
    space: Simulator,
    state: State,
    found: Slopes,
    attended: Tensor,
    at: Settings,
    ends: Literal["eq34"] | int,
    rule: BiasRule,
    step: int,
    beyond: Tensor | None = None,
    redrawn: Callable[[Tensor], Tensor] | None = None,
) -> State:
    """The replicas after a step of gradient descent with weight decay; then stage 1 may end, and the bias follows its rule.

    Args:
        attended: (S, n, L, P), the anchors first. ends: eq. (34) or the step that ends stage 1. step: counted from 0.
        beyond: of Simulator.beyond. redrawn: what is done to the weights after the descent.
    """
    decay = torch.as_tensor(1 - at.eta * at.lambda_, dtype=state.weights.dtype)
    weights = space.step(state.weights, -at.eta * found.coefficients, attended[:, : at.K], decay, beyond)
    if redrawn:
        weights = redrawn(weights)
    norms = weights.norm(dim=-1)
    stopped = ~(norms <= LARGEST_NORM).all(-1)
    if anywhere(stopped):
        weights = torch.where(stopped[:, None, None], state.weights, weights)
        norms = weights.norm(dim=-1)
    T1 = state.T1
    if anywhere(T1 < 0):
        over = stage_one_over(feature_share(weights, space.dictionary)) if ends == "eq34" else step + 1 >= ends
        T1 = torch.where((T1 < 0) & over, step + 1, T1)
    bias = rule(Moved(state.bias, state.weights, norms, T1, step + 1, found.bias))
    return State(weights, bias, T1, state.diverged | stopped | ~(bias.abs() <= LARGEST_NORM).all(-1))


def at_once(K: int, L: int, width: int) -> int:
    """How many replicas share a tensor program; no bit depends on it. width: coordinates of a token."""
    return max(1, int(BYTES_AT_ONCE / (2 * K * L * width * 4)))
