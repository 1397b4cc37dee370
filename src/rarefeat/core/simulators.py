"""Two simulators of one law, behind one interface: every token in R^d1, or in the few coordinates that the encoder can see.

A simulator fixes the coordinates of tokens and weights. Whatever else there is (attention, encoder, objective, masks by neuron,
metrics, probe) is written once and works in the coordinates of either.
"""

from copy import copy
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from rarefeat.core.batch_invariant import COLUMNS, align_replicas, empty_aligned, matmul
from rarefeat.core.device import is_on_cpu
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import DeviceGenerator, Generators, draw, generator, standard_gamma
from rarefeat.core.sparse_coding import dictionary

DIVERGED = "training diverged: the weights are no longer finite; lower eta or T"
# Relative to the diagonal: rounding of float32 products makes a singular Gram matrix indefinite by some 1e-7.
JITTERS = (1e-7, 1e-6, 1e-5, 1e-4)


class Simulator(Protocol):
    """Coordinates for S replicas. Weights have p of them, tokens P >= p: those beyond p take part in the attention alone."""

    dictionary: Tensor
    """M, (S, p, d)."""

    def initial_weights(self, sigma_0: float, generators: Generators) -> Tensor:
        """W(0) of Algorithm 1, N(0, sigma_0^2) in every direction of R^d1: -> (S, m, p)."""

    def sample_tokens(self, latents: Tensor, sigma: float, generators: Generators) -> Tensor:
        """M z + xi with fresh xi ~ N(0, sigma^2 I), one generator a replica: (S, n, L, d) -> (S, n, L, P)."""

    def draw_complement(self, generators: Generators) -> Tensor | None:
        """What a step draws, whatever the weights are: arms that are trained side by side share it."""

    def descend(
        self,
        weights: Tensor,
        descent: Tensor,
        attended: Tensor,
        decay: Tensor,
        beyond: Tensor | None = None,
    ) -> Tensor:
        """W(t+1) = decay W(t) + sum over the anchors' attended tokens z of descent z^T.

        Args:
            weights: (S, m, p). decay: of all replicas, or (S, 1, 1). descent: (S, K, L, m), minus eta times
            contrastive.coefficients. attended: (S, K, L, P). beyond: of `beyond`, drawn for this step.
        """


def make_simulator(
    kind: Literal["direct", "reduced"], study: str, d: int, d1: int, m: int, seeds: list[int]
) -> Simulator:
    """The simulator of that name for m neurons and one replica per seed."""
    if kind == "reduced":
        return ReducedSimulator(d, d1, m, len(seeds))
    return DirectSimulator(
        torch.stack([dictionary(d1, d, generator(study, seed, "dictionary")) for seed in seeds]), m
    )


def to_device(space: Simulator, device: torch.device | str) -> Simulator:
    """The simulator with its dictionary, which what it makes follows, on a device; RarefeatError where there is none."""
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise RarefeatError(
            "training.device is cuda, and there is no GPU here; set it to cpu, or run where there is one"
        )
    there = copy(space)
    there.dictionary = space.dictionary.to(device)
    return there


class DirectSimulator:
    """Every token in R^d1, p = P = d1: any mask, any dictionary (S, d1, d)."""

    def __init__(self, dictionary: Tensor, m: int):
        self.dictionary = dictionary
        self.m = m

    def initial_weights(self, sigma_0: float, generators: Generators) -> Tensor:
        """See Simulator."""
        d1 = self.dictionary.shape[1]
        return sigma_0 * draw(torch.randn, generators, self.m, d1)

    def sample_tokens(self, latents: Tensor, sigma: float, generators: Generators) -> Tensor:
        """See Simulator."""
        S, n, L, d = latents.shape
        noise = standard_normals(S, n * L, self.dictionary.shape[1], generators)
        if not is_on_cpu(noise):
            return noise.baddbmm_(
                latents.reshape(S, n * L, d), self.dictionary.mT, beta=sigma
            ).view(S, n, L, -1)
        # The product is added where the noise lies, replica by replica, which saves a pass over the tokens.
        for x, z, M in zip(
            noise, latents.reshape(S, n * L, d), align_replicas(self.dictionary), strict=True
        ):
            torch.addmm(x, z.clone(), M.T, beta=sigma, out=x)
        return noise.view(S, n, L, -1)

    def draw_complement(self, generators: Generators) -> None:
        """Nothing."""

    def descend(
        self, weights: Tensor, descent: Tensor, attended: Tensor, decay: Tensor, beyond: None = None
    ) -> Tensor:
        """See Simulator."""
        return decay * weights + matmul(descent.flatten(1, 2).mT, attended.flatten(1, 2))


