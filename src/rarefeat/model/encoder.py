"""Encoder of eq. (4): attention, BReLU neurons, and a sum over the tokens.

Axes: S replicas, n samples, L tokens, P coordinates of a token, m neurons, p <= P coordinates of a
weight. Coordinates of a token beyond the first p take part in the attention alone
(model/simulators.py).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.model.batch_invariant import matmul
from rarefeat.model.device import any_or_gpu

QueryKey = Float[Tensor, "S 2 P P"]
"""W_Q and W_K of each replica; W_V is always the identity."""


def queries_and_keys(
    tokens: Float[Tensor, "S n L P"], query_key: QueryKey
) -> list[Float[Tensor, "S n L P"]]:
    """Compute W_Q x and W_K x of every token x."""
    flat, shape = tokens.flatten(1, 2), tokens.shape[1:3]
    return [matmul(flat, matrix.mT).unflatten(1, shape) for matrix in query_key.unbind(1)]


def attention(
    tokens: Float[Tensor, "*batch L P"], scale: float = 1.0, query_key: QueryKey | None = None
) -> Float[Tensor, "*batch L L"]:
    """Compute the attention weights; W_Q = W_K = I by default."""
    q, k = (tokens, tokens) if query_key is None else queries_and_keys(tokens, query_key)
    scores = matmul(q, k.mT)
    if scale != 1:
        scores = scores * scale
    # torch.softmax takes five times as long for rows of a few tokens.
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    return exponentials / exponentials.sum(-1, keepdim=True)


def attend(
    tokens: Float[Tensor, "S n L P"], scale: float = 1.0, query_key: QueryKey | None = None
) -> Float[Tensor, "S n L P"]:
    """Compute the attended tokens z_X^(r) = sum_s attention_rs x_s."""
    if tokens.shape[2] == 1:
        # A softmax over one token is 1, and products of one row would take a third of a step.
        return tokens
    return matmul(attention(tokens, scale, query_key), tokens)


def attention_gradient(
    tokens: Float[Tensor, "S K L P"], query_key: QueryKey, by_attended: Float[Tensor, "S K L P"]
) -> QueryKey:
    """Compute the gradient in W_Q and W_K from that in the attended tokens.

    With attention P and D_rs = <d loss / d z_r, x_s>, d loss / d scores is
    B = P (D - sum_s P_rs D_rs); then d loss / d W_Q = sum_r (B k)_r x_r^T, and W_K has (B^T q)_s.
    """
    q, k = queries_and_keys(tokens, query_key)
    weights = attention(tokens, query_key=query_key)
    slopes = matmul(by_attended, tokens.mT)
    by_score = weights * (slopes - (weights * slopes).sum(-1, keepdim=True))
    by_matrix = [matmul(by_score, k), matmul(by_score.mT, q)]
    x = tokens.flatten(1, 2)
    return torch.stack([matmul(side.flatten(1, 2).mT, x) for side in by_matrix], 1)


def brelu(
    s: Float[Tensor, "*batch"], b: Float[Tensor, "#*batch"] | float
) -> Float[Tensor, "*batch"]:
    """Compute BReLU_b(s) = ReLU(s - b) - ReLU(-s - b).

    This is soft thresholding for b >= 0, and twice as steep within |b| for b < 0.
    """
    b = torch.as_tensor(b, dtype=s.dtype)
    if any_or_gpu(b < 0):
        return s - b.sign() * torch.clamp(s, min=-b.abs(), max=b.abs())
    clamped = torch.clamp(s, min=-b, max=b)
    return s - clamped if clamped.requires_grad else torch.sub(s, clamped, out=clamped)


def pre_activations(
    attended: Float[Tensor, "S n L P"], weights: Float[Tensor, "S m p"]
) -> Float[Tensor, "S n L m"]:
    """Compute the pre-activations <w_i, z_X^(r)>."""
    visible = attended.flatten(1, 2)[..., : weights.shape[-1]]
    return matmul(visible, weights.mT).unflatten(1, attended.shape[1:3])


def embed(pre: Float[Tensor, "S n L m"], bias: Float[Tensor, "S m"]) -> Float[Tensor, "S n m"]:
    """Compute the embeddings f(X) = (h_1, ..., h_m) from pre-activations."""
    first, *others = brelu(pre, bias[:, None, None, :]).unbind(2)
    f = first + 0.0
    for token_activation in others:
        f += token_activation
    return f
