"""Native training step of the reduced simulator: numba for everything but matrix products.

The functions have the arguments and shapes of the torch step, which is the reference for them
(tests/core/test_native_step.py); `training.make_kernel` chooses between the two. Every loop stays
within one replica, so that no number depends on the others. Axes: S replicas, n samples, K anchors,
L tokens, P coordinates of a token, of which weights have p, m neurons, d features, and M = m up to
a multiple of eight.
"""

import math
import sys
import time

import numba
import numpy as np
import torch
from numba import boolean, float32, float64, int64, njit, void
from torch import Tensor
from torch.nn.functional import pad

from rarefeat.core.batch_invariant import COLUMNS, matmul
from rarefeat.core.contrastive import bias_gradient, embedding_gradient, probabilities
from rarefeat.core.errors import RarefeatError
from rarefeat.core.native_random import (
    F1,
    IMPORT_START,
    KERNEL_OPTIONS,
    draw_stream,
    exponential,
    fill_stream,
)
from rarefeat.core.simulators import DIVERGED, JITTERS, ReducedSimulator, chi_variables
from rarefeat.core.training import (
    ForwardOutput,
    Gradient,
    Kernel,
    LossGradient,
    StepConfig,
    TrainState,
)

F2, F3, F4 = float32[:, ::1], float32[:, :, ::1], float32[:, :, :, ::1]
D1, D2, D3 = float64[::1], float64[:, ::1], float64[:, :, ::1]


@njit(void(F3, F3, F2, int64, float32, float32), **KERNEL_OPTIONS)
def attend(z, latents, chis, p, sigma, scale):
    """Turn normal numbers into tokens M z + xi, and these into attended tokens.

    Parameters
    ----------
    z : float32 array of shape (n, L, P)
        Normal numbers, replaced by the attended tokens.
    latents : float32 array of shape (n, L, d)
        Latent signals.
    chis : float32 array of shape (n, P - p)
        Diagonals of the Bartlett factors.
    p : int
        Coordinates of a weight.
    sigma : float
        Standard deviation of the noise per coordinate.
    scale : float
        Scale of the logits.
    """
    n, L, P = z.shape
    W = P + -P % 16
    x, scores = np.zeros((L, W), np.float32), np.empty((L, L), np.float32)
    flat = scores.reshape(L * L)
    for k in range(n):
        for r in range(L):
            for j in range(P):
                x[r, j] = sigma * z[k, r, j]
            for j in range(latents.shape[2]):
                x[r, j] += latents[k, r, j]
            if r < P - p:
                x[r, p + r] = sigma * chis[k, r]
            for j in range(p + r + 1, P):
                x[r, j] = 0
        for r in range(L):
            for q in range(r + 1):
                total = float32(0)
                for j in range(W):
                    total += x[r, j] * x[q, j]
                scores[r, q] = scale * total
                scores[q, r] = scale * total
        for r in range(L):
            top = scores[r, 0]
            for q in range(L):
                top = max(top, scores[r, q])
            for q in range(L):
                scores[r, q] -= top
        for j in range(L * L):
            flat[j] = exponential(flat[j])
        for r in range(L):
            total = float32(0)
            for q in range(L):
                total += scores[r, q]
            for q in range(L):
                share = scores[r, q] / total
                for j in range(P):
                    z[k, r, j] = share * x[q, j] + (z[k, r, j] if q else float32(0))


@njit(void(F4, F2, F3), **KERNEL_OPTIONS)
def sum_brelu(pre, bias, f):
    """Compute embeddings: the sum of BReLU over the tokens.

    Parameters
    ----------
    pre : float32 array of shape (S, n, L, M)
        Pre-activations.
    bias : float32 array of shape (S, M)
        Biases b_i.
    f : float32 array of shape (S, n, M)
        Filled with the embeddings.
    """
    S, n, L, M = pre.shape
    for i in range(S):
        for k in range(n):
            for j in range(M):
                f[i, k, j] = 0
            for r in range(L):
                for j in range(M):
                    s, b = pre[i, k, r, j], abs(bias[i, j])
                    sign = float32(-1) if bias[i, j] < 0 else float32(1)
                    f[i, k, j] += s - sign * min(max(s, -b), b)


