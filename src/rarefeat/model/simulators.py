"""Two simulators of one distribution: tokens in R^d1, or in the few coordinates needed.

A simulator fixes the coordinates of tokens and weights. Everything else (attention, encoder,
objective, masks by neuron, metrics, probe) is written once and works in the coordinates of either.
Axes: S replicas, n samples, K anchors of a batch, L tokens, P coordinates of a token, m neurons,
p <= P coordinates of a weight, r columns of a random factor, d features. Derivation of the reduced
one: docs/method/reduced.md.
"""

from copy import copy
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from rarefeat.errors import RarefeatError
from rarefeat.model import stream_names
from rarefeat.model.batch_invariant import COLUMNS, align_replicas, empty_aligned, matmul
from rarefeat.model.device import is_on_cpu
from rarefeat.model.randomness import DeviceGenerator, Generators, draw, generator, standard_gamma
from rarefeat.model.sparse_coding import dictionary

DIVERGED = "training diverged: the weights are no longer finite; lower eta or T"
SMALLEST = 1e-35
"""Smaller squares of a norm have lost digits as sums of float32 products; they count as 0."""
JITTERS = (1e-7, 1e-6, 1e-5, 1e-4)
"""Jitters relative to the diagonal, in order.

Rounding of float32 products makes a singular Gram matrix indefinite by some 1e-7.
"""


class DirectSimulator:
    """Simulator with every token in R^d1, p = P = d1: any mask, any dictionary.

    `descend` needs no draws, as every direction is simulated explicitly.
    """

    def __init__(self, dictionary: Float[Tensor, "S d1 d"], m: int):
        self.dictionary = dictionary
        self.m = m

    def initial_weights(self, sigma_0: float, generators: Generators) -> Float[Tensor, "S m d1"]:
        """Draw W(0) of Algorithm 1, N(0, sigma_0^2) in every direction of R^d1."""
        d1 = self.dictionary.shape[1]
        return sigma_0 * draw(torch.randn, generators, self.m, d1)

    def sample_tokens(
        self, latents: Float[Tensor, "S n L d"], sigma: float, generators: Generators
    ) -> Float[Tensor, "S n L d1"]:
        """Draw the tokens M z + xi, with fresh xi ~ N(0, sigma^2 I)."""
        S, n, L, d = latents.shape
        noise = standard_normals(S, n * L, self.dictionary.shape[1], generators)
        if not is_on_cpu(noise):
            return noise.baddbmm_(
                latents.reshape(S, n * L, d), self.dictionary.mT, beta=sigma
            ).view(S, n, L, -1)
        # The product is added where the noise lies, replica by replica, which saves a pass over the
        # tokens.
        for x, z, M in zip(
            noise, latents.reshape(S, n * L, d), align_replicas(self.dictionary), strict=True
        ):
            torch.addmm(x, z.clone(), M.T, beta=sigma, out=x)
        return noise.view(S, n, L, -1)

    def draw_complement(self, generators: Generators) -> None:
        """Return None."""

    def descend(
        self,
        weights: Float[Tensor, "S m d1"],
        coefficients: Float[Tensor, "S K L m"],
        attended: Float[Tensor, "S K L d1"],
        decay: Float[Tensor, "..."] | float,
        complement_draw: Float[Tensor, "S m r"] | None = None,
        scale: float = 1.0,
    ) -> Float[Tensor, "S m d1"]:
        """Return W(t+1) = decay W(t) + scale sum of c z^T over the anchors' attended tokens z."""
        descent = scale * coefficients
        return decay * weights + matmul(descent.flatten(1, 2).mT, attended.flatten(1, 2))


class ReducedSimulator:
    """Simulator of the same distribution at a cost that does not depend on d1.

    It needs a Gaussian W(0), orthonormal M, isotropic noise and masks by neuron. Weights are
    [A, F]: A = W M, of shape (S, m, d), and a factor F of the Gram matrix of the remainder,
    F F^T = W (I - M M^T) W^T. A token is [M^T x, v, t]: its feature coordinates, its coordinates v
    in the span of the weights' complement part, and a row of a Bartlett factor, which carries the
    inner products among the L tokens of its sample in the nu = d1 - d - q dimensions beyond.
    p = d + q and P = p + min(L, nu) with q = min(m, d1 - d). Where d1 - d <= m no dimension is
    beyond: this is then the direct simulator in rotated coordinates. Derivation, and what is exact:
    docs/method/reduced.md.
    """

    def __init__(self, d: int, d1: int, m: int, S: int):
        self.d, self.m, self.n = d, m, d1 - d
        # Matrix products are fast for multiples of eight, and coordinates that no weight has change
        # no inner product, so q is rounded up.
        self.q = min(m + -(d + m) % COLUMNS, self.n)
        self.nu = self.n - self.q
        self.p = d + self.q
        self.dictionary = torch.eye(self.p, d).repeat(S, 1, 1)

    def initial_weights(self, sigma_0: float, generators: Generators) -> Float[Tensor, "S m p"]:
        """Draw W(0): A is Gaussian, and F a Bartlett factor of Wishart_m(d1 - d, I)."""
        features = draw(torch.randn, generators, self.m, self.d)
        return sigma_0 * self.join_coordinates(
            features, bartlett_factor(self.m, self.n, generators)
        )

    def join_coordinates(
        self, features: Float[Tensor, "S m d"], complement: Float[Tensor, "S m r"]
    ) -> Float[Tensor, "S m p"]:
        """Return [A, F], with F padded by zeros up to its q columns."""
        return pad(
            torch.cat([features, complement], -1), (0, self.p - self.d - complement.shape[-1])
        )

    def sample_tokens(
        self, latents: Float[Tensor, "S n L d"], sigma: float, generators: Generators
    ) -> Float[Tensor, "S n L P"]:
        """Draw the tokens [M^T x, v, t] of x = M z + xi."""
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

    def draw_complement(self, generators: Generators) -> Float[Tensor, "S m r"] | None:
        """Draw a Bartlett factor of Wishart_m(nu, I), with min(m, nu) columns; None if nu is 0.

        `descend` needs it: the anchors' sum outside the span has an isotropic direction. It does
        not depend on the weights, so that all arms of a cell can share one draw.
        """
        return bartlett_factor(self.m, self.nu, generators).double() if self.nu else None

    def descend(
        self,
        weights: Float[Tensor, "S m p"],
        coefficients: Float[Tensor, "S K L m"],
        attended: Float[Tensor, "S K L P"],
        decay: Float[Tensor, "..."] | float,
        complement_draw: Float[Tensor, "S m r"] | None = None,
        scale: float = 1.0,
    ) -> Float[Tensor, "S m p"]:
        """Return W(t+1): exact for A, and for F F^T exact in mean given the tokens."""
        descent = scale * coefficients
        descended = decay * weights + matmul(
            descent.flatten(1, 2).mT, attended.flatten(1, 2)[..., : self.p]
        )
        if not self.nu:
            return descended
        # The anchors add a term outside the span: its scatter is known, its direction is drawn.
        rows = matmul(attended[..., self.p :].mT, descent).flatten(1, 2)
        scatter = matmul(rows.mT, rows).double() / self.nu
        fresh = matmul(robust_cholesky(scatter), complement_draw)
        within = descended[..., self.d :].double()
        gram = matmul(within, within.mT) + matmul(fresh, fresh.mT)
        return self.join_coordinates(descended[..., : self.d], robust_cholesky(gram).float())


