"""Training pairs of late learning: what comes back of a sample, and what is drawn at each visit.

A way of drawing, a value of the axis `latents`, says which pairs there are (`draw_latent_pairs`),
which of them a step gets (`Sample.next_pairs`), what each visit of a pair draws (`Sample.visit`),
and which lose the rare feature at the step `looked` (`CellSettings.removal`).
Random streams of a seed, in the namespace `draws`: train, batches, weights, noise and complement,
as in the chain; visits, what is drawn at every visit of a pair that comes back.
Axes: n pairs, K pairs of a batch, L tokens, d features, the rare one last.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.randomness import generator
from rarefeat.model.sparse_coding import (
    aggregated_sign,
    frequencies,
    latent_pairs,
    spread_over_tokens,
)
from rarefeat.model.theory import activation_probability
from rarefeat.training.loop import batches
from rarefeat.workflow.config.model import Data, Training

FRESH_SAMPLE = 8192
"""Pairs of a pass over a sample of which no pair comes back, fresh ones in each pass."""


class CellSettings(NamedTuple):
    """What all replicas of a cell share."""

    draws: str
    """Namespace of the random streams."""
    data: Data
    training: Training
    latents: str
    """How the training pairs are drawn."""
    N: int
    """Training pairs; 0 for fresh pairs at every step."""
    sigma: float
    eps_min: float

    @property
    def logit_scale(self) -> float:
        """Scale of the attention's logits."""
        return self.training.logit_scale(self.data.d1)

    @property
    def comes_back(self) -> bool:
        """Whether training pairs are visited again."""
        return self.N > 0 and self.latents != "planted_ties"

    @property
    def removal(self) -> tuple[str, int] | None:
        """Which pairs lose the rare feature at the step `looked`, top or other, and how many."""
        match = re.fullmatch(r"without_(top|other)_(\d+)", self.latents)
        return (match[1], int(match[2])) if match else None