@njit(void(F4, F2, F3, F4), **KERNEL_OPTIONS)
def apply_gates(pre, bias, f_gradient, c):
    """Multiply the gradient with respect to the embeddings by the gates 1{|s| >= b}.

    Parameters
    ----------
    pre : float32 array of shape (S, n, L, M)
        Pre-activations, the K anchors first.
    bias : float32 array of shape (S, M)
        Biases of the gates.
    f_gradient : float32 array of shape (S, K, M)
        Result of `contrastive.embedding_gradient`.
    c : float32 array of shape (S, K, L, M)
        Filled with the coefficients of the gradient.
    """
    S, K, L, M = c.shape
    for i in range(S):
        for k in range(K):
            for r in range(L):
                for j in range(M):
                    s, b = abs(pre[i, k, r, j]), bias[i, j]
                    # Within a negative bias both halves of BReLU are active.
                    outer, inner = float32(s >= b), float32(s < -b)
                    c[i, k, r, j] = (outer + inner) * f_gradient[i, k, j]


@njit(void(float32[:, :, :, :], F4, int64, F4), **KERNEL_OPTIONS)
def sum_beyond(z, c, p, rows):
    """Sum c z^T over the tokens of each anchor, for the coordinates beyond p.

    Parameters
    ----------
    z : float32 array of shape (S, n, L, P)
        Attended tokens, the K anchors first.
    c : float32 array of shape (S, K, L, M)
        Coefficients of the gradient.
    p : int
        Coordinates of a weight.
    rows : float32 array of shape (S, K, P - p, M)
        Filled with the sums.
    """
    S, K, L, M = c.shape
    for i in range(S):
        for k in range(K):
            for q in range(rows.shape[2]):
                for j in range(M):
                    rows[i, k, q, j] = 0
                for r in range(L):
                    for j in range(M):
                        rows[i, k, q, j] += z[i, k, r, p + q] * c[i, k, r, j]


@njit(boolean(D2), **KERNEL_OPTIONS)
def factor_in_place(a):
    """Replace a lower triangle by its Cholesky factor; return False where it has none."""
    for j in range(len(a)):
        for i in range(j, len(a)):
            total = 0.0
            for k in range(j):
                total += a[i, k] * a[j, k]
            a[i, j] -= total
            if i > j:
                a[i, j] /= a[j, j]
            elif a[j, j] > 0 and a[j, j] < math.inf:
                a[j, j] = math.sqrt(a[j, j])
            else:
                return False
    return True


@njit(boolean(D2, D2, D1), **KERNEL_OPTIONS)
def robust_factor(gram, F, jitters):
    """Compute `simulators.robust_cholesky` of a lower triangle.

    Parameters
    ----------
    gram : float64 array of shape (m, m)
        Gram matrix; its lower triangle is read.
    F : float64 array of shape (m, m)
        The factor is written into its lower triangle.
    jitters : float64 array
        Jitters relative to the diagonal, in order.

    Returns
    -------
    bool
        False where `robust_cholesky` raises.
    """
    for attempt in range(-1, len(jitters)):
        for a in range(len(gram)):
            for b in range(a + 1):
                scale = math.sqrt(gram[a, a] * gram[b, b]) if attempt >= 0 else 1.0
                F[a, b] = gram[a, b] / scale if scale > 0 else 0.0
            if attempt >= 0:
                F[a, a] = 1 + jitters[attempt]
        if factor_in_place(F):
            for a in range(len(gram)):
                scale = math.sqrt(gram[a, a]) if attempt >= 0 else 1.0
                for b in range(a + 1):
                    F[a, b] *= scale
            return np.isfinite(F[len(F) - 1, len(F) - 1])
    return False


