"""The encoder of eq. (4): identity attention, one layer of BReLU neurons, summed over the tokens.

Tokens have P coordinates and weights the first p <= P of them: those beyond take part in the attention
alone (core/simulators.py).
"""

import torch
from torch import Tensor

from rarefeat.core.batch_invariant import matmul
from rarefeat.core.device import any_or_gpu


def attention(tokens: Tensor) -> Tensor:
    """Attention weights with W_Q = W_K = W_V = I, (S, n, L, P) -> (S, n, L, L): row r is softmax_s <x_r, x_s>."""
    scores = matmul(tokens, tokens.mT)
    # torch.softmax takes five times as long for rows of a few tokens.
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    return exponentials / exponentials.sum(-1, keepdim=True)


def attend(tokens: Tensor) -> Tensor:
    """Attended tokens z_X^(r) = sum_s attention_rs x_s, (S, n, L, P) -> (S, n, L, P)."""
    if tokens.shape[2] == 1:
        return tokens  # a softmax over one token is 1; products of one row are a third of a step
    return matmul(attention(tokens), tokens)


def brelu(s: Tensor, b: Tensor | float) -> Tensor:
    """BReLU_b(s) = ReLU(s - b) - ReLU(-s - b): soft thresholding for b >= 0, twice as steep within |b| for b < 0."""
    b = torch.as_tensor(b, dtype=s.dtype)
    if any_or_gpu(b < 0):
        return s - b.sign() * torch.clamp(s, min=-b.abs(), max=b.abs())
    return torch.clamp(s, min=-b, max=b).neg_().add_(s)


def pre_activations(attended: Tensor, weights: Tensor) -> Tensor:
    """<w_i, z_X^(r)>, (S, n, L, P), (S, m, p) -> (S, n, L, m)."""
    seen = attended.flatten(1, 2)[..., : weights.shape[-1]]
    return matmul(seen, weights.mT).unflatten(1, attended.shape[1:3])


def embed(pre: Tensor, bias: Tensor) -> Tensor:
    """f(X) = (h_1, ..., h_m) from pre-activations, (S, n, L, m), (S, m) -> (S, n, m)."""
    first, *others = brelu(pre, bias[:, None, None, :]).unbind(2)
    f = first + 0.0
    for of_token in others:
        f += of_token
    return f
