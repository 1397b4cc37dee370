"""Numerics of the native step in numba: torch's random numbers, formulas, Cholesky factors.

The Mersenne Twister and the Box-Muller blocks of torch's CPU generator are written out here, so
that the draws are torch's up to rounding and the generator ends where torch would leave it. A
version of torch that draws otherwise fails tests/model/test_native_step.py. The `_fill` functions
take the twister's 624 words s, which they change, how many of them are used up, and the array to
fill; they return how many words are used up then. The module also says how and where numba compiles
(`KERNEL_OPTIONS`, `FORMULA_OPTIONS`).
"""

import math

import numba
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from llvmlite import ir
from numba import boolean, float32, float64, int32, int64, njit, types, uint32, void
from numpy import ndarray
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import standard_gamma
from rarefeat.model.simulators import JITTERS, SMALLEST
from rarefeat.training.native_cache import cache_folder

if numba.config.DISABLE_JIT:
    raise RarefeatError(
        "NUMBA_DISABLE_JIT is set, and the native step is compiled code: unset it, or say"
        " training.kernel: torch"
    )
numba.config.CACHE_DIR = cache_folder()
# Sums may be taken in another order, but an infinity and a NaN stay what they are.
KERNEL_OPTIONS = {"fastmath": {"contract", "reassoc", "nsz"}, "error_model": "numpy", "cache": True}
FORMULA_OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy", "forceinline": True}
F1, F2, D2 = float32[::1], float32[:, ::1], float64[:, ::1]


def reinterpret(result: types.Type, bits: ir.Type):
    """Build a function that reads the 32 bits of a number as another type."""

    @numba.extending.intrinsic
    def read(context, x):
        return result(x), lambda _, builder, signature, values: builder.bitcast(values[0], bits)

    return read


to_bits = reinterpret(types.int32, ir.IntType(32))
to_number = reinterpret(types.float32, ir.FloatType())


@njit(**FORMULA_OPTIONS)
def logarithm(x):
    """Compute log(x) of a positive float32 (Cephes)."""
    e = int32(int32(to_bits(x) - int32(0x3F3504F3)) >> int32(23))
    f = to_number(int32(to_bits(x) - int32(e << int32(23)))) - float32(1)
    y = float32(7.0376836292e-2) * f - float32(1.1514610310e-1)
    y = (y * f + float32(1.1676998740e-1)) * f - float32(1.2420140846e-1)
    y = (y * f + float32(1.4249322787e-1)) * f - float32(1.6668057665e-1)
    y = (y * f + float32(2.0000714765e-1)) * f - float32(2.4999993993e-1)
    y = (y * f + float32(3.3333331174e-1)) * f * f * f - float32(0.5) * f * f
    return f + (y - float32(e) * float32(2.12194440e-4)) + float32(e) * float32(0.693359375)


@njit(**FORMULA_OPTIONS)
def exponential(x):
    """Compute exp(x) of a float32 that is 0 or less (Cephes)."""
    x = max(x, float32(-87))
    n = int32(x * float32(1.44269504) - float32(0.5))
    x = x - float32(n) * float32(0.693359375) + float32(n) * float32(2.12194440e-4)
    y = float32(1.9875691500e-4) * x + float32(1.3981999507e-3)
    y = (y * x + float32(8.3334519073e-3)) * x + float32(4.1665795894e-2)
    y = (y * x + float32(1.6666665459e-1)) * x + float32(5.0000001201e-1)
    return (y * x * x + x + float32(1)) * to_number(int32(int32(n + int32(127)) << int32(23)))


@njit(**FORMULA_OPTIONS)
def _twist(word, following, distant):
    # A word of the next state, from itself, the next one, and the one 397 places further on.
    y = uint32(uint32(word & uint32(0x80000000)) | uint32(following & uint32(0x7FFFFFFF)))
    odd = uint32(uint32(0) - uint32(following & uint32(1)))
    return uint32(distant ^ uint32(y >> uint32(1)) ^ uint32(odd & uint32(0x9908B0DF)))


@njit(**FORMULA_OPTIONS)
def _fill_uniform(s, used, out):
    # As torch.rand does.
    start = 0
    while start < len(out):
        if used == 624:
            for i in range(227):
                s[i] = _twist(s[i], s[i + 1], s[i + 397])
            for i in range(227, 623):
                s[i] = _twist(s[i], s[i + 1], s[i - 227])
            s[623] = _twist(s[623], s[0], s[396])
            used = 0
        count = min(624 - used, len(out) - start)
        # Loops over slices are vectorised; indices that are sums may be negative to numba.
        words, numbers = s[used : used + count], out[start : start + count]
        for i in range(count):
            y = words[i]
            y = uint32(y ^ uint32(y >> uint32(11)))
            y = uint32(y ^ uint32(uint32(y << uint32(7)) & uint32(0x9D2C5680)))
            y = uint32(y ^ uint32(uint32(y << uint32(15)) & uint32(0xEFC60000)))
            y = uint32(y ^ uint32(y >> uint32(18)))
            numbers[i] = float32(int32(y & uint32(0xFFFFFF))) * float32(2.0**-24)
        start, used = start + count, used + count
    return used


