"""Training pairs of late learning: what comes back of a sample, and what is drawn at each visit.

The values of the axis `latents`, by what they keep of N pairs that come back and what they take
away:

- plain: the pairs come back, with fresh noise. N = 0: no pair does.
- new_signs: which pairs hold the rare feature, with what else and in which tokens, comes back; its
  sign is drawn at every visit. No chance tie of its sign to others survives.
- new_tokens: which features a pair holds, and their signs, come back; the tokens that hold them are
  drawn at every visit, as an augmentation would. No pattern of a single pair survives.
- planted_ties: no pair comes back; the sign of the rare feature is tied to each other feature as in
  a sample of N pairs.
- replacement: the pairs come back, each visit to one that is drawn anew; no epoch is balanced.
- antithetic: the pairs come back, each a second time with the sign of the rare feature flipped.
- apart: the pairs come back; no other feature is active where the rare one is.
- without_top_k, without_random_k: plain until the step `looked`; from then on the rare feature is
  taken out of k of the pairs that hold it (`growth.top_pairs`).

Purposes of the random streams, in the namespace `draws`: train and batches, as in the chain;
visits (what is drawn at every visit of a pair that comes back); removal (without_random_k).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.model.randomness import generator
from rarefeat.model.sparse_coding import (
    aggregated_sign,
    frequencies,
    latent_pairs,
    spread_over_tokens,
)
from rarefeat.model.theory import activation_probability
from rarefeat.studies.fate.config import FRESH_SAMPLE, Latents
from rarefeat.training.loop import batches
from rarefeat.workflow.config.model import Data, Training


class CellSettings(NamedTuple):
    """Settings that all replicas of a cell share."""

    draws: str
    """Namespace of the random streams."""
    data: Data
    training: Training
    latents: Latents
    N: int
    """Training pairs; 0 for fresh latents at every step."""
    sigma: float
    eps_min: float

    @property
    def activation_probabilities(self) -> Tensor:
        """Probability of each feature to be active in a sample, of shape (d,)."""
        return activation_probability(
            frequencies(self.data.d, self.data.minority, self.eps_min), self.data.C
        )

    @property
    def logit_scale(self) -> float:
        """Scale of the attention's logits."""
        return self.training.logit_scale(self.data.d1)

    @property
    def comes_back(self) -> bool:
        """Return whether training pairs are visited again."""
        return self.N > 0 and self.latents != "planted_ties"

    @property
    def removal(self) -> tuple[str, int] | None:
        """Return which pairs lose the rare feature at `looked`, and how many; None for none."""
        match = re.fullmatch(r"without_(top|random)_(\d+)", self.latents)
        return (match[1], int(match[2])) if match else None