@njit(boolean(F3, F3, F3, D3, F1, float32, int64, int64, D1, F3), **KERNEL_OPTIONS)
def finish_descent(
    weights, token_sums, scatter, complement_draw, decay, scale, d, nu, jitters, out
):
    """Take the step of the weights [A, F] from its sums over the tokens.

    Parameters
    ----------
    weights : float32 array of shape (S, m, p)
        Weights W(t).
    token_sums : float32 array of shape (S, M, p)
        Sums of c z^T over the anchors' tokens.
    scatter : float32 array of shape (S, M, M)
        Scatter of the same sums beyond the p coordinates.
    complement_draw : float64 array of shape (S, m, min(m, nu))
        Result of `Simulator.draw_complement`.
    decay : float32 array of shape (S,)
        1 - eta lambda.
    scale : float
        -eta.
    d : int
        Number of features.
    nu : int
        Dimensions beyond the span.
    jitters : float64 array
        See `robust_factor`.
    out : float32 array of shape (S, m, p)
        Filled with W(t+1).

    Returns
    -------
    bool
        False if a factor fails.
    """
    S, m, p = weights.shape
    gram, F, fresh = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
    V = np.zeros((m, p - d))
    for i in range(S):
        for a in range(m):
            for b in range(a + 1):
                gram[a, b] = float64(scale * scale * scatter[i, a, b]) / nu
        if not robust_factor(gram, F, jitters):
            return False
        for a in range(m):
            for j in range(d):
                out[i, a, j] = decay[i] * weights[i, a, j] + scale * token_sums[i, a, j]
            for j in range(p - d):
                V[a, j] = decay[i] * weights[i, a, d + j] + scale * token_sums[i, a, d + j]
            for b in range(m):
                fresh[a, b] = 0.0
            for k in range(a + 1):
                for b in range(min(k + 1, complement_draw.shape[2])):
                    fresh[a, b] += F[a, k] * complement_draw[i, k, b]
        for a in range(m):
            for b in range(a + 1):
                total = 0.0
                for j in range(p - d):
                    total += V[a, j] * V[b, j]
                for j in range(b + 1):
                    total += fresh[a, j] * fresh[b, j]
                gram[a, b] = total
        if not robust_factor(gram, F, jitters):
            return False
        for a in range(m):
            for j in range(p - d):
                out[i, a, d + j] = F[a, j] if j <= a else 0.0
    return True


if any(kernel.stats.cache_misses for kernel in (fill_stream, attend, finish_descent)):
    seconds = time.perf_counter() - IMPORT_START
    print(
        f"native step: compiled in {seconds:.0f} s, kept in {numba.config.CACHE_DIR}",
        file=sys.stderr,
    )


def widen(x: Tensor) -> Tensor:
    """Return `x`, (S, ..., m), with M columns; results of this module have them already."""
    M = x.shape[-1] + -x.shape[-1] % COLUMNS
    if x.stride(-2) == M and x.stride(0) == math.prod(x.shape[1:-1]) * M:
        return x.as_strided((*x.shape[:-1], M), x.stride(), x.storage_offset())
    return pad(x, (0, M - x.shape[-1])).contiguous()