class ReducedSimulator:
    """The same law for Gaussian W(0), orthonormal M, isotropic noise and masks by neuron, at a cost that does not know d1.

    Weights are [A, F]: A = W M, (S, m, d), and a factor F of the Gram matrix of what is left, F F^T = W (I - M M^T) W^T. A
    token is [M^T x, v, t]: its feature coordinates, its coordinates v in the span of the weights' complement part, and a row
    of a Bartlett factor, which carries the inner products among the L tokens of its sample in the nu = d1 - d - q dimensions
    beyond.
    p = d + q and P = p + min(L, nu) with q = min(m, d1 - d). Where d1 - d <= m nothing lies beyond: this is then the direct
    simulator in rotated coordinates. Derivation, and what is exact: docs/method/reduced.md.
    """

    def __init__(self, d: int, d1: int, m: int, S: int):
        self.d, self.m, self.n = d, m, d1 - d
        # Coordinates that no weight sees do no harm, and matrix products like multiples of eight.
        self.q = min(m + -(d + m) % COLUMNS, self.n)
        self.nu = self.n - self.q
        self.p = d + self.q
        self.dictionary = torch.eye(self.p, d).repeat(S, 1, 1)

    def initial_weights(self, sigma_0: float, generators: Generators) -> Tensor:
        """See Simulator: A is Gaussian and F a Bartlett factor of Wishart_m(d1 - d, I)."""
        features = draw(torch.randn, generators, self.m, self.d)
        return sigma_0 * self.join_coordinates(
            features, bartlett_factor(self.m, self.n, generators)
        )

    def join_coordinates(self, features: Tensor, complement: Tensor) -> Tensor:
        """[A, F], F with zeros up to its q columns: (S, m, d), (S, m, at most q) -> (S, m, p)."""
        return pad(
            torch.cat([features, complement], -1), (0, self.p - self.d - complement.shape[-1])
        )

    def sample_tokens(self, latents: Tensor, sigma: float, generators: Generators) -> Tensor:
        """See Simulator."""
        S, n, L, d = latents.shape
        beyond = min(L, self.nu)
        noise = standard_normals(S, n * L, self.p + beyond, generators).view(S, n, L, -1)
        if beyond:
            scale = torch.ones(L, self.p + beyond, device=noise.device).tril(self.p - 1).mul_(sigma)
            noise *= scale
            noise[..., self.p :].diagonal(dim1=-2, dim2=-1).copy_(
                sigma * chi_variables(n, beyond, self.nu, generators)
            )
        else:
            noise *= sigma
        noise[..., :d] += latents
        return noise

    def draw_complement(self, generators: Generators) -> Tensor | None:
        """A Bartlett factor of Wishart_m(nu, I): what the anchors add beyond the span has an isotropic direction."""
        return bartlett_factor(self.m, self.nu, generators).double() if self.nu else None

    def descend(
        self,
        weights: Tensor,
        descent: Tensor,
        attended: Tensor,
        decay: Tensor,
        beyond: Tensor | None = None,
    ) -> Tensor:
        """See Simulator: exact for A; for F F^T exact in mean given the tokens (docs/method/reduced.md)."""
        moved = decay * weights + matmul(
            descent.flatten(1, 2).mT, attended.flatten(1, 2)[..., : self.p]
        )
        if not self.nu:
            return moved
        # What the anchors add beyond the span: its scatter is known, its direction is drawn.
        rows = matmul(attended[..., self.p :].mT, descent).flatten(1, 2)
        scatter = matmul(rows.mT, rows).double() / self.nu
        fresh = matmul(robust_cholesky(scatter), beyond)
        within = moved[..., self.d :].double()
        gram = matmul(within, within.mT) + matmul(fresh, fresh.mT)
        return self.join_coordinates(moved[..., : self.d], robust_cholesky(gram).float())


