import contextlib
import itertools

import pytest
import torch
from conftest import ARMS, tiny_data

from rarefeat.config import Data, Training
from rarefeat.core.randomness import generator
from rarefeat.pretrain import batches, initial_weights, log_spaced, pretrain
from rarefeat.probe import probe, target
from rarefeat.synthesise import synthesise

BLOCK = [3, 4, 5]
DATA = Data(d=9, d1=60, L=4, C=2.0, minority=[1.0], N=100, probe_pairs=50, test_pairs=100, test_seed=7)
# Weights of two runs with different numbers of threads, relative to the largest weight.
THREADS_TOLERANCE = 1e-4


def training(**changes):
    bias = {"rule": "follow", "share": 0.2, "cap": 2.2, "T1": 3}
    base = {"m": 12, "K": 32, "tau": 1.0, "eta": 0.3, "lambda": 0.05, "sigma_0": 0.1, "T": 8}
    return Training(**base | changes, bias=bias)


@contextlib.contextmanager
def threads(n):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(arm, seeds, data=DATA, study="blocks", sigma=0.1, **changes):
    latents = synthesise(study, data, 0.5, seeds)
    return pretrain(study, data, training(**changes), arm, sigma, seeds, latents["dictionary"], latents["train"])


def measure(arm, seeds, weights, bias):
    latents = synthesise("blocks", DATA, 0.5, seeds)
    return probe("blocks", DATA, training(), arm, 0.1, seeds, latents, weights, bias)


# Generators


def test_generator_is_a_function_of_its_three_arguments():
    draws = {}
    for key in itertools.product(("a", "b"), (0, 1, 10), ("train", "test")):
        draws[key] = tuple(torch.rand(4, generator=generator(*key)).tolist())
        assert draws[key] == tuple(torch.rand(4, generator=generator(*key)).tolist())
    assert len(set(draws.values())) == len(draws)


def test_generator_keeps_its_arguments_apart():
    """Study `a1` with seed 2 and study `a` with seed 12 are different streams."""
    assert generator("a1", 2, "train").initial_seed() != generator("a", 12, "train").initial_seed()
    assert generator("a", 1, "2train").initial_seed() != generator("a", 12, "train").initial_seed()


def test_generator_leaves_the_global_state_alone():
    before = torch.get_rng_state()
    torch.rand(3, generator=generator("a", 1, "b"))
    assert torch.equal(torch.get_rng_state(), before)


def test_generators_of_neighbouring_seeds_are_uncorrelated():
    n, streams = 20_000, 20
    draws = torch.stack(
        [torch.randn(n, generator=generator("a", seed, "noise"), dtype=torch.float64) for seed in range(streams)]
    )
    off_diagonal = torch.corrcoef(draws) - torch.eye(streams)
    assert off_diagonal.abs().max() < 5.5 / n**0.5


# Draws of pretrain


def test_every_epoch_visits_each_pair_once_in_a_new_order():
    N, K = 12, 4
    steps = [next_batch.tolist() for next_batch in itertools.islice(batches("a", [1, 2], N, K), 6)]
    for replica in range(2):
        epochs = [[i for step in steps[first : first + 3] for i in step[replica]] for first in (0, 3)]
        assert [sorted(epoch) for epoch in epochs] == [list(range(N))] * 2
        assert epochs[0] != epochs[1]
    assert [step[0] for step in steps] != [step[1] for step in steps]


def test_a_last_batch_that_is_not_full_is_left_out():
    steps = torch.stack(list(itertools.islice(batches("a", [1], 11, 4), 40)))[:, 0]
    assert steps.shape == (40, 4)
    for epoch in steps.view(20, 8):
        assert len(set(epoch.tolist())) == 8
    assert set(steps.flatten().tolist()) == set(range(11))


def test_batches_and_initial_weights_do_not_depend_on_the_block():
    block = list(itertools.islice(batches("a", BLOCK, 20, 4), 12))
    alone = list(itertools.islice(batches("a", [4], 20, 4), 12))
    assert all(torch.equal(several[1:2], one) for several, one in zip(block, alone, strict=True))
    assert torch.equal(initial_weights("a", training(), 7, BLOCK)[1:2], initial_weights("a", training(), 7, [4]))


def test_initial_weights_have_standard_deviation_sigma_0():
    w = initial_weights("a", training(m=100, sigma_0=0.02), 200, [1]).double()
    n = w.numel()
    assert abs(w.mean().item()) < 5 * 0.02 / n**0.5
    assert w.square().mean().item() / 0.02**2 == pytest.approx(1, abs=5 * (2 / n) ** 0.5)


@pytest.mark.parametrize("T", [1, 2, 9, 10, 250, 1000])
def test_recorded_steps_are_zero_and_t_and_log_spaced_between(T):
    steps = log_spaced(T)
    assert steps == sorted(set(steps))
    assert {0, 1, T} | {10**k for k in range(4) if 10**k <= T} <= set(steps)
    assert max(steps) == T
    gaps = [after / before for before, after in itertools.pairwise(steps[1:]) if before >= 10]
    assert all(1.1 < gap < 1.5 for gap in gaps)


