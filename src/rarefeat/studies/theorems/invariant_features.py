"""Result 7-T (section 7.2.1): what contrastive learning learns, Theorems 7.1 and 7.2.

Hidden features are bits: r invariant ones, which a positive pair shares, and u spurious ones, which
it draws anew. Axes: n = 2^r values of the invariant bits, q = 2^u of the spurious ones, k
coordinates of a representation, N triples.
"""

import itertools

import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.problems import HiddenBits
from rarefeat.studies.theorems.results import Numbers, Row

QUANTITIES = {
    "loss": "contrastive loss with l(t) = -t of a random representation of norm B, over all values;"
    " stated: minus the variance of its mean given z_R (7.5)",
    "loss_tied": "the same where a spurious bit depends on an invariant one in x and x^-",
    "pca_overlap": "mean squared cosine between the span of the linear representation that"
    " minimises that loss over sampled triples and the PCA of E[x | z_R]; stated: 1",
    "raw_overlap": "the same of the PCA of x",
    "spurious": "mean squared distance over 4 B^2 that other spurious bits make in the optimum of"
    " the logistic loss; stated: 0",
    "spurious_shared": "the same where a positive pair shares its spurious bits",
    "encoded": "mean squared distance over 4 B^2 that a flip of invariant bit `at` makes in that"
    " optimum; bit 1 is the most spread-out",
}
TIED = 0.9
"""Probability that a spurious bit repeats the first invariant one, where Theorem 7.1 is void."""
SPURIOUS_SCALE = 3.0
"""Size of a spurious bit in the linear data, beside 1 of an invariant one."""
Phi, Joint = Float[Tensor, "n q k"], Float[Tensor, "n q"]
Triples = tuple[Int64[Tensor, "N 2"], Int64[Tensor, "N 2"], Int64[Tensor, "N 2"]]
"""x, its positive and a negative, each as (invariant value, spurious value)."""


def bit_values(count: int) -> Int64[Tensor, "values bits"]:
    """Return all values of some bits."""
    return torch.tensor(list(itertools.product([0, 1], repeat=count)))


def joint_probability(rates: Float[Tensor, " r"], u: int, tied: bool) -> Joint:
    """Return the probability of each value of all bits."""
    invariant, spurious = bit_values(len(rates)), bit_values(u)
    p = torch.where(invariant == 1, rates, 1 - rates).prod(1)
    conditional = torch.full((len(p), len(spurious)), 0.5**u, dtype=p.dtype)
    if tied:
        same = invariant[:, :1] == spurious[:, 0]
        conditional = conditional * 2 * torch.where(same, TIED, 1 - TIED)
    return p[:, None] * conditional


def negative_variance(phi: Phi, probability: Joint) -> Float[Tensor, ""]:
    """Return -E |phi_{z_R} - phi_0|^2 of eq. (7.5), with phi_{z_R} = E[phi | z_R]."""
    p = probability.sum(1)
    smoothed = torch.einsum("nqk,nq->nk", phi, probability) / p[:, None]
    centred = smoothed - p @ smoothed
    return -(p * centred.square().sum(-1)).sum()


def draw_triples(probability: Joint, count: int, stream: torch.Generator) -> Triples:
    """Draw triples of x, its positive and a negative."""
    q = probability.shape[1]
    drawn = probability.flatten().multinomial(2 * count, replacement=True, generator=stream)
    x, negative = (torch.stack([flat // q, flat % q], 1) for flat in drawn.split(count))
    # (7.3): the positive's spurious bits have their marginal distribution, whatever z_R is.
    again = probability.sum(0).multinomial(count, replacement=True, generator=stream)
    return x, torch.stack([x[:, 0], again], 1), negative


def exact_loss(phi: Phi, probability: Joint) -> Float[Tensor, ""]:
    """Return E phi(x)^T (phi(x^-) - phi(x^+)) over all values, the loss with l(t) = -t.

    By (7.3) the positive's spurious bits have their marginal distribution, whatever z_R is.
    """
    spurious = probability.sum(0)
    positive = torch.einsum("nqk,nq,npk,p->", phi, probability, phi, spurious)
    return torch.einsum("nqk,nq->k", phi, probability).square().sum() - positive


def linear_overlaps(
    rates: Float[Tensor, " r"], u: int, triples: Triples, stream: torch.Generator
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return how near the span of a linear representation is to that of the PCA of E[x | z_R], and
    how near that of the PCA of x is.

    x is an orthonormal dictionary times the bits, spurious ones larger. The representation has r
    orthonormal rows and minimises the sampled loss with l(t) = -t.
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
    # The mean squared cosine of the angles between two subspaces.
    learned, raw = ((span.mT @ M[:, :r]).square().sum() / r for span in spans)
    return learned, raw


def optimal_representation(
    probability: Joint, norm: float, problem: HiddenBits, shared: bool, stream: torch.Generator
) -> Phi:
    """Return the representation of one norm with the least exact loss (7.1) of some descents."""
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


def encoded_shares(phi: Phi, norm: float) -> tuple[Float[Tensor, " r"], Float[Tensor, ""]]:
    """Return how far a representation moves with each invariant bit, and with spurious ones."""
    n, q, _ = phi.shape
    r = n.bit_length() - 1
    flipped = [phi[torch.arange(n) ^ (1 << (r - 1 - bit))] for bit in range(r)]
    invariant = torch.stack([(phi - other).square().sum(-1).mean() for other in flipped])
    spurious = (phi[:, :, None] - phi[:, None]).square().sum(-1).sum() / (n * q * (q - 1))
    return invariant / (4 * norm**2), spurious / (4 * norm**2)


def measure(norm: float, seeds: list[int], draws: str, problem: HiddenBits) -> list[Row]:
    """Measure both theorems at one norm, with rates of the bits that each seed draws."""
    rows = []
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
            loss, stated = exact_loss(phi, probability), negative_variance(phi, probability)
            rows.append(Row(seed, name, loss, stated))
        probability = joint_probability(rates, problem.u, False)
        triples = draw_triples(probability, problem.samples, stream)
        learned, raw = linear_overlaps(rates, problem.u, triples, stream)
        rows += [Row(seed, "pca_overlap", learned, 1.0), Row(seed, "raw_overlap", raw)]
        phi = optimal_representation(probability, norm, problem, False, stream)
        invariant, spurious = encoded_shares(phi, norm)
        rows.append(Row(seed, "spurious", spurious, 0.0))
        rows += [Row(seed, "encoded", share, at=bit) for bit, share in enumerate(invariant, 1)]
        phi = optimal_representation(probability, norm, problem, True, stream)
        rows.append(Row(seed, "spurious_shared", encoded_shares(phi, norm)[1]))
    return rows


def claims(v: Numbers) -> dict[str, pd.Series]:
    """Return what the claims look at, at a norm of the representation."""
    errors = {name: v(name) / v.stated(name) - 1 for name in ("loss", "loss_tied")}
    encoded = pd.DataFrame({bit: v("encoded", bit) for bit in v.places("encoded")})
    return {
        "7.1": errors["loss"],
        "7.1-tied": errors["loss_tied"].abs() - errors["loss"].abs(),
        "7.1-pca": v("pca_overlap"),
        "7.1-raw": v("pca_overlap") - v("raw_overlap"),
        "7.2-1": v("spurious"),
        "7.2-1-shared": v("spurious_shared") - v("spurious"),
        "7.2-2": encoded.min(axis=1),
        "7.2-order": encoded[encoded.columns.min()] - encoded[encoded.columns.max()],
    }