def draw_latent_pairs(
    n: int, settings: CellSettings, rng: torch.Generator, rare: float | None = None
) -> Int[Tensor, "n 2 L d"]:
    """Draw latent pairs of one replica; `rare` replaces the rare feature's probability."""
    data = settings.data
    eps = frequencies(data.d, data.minority, settings.eps_min)
    probabilities = activation_probability(eps, data.C)
    if rare is not None:
        probabilities[-1] = rare
    if settings.latents == "antithetic":
        half = latent_pairs(n // 2, data.L, probabilities, rng)
        flipped = half.clone()
        flipped[..., -1] *= -1
        return torch.cat([half, flipped])
    pairs = latent_pairs(n, data.L, probabilities, rng)
    if settings.latents == "apart":
        pairs[holds_rare(pairs), ..., :-1] = 0
    return pairs


def holds_rare(pairs: Int[Tensor, "n 2 L d"]) -> Bool[Tensor, " n"]:
    """Return which pairs hold the rare feature; both views hold the same features."""
    return (pairs[:, 0, :, -1] != 0).any(-1)


def redraw_signs(pairs: Int[Tensor, "n 2 L d"], rng: torch.Generator) -> Int[Tensor, "n 2 L d"]:
    """Draw the sign of the rare feature: no chance tie of it to other signs survives."""
    signs = 1 - 2 * torch.randint(2, (len(pairs), 1, 1), generator=rng, dtype=torch.int8)
    return torch.cat([pairs[..., :-1], (pairs[..., -1] * signs)[..., None]], -1)


def redraw_tokens(pairs: Int[Tensor, "n 2 L d"], rng: torch.Generator) -> Int[Tensor, "n 2 L d"]:
    """Draw the tokens that hold each feature, as an augmentation would; signs stay as they are."""
    return spread_over_tokens(aggregated_sign(pairs[:, 0]), pairs.shape[2], rng)


def sign_ties(pairs: Int[Tensor, "n 2 L d"]) -> Float[Tensor, " d-1"]:
    """Compute the mean product of the rare feature's sign and each other one, where both are."""
    signs = aggregated_sign(pairs[:, 0]).double()
    products = signs[:, -1:] * signs[:, :-1]
    return products.sum(0) / (products != 0).sum(0).clamp_min(1)


def plant_ties(
    pairs: Int[Tensor, "n 2 L d"], ties: Float[Tensor, " d-1"], rng: torch.Generator
) -> Int[Tensor, "n 2 L d"]:
    """Draw the sign of the rare feature, + with probability (1 + sum_j ties_j s_j) / 2.

    s_j is the sign of feature j. But for the cut of that probability to [0, 1] the mean product of
    the two signs is ties_j.
    """
    signs = aggregated_sign(pairs[:, 0, :, :-1]).double()
    uniform = torch.rand(len(pairs), generator=rng, dtype=torch.float64)
    new_signs = torch.where(uniform < (1 + signs @ ties) / 2, 1, -1).to(pairs.dtype)
    rare = pairs[..., -1].abs() * new_signs[:, None, None]
    return torch.cat([pairs[..., :-1], rare[..., None]], -1)


class Sample:
    """Training pairs of one seed, and the streams that the seed draws from."""

    def __init__(self, settings: CellSettings, seed: int):
        self.settings, self.seed = settings, seed
        self.train, self.visits = self.stream(stream_names.TRAIN), self.stream("visits")
        self.noise = self.stream(stream_names.NOISE)
        self.complement = self.stream(stream_names.COMPLEMENT)
        self.pairs = draw_latent_pairs(settings.N, settings, self.train)
        self.order = batches(settings.draws, [seed], settings.N, settings.training.K)
        self.ties = sign_ties(self.pairs)

    def stream(self, purpose: str) -> torch.Generator:
        """Make the generator of one of the seed's random streams."""
        return generator(self.settings.draws, self.seed, purpose)

    def next_batch(self) -> Float[Tensor, "2*K L d"]:
        """Return the latents of the next step, first views first."""
        return views(self.visit(self.next_pairs(), self.visits))

    def next_pairs(self) -> Int[Tensor, "K 2 L d"]:
        """Return the pairs of the next step, before what a visit draws."""
        settings, K = self.settings, self.settings.training.K
        if not settings.comes_back:
            return draw_latent_pairs(K, settings, self.train)
        if settings.latents == "replacement":
            return self.pairs[torch.randint(settings.N, (K,), generator=self.visits)]
        return self.pairs[next(self.order)[0]]

    def visit(self, pairs: Int[Tensor, "n 2 L d"], rng: torch.Generator) -> Int[Tensor, "n 2 L d"]:
        """Return pairs with what is drawn at every visit."""
        match self.settings.latents:
            case "new_signs":
                return redraw_signs(pairs, rng)
            case "new_tokens":
                return redraw_tokens(pairs, rng)
            case "planted_ties":
                return plant_ties(pairs, self.ties, rng)
        return pairs

    def iter_pass(
        self, rng: torch.Generator
    ) -> Iterator[tuple[Int[Tensor, " K"], Float[Tensor, "1 2*K L d"]]]:
        """Yield indices and latents of the whole batches of a pass over the sample.

        Their order, and what is drawn at a visit, come from `rng` and do not affect the training.
        """
        settings, K = self.settings, self.settings.training.K
        pairs = (
            self.pairs if settings.comes_back else draw_latent_pairs(FRESH_SAMPLE, settings, rng)
        )
        order = torch.randperm(len(pairs), generator=rng)
        for rows in order[: len(pairs) // K * K].split(K):
            yield rows, views(self.visit(pairs[rows], rng))[None]


def views(pairs: Int[Tensor, "n 2 L d"]) -> Float[Tensor, "2*n L d"]:
    """Return the views of pairs, first views first."""
    return pairs.transpose(0, 1).flatten(0, 1).float()
