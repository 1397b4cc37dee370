"""Questions to a tensor about its device.

A training runs where its dictionary and W(0) are: every other tensor follows them.
"""

from jaxtyping import Bool
from torch import Tensor


def is_on_cpu(x: Tensor) -> bool:
    """Return whether a tensor is in CPU memory.

    There its values can be read at no cost, and no bit may depend on the batch.
    """
    return x.is_cpu


def any_or_gpu(condition: Bool[Tensor, "..."]) -> bool:
    """Return whether any element is true; always return True for a GPU tensor.

    Use it to skip work that has no effect where `condition` is false: to read the value of a GPU
    tensor would make the CPU wait for the GPU.
    """
    return not is_on_cpu(condition) or bool(condition.any())