class NativeSimulator(ReducedSimulator):
    """Reduced simulator with a native step, and with attended tokens in one function.

    Parameters
    ----------
    simulator : ReducedSimulator
        Simulator whose coordinates and number of replicas it takes.
    scale : float
        Scale of the attention's logits.
    """

    def __init__(self, simulator: ReducedSimulator, scale: float):
        self.scale = scale
        super().__init__(
            simulator.d, simulator.d + simulator.n, simulator.m, len(simulator.dictionary)
        )

    def attended_tokens(
        self, latents: Tensor, sigma: float, generators: list[torch.Generator]
    ) -> Tensor:
        """Draw tokens, and compute their attended tokens.

        Parameters
        ----------
        latents : Tensor of shape (S, n, L, d)
            Latent signals z.
        sigma : float
            Standard deviation of the noise per coordinate.
        generators : list of torch.Generator
            Sources of the noise, one per replica.

        Returns
        -------
        Tensor of shape (S, n, L, P)
        """
        S, n, L, _ = latents.shape
        columns = min(L, self.nu)
        z, chis = torch.empty(S, n, L, self.p + columns), torch.empty(S, n, columns)
        # Few draws and small degrees of freedom are left to torch, as in simulators.chi_variables.
        native = n * columns >= 16 and self.nu - columns >= 20
        shape = ((self.nu - torch.arange(columns)) / 2).repeat(n if native else 0)
        for i, generator in enumerate(generators):
            done = draw_stream(generator, z[i], shape, chis[i])
            if columns and not done:
                chis[i] = chi_variables(n, columns, self.nu, [generator])[0]
            # Replica by replica, while its draws are in the cache.
            arrays = (x.contiguous().numpy() for x in (z[i], latents[i], chis[i]))
            attend(*arrays, self.p, sigma, self.scale)
        return z

    def descend(
        self,
        weights: Tensor,
        coefficients: Tensor,
        attended: Tensor,
        decay: Tensor,
        complement_draw: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        """Return W(t+1), as `ReducedSimulator.descend` does.

        Parameters
        ----------
        weights : Tensor of shape (S, m, p)
            Weights W(t).
        coefficients : Tensor of shape (S, K, L, m)
            c: the coefficients of the gradient.
        attended : Tensor of shape (S, K, L, P)
            Attended tokens of the anchors.
        decay : Tensor of shape () or (S, 1, 1)
            1 - eta lambda.
        complement_draw : Tensor of shape (S, m, min(m, nu)) or None
            Result of `draw_complement`; None if nu is 0.
        scale : float
            -eta, the learning rate with a minus.

        Returns
        -------
        Tensor of shape (S, m, p)

        Raises
        ------
        RarefeatError
            If the weights are no longer finite.
        """
        c = widen(coefficients)
        token_sums = matmul(c.flatten(1, 2).mT, attended.flatten(1, 2)[..., : self.p])
        if not self.nu:
            return decay * weights + scale * token_sums[:, : self.m]
        rows = torch.empty(*c.shape[:2], attended.shape[-1] - self.p, c.shape[-1])
        sum_beyond(attended.numpy(), c.numpy(), self.p, rows.numpy())
        rows, out = rows.flatten(1, 2), torch.empty(weights.shape)
        scatter, decays = matmul(rows.mT, rows), decay.flatten().expand(len(weights))
        tensors = weights, token_sums, scatter, complement_draw, decays
        arrays = (x.contiguous().numpy() for x in tensors)
        if not finish_descent(*arrays, scale, self.d, self.nu, np.array(JITTERS), out.numpy()):
            raise RarefeatError(DIVERGED)
        return out


def forward(attended: Tensor, state: TrainState) -> ForwardOutput:
    """Compute `training.forward`."""
    (n, L), (m, p) = attended.shape[1:3], state.weights.shape[1:]
    weights, bias = pad(state.weights, (0, 0, 0, -m % COLUMNS)), pad(state.bias, (0, -m % COLUMNS))
    pre = matmul(attended.flatten(1, 2)[..., :p], weights.mT).unflatten(1, (n, L)).contiguous()
    f = torch.empty(len(pre), n, pre.shape[-1])
    sum_brelu(pre.numpy(), bias.contiguous().numpy(), f.numpy())
    return ForwardOutput(pre[..., :m], f[..., :m])


def loss_gradient(
    dense: ForwardOutput,
    masked: ForwardOutput,
    gate_bias: Tensor,
    config: StepConfig,
    gradient: Gradient = "unmasked",
) -> LossGradient:
    """Compute `training.loss_gradient`.

    Parameters
    ----------
    dense, masked : ForwardOutput
        Outputs without and with the mask.
    gate_bias : Tensor of shape (S, m)
        Biases used in the gates.
    config : StepConfig
        Provides the batch size K and the temperature tau.
    gradient : {"unmasked", "masked_keys", "straight_through"}
        How the gradient treats the mask.

    Returns
    -------
    LossGradient
    """
    m = gate_bias.shape[1]
    dense, masked = (ForwardOutput(*map(widen, output)) for output in (dense, masked))
    bias = widen(gate_bias)
    f_x, f_y, negatives = masked.views(config.K)
    p = probabilities(f_x, f_y, config.tau, negatives)
    if gradient == "unmasked":
        _, f_y, negatives = dense.views(config.K)
    pre = (masked if gradient == "straight_through" else dense).pre
    c = torch.empty(len(pre), config.K, *pre.shape[2:])
    arrays = (pre, bias, embedding_gradient(f_y, p, config.tau, negatives), c)
    apply_gates(*(x.contiguous().numpy() for x in arrays))

    def compute_bias_gradient() -> Tensor:
        return bias_gradient(pre[:, : config.K], bias, f_y, p, config.tau, negatives)[:, :m]

    return LossGradient(c[..., :m], compute_bias_gradient)


def make_native_kernel(simulator: ReducedSimulator, scale: float) -> Kernel:
    """Return the native functions of a step in the coordinates of a simulator."""
    native = NativeSimulator(simulator, scale)
    return Kernel(native, native.attended_tokens, forward, loss_gradient)
