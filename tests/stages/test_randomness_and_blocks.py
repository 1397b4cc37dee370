import itertools

import pytest
import torch
from conftest import (
    ARMS,
    SMALL_DATA,
    initial_weights,
    pretrain_arm,
    probe_arm,
    small_training,
    tiny_data,
)

from rarefeat.model.randomness import generator
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import regression_target
from rarefeat.stages.probe import probe
from rarefeat.stages.synthesise import synthesise
from rarefeat.training.loop import batches
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm

# Not in their order, on which nothing may depend.
BLOCK = [5, 4, 3]


@pytest.fixture(params=["direct", "reduced"])
def simulator(request, arm):
    if request.param == "reduced" and arm.arm == "pruned_weight":
        pytest.skip("single weights have no mask under the reduced simulator")
    return request.param


def train(arm, seeds, data=SMALL_DATA, study="blocks", sigma=0.1, simulator="direct", **changes):
    latents = synthesise(study, data, 0.5, seeds)
    return pretrain_arm(
        study, simulator, data, small_training(**changes), arm, sigma, seeds, latents["train"]
    )


def measure(arm, seeds, encoder, simulator, data=SMALL_DATA, **changes):
    latents = synthesise("blocks", data, 0.5, seeds)
    return probe_arm(
        "blocks", simulator, data, small_training(**changes), arm, 0.1, seeds, latents, encoder
    )


def of_replica(encoder, index):
    return tuple(part[index : index + 1].clone() for part in (encoder.weights, encoder.bias))


def rows_of(rows, seed):
    return repr([row for row in rows if row["seed"] == seed])


def test_generator_depends_on_its_three_arguments():
    draws = {}
    for key in itertools.product(("a", "b"), (0, 1, 10), ("train", "test")):
        draws[key] = tuple(torch.rand(4, generator=generator(*key)).tolist())
        assert draws[key] == tuple(torch.rand(4, generator=generator(*key)).tolist())
    assert len(set(draws.values())) == len(draws)


def test_generator_keeps_its_arguments_apart():
    """Study `a1` with seed 2 and study `a` with seed 12 are different streams."""
    assert generator("a1", 2, "train").initial_seed() != generator("a", 12, "train").initial_seed()
    assert generator("a", 1, "2train").initial_seed() != generator("a", 12, "train").initial_seed()


def test_batches_visit_each_pair_once_per_epoch():
    N, K = 12, 4
    steps = [next_batch.tolist() for next_batch in itertools.islice(batches("a", [1, 2], N, K), 6)]
    for replica in range(2):
        epochs = [
            [i for step in steps[first : first + 3] for i in step[replica]] for first in (0, 3)
        ]
        assert [sorted(epoch) for epoch in epochs] == [list(range(N))] * 2
        assert epochs[0] != epochs[1]
    assert [step[0] for step in steps] != [step[1] for step in steps]


def test_batches_leave_out_incomplete_batch():
    steps = torch.stack(list(itertools.islice(batches("a", [1], 11, 4), 40)))[:, 0]
    assert steps.shape == (40, 4)
    for epoch in steps.view(20, 8):
        assert len(set(epoch.tolist())) == 8
    assert set(steps.flatten().tolist()) == set(range(11))


def test_batches_and_weights_do_not_depend_on_block():
    block = list(itertools.islice(batches("a", BLOCK, 20, 4), 12))
    alone = list(itertools.islice(batches("a", [4], 20, 4), 12))
    assert all(torch.equal(several[1:2], one) for several, one in zip(block, alone, strict=True))
    for kind, d1 in itertools.product(("direct", "reduced"), (10, 21, 60)):
        data = SMALL_DATA.model_copy(update={"d1": d1})
        together = initial_weights("a", kind, data, small_training(), BLOCK)
        assert torch.equal(together[1:2], initial_weights("a", kind, data, small_training(), [4]))


def test_initial_weights_have_standard_deviation_sigma_0():
    data = SMALL_DATA.model_copy(update={"d1": 200})
    w = initial_weights("a", "direct", data, small_training(m=100, sigma_0=0.02), [1]).double()
    n = w.numel()
    assert abs(w.mean().item()) < 5 * 0.02 / n**0.5
    assert w.square().mean().item() / 0.02**2 == pytest.approx(1, abs=5 * (2 / n) ** 0.5)


@pytest.mark.parametrize("T", [1, 2, 9, 10, 250, 1000])
def test_recorded_steps_are_log_spaced(T):
    steps = log_spaced(T)
    assert steps == sorted(set(steps))
    assert {0, 1, T} | {10**k for k in range(4) if 10**k <= T} <= set(steps)
    assert max(steps) == T
    gaps = [after / before for before, after in itertools.pairwise(steps[1:]) if before >= 10]
    assert all(1.1 < gap < 1.5 for gap in gaps)