Simulator = DirectSimulator | ReducedSimulator
"""Coordinates of the tokens and weights of S replicas, and what is drawn in them."""


def make_simulator(
    kind: Literal["direct", "reduced"], namespace: str, d: int, d1: int, m: int, seeds: list[int]
) -> Simulator:
    """Make the simulator of a name, with one replica per seed.

    Random stream of the direct simulator: "dictionary".
    """
    if kind == "reduced":
        return ReducedSimulator(d, d1, m, len(seeds))
    frames = [
        dictionary(d1, d, generator(namespace, seed, stream_names.DICTIONARY)) for seed in seeds
    ]
    return DirectSimulator(torch.stack(frames), m)


def to_device(simulator: Simulator, device: torch.device | str) -> Simulator:
    """Return a copy of a simulator whose dictionary, and thus all it draws, is on a device."""
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise RarefeatError(
            "training.device: no GPU is available, got cuda; set it to cpu, or run on a machine"
            " with a GPU"
        )
    on_device = copy(simulator)
    on_device.dictionary = simulator.dictionary.to(device)
    return on_device


def standard_normals(
    S: int, rows: int, columns: int, generators: Generators
) -> Float[Tensor, "S rows columns"]:
    """Draw standard normal numbers."""
    if isinstance(generators, DeviceGenerator):
        return draw(torch.randn, generators, rows, columns)
    noise = empty_aligned(S, rows, columns)
    for buffer, g in zip(noise, generators, strict=True):
        buffer.normal_(generator=g)
    return noise


def chi_variables(
    n: int, columns: int, dof: int, generators: Generators
) -> Float[Tensor, "S n columns"]:
    """Draw chi variables with dof, dof - 1, ... degrees of freedom in the columns.

    The method of Marsaglia & Tsang 2000 runs on whole tensors. The draws that it rejects, and cases
    of few draws or small `dof`, use torch's sampler, which goes one by one.
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


def bartlett_factor(rows: int, dof: int, generators: Generators) -> Float[Tensor, "S rows columns"]:
    """Draw a lower-trapezoidal T of min(rows, dof) columns with T T^T ~ Wishart(dof, I)."""
    columns = min(rows, dof)
    T = standard_normals(len(generators), rows, columns, generators).tril_(-1)
    T.diagonal(dim1=-2, dim2=-1).copy_(chi_variables(1, columns, dof, generators)[:, 0])
    return T


def robust_cholesky(gram: Float[Tensor, "S m m"]) -> Float[Tensor, "S m m"]:
    """Compute the lower-triangular F with F F^T = gram of positive semi-definite matrices.

    Where Cholesky fails, rows are scaled to unit diagonal, so that neurons of very different norm
    do not disturb each other and a dead one, below SMALLEST, has a row of zeros. Then the smallest
    jitter, relative to that diagonal, is added that lets it pass.
    """
    F, failed = torch.linalg.cholesky_ex(gram)
    on_cpu, tried = is_on_cpu(gram), failed != 0
    squares = gram.diagonal(dim1=-2, dim2=-1)
    scale = squares.masked_fill(squares <= SMALLEST, 0.0).sqrt()
    safe = torch.where(scale > 0, scale, 1.0)
    unit = gram / (safe[..., :, None] * safe[..., None, :])
    for jitter in JITTERS:
        # To read which of them failed would make the CPU wait for a GPU.
        if on_cpu and not failed.any():
            return F
        unit.diagonal(dim1=-2, dim2=-1).fill_(1 + jitter)
        again, info = torch.linalg.cholesky_ex(unit)
        F = torch.where((failed != 0)[:, None, None], scale[..., None] * again, F)
        failed = torch.where(failed != 0, info, failed)
    if on_cpu and (failed.any() or not scale[tried].isfinite().all()):
        raise RarefeatError(DIVERGED)
    return F.masked_fill((failed != 0)[:, None, None], torch.nan)
