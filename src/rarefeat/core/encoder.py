"""The encoder of eq. (4): identity attention, one layer of BReLU neurons, summed over the tokens."""

import torch
from torch import Tensor

from rarefeat.core.products import product


def attention(tokens: Tensor) -> Tensor:
    """Attention weights with W_Q = W_K = W_V = I, (S, n, L, d1) -> (S, n, L, L): row r is softmax_s <x_r, x_s>."""
    return torch.softmax(product(tokens, tokens.mT), dim=-1)


def brelu(s: Tensor, b: Tensor | float) -> Tensor:
    """BReLU_b(s) = ReLU(s - b) - ReLU(-s - b) for b >= 0, that is, soft thresholding at b."""
    b = torch.as_tensor(b, dtype=s.dtype)
    return s - torch.clamp(s, min=-b, max=b)


def pre_activations(tokens: Tensor, attention: Tensor, weights: Tensor) -> Tensor:
    """<w_i, z_X^(r)>, (S, n, L, d1), (S, n, L, L), (S, m, d1) -> (S, n, L, m).

    The tokens are mixed after the projection, in m dimensions instead of d1.
    """
    S, n, L, d1 = tokens.shape
    projected = product(tokens.reshape(S, n * L, d1), weights.mT).view(S, n, L, -1)
    return product(attention, projected)


def respond(pre: Tensor, bias: Tensor) -> Tensor:
    """f(X) = (h_1, ..., h_m) from pre-activations, (S, n, L, m), (S, m) -> (S, n, m)."""
    return brelu(pre, bias[:, None, None, :]).sum(2)


def embed(tokens: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """f(X), (S, n, L, d1), (S, m, d1), (S, m) -> (S, n, m)."""
    return respond(pre_activations(tokens, attention(tokens), weights), bias)
