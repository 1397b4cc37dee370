"""Products in bfloat16 by float32: the values of autocast's own, and its gradients'."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from rarefeat.images.bfloat16 import OPERATORS, autocast_in_float32, round_to_bfloat16

HALF_A_PLACE = 2**-8
"""What rounding to bfloat16 changes at the most, in parts of the value."""

CASES = [
    ("conv2d", (4, 3, 9, 9), (5, 3, 3, 3), (2, 1)),
    ("conv2d", (4, 3, 9, 9), (5, 3, 1, 1), (2,)),
    ("linear", (6, 20), (7, 20), ()),
]


def results(
    name: str,
    precision: torch.dtype | None,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    more: tuple,
):
    """Output and gradients of the operator, under autocast or, without a precision, as it is."""
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    with torch.autocast("cpu", dtype=precision, enabled=precision is not None):
        output = OPERATORS[name](*leaves, *more)
    output.backward(output.detach().sign())
    return output.detach(), *(leaf.grad for leaf in leaves)


@given(st.sampled_from(CASES), st.integers(0, 1000))
def test_emulation_rounds_exact_products_of_rounded_operands(case, seed):
    draws = torch.Generator().manual_seed(seed)
    name, *shapes, more = case
    x, weight = (torch.randn(shape, generator=draws) for shape in shapes)
    bias = torch.randn(len(weight), generator=draws)
    library = autocast_in_float32()
    try:
        output, *gradients = results(name, torch.bfloat16, x, weight, bias, more)
    finally:
        library._destroy()
    exact, *exact_gradients = results(
        name, None, *(round_to_bfloat16(value).double() for value in (x, weight, bias)), more
    )
    assert output.dtype == torch.bfloat16
    # Of a sum that nearly cancels, float32 keeps less than bfloat16 has places.
    torch.testing.assert_close(output.double(), exact, rtol=HALF_A_PLACE, atol=1e-5)
    for found, wanted in zip(gradients, exact_gradients, strict=True):
        assert found.dtype == torch.float32
        assert torch.equal(found, round_to_bfloat16(found))
        # The exact gradient is of the exact sign of the output, which is that of the rounded one.
        torch.testing.assert_close(found.double(), wanted, rtol=HALF_A_PLACE, atol=1e-5)


def test_emulation_changes_autocast_alone():
    x, weight = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)
    before = functional.conv2d(x, weight)
    library = autocast_in_float32()
    try:
        assert torch.equal(functional.conv2d(x, weight), before)
    finally:
        library._destroy()


def test_gradient_of_narrow_shortcut_stays_within_memory():
    """Run in a process of its own, since a write outside ends the process, later and elsewhere."""
    code = (
        "import torch\n"
        "from rarefeat.images.bfloat16 import autocast_in_float32\n"
        "library = autocast_in_float32()\n"
        "torch.set_num_threads(1)\n"
        "for channels in [2, 4, 6] * 100:\n"
        "    x, weight = torch.randn(8, channels, 8, 8), torch.randn(8, channels, 1, 1)\n"
        "    x, weight = (\n"
        "        value.to(memory_format=torch.channels_last).requires_grad_()\n"
        "        for value in (x, weight)\n"
        "    )\n"
        "    with torch.autocast('cpu', torch.bfloat16):\n"
        "        output = torch.nn.functional.conv2d(x, weight, stride=2)\n"
        "    output.backward(torch.ones_like(output))\n"
        "    others = [torch.randn(size) for size in range(1, 51)]\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


@pytest.mark.parametrize("supported", [True, False])
def test_enable_emulation_only_without_instructions(supported):
    code = (
        "import torch\n"
        f"torch.ops.mkldnn._is_mkldnn_bf16_supported = lambda: {supported}\n"
        "from rarefeat.workflow.run.cli_helpers import run_main\n"
        "from rarefeat.images.bfloat16 import enable_emulation\n"
        "run_main(lambda: print(enable_emulation() is not None))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(not supported)
    assert not done.stderr
