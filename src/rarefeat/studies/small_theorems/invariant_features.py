"""Result 7-T (section 7.2.1): what contrastive learning learns, Theorems 7.1 and 7.2.

Hidden features are bits: r invariant ones, which a positive pair shares, and u spurious ones, which
it draws anew. Axes: n = 2^r values of the invariant bits, q = 2^u of the spurious ones, k
coordinates of a representation.
"""

import itertools

import torch
from torch import Tensor
from torch.nn import functional

from rarefeat.model.randomness import generator
from rarefeat.studies.small_theorems.config import HiddenBits
from rarefeat.studies.small_theorems.result_rows import ResultRow

TIED = 0.9
"""Probability that a spurious bit repeats the first invariant one, where Theorem 7.1 is void."""
SPURIOUS_SCALE = 3.0
"""Size of a spurious bit in the linear data, beside 1 of an invariant one."""


def bit_values(count: int) -> Tensor:
    """Return all values of some bits, of shape (2^count, count)."""
    return torch.tensor(list(itertools.product([0, 1], repeat=count)))


def joint_probability(rates: Tensor, u: int, tied: bool) -> Tensor:
    """Return the probability of each value of all bits, (n, q).

    rates (r,).
    """
    invariant, spurious = bit_values(len(rates)), bit_values(u)
    p = torch.where(invariant == 1, rates, 1 - rates).prod(1)
    conditional = torch.full((len(p), len(spurious)), 0.5**u, dtype=p.dtype)
    if tied:
        same = invariant[:, :1] == spurious[:, 0]
        conditional = conditional * 2 * torch.where(same, TIED, 1 - TIED)
    return p[:, None] * conditional


def negative_variance(phi: Tensor, probability: Tensor) -> Tensor:
    """Return -E |phi_{z_R} - phi_0|^2 of eq. (7.5), with phi_{z_R} = E[phi | z_R].

    (n, q, k), (n, q) -> ().
    """
    p = probability.sum(1)
    smoothed = torch.einsum("nqk,nq->nk", phi, probability) / p[:, None]
    centred = smoothed - p @ smoothed
    return -(p * centred.square().sum(-1)).sum()


