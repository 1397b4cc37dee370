"""InfoNCE with stop-gradient and in-batch negatives (eq. 1-3), and its gradient (eq. 21).

The negatives of an anchor are the second views of the other samples. Where `negatives` are passed,
embeddings of shape (S, K, m), they replace these views.
`weights`, of shape (S, K), are those of the anchors in the loss.
Axes: S replicas, B batches, K positive pairs of a batch, L tokens, m neurons, d features. Equations
are those of imbalance_and_pruning.
"""

import math

import torch
from jaxtyping import Float, Real
from torch import Tensor

from rarefeat.model.batch_invariant import matmul
from rarefeat.model.device import any_or_gpu

MAX_SCALE = 2.0**20
"""Largest square of a scale that `infonce_at_best_scale` tries."""
SCALE_RTOL = 1e-4
"""Relative tolerance of that square in float32, before the step in float64."""


def similarities(
    f_x: Float[Tensor, "S K m"],
    f_y: Float[Tensor, "S K m"],
    negatives: Float[Tensor, "S K m"] | None = None,
) -> Float[Tensor, "S K K"]:
    """Compute the inner products of the anchors with their positives and negatives, eq. (2)."""
    if negatives is None:
        return matmul(f_x, f_y.mT)
    return matmul(f_x, negatives.mT).diagonal_scatter((f_x * f_y).sum(-1), dim1=-2, dim2=-1)


def probabilities(
    f_x: Float[Tensor, "S K m"],
    f_y: Float[Tensor, "S K m"],
    tau: float,
    negatives: Float[Tensor, "S K m"] | None = None,
) -> Float[Tensor, "S K K"]:
    """Compute the softmax weights of eq. (19)-(20)."""
    logits = similarities(f_x, f_y, negatives)
    return torch.softmax(logits if tau == 1 else logits / tau, dim=-1)


def infonce(
    f_x: Float[Tensor, "S K m"],
    f_y: Float[Tensor, "S K m"],
    tau: float,
    negatives: Float[Tensor, "S K m"] | None = None,
) -> Float[Tensor, " S"]:
    """Compute the loss of eq. (1), averaged over the batch, without the l2 term."""
    log_weights = torch.log_softmax(similarities(f_x, f_y, negatives) / tau, dim=-1)
    return -log_weights.diagonal(dim1=-2, dim2=-1).mean(-1)


def infonce_floor(signs: Real[Tensor, "S K d"]) -> Float[Tensor, " S"]:
    """Compute the loss that identical latents in a batch make unavoidable: the mean of log c.

    Candidates with the same support and sign as the positive are exchangeable with it given the
    anchor. By Jensen's inequality the expected loss of an anchor with c such candidates, its
    positive included, is at least log c.
    """
    signs = signs.float()
    distance = torch.cdist(signs, signs, p=1)
    return (distance < 0.5).sum(-1).double().log().mean(-1)


def weight_gradient_coefficients(
    pre: Float[Tensor, "S K L m"],
    bias: Float[Tensor, "S m"],
    f_y: Float[Tensor, "S K m"],
    p: Float[Tensor, "S K K"],
    tau: float,
    negatives: Float[Tensor, "S K m"] | None = None,
    weights: Float[Tensor, "S K"] | None = None,
) -> Float[Tensor, "S K L m"]:
    """Compute the c_i of d loss / d w_i = sum of c_i z over the attended tokens z of the anchors.

    This is eq. (21) divided by tau.
    """
    threshold = bias[:, None, None, :]
    # The gate is computed in place as numbers, as a product with a bool tensor takes twice as long.
    gate = pre.abs().ge_(threshold)
    if any_or_gpu(bias < 0):
        # Within a negative bias both halves of BReLU are active.
        gate += pre.abs() < -threshold
    return gate.mul_(embedding_gradient(f_y, p, tau, negatives, weights)[:, :, None, :])


