"""Tokens of positive pairs, and how the two views of a sample differ.

In imbalance_and_pruning (Assumption 3.4) the views share which features are active and their signs,
and have independent noise. Wen & Li 2021 (wen_li_feature_decoupling) make both views from one x: by
RandomMask (Definition 2.3), or without augmentation.
Axes: S replicas, K positive pairs of a batch, n samples, L tokens, P coordinates of a token (d1
unless the views are the default ones), d features.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model import stream_names
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.randomness import Generators, draw, make_generators
from rarefeat.model.simulators import Simulator


def uses_default_views(views: Any) -> bool:
    """Return whether the views share active features and signs, and nothing else.

    `views` are the section `data.views` of the config.
    """
    return not (views.rho or views.mask or views.colour)


def colour_directions(
    dictionary: Float[Tensor, "S d1 d"], rank: int, generators: Generators
) -> Float[Tensor, "S d1 rank"]:
    """Draw the directions of the colour nuisance: dense, as uniform directions are."""
    d = dictionary.shape[-1]
    if not rank:
        return dictionary[..., :0]
    gaussians = draw(torch.randn, generators, dictionary.shape[1], rank).to(dictionary.device)
    return torch.linalg.qr(torch.cat([dictionary, gaussians], -1).double())[0][..., d:].float()


class PairSampler:
    """Source of the tokens of positive pairs for S replicas.

    Random streams: "mask", "colour" and "colour directions".
    """

    def __init__(
        self,
        views: Any,
        simulator: Simulator,
        kind: str,
        namespace: str,
        seeds: list[int],
    ):
        if kind == "reduced" and not uses_default_views(views):
            raise RarefeatError(
                "data.views: these views need every coordinate of a token, got simulator: reduced;"
                " set simulator: direct"
            )
        self.views, self.simulator = views, simulator
        self.masks, self.colours = (
            make_generators(namespace, seeds, purpose, simulator.dictionary.device)
            for purpose in (stream_names.MASK, stream_names.COLOUR)
        )
        self.directions = colour_directions(
            simulator.dictionary,
            views.colour,
            make_generators(namespace, seeds, stream_names.COLOUR_DIRECTIONS),
        )

    def sample_pair_tokens(
        self, latents: Float[Tensor, "S n L d"], sigma: float, noise: Generators
    ) -> Float[Tensor, "S views L P"]:
        """Draw the tokens of n / 2 positive pairs: all first views, then all second ones.

        With x = M z + xi, the second view has the noise rho xi + sqrt(1 - rho^2) xi', with fresh
        xi'. A mask D, one Bernoulli(mask) for each coordinate of a token, makes of one x the views
        D x / mask and (I - D) x / (1 - mask), each with mean x. The colour C u,
        u ~ N(0, colour_sigma^2 I), is the same in both views, or drawn again for the second. Clean
        negatives, if asked for, come last.
        """
        views, K = self.views, latents.shape[1] // 2
        if uses_default_views(views):
            return self.simulator.sample_tokens(latents, sigma, noise)
        x = self.simulator.sample_tokens(latents[:, :K], sigma, noise)
        y = x if views.mask else self.correlated_second_view(x, latents, sigma, noise)
        if views.colour:
            first = self.sample_colour(x.shape[1:3])
            x, y = (
                x + first,
                y + (self.sample_colour(x.shape[1:3]) if views.colour_redrawn else first),
            )
        sample = x
        if views.mask:
            in_first = draw(torch.rand, self.masks, *x.shape[1:]) < views.mask
            x, y = x * in_first / views.mask, y * ~in_first / (1 - views.mask)
        return torch.cat([x, y, sample] if views.clean_negatives else [x, y], 1)

    def sample_unaugmented(
        self, latents: Float[Tensor, "S n L d"], sigma: float, noise: Generators
    ) -> Float[Tensor, "S n L P"]:
        """Draw the tokens x = M z + C u + xi of samples that are not augmented."""
        x = self.simulator.sample_tokens(latents, sigma, noise)
        return x + self.sample_colour(x.shape[1:3]) if self.views.colour else x

    def correlated_second_view(
        self,
        x: Float[Tensor, "S K L d1"],
        latents: Float[Tensor, "S n L d"],
        sigma: float,
        noise: Generators,
    ) -> Float[Tensor, "S K L d1"]:
        """Draw second views whose noise has the correlation rho with that of the first."""
        K, rho = x.shape[1], self.views.rho
        M = self.simulator.dictionary.mT
        noise_of_first = x - matmul(latents[:, :K], M)
        signal = matmul(latents[:, K:], M)
        if rho == 1:
            return signal + noise_of_first
        fresh = self.simulator.sample_tokens(torch.zeros_like(latents[:, K:]), sigma, noise)
        return signal + rho * noise_of_first + math.sqrt(1 - rho**2) * fresh

    def sample_colour(self, shape: torch.Size) -> Float[Tensor, "S K L d1"]:
        """Draw C u, one u per sample, which all of its tokens share."""
        K, L = shape
        u = draw(torch.randn, self.colours, K, 1, self.views.colour)
        return self.views.colour_sigma * matmul(u, self.directions.mT).expand(-1, -1, L, -1)