@pytest.mark.parametrize("T", [1, 9, 12])
def test_trajectory_ends_at_t(T):
    data = tiny_data()
    _, rows = train(ARMS["dense"], [4], data, K=6, T=T)
    steps = sorted({row["step"] for row in rows})
    assert steps[0] == 0
    assert steps[-1] == T


# Blocks


def test_synthesise_does_not_depend_on_the_block():
    block, alone = synthesise("blocks", DATA, 0.5, BLOCK), synthesise("blocks", DATA, 0.5, [4])
    assert block.keys() == alone.keys()
    for name in block:
        one = block[name] if name.startswith("test") else block[name][1:2]
        assert torch.equal(one, alone[name])


def test_pretrain_does_not_depend_on_the_block(arm):
    block, trajectory = train(arm, BLOCK)
    for index, seed in enumerate(BLOCK):
        alone, rows = train(arm, [seed])
        for name, value in alone.items():
            assert torch.equal(block[name][index : index + 1], value)
        assert repr([row for row in trajectory if row["seed"] == seed]) == repr(rows)
    assert not torch.equal(block["weights"][0], block["weights"][1])


@pytest.mark.parametrize("m", [1, 5, 30])
@pytest.mark.parametrize("d1", [9, 100, 500])
@pytest.mark.parametrize("name", ["dense", "pruned_weight"])
def test_pretrain_does_not_depend_on_the_block_at_other_sizes(m, d1, name):
    """Matrix products choose their kernels by size, and by how a replica's part of a block is aligned in memory."""
    data = DATA.model_copy(update={"d1": d1})
    block, trajectory = train(ARMS[name], BLOCK, data, m=m, K=33, T=2)
    for index, seed in enumerate(BLOCK):
        alone, rows = train(ARMS[name], [seed], data, m=m, K=33, T=2)
        assert torch.equal(block["weights"][index : index + 1], alone["weights"])
        assert repr([row for row in trajectory if row["seed"] == seed]) == repr(rows)


def test_pretrain_does_not_depend_on_the_order_of_the_seeds(arm):
    forward, _ = train(arm, BLOCK)
    backward, _ = train(arm, BLOCK[::-1])
    assert torch.equal(forward["weights"], backward["weights"].flip(0))


def test_two_runs_are_equal(arm):
    (first, rows), (second, again) = train(arm, BLOCK), train(arm, BLOCK)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert repr(rows) == repr(again)


def test_arms_share_their_draws_and_differ_in_what_they_learn():
    """Common random numbers: the loss of step 0, unmasked, is the same in every arm."""
    start, end = set(), set()
    for arm in ARMS.values():
        encoder, rows = train(arm, [4], tiny_data(N=40), K=16, m=8, sigma_0=0.5)
        start.add(next(row["value"] for row in rows if row["step"] == 0 and row["metric"] == "loss"))
        end.add(encoder["weights"].numpy().tobytes())
    assert len(start) == 1
    assert len(end) == len(ARMS)


def test_probe_does_not_depend_on_the_block(arm):
    encoder, _ = train(arm, BLOCK)
    weights, bias = encoder["weights"], encoder["bias"]
    rows = measure(arm, BLOCK, weights, bias)
    assert [row["seed"] for row in rows] == BLOCK
    for index, seed in enumerate(BLOCK):
        one = slice(index, index + 1)
        assert measure(arm, [seed], weights[one], bias[one]) == [rows[index]]
    assert measure(arm, BLOCK, weights, bias) == rows
    assert rows[0] != {**rows[1], "seed": BLOCK[0]}


def test_target_of_the_regression_is_signs_that_depend_on_the_seed_alone():
    signs = torch.stack([target("a", seed, 50) for seed in range(20)])
    assert torch.equal(signs.abs(), torch.ones(20, 50))
    assert torch.equal(signs[3], target("a", 3, 50))
    assert len(torch.unique(signs, dim=0)) == 20
    assert abs(signs.sum().item()) < 5 * 1000**0.5


@pytest.mark.parametrize("name", ["dense", "pruned_neuron", "pruned_weight"])
def test_more_threads_agree_to_a_stated_tolerance(name):
    data = DATA.model_copy(update={"d1": 500})
    one, _ = train(ARMS[name], BLOCK, data, T=10)
    with threads(2):
        two, _ = train(ARMS[name], BLOCK, data, T=10)
    for part in ("weights", "bias"):
        assert (one[part] - two[part]).abs().max() <= THREADS_TOLERANCE * one[part].abs().max()
    assert torch.equal(one["T1"], two["T1"])


def test_a_small_change_of_the_noise_or_the_rate_is_far_beyond_that_tolerance():
    """What the tolerance must not hide."""
    one, _ = train(ARMS["dense"], [4], T=10)
    for changes in ({"sigma": 0.11}, {"eta": 0.303}):
        other, _ = train(ARMS["dense"], [4], **{"T": 10} | changes)
        assert (one["weights"] - other["weights"]).abs().max() > 10 * THREADS_TOLERANCE * one["weights"].abs().max()