def bias_gradient(
    pre: Float[Tensor, "S K L m"],
    bias: Float[Tensor, "S m"],
    f_y: Float[Tensor, "S K m"],
    p: Float[Tensor, "S K K"],
    tau: float,
    negatives: Float[Tensor, "S K m"] | None = None,
    weights: Float[Tensor, "S K"] | None = None,
) -> Float[Tensor, "S m"]:
    """Compute the gradient of eq. (1) with respect to the biases.

    d h / d b = -sign(s) where |s| >= |b|, and 0 elsewhere.
    """
    slope = -pre.sign() * (pre.abs() >= bias.abs()[:, None, None, :])
    return (embedding_gradient(f_y, p, tau, negatives, weights) * slope.sum(2)).sum(1)


def embedding_gradient(
    f_y: Float[Tensor, "S K m"],
    p: Float[Tensor, "S K K"],
    tau: float,
    negatives: Float[Tensor, "S K m"] | None = None,
    weights: Float[Tensor, "S K"] | None = None,
) -> Float[Tensor, "S K m"]:
    """Compute the gradient of eq. (1) with respect to the anchors' embeddings h_i(X_n).

    It is the error of the softmax weights, applied to the positives and negatives, which have no
    gradient themselves (StopGrad).
    """
    K = p.shape[-1]
    error = p.clone()
    error.diagonal(dim1=-2, dim2=-1).sub_(1)
    if weights is not None:
        error *= weights[..., None]
    if negatives is None:
        return matmul(error, f_y) / (K * tau)
    error_of_positive = error.diagonal(dim1=-2, dim2=-1)[..., None]
    return (matmul(error, negatives) + error_of_positive * (f_y - negatives)) / (K * tau)


def infonce_at_best_scale(
    f_x: Float[Tensor, "B K m"], f_y: Float[Tensor, "B K m"], tau: float
) -> float:
    """Compute the smallest loss of eq. (1) over one common scale of the embeddings.

    It is a floor for encoders of another size: no claim about a loss may ask for less than the
    best encoder of its kind has. Where the loss only falls, the value at `MAX_SCALE` is returned.
    """
    # The loss is convex in the square of the scale. Newton's method on its derivative runs in
    # float32 inside a bracket of the zero, and one step in float64 follows: the loss is flat at its
    # smallest, so that its error is of the order of the square of the remaining one.
    logits = relative_logits(f_x, f_y, tau)
    low, high, square = 0.0, math.inf, 0.0
    while True:
        slope, newton = newton_step(logits, square)
        low, high = (square, high) if slope < 0 else (low, square)
        if not low < newton < high:
            newton = (low + high) / 2 if high < math.inf else max(1.0, 2 * square)
        previous, square = square, min(newton, MAX_SCALE)
        if abs(square - previous) <= SCALE_RTOL * previous:
            break
    logits = relative_logits(f_x.double(), f_y.double(), tau)
    square = min(max(newton_step(logits, square)[1], 0.0), MAX_SCALE)
    return torch.logsumexp(square * logits, dim=-1).mean().item()


def relative_logits(
    f_x: Float[Tensor, "B K m"], f_y: Float[Tensor, "B K m"], tau: float
) -> Float[Tensor, "B K K"]:
    """Compute the logits minus the positive's, which leaves the softmax as it is."""
    logits = similarities(f_x, f_y) / tau
    return logits - logits.diagonal(dim1=-2, dim2=-1)[..., None]


def newton_step(logits: Float[Tensor, "B K K"], square: float) -> tuple[float, float]:
    """Compute the loss's derivative in the square of the scale, and Newton's next square."""
    weighted = torch.softmax(square * logits, dim=-1).mul_(logits)
    mean, second = weighted.sum(-1), torch.linalg.vecdot(weighted, logits)
    slope, curvature = mean.mean().item(), (second - mean.square()).mean().item()
    return slope, square - slope / curvature if curvature > 0 else math.inf