def test_history_holds_neurons_at_recorded_steps():
    """Its metrics are the trajectory's, its last entry the encoder's; it has every early step."""
    data, arm = tiny_data(d1=40), ARMS["pruned_neuron"]
    for simulator in ("direct", "reduced"):
        config = {"K": 6, "T": 12, "eta": 2.0, "simulator": simulator}
        plain, _ = train(arm, BLOCK, data, **config)
        kept, rows = train(arm, BLOCK, data, **config, history=True)
        assert plain.history.shape == (3, 0, 12, data.d + 2)
        assert kept.history.shape == (3, len(log_spaced(12)), 12, data.d + 2)
        assert torch.equal(plain.weights, kept.weights)
        projections, norms, bias = kept.history.split([data.d, 1, 1], dim=-1)
        space = make_simulator(simulator, "blocks", data.d, data.d1, 12, BLOCK)
        torch.testing.assert_close(projections[:, -1], kept.weights @ space.dictionary)
        torch.testing.assert_close(norms[:, -1, :, 0], kept.weights.norm(dim=-1))
        assert torch.equal(bias[:, -1, :, 0], kept.bias)
        ends = [kept.history[s, [kept.T1[s], kept.T2[s]]] for s in range(3)]
        assert torch.equal(kept.ends, torch.stack(ends))
        largest = (projections[..., -1:] / norms).abs().amax(2).squeeze(-1)
        recorded = [row["value"] for row in rows if row["metric"] == "max_alignment"]
        torch.testing.assert_close(largest.T.flatten(), torch.tensor(recorded))


def test_synthesise_does_not_depend_on_block():
    block, alone = (
        synthesise("blocks", SMALL_DATA, 0.5, BLOCK),
        synthesise("blocks", SMALL_DATA, 0.5, [4]),
    )
    assert block.keys() == alone.keys()
    for name in block:
        assert torch.equal(block[name][1:2], alone[name])


def trained_in_blocks(arm, block, seeds, data=SMALL_DATA, **changes):
    """The encoder of a block, after a comparison with some of its seeds trained alone."""
    encoder, trajectory = train(arm, block, data, **changes)
    for seed in seeds:
        index = block.index(seed)
        alone, rows = train(arm, [seed], data, **changes)
        for together, value in zip(encoder, alone, strict=True):
            assert torch.equal(together[index : index + 1], value)
        assert rows_of(trajectory, seed) == repr(rows)
    return encoder


def test_pretrain_does_not_depend_on_block(arm, simulator):
    encoder = trained_in_blocks(arm, BLOCK, BLOCK, simulator=simulator)
    assert not torch.equal(encoder.weights[0], encoder.weights[1])


@pytest.mark.parametrize("m", [1, 5, 30])
@pytest.mark.parametrize("d1", [9, 500])
@pytest.mark.parametrize("name", ["dense", "pruned_weight"])
def test_pretrain_does_not_depend_on_block_at_other_sizes(m, d1, name):
    """Matrix products choose kernels by size and by the alignment of a replica in memory."""
    data = SMALL_DATA.model_copy(update={"d1": d1})
    trained_in_blocks(ARMS[name], BLOCK, BLOCK, data, m=m, K=33, T=2)


@pytest.mark.parametrize("m", [1, 3, 8, 13, 17, 30, 40])
@pytest.mark.parametrize("name", ["dense", "pruned_neuron"])
def test_reduced_does_not_depend_on_block_at_any_size(m, name):
    """With no dimension in the complement, fewer than the weights span, more, and far more.

    Odd sizes leave the replicas of a block unaligned in memory.
    """
    block, changes = [9, *BLOCK, 21, 22, 23], {"simulator": "reduced", "m": m, "K": 33, "T": 3}
    for beyond in sorted({0, 1, max(m - 3, 0), m + 1, m + 12, 491}):
        data = SMALL_DATA.model_copy(update={"d1": SMALL_DATA.d + beyond})
        trained_in_blocks(ARMS[name], block, [BLOCK[0], 21], data, **changes)


@pytest.mark.parametrize("simulator", ["direct", "reduced"])
def test_arm_does_not_depend_on_other_arms(simulator):
    """A study may gain an arm and keep all its numbers, of trainings and of probes."""
    names = ["oracle_all", "dense", "pruned_neuron"] + ["pruned_weight"] * (simulator == "direct")
    together = [*(ARMS[name] for name in names), Arm(arm="pruned_neuron", alpha=0.5, onset=4)]
    latents = synthesise("blocks", SMALL_DATA, 0.5, BLOCK)
    point = "blocks", simulator, SMALL_DATA, small_training()
    encoders, trajectory = pretrain(*point, together, 0.1, BLOCK, latents["train"])
    every_arm = [*together, Arm(arm="initial"), Arm(arm="ideal")]
    networks = {
        name: (encoder.weights, encoder.bias, encoder.loss) for name, encoder in encoders.items()
    }
    rows = probe(*point, every_arm, 0.1, BLOCK, latents, networks)
    # Without an aligned neuron yet, the oracle prunes nothing.
    assert (
        len({encoder.weights.numpy().tobytes() for encoder in encoders.values()})
        >= len(together) - 1
    )
    for arm in every_arm:

        def of_arm(rows, arm=arm):
            return repr([row for row in rows if row.items() >= arm.model_dump().items()])

        if arm.trained:
            alone, alone_trajectory = pretrain_arm(*point, arm, 0.1, BLOCK, latents["train"])
            assert all(
                torch.equal(*parts) for parts in zip(alone, encoders[arm.label], strict=True)
            )
            assert of_arm(trajectory) == repr(alone_trajectory)
        assert of_arm(rows) == repr(probe(*point, [arm], 0.1, BLOCK, latents, networks))


