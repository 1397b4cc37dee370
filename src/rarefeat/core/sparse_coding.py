"""The sparse-coding data of Assumptions 3.1-3.4 and Definition 3.1: X = [M z^(l) + xi^(l)], l = 1..L."""

import torch
from torch import Tensor

from rarefeat.core.randomness import generator


def frequencies(d: int, minority: list[float], eps_min: float) -> Tensor:
    """eps_j of Definition 3.1, (d,): 1 for the majority features, then eps_min * minority[k] for each minority feature."""
    return torch.tensor(
        [1.0] * (d - len(minority)) + [eps_min * scale for scale in minority], dtype=torch.float64
    )


def dictionary(d1: int, d: int, generator: torch.Generator) -> Tensor:
    """M of Assumption 3.1, (d1, d): column-orthonormal, uniform over such frames."""
    q, r = torch.linalg.qr(torch.randn(d1, d, generator=generator, dtype=torch.float64))
    return (q * r.diagonal().sign()).float()


def latent_pairs(n: int, L: int, probability: Tensor, generator: torch.Generator) -> Tensor:
    """Latent signals of n positive pairs, int8 (n, 2, L, d), entries in {-1, 0, 1} (Assumptions 3.2 and 3.4).

    A feature is active where a uniform lies below its probability, so that draws from one generator with other probabilities
    are nested. The two views share which features are active and their signs, and nothing else: in each view every token keeps
    an active feature with probability 1/2 and one token, drawn uniformly, keeps it for certain.
    """
    d = len(probability)
    active = torch.rand(n, d, generator=generator, dtype=torch.float64) < probability
    sign = 1 - 2 * torch.randint(2, (n, d), generator=generator, dtype=torch.int8)
    kept = torch.rand(n, 2, L, d, generator=generator) < 0.5
    certain = torch.randint(L, (n, 2, 1, d), generator=generator)
    kept.scatter_(2, certain, True)
    return kept * (active * sign)[:, None, None, :]


def aggregated_sign(latents: Tensor) -> Tensor:
    """sign sum_l z^(l), what a positive pair shares (Assumption 3.4): (..., L, d) -> (..., d)."""
    return latents.sum(-2).sign()


def regression_target(study: str, seed: int, d: int) -> Tensor:
    """w* of the regression task, (d,): independent signs +-1, so that every feature is worth the same."""
    return 1.0 - 2.0 * torch.randint(2, (d,), generator=generator(study, seed, "target"))
