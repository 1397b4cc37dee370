"""Data laws: which features a sample has, how large, and which come together.

A law of your own is a function with these parameters, and options of its own.

Parameters
----------
n : int
    Number of samples.
generator : torch.Generator
    What it draws from, and nothing else.
probability : float64 Tensor of shape (d,)
    Probability of each feature to be active; rare features are the last ones.
L : int, if it is named
    Tokens of a view.

Returns
-------
Tensor of shape (n, d)
    Features of the samples, which are spread over the tokens of two views as in the paper; or
Tensor of shape (n, 2, L, d)
    latents of both views, to which dictionary and noise are added; or
tuple of Tensors of shape (n, d) and (n, 2, L, d1)
    features and tokens, with whatever noise these are to have.

Axes: n samples, 2 views, L tokens, d features, d1 coordinates of a token.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.sparse_coding import latent_pairs

Generator = torch.Generator


def paper(
    n: int, generator: Generator, probability: Float[Tensor, " d"], L: int
) -> Int[Tensor, "n 2 L d"]:
    """Draw independent features with signs, Assumptions 3.2 and 3.4 of imbalance_and_pruning."""
    return latent_pairs(n, L, probability, generator)


def correlated(
    n: int, generator: Generator, probability: Float[Tensor, " d"], rho: float = 0.5
) -> Float[Tensor, "n d"]:
    """Draw features whose supports are correlated: a Gaussian copula with one common factor."""
    if not 0 <= rho <= 1:
        raise RarefeatError(f"data_law correlated: rho must be in [0, 1], got {rho}")
    common = torch.randn(n, 1, generator=generator)
    single = torch.randn(n, len(probability), generator=generator)
    score = rho**0.5 * common + (1 - rho) ** 0.5 * single
    return draw_signs(torch.special.ndtr(score) < probability, generator)


def power_law(
    n: int, generator: Generator, probability: Float[Tensor, " d"], exponent: float = 1.0
) -> Float[Tensor, "n d"]:
    """Draw independent features whose frequencies fall as a power of their rank."""
    rank = torch.arange(1, len(probability) + 1, dtype=torch.float64)
    active = torch.rand(n, len(rank), generator=generator) < probability * rank**-exponent
    return draw_signs(active, generator)


def magnitudes(
    n: int, generator: Generator, probability: Float[Tensor, " d"], spread: float = 0.5
) -> Float[Tensor, "n d"]:
    """Draw independent features with log-normal magnitudes, of mean square 1."""
    active = torch.rand(n, len(probability), generator=generator) < probability
    log_size = spread * torch.randn(active.shape, generator=generator) - spread**2
    return draw_signs(active, generator) * log_size.exp()


def classes(
    n: int, generator: Generator, probability: Float[Tensor, " d"], size: int = 3
) -> Float[Tensor, "n d"]:
    """Draw classes of several features: a class's rarer features come with its frequent ones
    alone.
    """
    d = len(probability)
    uniform = torch.rand(n, -(-d // size), generator=generator).repeat_interleave(size, 1)[:, :d]
    return draw_signs(uniform < probability, generator)


def draw_signs(active: Bool[Tensor, "n d"], generator: Generator) -> Float[Tensor, "n d"]:
    """Return active features with independent signs."""
    return active * (1.0 - 2.0 * torch.randint(2, active.shape, generator=generator))


DATA_LAWS = {law.__name__: law for law in (paper, correlated, power_law, magnitudes, classes)}
"""Data laws by name."""