def test_arms_share_draws_and_learn_differently():
    """Common random numbers: the loss of step 0, unmasked, is the same in every arm."""
    start, end = set(), set()
    for arm in ARMS.values():
        encoder, rows = train(arm, [4], tiny_data(N=40), K=16, m=8, sigma_0=0.5)
        start.add(
            next(row["value"] for row in rows if row["step"] == 0 and row["metric"] == "loss")
        )
        end.add(encoder.weights.numpy().tobytes())
    assert len(start) == 1
    assert len(end) == len(ARMS)


def probed_in_blocks(arm, encoder, simulator, data=SMALL_DATA, **changes):
    """The rows of a block, after a comparison with each of its seeds probed alone."""
    both = (encoder.weights, encoder.bias) if encoder else None
    rows = measure(arm, BLOCK, both, simulator, data, **changes)
    assert [row["seed"] for row in rows] == BLOCK
    for index, seed in enumerate(BLOCK):
        own = of_replica(encoder, index) if encoder else None
        assert measure(arm, [seed], own, simulator, data, **changes) == [rows[index]]
    return rows


def test_probe_does_not_depend_on_block(arm, simulator):
    rows = probed_in_blocks(arm, train(arm, BLOCK, simulator=simulator)[0], simulator)
    assert rows[0] != {**rows[1], "seed": BLOCK[0]}


@pytest.mark.parametrize(("m", "d1"), [(1, 60), (5, 12), (7, 9), (13, 23), (17, 500)])
@pytest.mark.parametrize("simulator", ["direct", "reduced"])
def test_probe_does_not_depend_on_block_at_other_sizes(m, d1, simulator):
    data, arm = SMALL_DATA.model_copy(update={"d1": d1}), ARMS["dense"]
    encoder, _ = train(arm, BLOCK, data, simulator=simulator, m=m, T=2)
    probed_in_blocks(arm, encoder, simulator, data, m=m)


@pytest.mark.parametrize("simulator", ["direct", "reduced"])
@pytest.mark.parametrize("name", ["initial", "ideal"])
def test_probe_of_untrained_arm_does_not_depend_on_block(name, simulator):
    """Replicas have noise of their own: the errors of one test set are independent."""
    rows = probed_in_blocks(Arm(arm=name), None, simulator)
    assert len({row["cosine_similarity_balanced"] for row in rows}) == len(BLOCK)


def test_regression_target_is_signs_keyed_by_seed():
    signs = torch.stack([regression_target("a", seed, 50) for seed in range(20)])
    assert torch.equal(signs.abs(), torch.ones(20, 50))
    assert torch.equal(signs[3], regression_target("a", 3, 50))
    assert len(torch.unique(signs, dim=0)) == 20
    assert abs(signs.sum().item()) < 5 * 1000**0.5


@pytest.mark.parametrize("kind", ["oversampled", "reweighted"])
def test_balanced_training_does_not_depend_on_block(kind):
    data = SMALL_DATA.model_copy(update={"balance": kind})
    encoder = trained_in_blocks(ARMS["dense"], BLOCK, BLOCK, data)
    assert not torch.equal(encoder.weights, train(ARMS["dense"], BLOCK)[0].weights)


def test_oversampled_pairs_are_pairs_of_the_sample():
    data = tiny_data(N=2000, C=1.0)
    plain, again = (
        synthesise("blocks", data.model_copy(update={"balance": kind}), 0.2, [3])
        for kind in ("", "oversampled")
    )
    known = {pair.numpy().tobytes() for pair in plain["train"][0]}
    assert {pair.numpy().tobytes() for pair in again["train"][0]} < known
    rates = [(tensors["train"][0, :, 0] != 0).any(1).double().mean(0) for tensors in (plain, again)]
    assert rates[0][-1] < 0.5 * rates[0][:-1].mean()
    assert rates[1][-1].item() == pytest.approx(rates[1][:-1].mean().item(), rel=0.2)
    for name in ("probe_matched", "test_balanced"):
        assert torch.equal(plain[name], again[name])
