"""Sparse-coding data of imbalance_and_pruning: X = [M z^(l) + xi^(l)], l = 1..L.

Assumptions 3.1 to 3.4 and Definition 3.1. The noise xi is drawn with the tokens, by a simulator.
Axes: n samples, 2 views of a pair, L tokens, d1 coordinates of a token, d features.
"""

import torch
from jaxtyping import Float, Int8, Real
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.randomness import generator


def frequencies(d: int, minority: list[float], eps_min: float) -> Float[Tensor, " d"]:
    """Return the frequencies eps_j of all features, Definition 3.1."""
    return torch.tensor(
        [1.0] * (d - len(minority)) + [eps_min * scale for scale in minority], dtype=torch.float64
    )


def dictionary(d1: int, d: int, generator: torch.Generator) -> Float[Tensor, "d1 d"]:
    """Draw M, uniform over the frames of d orthonormal columns in R^d1, Assumption 3.1."""
    q, r = torch.linalg.qr(torch.randn(d1, d, generator=generator, dtype=torch.float64))
    return (q * r.diagonal().sign()).float()


def latent_pairs(
    n: int, L: int, probability: Float[Tensor, " d"], generator: torch.Generator
) -> Int8[Tensor, "n 2 L d"]:
    """Draw the latent signals of positive pairs, Assumptions 3.2 and 3.4.

    A feature is active where a uniform lies below its probability, so that draws from one generator
    with other probabilities are nested. The two views share which features are active and their
    signs, and nothing else: in each view every token keeps an active feature with probability 1/2,
    and one token, drawn uniformly, keeps it for certain.
    """
    d = len(probability)
    active = torch.rand(n, d, generator=generator, dtype=torch.float64) < probability
    sign = 1 - 2 * torch.randint(2, (n, d), generator=generator, dtype=torch.int8)
    return spread_over_tokens(active * sign, L, generator)


def spread_over_tokens(
    signs: Real[Tensor, "n d"], L: int, generator: torch.Generator
) -> Real[Tensor, "n 2 L d"]:
    """Draw the tokens that keep each active feature, in both views of n pairs."""
    n, d = signs.shape
    in_token = torch.rand(n, 2, L, d, generator=generator) < 0.5
    certain = torch.randint(L, (n, 2, 1, d), generator=generator)
    in_token.scatter_(2, certain, True)
    return in_token * signs[:, None, None, :]


def aggregated_sign(latents: Real[Tensor, "*batch L d"]) -> Real[Tensor, "*batch d"]:
    """Return sign sum_l z^(l), which the views of a positive pair share (Assumption 3.4)."""
    return latents.sum(-2).sign()


def balancing_weights(
    latents: Real[Tensor, "*batch n 2 L d"], n_minority: int
) -> Float[Tensor, "*batch n"]:
    """Compute weights of pairs under which minority features are as frequent as the others.

    A pair has, for each minority feature that is active in it, the odds of a majority feature over
    those of this feature, both as they are in the sample. As features are active independently, the
    weighted frequencies of the others stay as they are.
    """
    active = (latents[..., 0, :, :] != 0).any(-2)
    frequency = active.double().mean(-2, keepdim=True)
    majority = frequency[..., :-n_minority].mean(-1, keepdim=True)
    odds = majority / (1 - majority) * (1 / frequency[..., -n_minority:] - 1)
    weights = torch.where(active[..., -n_minority:], odds, 1.0).prod(-1)
    return weights / weights.mean(-1, keepdim=True)


def regression_target(namespace: str, seed: int, d: int) -> Float[Tensor, " d"]:
    """Draw w* of the regression task: independent signs, so that all features weigh the same."""
    return 1.0 - 2.0 * torch.randint(
        2, (d,), generator=generator(namespace, seed, stream_names.TARGET)
    )
