"""Positive pairs: in what the two views of a sample differ.

The core's pairs share which features are active and their signs, and have noise of their own (imbalance_and_pruning, Assumption
3.4). Wen & Li 2021 (wen_li_feature_decoupling) have one x: RandomMask (Definition 2.3), or no augmentation at all.
"""

import math
from typing import Protocol

import torch
from torch import Tensor

from rarefeat.core.batch_invariant import matmul
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import Generators, draw, make_generators
from rarefeat.core.simulators import Simulator


class ViewSettings(Protocol):
    """In what the two views of a pair differ; `data.views` of the config (config/encoder.py)."""

    rho: float
    mask: float
    clean_negatives: bool
    colour: int
    colour_sigma: float
    colour_redrawn: bool


def uses_default_views(views: ViewSettings) -> bool:
    """Whether the views share active features and signs and nothing else, as the core paper's pairs do."""
    return not (views.rho or views.mask or views.colour)


def colour_directions(dictionary: Tensor, rank: int, generators: Generators) -> Tensor:
    """Directions of the colour nuisance, (S, d1, rank): orthonormal, orthogonal to M, and dense as uniform ones are."""
    d = dictionary.shape[-1]
    if not rank:
        return dictionary[..., :0]
    gaussians = draw(torch.randn, generators, dictionary.shape[1], rank).to(dictionary.device)
    return torch.linalg.qr(torch.cat([dictionary, gaussians], -1).double())[0][..., d:].float()


class PairSampler:
    """Tokens of positive pairs for S replicas of one study.

    Raises:
        RarefeatError: for views that need coordinates which the simulator `reduced` does not have.
    """

    def __init__(
        self, views: ViewSettings, space: Simulator, simulator: str, study: str, seeds: list[int]
    ):
        if simulator == "reduced" and not uses_default_views(views):
            raise RarefeatError(
                "data.views needs every coordinate of a token, which only the simulator direct has"
            )
        self.views, self.space = views, space
        self.masks, self.colours = (
            make_generators(study, seeds, name, space.dictionary.device)
            for name in ("mask", "colour")
        )
        self.directions = colour_directions(
            space.dictionary, views.colour, make_generators(study, seeds, "colour directions")
        )

    def sample_pair_tokens(self, latents: Tensor, sigma: float, noise: Generators) -> Tensor:
        """Of K pairs, the first views and then the second: latents (S, 2 K, L, d) -> (S, 2 K, L, P).

        With `clean_negatives` the samples x themselves come after them, (S, 3 K, L, P).

        With x = M z + xi: the second view has noise rho xi + sqrt(1 - rho^2) xi', xi' fresh. A mask D, one Bernoulli(mask) for
        each coordinate of a token, makes of one x the views D x / mask and (I - D) x / (1 - mask), each with mean x. The
        colour C u, u ~ N(0, colour_sigma^2 I), is the same in both views, or another one in the second if it is redrawn.
        """
        views, K = self.views, latents.shape[1] // 2
        if uses_default_views(views):
            return self.space.sample_tokens(latents, sigma, noise)
        x = self.space.sample_tokens(latents[:, :K], sigma, noise)
        y = x if views.mask else self.correlated_second_view(x, latents, sigma, noise)
        if views.colour:
            first = self.sample_colour(x.shape[1:3])
            x, y = (
                x + first,
                y + (self.sample_colour(x.shape[1:3]) if views.colour_redrawn else first),
            )
        sample = x
        if views.mask:
            kept = draw(torch.rand, self.masks, *x.shape[1:]) < views.mask
            x, y = x * kept / views.mask, y * ~kept / (1 - views.mask)
        return torch.cat([x, y, sample] if views.clean_negatives else [x, y], 1)

    def sample_unaugmented(self, latents: Tensor, sigma: float, noise: Generators) -> Tensor:
        """x = M z + C u + xi as it is, not augmented: latents (S, n, L, d) -> (S, n, L, P)."""
        x = self.space.sample_tokens(latents, sigma, noise)
        return x + self.sample_colour(x.shape[1:3]) if self.views.colour else x

    def correlated_second_view(
        self, x: Tensor, latents: Tensor, sigma: float, noise: Generators
    ) -> Tensor:
        """Second views, their noise correlated with that of the first."""
        K, rho = x.shape[1], self.views.rho
        M = self.space.dictionary.mT
        own = x - matmul(latents[:, :K], M)
        signal = matmul(latents[:, K:], M)
        if rho == 1:
            return signal + own
        fresh = self.space.sample_tokens(torch.zeros_like(latents[:, K:]), sigma, noise)
        return signal + rho * own + math.sqrt(1 - rho**2) * fresh

    def sample_colour(self, shape: torch.Size) -> Tensor:
        """C u for K samples of L tokens, one u a sample: -> (S, K, L, d1)."""
        K, L = shape
        u = draw(torch.randn, self.colours, K, 1, self.views.colour)
        return self.views.colour_sigma * matmul(u, self.directions.mT).expand(-1, -1, L, -1)
