"""The native training step, held to the torch step."""

import fcntl
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from conftest import seeded, tiny_data, tiny_training
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llvmlite.binding import get_host_cpu_name

from rarefeat.errors import RarefeatError
from rarefeat.model.simulators import ReducedSimulator, chi_variables
from rarefeat.stages.synthesise import synthesise
from rarefeat.training import native_cache
from rarefeat.training.native_numerics import draw_streams
from rarefeat.training.native_step import NativeSimulator
from rarefeat.training.pretraining import PruningArm, pretrain
from rarefeat.training.step import Kernel, apply_mask, apply_step, initial_state, make_kernel
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.study import serves_native_step

ARMS = [
    Arm(arm="dense"),
    Arm(arm="pruned_neuron", alpha=0.25),
    Arm(arm="pruned_neuron", alpha=0.25, onset=7, pruned_update="straight_through"),
    Arm(arm="oracle_all"),
    Arm(arm="oracle_gated"),
]
DATA = tiny_data(d=9, d1=80, L=4, C=2.0, N=256)


def make_both_kernels(simulator: ReducedSimulator, scale: float = 1.0) -> list[Kernel]:
    draw = simulator.sample_tokens
    return [make_kernel(name, simulator, draw, scale) for name in ("torch", "native")]


def relative_difference(x: torch.Tensor, y: torch.Tensor) -> float:
    difference = (x - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1).clamp_min(1e-30)
    return difference.max().item()


@pytest.mark.parametrize("count", [16, 17, 31, 100, 623, 624, 625, 1000, 45056])
def test_draw_gives_the_numbers_of_torch(count):
    generator, other = seeded(3), seeded(3)
    for _ in range(3):
        x, y = torch.empty(count).normal_(generator=generator), torch.empty(1, count)
        draw_streams([other], y, torch.empty(0), torch.empty(1, 0))
        torch.testing.assert_close(x, y[0], rtol=1e-6, atol=5e-6)
        assert torch.equal(generator.get_state(), other.get_state())


@pytest.mark.parametrize("dof", [24, 100, 460])
def test_draw_gives_the_chi_variables_of_torch(dof):
    generator, other, done = seeded(3), seeded(3), 0
    shape = ((dof - torch.arange(4)) / 2).repeat(64)
    for _ in range(200):
        torch.empty(16).normal_(generator=generator)
        x, y = chi_variables(64, 4, dof, [generator]), torch.empty(1, 64, 4)
        if draw_streams([other], torch.empty(1, 16), shape, y)[0]:
            torch.testing.assert_close(x, y, rtol=1e-6, atol=0)
            done += 1
        else:
            assert torch.equal(x, chi_variables(64, 4, dof, [other]))
        assert torch.equal(generator.get_state(), other.get_state())
    assert done > 180


class Case(NamedTuple):
    d: int
    L: int
    m: int
    K: int
    n: int
    """Dimensions of a token beyond the features."""
    views: int
    gradient: str
    share: float
    """Masked share of the neurons."""
    bias: float
    """Largest bias; below 0 both halves of BReLU are active."""
    tau: float
    scale: float
    """Scale of the attention's logits."""
    lambdas: bool
    """Whether each replica has its own."""
    seed: int


class Config(NamedTuple):
    K: int
    tau: float
    eta: float
    lambda_: float | torch.Tensor


def take_step(kernel: Kernel, case: Case) -> tuple:
    S, g = 3, seeded(case.seed)
    simulator, streams = kernel.simulator, [seeded(case.seed + i) for i in range(1, S + 1)]
    latents = torch.randint(-1, 2, (S, case.views * case.K, case.L, case.d), generator=g).float()
    state = initial_state(simulator.initial_weights(1 / (case.d + case.n) ** 0.5, streams))
    state = state._replace(bias=case.bias * torch.rand(S, case.m, generator=g))
    attended, complement_draw = (
        kernel.attended_tokens(latents, 0.1, streams),
        simulator.draw_complement(streams),
    )
    lambda_ = torch.rand(S, 1, 1, generator=g).double() if case.lambdas else 0.1
    config = Config(case.K, case.tau, 0.03, lambda_)
    dense = kernel.forward(attended, state)
    mask = torch.rand(S, case.m, generator=g) < case.share
    masked = apply_mask(dense, mask, attended, state, case.gradient) if case.share else dense
    gradient = kernel.loss_gradient(dense, masked, state.bias, config, case.gradient)
    next_state = apply_step(
        kernel.simulator,
        state,
        gradient,
        attended,
        config,
        "eq34",
        lambda m: m.bias,
        0,
        complement_draw,
    )
    return next_state, attended, gradient.bias(), dense


cases = st.builds(
    Case,
    d=st.integers(3, 9),
    L=st.integers(1, 6),
    m=st.integers(1, 20),
    K=st.integers(24, 40),
    n=st.integers(0, 90),
    views=st.sampled_from([2, 3]),
    gradient=st.sampled_from(["unmasked", "masked_keys", "straight_through"]),
    share=st.sampled_from([0.0, 0.3]),
    bias=st.sampled_from([0.0, 0.3, -0.3]),
    tau=st.sampled_from([0.5, 1.0, 3.0]),
    scale=st.sampled_from([1.0, 0.1]),
    lambdas=st.booleans(),
    seed=st.integers(0, 1000),
)


