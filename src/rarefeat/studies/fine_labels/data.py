"""Hierarchical multi-view samples (Definitions 4.1 and 4.2, Appendix B.1), easy and hard, and what their classes are called.

Features are numbered 0 for v_+, 1 for v_-, then 2 + y for subclass y = 0, ..., 2 k - 1, whose superclass is y // k. Samples
lie in order of their subclass, exactly n / 2k of each. Which patch holds what is drawn apart from the noise of the patches, so
that both simulators can have the same samples.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.core.randomness import generator
from rarefeat.studies.fine_labels.config import EasyData, HierarchicalData, Labels

Generators = list[torch.Generator]
DRAWS = "fine_labels"
"""Name that keys the random draws; pilots of the regime had another."""


def streams(purpose: str, seeds: list[int], draws: str = DRAWS) -> Generators:
    """A generator for each replica."""
    return [generator(draws, seed, purpose) for seed in seeds]


class Patches(NamedTuple):
    """n samples of each of S replicas, but for the noise of their patches."""

    feature: Tensor
    """Feature that dominates a patch, (S, n, P) int64; of no meaning where the amplitude is 0."""
    amplitude: Tensor
    """Its alpha or alpha_dag, (S, n, P) float64; 0 for noise patches."""
    loud: Tensor | None = None
    """zeta* of a hard sample along the 2 + 2k features, (S, n, F); it takes the place of the first noise patch."""

    def rows(self, start: int, stop: int) -> "Patches":
        """Replicas start, ..., stop - 1."""
        return Patches(*(None if part is None else part[start:stop] for part in self))


def subclasses(k: int, n: int) -> Tensor:
    """y of n samples, (n,): n / 2k of each subclass."""
    return torch.arange(2 * k).repeat_interleave(n // (2 * k))


def uniforms(n: int, P: int, generators: Generators) -> Tensor:
    """One draw a patch, one generator a replica: -> (S, n, P)."""
    return torch.stack([torch.rand(n, P, generator=g) for g in generators])


def kinds(data: EasyData, n: int, generators: Generators) -> tuple[Tensor, Tensor]:
    """Which patches hold the common and which the subclass feature (B.1, 5 (a) and (b)): -> bool (S, n, P) twice.

    A patch is common with s*/P; each of the others is a subclass patch with s* / (P - number of common patches).
    """
    u = uniforms(n, data.P, generators)
    share = data.s_star / data.P
    common = u < share
    left = data.P - common.sum(-1, keepdim=True)
    subclass = ~common & (u < share + (1 - share) * (data.s_star / left))
    return common, subclass


def amplitudes(data: EasyData, n: int, generators: Generators) -> Tensor:
    """alpha, (S, n, P): alpha^2 uniform in [1 - iota, 1 + iota]."""
    return (1 + data.iota * (2 * uniforms(n, data.P, generators).double() - 1)).sqrt()


def easy(data: EasyData, n: int, generators: Generators) -> Patches:
    """n easy samples (B.1, 5), one generator a replica."""
    y = subclasses(data.k, n)[:, None]
    common, subclass = kinds(data, n, generators)
    feature = torch.where(common, y // data.k, 2 + y)
    return Patches(feature, amplitudes(data, n, generators) * (common | subclass))


def hard(data: HierarchicalData, n: int, generators: Generators) -> Patches:
    """n hard samples (B.1, 6), one generator a replica.

    Common patches become noise; every patch that is not the subclass' is a distractor with s_dag / (P - number of subclass
    patches), the other superclass' common feature at amplitude alpha_dag; one noise patch, if any is left, is zeta*.
    """
    y = subclasses(data.k, n)[:, None]
    _, subclass = kinds(data, n, generators)
    alpha = amplitudes(data, n, generators)
    left = data.P - subclass.sum(-1, keepdim=True)
    distractor = ~subclass & (uniforms(n, data.P, generators) < data.s_dag / left)
    low, high = data.alpha_dag
    alpha_dag = low + (high - low) * uniforms(n, data.P, generators).double()
    loud = torch.stack(
        [torch.randn(n, data.features, generator=g, dtype=torch.float64) for g in generators]
    )
    amplitude = torch.where(subclass, alpha, alpha_dag * distractor)
    full = (subclass | distractor).all(-1, keepdim=True)
    return Patches(
        torch.where(subclass, 2 + y, 1 - y // data.k),
        amplitude,
        data.sigma_zeta_star * loud * ~full,
    )


def inputs(
    data: EasyData, patches: Patches, generators: Generators, dtype: torch.dtype = torch.float32
) -> Tensor:
    """X with its noise, one generator a replica, and with v_i = e_i: -> (S, n, P, d).

    Any other dictionary turns patches and Gaussian initial weights alike.
    """
    _, n, P = patches.feature.shape
    x = data.sigma_zeta * torch.stack(
        [torch.randn(n, P, data.d, generator=g) for g in generators]
    ).to(dtype)
    if patches.loud is not None:
        noise_patch = patches.amplitude == 0
        first = noise_patch.double().argmax(-1)
        rest = torch.stack(
            [torch.randn(n, data.d - data.features, generator=g) for g in generators]
        )
        loud = torch.cat([patches.loud, data.sigma_zeta_star * rest], -1).to(dtype)
        at = first[..., None, None].expand(-1, -1, 1, data.d)
        x.scatter_(
            2,
            at,
            torch.where(noise_patch.any(-1)[..., None, None], loud[:, :, None], x.gather(2, at)),
        )
    return x.scatter_add_(3, patches.feature[..., None], patches.amplitude.to(dtype)[..., None])


def classes(labels: Labels, k: int, n: int, generators: Generators) -> Tensor:
    """What n samples in order of their subclass are called, (S, n); random labels take one generator a replica."""
    y = subclasses(k, n)
    superclass, own = y // k, y % k
    S, ids = len(generators), labels.ids
    labels.check(k)
    if labels.kind == "sample":
        return torch.arange(n).expand(S, n)
    if labels.kind == "misaligned":
        return (own % ids).expand(S, n)
    if labels.kind == "subclass" and ids <= k:
        return (superclass * ids + own % ids).expand(S, n)
    drawn = torch.stack(
        [
            torch.randint(ids if labels.kind == "random" else ids // k, (n,), generator=g)
            for g in generators
        ]
    )
    return superclass * ids + (drawn if labels.kind == "random" else own + k * drawn)


def members(labels: Labels, k: int, n: int) -> Tensor:
    """Which subclasses a class has samples of, bool (G, 2k)."""
    y, ids = torch.arange(2 * k), labels.ids
    named = torch.arange(labels.classes(k, n))[:, None]
    if labels.kind == "sample":
        return subclasses(k, n)[:, None] == y
    if labels.kind == "misaligned":
        return y % k % ids == named
    of_superclass = named // ids == y // k
    if labels.kind == "random":
        return of_superclass
    return of_superclass & (named % ids % k == y % k % ids)


def superclasses(labels: Labels, k: int, n: int) -> Tensor | None:
    """The superclass of each class, (G,); None where classes have samples of either."""
    first, second = (half.any(-1) for half in members(labels, k, n).split(k, -1))
    return None if (first & second).any() else second.long()


def own_features(labels: Labels, k: int, n: int) -> Tensor:
    """The features that samples of a class hold, bool (G, 2 + 2k)."""
    held = members(labels, k, n)
    return torch.cat([torch.stack([half.any(-1) for half in held.split(k, -1)], -1), held], -1)


def batches(
    data: EasyData,
    labels: Labels,
    N: int,
    T: int,
    generators: Generators,
    label_generators: Generators,
) -> Iterator[tuple[Patches, Tensor]]:
    """T batches of N fresh easy samples and their classes; where every sample is a class, T times the same ones."""
    kept = labels.kind == "sample"
    for t in range(T):
        if not (kept and t):
            batch = easy(data, N, generators), classes(labels, data.k, N, label_generators)
        yield batch
