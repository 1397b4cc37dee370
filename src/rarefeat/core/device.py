"""Where a training runs: the dictionary and W(0) are put on a device, and every other tensor follows them there."""

from torch import Tensor


def is_on_cpu(x: Tensor) -> bool:
    """Whether a tensor lies where its values can be asked for at no cost, and where no bit may depend on a batch."""
    return x.is_cpu


def any_or_gpu(condition: Tensor) -> bool:
    """Whether something is to be done that changes nothing where the condition is false.

    On a device it always is: to ask would make the processor wait for it.
    """
    return not is_on_cpu(condition) or bool(condition.any())
