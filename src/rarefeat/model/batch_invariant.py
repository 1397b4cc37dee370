"""Matrix products whose bits do not depend on which other replicas share the batch.

Axes: S replicas; p, q and r are sizes of matrices.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from rarefeat.model.device import is_on_cpu

CACHE_LINE = 64
"""Bytes to which each replica is aligned."""
COLUMNS = 8
"""Matrix products are fast where the number of columns is a multiple of this."""
LARGE = 256
"""Entries of a result from which one call for all replicas has the bits of a call for each."""


def empty_aligned(
    S: int, *shape: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "S ..."]:
    """Allocate a tensor in which every replica starts at a multiple of 64 bytes."""
    size, line = math.prod(shape), CACHE_LINE // dtype.itemsize
    return torch.empty(S, -(-size // line) * line, dtype=dtype)[:, :size].unflatten(1, shape)


def align_replicas(x: Float[Tensor, "S *batch p q"]) -> Float[Tensor, "S *batch p q"]:
    """Return a tensor, copied if need be, whose replicas start at multiples of 64 bytes."""
    if x.stride(-1) != 1 and x.stride(-2) == 1:
        return align_replicas(x.mT).mT
    if x.data_ptr() % CACHE_LINE == 0 and x.stride(0) * x.element_size() % CACHE_LINE == 0:
        return x
    return empty_aligned(*x.shape, dtype=x.dtype).copy_(x)


def matmul(
    a: Float[Tensor, "S *batch p q"], b: Float[Tensor, "S ... q r"]
) -> Float[Tensor, "S *batch p r"]:
    """Compute a @ b, replica by replica; on a GPU nothing is promised about bits."""
    if not is_on_cpu(a):
        return a @ b.view(len(b), *[1] * (a.dim() - b.dim()), *b.shape[1:])
    # BLAS picks its kernel by the alignment of the operands and of the result, and by the size of
    # the batch, and the kernels round differently. Operands are therefore aligned. A result that is
    # small, or has rows of odd length, is computed in one call per replica, as if the replica were
    # alone; larger ones have the same bits in one call for all.
    p, r = a.shape[-2], b.shape[-1]
    if r % COLUMNS and p > 2 * r:
        # A tall product is a third faster with a multiple of eight columns.
        b = pad(b, (0, -r % COLUMNS))
    a, b = align_replicas(a), align_replicas(b)
    if a.dim() == b.dim() == 3 and b.shape[-1] % 2 == 0 and p * b.shape[-1] >= LARGE:
        return torch.bmm(a, b)[..., :r]
    if a.requires_grad or b.requires_grad:
        # `out` below has no gradient.
        return torch.stack([x @ y for x, y in zip(a, b, strict=True)])[..., :r]
    result = empty_aligned(*a.shape[:-1], b.shape[-1], dtype=a.dtype)
    for x, y, z in zip(a, b, result, strict=True):
        torch.matmul(x, y, out=z)
    return result[..., :r]