@given(case=cases)
@settings(max_examples=150)
@example(case=Case(9, 4, 30, 128, 491, 2, "unmasked", 0.1, 0.3, 1.0, 1.0, False, 1))
@example(case=Case(3, 1, 8, 32, 3, 3, "straight_through", 0.3, -0.3, 0.5, 0.1, True, 2))
def test_step_agrees_with_torch(case):
    simulator = ReducedSimulator(case.d, case.d + case.n, case.m, 3)
    (torch_state, *torch_rest), (state, *rest) = (
        take_step(kernel, case) for kernel in make_both_kernels(simulator, case.scale)
    )
    assert relative_difference(state.weights, torch_state.weights) < 1e-6
    assert torch.equal(state.T1, torch_state.T1)
    for x, y in zip((*rest[:2], *rest[2]), (*torch_rest[:2], *torch_rest[2]), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


def train(kernel: str, arms=ARMS, seeds=(1, 2, 3), **changes):
    bias = {"T1": "eq34", "share": 0.2} | changes.pop("bias", {})
    config = {"m": 12, "K": 32, "tau": 1.0, "T": 20, "sigma_0": 0.1, "history": True} | changes
    latents = synthesise("native", DATA, 0.5, list(seeds))["train"]
    config = tiny_training(bias=bias, kernel=kernel, **config)
    return pretrain("native", "reduced", DATA, config, arms, 0.1, list(seeds), latents)


@pytest.mark.parametrize("rule", ["follow", "grow", "gradient"])
def test_twenty_steps_agree_with_torch(rule):
    # Learned biases of neurons pruned from the start on double any difference at each step.
    arms = [arm for arm in ARMS if rule != "gradient" or arm is not ARMS[1]]
    (expected, _), (encoders, _) = (
        train(kernel, arms, bias={"rule": rule}) for kernel in ("torch", "native")
    )
    for label, encoder in encoders.items():
        assert relative_difference(encoder.weights, expected[label].weights) < 1e-5
        torch.testing.assert_close(encoder.bias, expected[label].bias, rtol=1e-4, atol=1e-5)


def test_masks_and_T1_agree_in_a_hundred_replicas(monkeypatch):
    masks, change = [], PruningArm.change

    def recorded_change(*args):
        masks.append((made := change(*args)).mask)
        return made

    monkeypatch.setattr(PruningArm, "change", recorded_change)
    results = [train(kernel, ARMS[1:2], range(100), T=60)[0] for kernel in ("torch", "native")]
    (expected,), (encoder,) = (encoders.values() for encoders in results)
    assert (encoder.T1 > 0).sum() > 50
    assert torch.equal(encoder.T1, expected.T1)
    torch_masks, native_masks = torch.stack(masks).chunk(2)
    assert len(native_masks) == 61
    assert torch.equal(native_masks, torch_masks)


def test_a_singular_gram_matrix_is_factored_as_in_torch():
    """Dead neurons have rows of zeros, and weights that are not finite are refused."""
    simulator = ReducedSimulator(4, 60, 6, 2)
    weights = simulator.initial_weights(1.0, [seeded(1), seeded(2)])
    c, attended = (
        torch.randn(2, 8, 3, 6, generator=seeded(3)),
        torch.randn(2, 8, 3, simulator.p + 3),
    )
    weights[:, 2:4], c[..., 2:4] = 0, 0
    arguments = attended, torch.tensor(0.9), simulator.draw_complement([seeded(4), seeded(5)]), -0.1
    kernels = make_both_kernels(simulator)
    expected, native_weights = (
        kernel.simulator.descend(weights, c, *arguments) for kernel in kernels
    )
    assert relative_difference(native_weights, expected) < 1e-6
    assert not native_weights[:, 2:4].any()
    for kernel in kernels:
        with pytest.raises(RarefeatError, match="training diverged"):
            kernel.simulator.descend(weights * torch.nan, c, *arguments)


def test_cache_folder_is_temporary_for_read_only_environments(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(native_cache.sys, "prefix", str(tmp_path / "absent"))
    assert native_cache.cache_folder().startswith(str(tmp_path / "rarefeat-native-"))
    monkeypatch.setattr(native_cache.sys, "prefix", str(tmp_path))
    folder = native_cache.cache_folder()
    assert folder == native_cache.cache_folder()
    monkeypatch.setattr(native_cache, "JITTERS", (1e-3,))
    assert native_cache.cache_folder() != folder


def test_one_process_of_a_machine_compiles(tmp_path, monkeypatch):
    monkeypatch.setattr(native_cache, "USER_FOLDER", str(tmp_path))
    lock_file = Path(native_cache.cache_folder(), f"compiled-{get_host_cpu_name()}.lock")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    code = "from rarefeat.training.native_cache import compile_once as once\nwith once(): print(1)"
    start = partial(
        subprocess.Popen, [sys.executable, "-c", code], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = start()
        assert "native step: compiling, once for this machine" in waiting.stderr.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
    assert waiting.communicate() == ("1\n", "")
    assert start().communicate() == ("1\n", "")


@pytest.mark.parametrize("m", [4, 12])
def test_kernel_is_native_where_the_config_says_so(m):
    for d1 in range(10, 40):
        simulator = ReducedSimulator(4, d1, m, 1)
        kernel = make_kernel("auto", simulator, simulator.sample_tokens)
        is_native = isinstance(kernel.simulator, NativeSimulator)
        assert is_native == serves_native_step("reduced", "cpu", tiny_data(d1=d1), m)
