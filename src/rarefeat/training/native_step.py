"""Native training step of the reduced simulator: one compiled pass for each function of the step.

`attend`, `embed`, `backpropagate` and `descend` are the attention and the encoder of eq. (4), the
gradient of eq. (5) and (21), and the step of docs/method/reduced.md. Arguments and shapes are those
of the torch step, the reference (tests/model/test_native_step.py); `step.make_kernel` chooses.
Every loop stays within one replica, so that no number depends on the others. Axes: S replicas, n
samples, K anchors, L tokens, P coordinates of a token, of which weights have p, m neurons, d
features, and M = m up to a multiple of eight.
"""

import math

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401, the products of numba
import torch
from jaxtyping import Float
from numba import boolean, float32, float64, int64, njit, void
from numpy import ndarray
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import pad

from rarefeat.errors import RarefeatError
from rarefeat.model.batch_invariant import COLUMNS
from rarefeat.model.contrastive import bias_gradient, probabilities
from rarefeat.model.randomness import Generators
from rarefeat.model.simulators import DIVERGED, ReducedSimulator, chi_variables
from rarefeat.training.native_numerics import (
    KERNEL_OPTIONS,
    draw_streams,
    exponential,
    robust_factor,
)
from rarefeat.training.step import (
    ForwardOutput,
    Gradient,
    Kernel,
    LossGradient,
    StepConfig,
    TrainState,
)

# The products are small: a second thread would cost more than it does.
threadpool_limits(1, user_api="blas")
F1, F2, F3, F4 = float32[::1], float32[:, ::1], float32[:, :, ::1], float32[:, :, :, ::1]
D3 = float64[:, :, ::1]
ROWS = 256
"""Rows of a product whose result is used while it is in the first cache."""


@njit(void(F4, F4, F3, int64, float32, float32), **KERNEL_OPTIONS)
def attend(
    z: Float[ndarray, "S n L P"],
    latents: Float[ndarray, "S n L d"],
    chis: Float[ndarray, "S n P-p"],
    p: int,
    sigma: float,
    scale: float,
) -> None:
    """Turn normal numbers z into tokens M latents + xi, and these into attended tokens.

    `chis` are the diagonals of the Bartlett factors, and `scale` is that of the attention's logits.
    """
    S, n, L, P = z.shape
    W = P + -P % 16
    # Rows of whole vectors: no loop has a rest.
    x, row, scores = (
        np.zeros((L, W), np.float32),
        np.zeros(W, np.float32),
        np.empty((L, L), np.float32),
    )
    flat = scores.reshape(L * L)
    for i in range(S):
        for k in range(n):
            for r in range(L):
                for j in range(P):
                    x[r, j] = sigma * z[i, k, r, j]
                for j in range(latents.shape[3]):
                    x[r, j] += latents[i, k, r, j]
                if r < P - p:
                    x[r, p + r] = sigma * chis[i, k, r]
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
                row[:] = 0
                for q in range(L):
                    share = scores[r, q] / total
                    for j in range(W):
                        row[j] += share * x[q, j]
                for j in range(P):
                    z[i, k, r, j] = row[j]


