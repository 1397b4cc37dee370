"""Hierarchical multi-view samples, easy and hard, and their classes.

hong_fine_grained_labels, Definitions 4.1 and 4.2, Appendix B.1. Features are numbered: 0 for v_+,
1 for v_-, then 2 + y for subclass y = 0, ..., 2 k - 1, whose superclass is y // k. Samples are in
the order of their subclasses, exactly n / 2k of each. The patches that hold features are drawn
apart from the noise of the patches, so that both simulators can have the same samples.
Axes: S replicas, n samples, P patches, d coordinates, F = 2 + 2k features, G classes.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.model.randomness import draw, generator
from rarefeat.studies.fine_labels.config import EasyData, HierarchicalData, Labels

Generators = list[torch.Generator]
"""One generator for each replica."""
DRAWS = "fine_labels"
"""Namespace of the random streams; pilots of the regime had another."""
normal = partial(torch.randn, dtype=torch.float64)


def streams(purpose: str, seeds: list[int]) -> Generators:
    """Make a generator for each replica."""
    return [generator(DRAWS, seed, purpose) for seed in seeds]


class Patches(NamedTuple):
    """Samples of S replicas without the noise of their patches, n each."""

    feature: Int[Tensor, "S n P"]
    """Feature of a patch; without a meaning where the amplitude is 0."""
    amplitude: Float[Tensor, "S n P"]
    """Its alpha or alpha_dag; 0 for noise patches."""
    loud: Float[Tensor, "S n F"] | None = None
    """zeta* of a hard sample along the features, which replaces the first noise patch."""

    def row(self, s: int) -> "Patches":
        """Return the samples of replica s alone."""
        return Patches(*(None if tensor is None else tensor[s : s + 1] for tensor in self))


def subclasses(k: int, n: int) -> Int[Tensor, " n"]:
    """Return the subclass y of n samples: n / 2k of each."""
    return torch.arange(2 * k).repeat_interleave(n // (2 * k))


def superclass_of(k: int, n: int) -> Int[Tensor, " n"]:
    """Return the superclass of n samples."""
    return subclasses(k, n) // k


def draw_patch_kinds(
    data: EasyData, n: int, generators: Generators
) -> tuple[Bool[Tensor, "S n P"], Bool[Tensor, "S n P"]]:
    """Draw which patches hold the common, and which the subclass feature (B.1, 5 (a) and (b)).

    A patch holds the common feature with probability s*/P; each of the others holds the subclass
    feature with probability s* / (P - number of common patches).
    """
    u = draw(torch.rand, generators, n, data.P)
    share = data.s_star / data.P
    common = u < share
    left = data.P - common.sum(-1, keepdim=True)
    return common, ~common & (u < share + (1 - share) * (data.s_star / left))


def draw_amplitudes(data: EasyData, n: int, generators: Generators) -> Float[Tensor, "S n P"]:
    """Draw alpha, with alpha^2 uniform in [1 - iota, 1 + iota]."""
    return (1 + data.iota * (2 * draw(torch.rand, generators, n, data.P).double() - 1)).sqrt()


def draw_easy(data: EasyData, n: int, generators: Generators) -> Patches:
    """Draw easy samples (B.1, 5)."""
    y = subclasses(data.k, n)[:, None]
    common, subclass = draw_patch_kinds(data, n, generators)
    feature = torch.where(common, y // data.k, 2 + y)
    return Patches(feature, draw_amplitudes(data, n, generators) * (common | subclass))


def draw_hard(data: HierarchicalData, n: int, generators: Generators) -> Patches:
    """Draw hard samples (B.1, 6).

    Common patches become noise. Every patch without the subclass feature is a distractor with
    probability s_dag / (P - number of subclass patches): it holds the common feature of the other
    superclass at amplitude alpha_dag. One noise patch, if any is left, is zeta*.
    """
    y = subclasses(data.k, n)[:, None]
    _, subclass = draw_patch_kinds(data, n, generators)
    alpha = draw_amplitudes(data, n, generators)
    left = data.P - subclass.sum(-1, keepdim=True)
    distractor = ~subclass & (draw(torch.rand, generators, n, data.P) < data.s_dag / left)
    low, high = data.alpha_dag
    alpha_dag = low + (high - low) * draw(torch.rand, generators, n, data.P).double()
    loud = draw(normal, generators, n, data.features)
    full = (subclass | distractor).all(-1, keepdim=True)
    return Patches(
        torch.where(subclass, 2 + y, 1 - y // data.k),
        torch.where(subclass, alpha, alpha_dag * distractor),
        data.sigma_zeta_star * loud * ~full,
    )


SAMPLERS = {"easy": draw_easy, "hard": draw_hard}


def add_noise(
    data: EasyData, patches: Patches, generators: Generators, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "S n P d"]:
    """Return samples X with the noise of their patches, for the dictionary v_i = e_i."""
    _, n, P = patches.feature.shape
    x = data.sigma_zeta * draw(torch.randn, generators, n, P, data.d).to(dtype)
    if patches.loud is not None:
        is_noise = patches.amplitude == 0
        rest = draw(torch.randn, generators, n, data.d - data.features)
        loud = torch.cat([patches.loud, data.sigma_zeta_star * rest], -1).to(dtype)
        first = is_noise.double().argmax(-1)
        index = first[..., None, None].expand(-1, -1, 1, data.d)
        has_noise = is_noise.any(-1)[..., None, None]
        x.scatter_(2, index, torch.where(has_noise, loud[:, :, None], x.gather(2, index)))
    return x.scatter_add_(3, patches.feature[..., None], patches.amplitude.to(dtype)[..., None])


def classes(labels: Labels, k: int, n: int, generators: Generators) -> Int[Tensor, "S n"]:
    """Return the classes of n samples in the order of their subclasses."""
    y = subclasses(k, n)
    superclass, within = y // k, y % k
    S, ids = len(generators), labels.ids
    labels.check(k)
    if labels.kind == "sample":
        return torch.arange(n).expand(S, n)
    if labels.kind == "misaligned":
        return (within % ids).expand(S, n)
    if labels.kind == "subclass" and ids <= k:
        return (superclass * ids + within % ids).expand(S, n)
    is_random = labels.kind == "random"
    bound = ids if is_random else ids // k
    draws = torch.stack([torch.randint(bound, (n,), generator=rng) for rng in generators])
    return superclass * ids + (draws if is_random else within + k * draws)


def members(labels: Labels, k: int, n: int) -> Bool[Tensor, "G subclasses"]:
    """Return which subclasses each class has samples of."""
    y, ids = torch.arange(2 * k), labels.ids
    index = torch.arange(labels.classes(k, n))[:, None]
    if labels.kind == "sample":
        return subclasses(k, n)[:, None] == y
    if labels.kind == "misaligned":
        return y % k % ids == index
    of_superclass = index // ids == y // k
    if labels.kind == "random":
        return of_superclass
    return of_superclass & (index % ids % k == y % k % ids)


def superclasses(labels: Labels, k: int, n: int) -> Int[Tensor, " G"] | None:
    """Return the superclass of each class; None if classes have samples of both."""
    first, second = (half.any(-1) for half in members(labels, k, n).split(k, -1))
    return None if (first & second).any() else second.long()


def own_features(labels: Labels, k: int, n: int) -> Bool[Tensor, "G F"]:
    """Return which features the samples of each class hold."""
    subclass = members(labels, k, n)
    common = torch.stack([half.any(-1) for half in subclass.split(k, -1)], -1)
    return torch.cat([common, subclass], -1)


def batches(
    data: EasyData, labels: Labels, N: int, T: int, samples: Generators, classes_of: Generators
) -> Iterator[tuple[Patches, Int[Tensor, "S N"]]]:
    """Yield T batches of easy samples with their classes; if every sample is a class, one batch."""
    for t in range(T):
        if t == 0 or labels.kind != "sample":
            batch = draw_easy(data, N, samples), classes(labels, data.k, N, classes_of)
        yield batch