def draw_latent_pairs(
    n: int, settings: CellSettings, rng: torch.Generator, rare: float | None = None
) -> Tensor:
    """Draw latent pairs of one replica.

    -> (n, 2, L, d).
    """
    probabilities = settings.activation_probabilities
    if rare is not None:
        probabilities[-1] = rare
    if settings.latents == "antithetic":
        half = latent_pairs(n // 2, settings.data.L, probabilities, rng)
        flipped = half.clone()
        flipped[..., -1] *= -1
        return torch.cat([half, flipped])
    pairs = latent_pairs(n, settings.data.L, probabilities, rng)
    if settings.latents == "apart":
        pairs[holds_rare(pairs), ..., :-1] = 0
    return pairs


def holds_rare(pairs: Tensor) -> Tensor:
    """Return which pairs hold the rare feature, (n,); both views hold the same features."""
    return (pairs[:, 0, :, -1] != 0).any(-1)


def redraw_signs(pairs: Tensor, rng: torch.Generator) -> Tensor:
    """Return pairs with the sign of the rare feature drawn, the same in both views."""
    signs = 1 - 2 * torch.randint(2, (len(pairs), 1, 1), generator=rng, dtype=torch.int8)
    return torch.cat([pairs[..., :-1], (pairs[..., -1] * signs)[..., None]], -1)


def redraw_tokens(pairs: Tensor, rng: torch.Generator) -> Tensor:
    """Return pairs with the tokens drawn that hold each feature; signs stay as they are."""
    return spread_over_tokens(aggregated_sign(pairs[:, 0]), pairs.shape[2], rng)


def sign_ties(pairs: Tensor) -> Tensor:
    """Compute the mean product of signs of the rare feature and each other one, (d - 1,).

    The mean is over the pairs that hold both; 0 where none does.
    """
    signs = aggregated_sign(pairs[:, 0]).double()
    together = (signs[:, -1:] * signs[:, :-1]) != 0
    return (signs[:, -1:] * signs[:, :-1]).sum(0) / together.sum(0).clamp_min(1)


def plant_ties(pairs: Tensor, ties: Tensor, rng: torch.Generator) -> Tensor:
    """Return pairs with the sign of the rare feature drawn so that it is tied to others.

    It is positive with probability (1 + sum_j ties_j s_j) / 2, cut to [0, 1], where s_j is the sign
    of feature j: without the cut its mean product with s_j is ties_j.

    pairs (n, 2, L, d), ties (d - 1,) -> (n, 2, L, d).
    """
    signs = aggregated_sign(pairs[:, 0, :, :-1]).double()
    uniform = torch.rand(len(pairs), generator=rng, dtype=torch.float64)
    new_signs = torch.where(uniform < (1 + signs @ ties) / 2, 1, -1).to(pairs.dtype)
    rare = pairs[..., -1].abs() * new_signs[:, None, None]
    return torch.cat([pairs[..., :-1], rare[..., None]], -1)


def remove_rare(pairs: Tensor, indices: Tensor) -> Tensor:
    """Return pairs with the rare feature taken out of some of them."""
    removed = pairs.clone()
    removed[indices, ..., -1] = 0
    return removed


class TrainingSample:
    """Training pairs of the replicas that are still trained, one set for each seed."""

    def __init__(self, settings: CellSettings, seeds: list[int]):
        self.settings = settings
        self.generators = [generator(settings.draws, seed, "train") for seed in seeds]
        self.visits = [generator(settings.draws, seed, "visits") for seed in seeds]
        self.pairs, self.order, self.ties = [], [], []
        if N := settings.N:
            self.pairs = [draw_latent_pairs(N, settings, rng) for rng in self.generators]
            K = settings.training.K
            self.order = [batches(settings.draws, [seed], N, K) for seed in seeds]
        if settings.latents == "planted_ties":
            self.ties = [sign_ties(pairs) for pairs in self.pairs]

    def batch(self) -> Tensor:
        """Return the next K pairs of each seed, (S, 2 K, L, d), the first views first."""
        pairs = [
            self.visit(s, self.next_pairs(s), self.visits[s]) for s in range(len(self.generators))
        ]
        return torch.stack(pairs).transpose(1, 2).flatten(1, 2).float()

    def next_pairs(self, s: int) -> Tensor:
        """Return the next K pairs of the seed at an index, before what a visit draws."""
        settings, K = self.settings, self.settings.training.K
        if not settings.comes_back:
            return draw_latent_pairs(K, settings, self.generators[s])
        if settings.latents == "replacement":
            return self.pairs[s][torch.randint(settings.N, (K,), generator=self.visits[s])]
        return self.pairs[s][next(self.order[s])[0]]

    def visit(self, s: int, pairs: Tensor, rng: torch.Generator) -> Tensor:
        """Return pairs of a seed with what is drawn at every visit.

        pairs (n, 2, L, d).
        """
        match self.settings.latents:
            case "new_signs":
                return redraw_signs(pairs, rng)
            case "new_tokens":
                return redraw_tokens(pairs, rng)
            case "planted_ties":
                return plant_ties(pairs, self.ties[s], rng)
        return pairs

    def iter_pass(self, s: int, rng: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches of one pass over the sample of a seed.

        Their order, and what is drawn at a visit, come from `rng` and do not affect the training.
        Where no pair comes back, FRESH_SAMPLE pairs are drawn. The last pairs that do not fill a
        batch are left out.

        -> indices (K,), latents (1, 2 K, L, d).
        """
        settings, K = self.settings, self.settings.training.K
        pairs = (
            self.pairs[s] if settings.comes_back else draw_latent_pairs(FRESH_SAMPLE, settings, rng)
        )
        order = torch.randperm(len(pairs), generator=rng)
        for rows in order[: len(pairs) // K * K].split(K):
            visited = self.visit(s, pairs[rows], rng)
            yield rows, visited.transpose(0, 1).flatten(0, 1)[None].float()

    def keep_replicas(self, indices: list[int]) -> None:
        """Keep only the seeds at some indices."""
        self.generators, self.visits, self.pairs, self.order, self.ties = (
            [items[s] for s in indices] if items else []
            for items in (self.generators, self.visits, self.pairs, self.order, self.ties)
        )