@njit(**FORMULA_OPTIONS)
def apply_box_muller(x):
    """Turn 16 uniform numbers into normal ones: eight radii, then eight angles."""
    for i in range(8):
        radius = math.sqrt(float32(-2) * logarithm(float32(1) - x[i]))
        # Taylor series of half of the angle minus pi, which is within a quarter of a turn.
        t = (x[i + 8] - float32(0.5)) * float32(math.pi)
        q = t * t
        sine = float32(1.60590438e-10) * q - float32(2.50521084e-8)
        sine = sine * q + float32(2.75573192e-6)
        sine = (sine * q - float32(1.98412698e-4)) * q + float32(8.33333333e-3)
        sine = ((sine * q - float32(1.66666667e-1)) * q + float32(1)) * t
        cosine = float32(2.08767570e-9) * q - float32(2.75573192e-7)
        cosine = (cosine * q + float32(2.48015873e-5)) * q - float32(1.38888889e-3)
        cosine = ((cosine * q + float32(4.16666667e-2)) * q - float32(0.5)) * q + float32(1)
        x[i] = -radius * (float32(1) - float32(2) * sine * sine)
        x[i + 8] = -radius * (float32(2) * sine * cosine)


@njit(**FORMULA_OPTIONS)
def _fill_normal(s, used, out):
    # As `normal_` does for at least 16 numbers.
    used = _fill_uniform(s, used, out)
    for start in range(0, len(out) - 15, 16):
        apply_box_muller(out[start : start + 16])
    if len(out) % 16:
        used = _fill_uniform(s, used, out[-16:])
        apply_box_muller(out[-16:])
    return used


@njit(fastmath={"contract"}, error_model="numpy")
def _fill_chi(s, used, shape, out):
    # As `simulators.chi_variables` does, with 0 for rejected draws; `shape` is half of the degrees
    # of freedom. Returns 0 if rounding would decide about a draw: all that follow would be shifted.
    used, unclear, u = _fill_normal(s, used, out), 0, np.empty_like(out)
    used = _fill_uniform(s, used, u)
    for i in range(len(out)):
        x, d = out[i], shape[i] - float32(1 / 3)
        root = math.sqrt(d)
        v = float32(1) + x / (float32(3) * root)
        v = v * v * v
        excess = x * x / float32(2) + d * (float32(1) - v + logarithm(v)) - logarithm(u[i])
        unclear += abs(excess) < float32(1e-6) * root * (float32(1) + abs(x))
        out[i] = math.sqrt(float32(2) * d * v) if excess > 0 else float32(0)
    return 0 if unclear else used


@njit(void(int64[:, ::1], F2, F1, F2, boolean[::1]), **KERNEL_OPTIONS)
def fill_streams(
    states: Int[ndarray, "S 632"],
    z: Float[ndarray, "S normals"],
    shape: Float[ndarray, " chis"],
    chis: Float[ndarray, "S chis"],
    done: Bool[ndarray, " S"],
) -> None:
    """Fill `z`, at least 16 a replica, and `chis` from the states of generators, and set these.

    A state is `torch.Generator.get_state` in words of 8 bytes: the seed, the number of unused words
    plus 1, the place of the next one, and 624 words. `shape` is half of the degrees of freedom,
    empty to draw none. A rejected draw is 0; `done` becomes whether the chi variables are drawn.
    """
    s = np.empty(624, np.uint32)
    for i in range(len(states)):
        state = states[i]
        for j in range(624):
            s[j] = uint32(state[3 + j])
        used, later = _fill_normal(s, 625 - (state[1] & 0xFFFFFFFF), z[i]), s.copy()
        used_later = _fill_chi(later, used, shape, chis[i]) if len(shape) else 0
        done[i] = used_later > 0
        if done[i]:
            s[:], used = later, used_later
        for j in range(624):
            state[3 + j] = s[j]
        state[1], state[2] = ((state[1] >> 32) << 32) + 625 - used, used


@njit(boolean(D2), **KERNEL_OPTIONS)
def factor_in_place(a: Float[ndarray, "m m"]) -> bool:
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


@njit(boolean(D2, D2), **KERNEL_OPTIONS)
def robust_factor(gram: Float[ndarray, "m m"], F: Float[ndarray, "m m"]) -> bool:
    """Write `simulators.robust_cholesky` of a lower triangle to F; return False if that raises."""
    for attempt in range(-1, len(JITTERS)):
        for a in range(len(gram)):
            for b in range(a + 1):
                scale = 1.0
                if attempt >= 0:
                    is_dead = gram[a, a] <= SMALLEST or gram[b, b] <= SMALLEST
                    scale = 0.0 if is_dead else math.sqrt(gram[a, a] * gram[b, b])
                F[a, b] = gram[a, b] / scale if scale > 0 else 0.0
            if attempt >= 0:
                F[a, a] = 1 + JITTERS[attempt]
        if factor_in_place(F):
            for a in range(len(gram)):
                scale = 1.0
                if attempt >= 0:
                    scale = 0.0 if gram[a, a] <= SMALLEST else math.sqrt(gram[a, a])
                for b in range(a + 1):
                    F[a, b] *= scale
            return np.isfinite(F[len(F) - 1, len(F) - 1])
    return False


def draw_streams(
    generators: list[torch.Generator],
    z: Float[Tensor, "S ..."],
    shape: Float[Tensor, " chis"],
    chis: Float[Tensor, "S ..."],
) -> list[bool]:
    """Draw normal numbers and chi variables, and leave the generators where torch would.

    The result is false for a replica whose chi variables are left to torch.
    """
    states = torch.stack([generator.get_state() for generator in generators])
    done, flat = np.empty(len(states), bool), chis.flatten(1)
    arrays = (x.numpy() for x in (states.view(torch.int64), z.flatten(1), shape, flat))
    fill_streams(*arrays, done)
    for i, generator in enumerate(generators):
        # A view into the middle of a tensor makes torch crash.
        generator.set_state(states[i].clone())
        if done[i] and not flat[i].all():
            rejected = flat[i] == 0
            flat[i, rejected] = standard_gamma(shape[rejected], generator).mul_(2).sqrt_()
    return done.tolist()
