"""InfoNCE with a stop-gradient and in-batch negatives (eq. 1-3), and its gradient in closed form (eq. 21).

The negatives of an anchor are the second views of the other samples, or where `negatives`, (S, K, m), is given, these
embeddings of them.
"""

import math

import torch
from torch import Tensor

from rarefeat.core.batch_invariant import matmul
from rarefeat.core.device import any_or_gpu

MAX_SCALE = 2.0**20
"""The largest square of a scale that is tried."""
SCALE_RTOL = 1e-9
"""Of that square; the loss is flat where it is smallest, and wrong by the square of this."""


def similarities(f_x: Tensor, f_y: Tensor, negatives: Tensor | None = None) -> Tensor:
    """<f(x_p), f(.)> with the positive on the diagonal and the negatives elsewhere, (S, K, m) each -> (S, K, K)."""
    if negatives is None:
        return matmul(f_x, f_y.mT)
    return matmul(f_x, negatives.mT).diagonal_scatter((f_x * f_y).sum(-1), dim1=-2, dim2=-1)


def probabilities(f_x: Tensor, f_y: Tensor, tau: float, negatives: Tensor | None = None) -> Tensor:
    """The softmax weights of eq. (19)-(20), (S, K, m) each -> (S, K, K), positive logits on the diagonal."""
    return torch.softmax(similarities(f_x, f_y, negatives) / tau, dim=-1)


def infonce(f_x: Tensor, f_y: Tensor, tau: float, negatives: Tensor | None = None) -> Tensor:
    """The loss of eq. (1), averaged over the batch, without the l2 term: (S, K, m) each -> (S,)."""
    log_weights = torch.log_softmax(similarities(f_x, f_y, negatives) / tau, dim=-1)
    return -log_weights.diagonal(dim1=-2, dim2=-1).mean(-1)


def infonce_floor(signs: Tensor) -> Tensor:
    """What identical latents in a batch make unavoidable, (S, K, d) aggregated signs -> (S,).

    Candidates with the same support and sign as the positive are exchangeable with it given the anchor, so by Jensen the
    expected loss of an anchor with c such candidates (its positive included) is at least log c.
    """
    signs = signs.float()
    distance = torch.cdist(signs, signs, p=1)
    return (distance < 0.5).sum(-1).double().log().mean(-1)


def weight_gradient_coefficients(
    pre: Tensor, bias: Tensor, f_y: Tensor, p: Tensor, tau: float, negatives: Tensor | None = None
) -> Tensor:
    """Gradient of eq. (1), i.e. eq. (21) divided by tau: d loss / d w_i = sum over the anchors' attended tokens of c_i z.

    Args:
        pre: of the anchors X, (S, K, L, m). bias: (S, m). f_y: embeddings of the second views, (S, K, m).
        p: probabilities, (S, K, K).

    Returns:
        c, (S, K, L, m): one coefficient for each attended token of the anchors and each neuron.
    """
    threshold = bias[:, None, None, :]
    # Of numbers, in place: a product with a bool tensor takes twice as long.
    gate = pre.abs().ge_(threshold)
    if any_or_gpu(bias < 0):
        # Within a negative bias both halves of BReLU are active.
        gate += pre.abs() < -threshold
    return gate.mul_(embedding_gradient(f_y, p, tau, negatives)[:, :, None, :])


def bias_gradient(
    pre: Tensor, bias: Tensor, f_y: Tensor, p: Tensor, tau: float, negatives: Tensor | None = None
) -> Tensor:
    """d loss / d b_i, arguments as of `weight_gradient_coefficients`: -> (S, m). d h / d b = -sign(s) where |s| >= |b|, and 0 elsewhere."""
    slope = -pre.sign() * (pre.abs() >= bias.abs()[:, None, None, :])
    return (embedding_gradient(f_y, p, tau, negatives) * slope.sum(2)).sum(1)


def embedding_gradient(
    f_y: Tensor, p: Tensor, tau: float, negatives: Tensor | None = None
) -> Tensor:
    """d loss / d h_i(X_n), (S, K, m): the error of the softmax weights on the positives and negatives."""
    K = p.shape[-1]
    error = p - torch.eye(K, dtype=p.dtype, device=p.device)
    if negatives is None:
        return matmul(error, f_y) / (K * tau)
    own = error.diagonal(dim1=-2, dim2=-1)[..., None]
    return (matmul(error, negatives) + own * (f_y - negatives)) / (K * tau)


def infonce_at_best_scale(f_x: Tensor, f_y: Tensor, tau: float) -> float:
    """The loss of eq. (1) at the one scale of the embeddings that makes it smallest, batches (B, K, m) each, mean over them.

    A floor for encoders of another size: no claim about a loss may ask for less than the best encoder of its kind has. The loss
    is convex in the square of the scale, and Newton's method on its derivative finds it, inside of what brackets its zero;
    where it only falls, it is the loss far out.
    """
    similarity = similarities(f_x.double(), f_y.double()) / tau
    # A row of softmax weights does not see what all of its logits share.
    similarity = similarity - similarity.diagonal(dim1=-2, dim2=-1)[..., None]
    low, high, scale = 0.0, math.inf, 0.0
    while True:
        weights = torch.softmax(scale * similarity, dim=-1)
        mean, square = (weights * similarity).sum(-1), (weights * similarity.square()).sum(-1)
        slope, curvature = mean.mean().item(), (square - mean.square()).mean().item()
        low, high = (scale, high) if slope < 0 else (low, scale)
        moved = scale - slope / curvature if curvature > 0 else math.inf
        if not low < moved < high:
            moved = (low + high) / 2 if high < math.inf else max(1.0, 2 * scale)
        moved = min(moved, MAX_SCALE)
        if abs(moved - scale) <= SCALE_RTOL * scale:
            return torch.logsumexp(moved * similarity, dim=-1).mean().item()
        scale = moved
