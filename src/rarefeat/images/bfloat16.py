"""Convolutions and linear layers in bfloat16 on a processor without instructions for it.

There torch computes them without oneDNN, several times as slowly as in float32. The instructions
multiply operands rounded to bfloat16, sum in float32 and round the sum. Here float32 products do
the same, so that a training in bfloat16 is the same one on every processor, up to the order of its
sums, and no slower than one in float32.
"""

import functools
import warnings

import torch
from jaxtyping import BFloat16, Float, Float32
from torch import Tensor
from torch.nn import functional

OPERATORS = {"conv2d": functional.conv2d, "linear": functional.linear}
"""Operators that the project's networks call under autocast."""

LANES = 8
"""Numbers of float32 in an AVX2 register."""


def emulate_in_float32(operator, *arguments) -> BFloat16[Tensor, "..."]:
    """Compute a bfloat16 operator in float32; its gradients are rounded as bfloat16 ones are."""
    operands = [
        round_to_bfloat16(value) if isinstance(value, Tensor) else value for value in arguments
    ]
    weight = operands[1]
    if weight.shape[1] < LANES and weight.shape[2:] == (1, 1):
        # In channels-last, oneDNN's AVX2 gradient of a strided 1 x 1 kernel this narrow writes
        # outside its memory.
        operands[:2] = (
            value.clone(memory_format=torch.contiguous_format) for value in operands[:2]
        )
    with torch.autocast("cpu", enabled=False):
        return operator(*operands).bfloat16()


def round_to_bfloat16(value: Float[Tensor, "*size"]) -> Float32[Tensor, "*size"]:
    """Return a tensor in float32 with its values rounded to bfloat16."""
    return value.bfloat16().float()


def autocast_in_float32() -> torch.library.Library:
    """Let autocast on the CPU use `emulate_in_float32`, as long as the result is referenced."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        for name, operator in OPERATORS.items():
            library.impl(
                name,
                functools.partial(emulate_in_float32, operator),
                "AutocastCPU",
                allow_override=True,
            )
    return library


@functools.cache
def enable_emulation() -> torch.library.Library | None:
    """Call `autocast_in_float32` for the rest of this process, if the processor needs it."""
    return None if torch.ops.mkldnn._is_mkldnn_bf16_supported() else autocast_in_float32()