@njit(void(F4, F3, F2, F4, F3), **KERNEL_OPTIONS)
def embed(
    attended: Float[ndarray, "S n L P"],
    weights: Float[ndarray, "S m p"],
    bias: Float[ndarray, "S M"],
    pre: Float[ndarray, "S n L M"],
    f: Float[ndarray, "S n M"],
) -> None:
    """Compute `pre`, pre-activations, and `f`, the sum of BReLU over the tokens, eq. (4)."""
    (S, n, L, P), M, (m, p) = attended.shape, pre.shape[3], weights.shape[1:]
    W, samples = np.zeros((P, M), np.float32), max(1, ROWS // L)
    for i in range(S):
        W[:p, :m] = weights[i].T
        for start in range(0, n, samples):
            z, s = attended[i, start : start + samples], pre[i, start : start + samples]
            np.dot(z.reshape(-1, P), W, s.reshape(-1, M))
            for k in range(len(s)):
                h = f[i, start + k]
                h[:] = 0
                for r in range(L):
                    for j in range(M):
                        b = abs(bias[i, j])
                        sign = float32(-1) if bias[i, j] < 0 else float32(1)
                        h[j] += s[k, r, j] - sign * min(max(s[k, r, j], -b), b)


@njit(void(F4, F2, F3, F3, float32, F4), **KERNEL_OPTIONS)
def backpropagate(
    pre: Float[ndarray, "S n L M"],
    bias: Float[ndarray, "S M"],
    f: Float[ndarray, "S n M"],
    keys: Float[ndarray, "S n M"],
    tau: float,
    c: Float[ndarray, "S K L M"],
) -> None:
    """Compute `c`, the coefficients of the gradient in the weights, eq. (5) and (21).

    `pre` and `bias` are those of the gates 1{|s| >= b}, `f` the embeddings of the softmax weights,
    `keys` those of positives and negatives. The K anchors come first; the negatives are the last K
    samples, the second views or, where n is 3 K, samples of their own.
    """
    (S, K, L, M), n = c.shape, f.shape[1]
    # One column per anchor, so that every loop runs over anchors.
    error, pull = np.empty((K, K), np.float32), np.empty((K, M), np.float32)
    size = float32(1) / (float32(K) * tau)
    for i in range(S):
        np.dot(f[i, n - K :], f[i, :K].T, error)
        for k in range(K if n > 2 * K else 0):
            error[k, k] = 0
            for j in range(M):
                error[k, k] += f[i, k, j] * f[i, K + k, j]
        top, total = error[0].copy(), np.zeros(K, np.float32)
        for q in range(K):
            for k in range(K):
                top[k] = max(top[k], error[q, k])
        for q in range(K):
            for k in range(K):
                error[q, k] = exponential((error[q, k] - top[k]) / tau)
        for q in range(K):
            for k in range(K):
                total[k] += error[q, k]
        for k in range(K):
            total[k] = size / total[k]
        for q in range(K):
            for k in range(K):
                error[q, k] *= total[k]
            error[q, q] -= size
        np.dot(error.T, keys[i, n - K :], pull)
        for k in range(K):
            if n > 2 * K:
                for j in range(M):
                    pull[k, j] += error[k, k] * (keys[i, K + k, j] - keys[i, n - K + k, j])
            for r in range(L):
                for j in range(M):
                    s, b = abs(pre[i, k, r, j]), bias[i, j]
                    # Within a negative bias both halves of BReLU are active.
                    c[i, k, r, j] = (float32(s >= b) + float32(s < -b)) * pull[k, j]


@njit(boolean(F3, F4, float32[:, :, :, :], F1, D3, float32, int64, int64, F3), **KERNEL_OPTIONS)
def descend(
    weights: Float[ndarray, "S m p"],
    c: Float[ndarray, "S K L M"],
    attended: Float[ndarray, "S n L P"],
    decay: Float[ndarray, " S"],
    complement_draw: Float[ndarray, "S m min(m,nu)"],
    scale: float,
    d: int,
    nu: int,
    out: Float[ndarray, "S m p"],
) -> bool:
    """Compute `out`, the weights [A, F] after a step; return False if a factor fails.

    `decay` is 1 - eta lambda, `scale` -eta, and nu the number of dimensions beyond the span.
    """
    (S, K, L, P), (m, p), M = attended.shape, weights.shape[1:], c.shape[3]
    z, rows = np.empty((K, L, p), np.float32), np.empty((K, P - p, M), np.float32)
    sums, scatter = np.empty((M, p), np.float32), np.empty((M, M), np.float32)
    F, V = np.zeros((m, m)), np.empty((m, p - d))
    for i in range(S):
        rows[:] = 0
        for k in range(K):
            for r in range(L):
                for j in range(p):
                    z[k, r, j] = attended[i, k, r, j]
                for q in range(P - p):
                    for j in range(M):
                        rows[k, q, j] += attended[i, k, r, p + q] * c[i, k, r, j]
        np.dot(c[i].reshape(K * L, M).T, z.reshape(K * L, p), sums)
        out[i] = decay[i] * weights[i] + scale * sums[:m]
        if not nu:
            continue
        # The anchors add a term outside the span: its scatter is known, its direction is drawn.
        flat = rows.reshape(-1, M)
        np.dot(flat.T, flat, scatter)
        if not robust_factor(scatter[:m, :m] * (float64(scale) ** 2 / nu), F):
            return False
        fresh = np.dot(F, complement_draw[i])
        V[:] = out[i, :, d:]
        if not robust_factor(np.dot(V, V.T) + np.dot(fresh, fresh.T), F):
            return False
        out[i, :, d:] = 0
        out[i, :, d : d + m] = F
    return True


def widen(x: Float[Tensor, "S ... m"]) -> Float[Tensor, "S ... M"]:
    """Return `x` with M columns; results of this module have them already."""
    M = x.shape[-1] + -x.shape[-1] % COLUMNS
    if x.stride(-2) == M and x.stride(0) == math.prod(x.shape[1:-1]) * M:
        return x.as_strided((*x.shape[:-1], M), x.stride(), x.storage_offset())
    return pad(x, (0, M - x.shape[-1])).contiguous()


class NativeSimulator(ReducedSimulator):
    """Reduced simulator with native functions, for attention with a scale of its logits."""

    def __init__(self, simulator: ReducedSimulator, scale: float):
        S, d1 = len(simulator.dictionary), simulator.d + simulator.n
        super().__init__(simulator.d, d1, simulator.m, S)
        self.scale = scale

    def attended_tokens(
        self, latents: Float[Tensor, "S n L d"], sigma: float, generators: Generators
    ) -> Float[Tensor, "S n L P"]:
        """Draw tokens, and compute their attended tokens."""
        (S, n, L, _), columns = latents.shape, min(latents.shape[2], self.nu)
        z, chis = torch.empty(S, n, L, self.p + columns), torch.empty(S, n, columns)
        # Few draws and small degrees of freedom are left to torch, as in simulators.chi_variables.
        native = n * columns >= 16 and self.nu - columns >= 20
        shape = ((self.nu - torch.arange(columns)) / 2).repeat(n if native else 0)
        for i, done in enumerate(draw_streams(generators, z, shape, chis)):
            if columns and not done:
                chis[i] = chi_variables(n, columns, self.nu, [generators[i]])[0]
        arrays = (x.contiguous().numpy() for x in (z, latents, chis))
        attend(*arrays, self.p, sigma, self.scale)
        return z

    def descend(
        self,
        weights: Float[Tensor, "S m p"],
        coefficients: Float[Tensor, "S K L m"],
        attended: Float[Tensor, "S K L P"],
        decay: Float[Tensor, ""] | Float[Tensor, "S 1 1"],
        complement_draw: Float[Tensor, "S m min(m,nu)"] | None = None,
        scale: float = 1.0,
    ) -> Float[Tensor, "S m p"]:
        """Return W(t+1), as `ReducedSimulator.descend` does."""
        out, decays = torch.empty(weights.shape), decay.flatten().expand(len(weights))
        draw = torch.empty(len(out), 0, 0).double() if complement_draw is None else complement_draw
        c, *rest = (x.contiguous().numpy() for x in (widen(coefficients), decays, draw))
        arrays = weights.contiguous().numpy(), c, attended.numpy(), *rest
        if not descend(*arrays, scale, self.d, self.nu, out.numpy()):
            raise RarefeatError(DIVERGED)
        return out


def forward(attended: Float[Tensor, "S n L P"], state: TrainState) -> ForwardOutput:
    """Compute `step.forward`."""
    (S, n, L, _), m = attended.shape, state.bias.shape[1]
    bias = widen(state.bias)
    pre, f = torch.empty(S, n, L, bias.shape[1]), torch.empty(S, n, bias.shape[1])
    embed(*(x.contiguous().numpy() for x in (attended, state.weights, bias, pre, f)))
    return ForwardOutput(pre[..., :m], f[..., :m])


def loss_gradient(
    dense: ForwardOutput,
    masked: ForwardOutput,
    gate_bias: Float[Tensor, "S m"],
    config: StepConfig,
    gradient: Gradient = "unmasked",
) -> LossGradient:
    """Compute `step.loss_gradient`."""
    K, tau = config.K, config.tau
    pre = (masked if gradient == "straight_through" else dense).pre
    keys = dense if gradient == "unmasked" else masked
    arrays = [widen(x) for x in (pre, gate_bias, masked.f, keys.f)]
    c = torch.empty(len(pre), K, *arrays[0].shape[2:])
    backpropagate(*(x.contiguous().numpy() for x in arrays), tau, c.numpy())

    def compute_bias_gradient() -> Tensor:
        f_x, f_y, negatives = masked.views(K)
        p = probabilities(f_x, f_y, tau, negatives)
        _, f_y, negatives = keys.views(K)
        return bias_gradient(pre[:, :K], gate_bias, f_y, p, tau, negatives)

    return LossGradient(c[..., : pre.shape[-1]], compute_bias_gradient)


def make_native_kernel(simulator: ReducedSimulator, scale: float) -> Kernel:
    """Return the native functions of a step in the coordinates of a simulator."""
    native = NativeSimulator(simulator, scale)
    return Kernel(native, native.attended_tokens, forward, loss_gradient)
