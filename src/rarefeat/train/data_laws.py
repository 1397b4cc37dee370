"""Data laws: which features a sample has, how large, and which come together.

A law is a function of (n, generator, probability) and its own options. It returns either
    - features of n samples, float (n, d): the laboratory spreads them over the tokens of two views;
    - latents of n positive pairs, (n, 2, L, d): the laboratory adds dictionary and noise; or
    - features (n, d) and tokens (n, 2, L, d1), with whatever noise they are to have.

`probability`, float64 (d,), is that of a feature to be active; rare features are the last ones.
Axes: n samples, 2 views, L tokens, d features, d1 coordinates of a token.
"""

import torch
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.sparse_coding import latent_pairs

Generator = torch.Generator


def paper(n: int, generator: Generator, probability: Tensor, L: int) -> Tensor:
    """Draw independent features with signs, Assumptions 3.2 and 3.4 of imbalance_and_pruning.

    probability (d,) -> (n, 2, L, d).
    """
    return latent_pairs(n, L, probability, generator)


def correlated(n: int, generator: Generator, probability: Tensor, rho: float = 0.5) -> Tensor:
    """Draw features whose supports are correlated: a Gaussian copula with one common factor.

    probability (d,) -> (n, d).
    """
    if not 0 <= rho <= 1:
        raise RarefeatError(f"data_law correlated: rho must be in [0, 1], got {rho}")
    common = torch.randn(n, 1, generator=generator)
    single = torch.randn(n, len(probability), generator=generator)
    score = rho**0.5 * common + (1 - rho) ** 0.5 * single
    return draw_signs(torch.special.ndtr(score) < probability, generator)


def power_law(n: int, generator: Generator, probability: Tensor, exponent: float = 1.0) -> Tensor:
    """Draw independent features whose frequencies fall as a power of their rank.

    probability (d,) -> (n, d).
    """
    rank = torch.arange(1, len(probability) + 1, dtype=torch.float64)
    active = torch.rand(n, len(rank), generator=generator) < probability * rank**-exponent
    return draw_signs(active, generator)


def magnitudes(n: int, generator: Generator, probability: Tensor, spread: float = 0.5) -> Tensor:
    """Draw independent features with log-normal magnitudes, of mean square 1.

    probability (d,) -> (n, d).
    """
    active = torch.rand(n, len(probability), generator=generator) < probability
    log_size = spread * torch.randn(active.shape, generator=generator) - spread**2
    return draw_signs(active, generator) * log_size.exp()


def classes(n: int, generator: Generator, probability: Tensor, size: int = 3) -> Tensor:
    """Draw classes of several features: a class's rarer features come only with its frequent ones.

    probability (d,) -> (n, d).
    """
    d = len(probability)
    uniform = torch.rand(n, -(-d // size), generator=generator).repeat_interleave(size, 1)[:, :d]
    return draw_signs(uniform < probability, generator)


def draw_signs(active: Tensor, generator: Generator) -> Tensor:
    """Return active features with independent signs, float (n, d)."""
    return active * (1.0 - 2.0 * torch.randint(2, active.shape, generator=generator))


def spread_over_tokens(features: Tensor, L: int, generator: Generator) -> Tensor:
    """Draw which tokens of the two views have a sample's features, Assumption 3.4.

    features (n, d) -> (n, 2, L, d).
    """
    n, d = features.shape
    in_token = torch.rand(n, 2, L, d, generator=generator) < 0.5
    in_token.scatter_(2, torch.randint(L, (n, 2, 1, d), generator=generator), True)
    return in_token * features[:, None, None]


DATA_LAWS = {law.__name__: law for law in (paper, correlated, power_law, magnitudes, classes)}
"""Data laws by name."""
