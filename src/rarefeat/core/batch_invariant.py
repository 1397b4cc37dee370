"""Matrix products whose bits do not depend on which other replicas share the batch."""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from rarefeat.core.device import is_on_cpu

CACHE_LINE = 64
COLUMNS = 8
LARGE = 256


def empty_aligned(S: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """An uninitialised tensor (S, *shape) in which every replica starts at a multiple of 64 bytes."""
    size, line = math.prod(shape), CACHE_LINE // dtype.itemsize
    return torch.empty(S, -(-size // line) * line, dtype=dtype)[:, :size].unflatten(1, shape)


def align_replicas(x: Tensor) -> Tensor:
    """The same values with every replica, (S, ..., p, q), starting at a multiple of 64 bytes, as a tensor of its own does."""
    if x.stride(-1) != 1 and x.stride(-2) == 1:
        return align_replicas(x.mT).mT
    if x.data_ptr() % CACHE_LINE == 0 and x.stride(0) * x.element_size() % CACHE_LINE == 0:
        return x
    return empty_aligned(*x.shape, dtype=x.dtype).copy_(x)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, replica by replica: (S, ..., p, q), (S, ..., q, r) -> (S, ..., p, r).

    BLAS picks its kernel by the alignment of the operands and of the result, and by the size of the batch, and the kernels
    round differently. Operands are aligned here. A result that is small, or has rows of an odd length, is made in a call of its
    own for each replica, as if it were alone; larger ones have the same bits in one call for all. A device has no such promise.
    """
    if not is_on_cpu(a):
        return a @ b.view(len(b), *[1] * (a.dim() - b.dim()), *b.shape[1:])
    p, r = a.shape[-2], b.shape[-1]
    if r % COLUMNS and p > 2 * r:
        # A tall product is a third faster with a multiple of eight columns.
        b = pad(b, (0, -r % COLUMNS))
    a, b = align_replicas(a), align_replicas(b)
    if a.dim() == b.dim() == 3 and b.shape[-1] % 2 == 0 and p * b.shape[-1] >= LARGE:
        return torch.bmm(a, b)[..., :r]
    return torch.stack([x @ y for x, y in zip(a, b, strict=True)])[..., :r]