def standard_normals(S: int, rows: int, columns: int, generators: Generators) -> Tensor:
    """Standard normals, (S, rows, columns)."""
    if isinstance(generators, DeviceGenerator):
        return draw(torch.randn, generators, rows, columns)
    noise = empty_aligned(S, rows, columns)
    for buffer, g in zip(noise, generators, strict=True):
        buffer.normal_(generator=g)
    return noise


def chi_variables(n: int, columns: int, dof: int, generators: Generators) -> Tensor:
    """Chi variables with dof, dof - 1, ... degrees of freedom in the columns: -> (S, n, columns).

    Marsaglia & Tsang 2000 on whole tensors; what it rejects, few draws and small dof are left to torch, which goes one by one.
    """
    if isinstance(generators, DeviceGenerator):
        shapes = (dof - torch.arange(columns, device=generators.device)) / 2
        return (
            2 * standard_gamma(shapes.expand(len(generators), n, -1), generators.generator)
        ).sqrt_()
    shape = ((dof - torch.arange(columns)) / 2).expand(n, -1)
    if n == 1 or dof - columns < 20:
        return (2 * torch.stack([standard_gamma(shape, g) for g in generators])).sqrt_()
    x, u = draw(torch.randn, generators, n, columns), draw(torch.rand, generators, n, columns)
    d = shape - 1 / 3
    v = (1 + x / (3 * d.sqrt())) ** 3
    rejected = ~(u.log() < x.square() / 2 + d * (1 - v + v.log()))
    gamma = d * v
    for replica in rejected.flatten(1).any(1).nonzero().flatten().tolist():
        again = rejected[replica]
        gamma[replica, again] = standard_gamma(shape[again], generators[replica])
    return (2 * gamma).sqrt_()


def bartlett_factor(rows: int, dof: int, generators: Generators) -> Tensor:
    """Lower-trapezoidal T, (S, rows, min(rows, dof)), with T T^T ~ Wishart(dof, I); singular where dof < rows."""
    columns = min(rows, dof)
    T = standard_normals(len(generators), rows, columns, generators).tril_(-1)
    T.diagonal(dim1=-2, dim2=-1).copy_(chi_variables(1, columns, dof, generators)[:, 0])
    return T


def robust_cholesky(gram: Tensor) -> Tensor:
    """Lower-triangular F with F F^T = gram, float64 (S, m, m), for any positive semi-definite matrix.

    Where Cholesky fails, rows are scaled to unit diagonal, so that neurons of very different norm do not disturb each other
    and a dead one keeps its row of zeros, and the smallest jitter relative to that diagonal that lets it pass is added.
    """
    if not is_on_cpu(gram):
        return robust_cholesky_gpu(gram)
    F, info = torch.linalg.cholesky_ex(gram)
    for replica in info.nonzero().flatten().tolist():
        scale = gram[replica].diagonal().sqrt()
        safe = torch.where(scale > 0, scale, 1.0)
        unit = (gram[replica] / (safe[:, None] * safe)).fill_diagonal_(1.0)
        tries = (
            torch.linalg.cholesky_ex(unit + jitter * torch.eye(len(unit), dtype=unit.dtype))
            for jitter in JITTERS
        )
        passed = next((part for part, failed in tries if not failed), None)
        if passed is None or not scale.isfinite().all():
            raise RarefeatError(DIVERGED)
        F[replica] = scale[:, None] * passed
    return F


def robust_cholesky_gpu(gram: Tensor) -> Tensor:
    """`robust_cholesky` without asking the device which matrix failed: every jitter is tried on all. NaN where none lets it pass."""
    scale = gram.diagonal(dim1=-2, dim2=-1).sqrt()
    safe = torch.where(scale > 0, scale, 1.0)
    unit = gram / (safe[..., :, None] * safe[..., None, :])
    diagonal = unit.diagonal(dim1=-2, dim2=-1)
    F, failed = torch.linalg.cholesky_ex(gram)
    for jitter in JITTERS:
        diagonal.fill_(1 + jitter)
        again, info = torch.linalg.cholesky_ex(unit)
        F = torch.where((failed != 0)[:, None, None], scale[..., None] * again, F)
        failed = torch.where(failed != 0, info, failed)
    return F.masked_fill((failed != 0)[:, None, None], torch.nan)
