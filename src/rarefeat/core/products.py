"""Matrix products whose bits do not depend on which other replicas share the batch."""

import torch
from torch import Tensor

CACHE_LINE = 64


def aligned(x: Tensor) -> Tensor:
    """The same values starting at a multiple of 64 bytes, where torch puts a tensor of its own."""
    return x if x.data_ptr() % CACHE_LINE == 0 else x.clone()


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, replica by replica: (S, ..., p, q), (S, ..., q, r) -> (S, ..., p, r).

    BLAS picks its kernel by the alignment of the operands and the kernels round differently. In a batch the alignment of a
    replica's slice depends on its place; here each replica gets aligned operands, as if it were alone.
    """
    return torch.stack([aligned(x) @ aligned(y) for x, y in zip(a, b, strict=True)])