def draw_triples(
    probability: Tensor, count: int, stream: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw x, its positive and a negative as (invariant value, spurious value), (count, 2) each.

    probability (n, q).
    """
    q = probability.shape[1]
    x, negative = (
        torch.stack([flat // q, flat % q], 1)
        for flat in probability.flatten()
        .multinomial(2 * count, replacement=True, generator=stream)
        .split(count)
    )
    # (7.3): the positive's spurious bits have their marginal distribution, whatever z_R is.
    again = probability.sum(0).multinomial(count, replacement=True, generator=stream)
    return x, torch.stack([x[:, 0], again], 1), negative


def sampled_loss(phi: Tensor, triples: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return the mean of phi(x)^T (phi(x^-) - phi(x^+)), the loss with l(t) = -t."""
    x, positive, negative = (phi[values[:, 0], values[:, 1]] for values in triples)
    return (x * (negative - positive)).sum(-1).mean()


def subspace_overlap(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean squared cosine of the angles between two subspaces, (d, r) each."""
    return (first.mT @ second).square().sum() / first.shape[1]


def linear_overlaps(
    rates: Tensor, u: int, triples: tuple[Tensor, Tensor, Tensor], stream: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return how near the span of a linear representation is to that of the PCA of E[x | z_R].

    x is an orthonormal dictionary times the bits, spurious ones larger. The representation has r
    orthonormal rows and minimises the sampled loss with l(t) = -t; the second overlap is that of
    the PCA of x itself.

    rates (r,).
    """
    r = len(rates)
    M, _ = torch.linalg.qr(torch.randn(r + u, r + u, generator=stream, dtype=rates.dtype))
    invariant, spurious = bit_values(r).to(rates), SPURIOUS_SCALE * bit_values(u).to(rates)
    x, positive, negative = (
        torch.cat([invariant[values[:, 0]], spurious[values[:, 1]]], 1) @ M.mT for values in triples
    )
    gain = x.mT @ (positive - negative) / len(x)
    centred = x - x.mean(0)
    spans = [torch.linalg.eigh(C)[1][:, -r:] for C in (gain + gain.mT, centred.mT @ centred)]
    learned, raw = (subspace_overlap(span, M[:, :r]) for span in spans)
    return learned, raw


def optimal_representation(
    probability: Tensor, norm: float, problem: HiddenBits, shared: bool, stream: torch.Generator
) -> Tensor:
    """Return the representation of one norm with the smallest logistic loss, by descent.

    Any function of the bits is allowed (A2); the loss is the exact expectation (7.1). Of several
    starts the best end is returned.

    probability (n, q) -> (n, q, k).
    """
    n, q = probability.shape
    free = torch.randn(problem.starts, n, q, problem.k, generator=stream, dtype=torch.double)
    free.requires_grad_()
    optimiser = torch.optim.Adam([free], lr=problem.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 1e-3, problem.steps)
    spurious = probability.sum(0)
    pairs = torch.diag(spurious) if shared else torch.outer(spurious, spurious)
    weights = torch.einsum("n,qp,mw->nqpmw", probability.sum(1), pairs, probability)
    for _ in range(problem.steps):
        optimiser.zero_grad()
        phi = norm * functional.normalize(free, dim=-1)
        positive = torch.einsum("snqk,snpk->snqp", phi, phi)
        negative = torch.einsum("snqk,smwk->snqmw", phi, phi)
        margin = positive[..., None, None] - negative[:, :, :, None]
        loss = (weights * functional.softplus(-margin)).sum((1, 2, 3, 4, 5))
        loss.sum().backward()
        optimiser.step()
        schedule.step()
    return (norm * functional.normalize(free, dim=-1)).detach()[loss.detach().argmin()]


def encoded_shares(phi: Tensor, norm: float) -> tuple[Tensor, Tensor]:
    """Return how far a representation moves with each invariant bit, and with spurious ones.

    phi (n, q, k) -> invariant (r,), spurious ().
    """
    n, q, _ = phi.shape
    r = n.bit_length() - 1
    invariant = torch.stack(
        [
            (phi - phi[torch.arange(n) ^ (1 << (r - 1 - bit))]).square().sum(-1).mean()
            for bit in range(r)
        ]
    )
    spurious = (phi[:, :, None] - phi[:, None]).square().sum(-1).sum() / (n * q * (q - 1))
    return invariant / (4 * norm**2), spurious / (4 * norm**2)


def measure(problem: HiddenBits, norm: float, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Measure both theorems at one norm, with rates of the bits that each seed draws."""
    results = []
    low, high = problem.rates
    for seed in seeds:
        uniform = torch.rand(problem.r, generator=generator(draws, seed, "rates")).double()
        # From the most spread-out bit to the rarest.
        rates = (low + (high - low) * uniform).sort(descending=True).values
        stream = generator(draws, seed, f"B={norm:g}")
        for name, tied in (("loss", False), ("loss_tied", True)):
            probability = joint_probability(rates, problem.u, tied)
            start = torch.randn(*probability.shape, problem.k, generator=stream).double()
            phi = norm * functional.normalize(start, dim=-1)
            triples = draw_triples(probability, problem.samples, stream)
            value = sampled_loss(phi, triples)
            results.append(ResultRow(seed, name, value, negative_variance(phi, probability)))
        probability = joint_probability(rates, problem.u, False)
        triples = draw_triples(probability, problem.samples, stream)
        learned, raw = linear_overlaps(rates, problem.u, triples, stream)
        results += [ResultRow(seed, "pca_overlap", learned, 1.0)]
        results += [ResultRow(seed, "raw_overlap", raw)]
        for suffix, shared in (("", False), ("_shared", True)):
            phi = optimal_representation(probability, norm, problem, shared, stream)
            invariant, spurious = encoded_shares(phi, norm)
            stated = float("nan") if shared else 0.0
            results.append(ResultRow(seed, f"spurious{suffix}", spurious, stated))
            if not shared:
                results += [
                    ResultRow(seed, "encoded", value, place=bit + 1)
                    for bit, value in enumerate(invariant)
                ]
    return results
