"""The reduced simulator has the distribution of the direct one: of one step, and of trainings."""

import functools
import math

import numpy as np
import pytest
import torch
from conftest import (
    ARMS,
    dictionaries,
    initial_weights,
    pretrain_arm,
    probe_arm,
    seeded,
    tiny_data,
    tiny_training,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi, kstest, norm, ttest_ind
from simulator_agreement import (
    CASES,
    KINDS,
    LEVEL,
    MISTAKES,
    REPLICAS,
    STANDARD,
    Case,
    DecayOfFeaturesAlone,
    GivenTokens,
    NothingBeyond,
    Sample,
    detections,
    entries,
    lift,
    one_step,
    p_value,
    sample,
    sample_given_tokens,
    state,
)

import rarefeat.model.simulators as simulators
from rarefeat.model.bias import follow
from rarefeat.model.divergence import diverged
from rarefeat.model.randomness import generator
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.simulators import (
    DirectSimulator,
    ReducedSimulator,
    bartlett_factor,
    make_simulator,
    robust_cholesky,
)
from rarefeat.stages.probe import probe
from rarefeat.stages.synthesise import synthesise
from rarefeat.stages.tables import ARM
from rarefeat.statistics import holm
from rarefeat.training.loop import batches
from rarefeat.training.native_numerics import robust_factor
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm

# Single precision, relative to the size of what is compared.
TOLERANCE = 1e-5
# Family-wise level of all comparisons of a test: the probability of a false alarm.
FAMILY = 1e-3


def gram(weights, d):
    """W (I - M M^T) W^T of the reduced simulator's weights, float64."""
    complement = weights[..., d:].double()
    return complement @ complement.mT


# The step that is compared is that of pretrain


@pytest.mark.parametrize("kind", ["direct", "reduced"])
@pytest.mark.parametrize("name", [name for name in ARMS if "weight" not in name])
def test_one_step_equals_pretrain_byte_for_byte(name, kind):
    """`one_step` of these tests is a step of `pretrain`: two steps, the second with a bias."""
    arm, data, seed, study = ARMS[name], tiny_data(d1=40), 5, "one step"
    training = tiny_training(T=2, bias={"share": 0.5, "T1": 1}, kernel="torch")
    latents = synthesise(study, data, 0.5, [seed])["train"]
    case = Case(
        data.d, training.m, data.L, training.K, data.d1, 0.2, arm, tau=0.7, eta=0.3, lambda_=0.05
    )
    simulator = make_simulator(kind, study, data.d, data.d1, training.m, [seed])
    weights, bias = (
        initial_weights(study, kind, data, training, [seed]),
        torch.zeros(1, training.m),
    )
    streams = [[generator(study, seed, purpose)] for purpose in ("noise", "complement")]
    draws = batches(study, [seed], data.N, training.K)
    for _ in range(2):
        batch = latents[:, next(draws)[0]].transpose(1, 2).flatten(1, 2).float()
        weights = one_step(simulator, weights, bias, batch, case, *streams).weights
        bias = follow(weights.norm(dim=-1), data.d, 0.5)
    encoder, _ = pretrain_arm(study, kind, data, training, arm, 0.2, [seed], latents)
    assert torch.equal(encoder.weights, weights)
    assert torch.equal(encoder.bias, bias)
    assert (bias > 0).all()


# Parts


@pytest.mark.parametrize(
    ("d", "m", "d1"), [(4, 6, 40), (9, 5, 500), (4, 6, 12), (4, 6, 9), (3, 2, 3), (1, 1, 30)]
)
def test_lift_preserves_features_and_gram_matrix(d, m, d1):
    simulator = ReducedSimulator(d, d1, m, 2)
    weights = simulator.initial_weights(0.7, [seeded(0), seeded(1)])
    in_full, M = lift(weights, d, d1, [seeded(2), seeded(3)])
    assert in_full.shape == (2, m, d1)
    assert M.shape == (2, d1, d)
    torch.testing.assert_close(M.mT @ M, torch.eye(d).expand(2, d, d), atol=TOLERANCE, rtol=0)
    scale = weights.norm(dim=-1).max().item() ** 2
    torch.testing.assert_close(in_full @ M, weights[..., :d], atol=TOLERANCE * scale**0.5, rtol=0)
    torch.testing.assert_close(
        in_full @ in_full.mT, weights @ weights.mT, atol=TOLERANCE * scale, rtol=0
    )
    assert not torch.allclose(M[0], M[1])


@given(
    st.integers(1, 12),
    st.integers(0, 12),
    st.lists(st.floats(-12, 6), min_size=12, max_size=12),
    st.integers(0, 2**31),
    st.sets(st.integers(0, 11)),
)
def test_robust_cholesky_of_any_semi_definite_matrix(m, rank, exponents, seed, dead):
    """For any rank, rows of any scale and rows of zeros: exact up to the relative jitter."""
    rows = torch.randn(m, rank, generator=seeded(seed), dtype=torch.float64)
    rows *= 10.0 ** torch.tensor(exponents[:m], dtype=torch.float64)[:, None]
    rows[[i for i in dead if i < m]] = 0
    target = rows @ rows.T
    F = robust_cholesky(torch.stack([target, torch.eye(m, dtype=torch.float64)]))
    assert torch.equal(F, F.tril())
    scale = target.diagonal().sqrt()
    assert ((F[0] @ F[0].T - target).abs() <= 1e-4 * scale[:, None] * scale).all()
    assert not F[0, scale == 0].any()
    torch.testing.assert_close(F[1], torch.eye(m, dtype=torch.float64))


@pytest.mark.parametrize("exponent", [-17, -19, -21, -22])
def test_row_whose_square_float32_has_lost_spoils_no_other(exponent):
    rows = torch.randn(512, 3, generator=seeded(0)) * torch.tensor([1.0, 10.0**exponent, 1e-3])
    rows[:, 1] = rows[:, 0] * 10.0**exponent
    gram, native = (rows.T @ rows).double(), np.zeros((3, 3))
    F = robust_cholesky(gram[None])[0]
    assert robust_factor(gram.numpy(), native)
    for factor in (F, torch.from_numpy(native)):
        torch.testing.assert_close((factor @ factor.T)[::2, ::2], gram[::2, ::2], rtol=1e-4, atol=0)
        assert factor[1].norm() <= 100 * 10.0**exponent


@pytest.mark.parametrize("simulator", ["direct", "reduced"])
def test_diverged_training_is_finite_with_infinite_loss(simulator):
    data, training = (
        tiny_data(d1=60),
        tiny_training(eta=1e4, sigma_0=1.0, T=60, history=True, **{"lambda": 0}),
    )
    latents = synthesise("diverge", data, 0.5, [1, 2])["train"]
    encoder, trajectory = pretrain_arm(
        "diverge", simulator, data, training, ARMS["dense"], 0.1, [1, 2], latents
    )
    assert diverged(encoder.loss, training.K, encoder.weights).all()
    assert encoder.weights.isfinite().all()
    assert encoder.history.isfinite().all()
    assert all(math.isfinite(row["value"]) for row in trajectory)
    assert encoder.weights.norm(dim=-1).max() > 1e6


@pytest.mark.parametrize("rule", ["follow", "grow", "gradient"])
@pytest.mark.parametrize(
    ("simulator", "eta"), [("direct", 1e15), ("direct", 1e30), ("reduced", 1e15)]
)
def test_replica_frozen_at_first_step_has_diverged(simulator, eta, rule):
    steps = {"eta": eta, "sigma_0": 0.01, "T": 5, "bias": {"rule": rule}, "lambda": 0}
    data, training, arms = tiny_data(d1=60), tiny_training(**steps), [Arm(arm="dense")]
    latents = synthesise("diverge", data, 0.5, [1, 2])
    at = "diverge", simulator, data, training
    encoders, trajectory = pretrain(*at, arms, 0.1, [1, 2], latents["train"])
    encoder = encoders["dense"]
    torch.testing.assert_close(encoder.weights, initial_weights(*at, [1, 2]))
    losses = [row["value"] for row in trajectory if row["metric"] == "loss"]
    assert losses[-1] < 2 * math.log(training.K)
    assert diverged(encoder.loss, training.K, encoder.weights).all()
    networks = {"dense": (encoder.weights, encoder.bias, encoder.loss)}
    rows = probe(*at, [*arms, Arm(arm="initial")], 0.1, [1, 2], latents, networks)
    assert [row["diverged"] for row in rows] == [1.0, 0.0] * 2


@pytest.mark.parametrize("dof", [4, 12, 25, 60, 500, 100_000])
def test_chi_variables_distribution_and_independence(dof):
    """Degrees of freedom on both sides of the switch to the method on whole tensors."""
    n, columns = 4000, 4
    draws = simulators.chi_variables(n, columns, dof, [seeded(1), seeded(2)]).double().numpy()
    assert draws.shape == (2, n, columns)
    tests = 6 * columns
    for column in range(columns):
        values = draws[:, :, column].ravel()
        assert kstest(values, chi(dof - column).cdf).pvalue > FAMILY / tests
        # The test detects degrees of freedom that are wrong by 0.2 standard deviations of chi^2.
        wrong = dof - column + 0.2 * math.sqrt(2 * (dof - column))
        assert kstest(values, chi(wrong).cdf).pvalue < FAMILY / tests
    # Columns and replicas are independent of each other.
    correlation = np.corrcoef(np.concatenate(list(draws.transpose(0, 2, 1)))) - np.eye(2 * columns)
    assert np.abs(correlation).max() < 5 / math.sqrt(n)


@pytest.mark.parametrize(("rows", "dof"), [(3, 10), (3, 3), (5, 2), (2, 1), (4, 60), (1, 7)])
def test_bartlett_factor_has_wishart_moments(rows, dof):
    n = 20_000
    T = bartlett_factor(rows, dof, [seeded(3)] * n).double()
    assert T.shape == (n, rows, min(rows, dof))
    assert torch.equal(T, T.tril())
    W = T @ T.mT
    i, j = torch.tril_indices(rows, rows)
    values, expected = W[:, i, j], dof * (i == j).double()
    centred = values - expected
    second = centred[:, :, None] * centred[:, None, :]
    covariance = dof * torch.diag(1 + (i == j).double())
    z = [
        (part.mean(0) - right) / (part.std(0) / math.sqrt(n))
        for part, right in ((values, expected), (second.flatten(1), covariance.flatten()))
    ]
    assert torch.cat(z).abs().max() < norm.isf(FAMILY / 2 / 6 / sum(map(len, z)))


# Draws from the simulators themselves


@pytest.mark.parametrize(
    ("d", "m", "d1"), [(4, 3, 30), (4, 5, 12), (4, 5, 9), (4, 5, 7), (4, 3, 4)]
)
def test_initial_weights_have_equal_distributions(d, m, d1):
    M = dictionaries("initial", tiny_data(d=d, d1=d1), [1])
    samples = []
    for offset, simulator in enumerate(
        (DirectSimulator(M.expand(REPLICAS, -1, -1), m), ReducedSimulator(d, d1, m, REPLICAS))
    ):
        weights = simulator.initial_weights(0.7, [seeded(offset)] * REPLICAS)
        samples.append(Sample(entries(weights, simulator.dictionary), None))
    assert p_value(*samples) > FAMILY / 5


@pytest.mark.parametrize(
    ("d", "m", "d1", "L"), [(3, 2, 40, 3), (3, 2, 10, 4), (3, 5, 8, 2), (3, 2, 3, 2), (3, 2, 40, 1)]
)
def test_token_products_have_equal_distributions(d, m, d1, L):
    """Compare products of tokens with the weights and with the other tokens of the sample."""
    start = ReducedSimulator(d, d1, m, 1).initial_weights(0.3, [seeded(0)])
    latents = torch.randint(-1, 2, (1, 2, L, d), generator=seeded(1)).float()
    lifted_weights, M = lift(start, d, d1, [seeded(2)])
    samples = []
    for offset, (simulator, weights) in enumerate(
        ((DirectSimulator(M, m), lifted_weights), (ReducedSimulator(d, d1, m, 1), start))
    ):
        g, rows = [seeded(3 + offset)], []
        for _ in range(REPLICAS // 100):
            x = simulator.sample_tokens(latents.repeat(1, 100, 1, 1), 0.3, g)[0].double()
            i, j = torch.tril_indices(L, L)
            seen = torch.cat(
                [
                    (x[..., : weights.shape[-1]] @ weights[0].T.double()).flatten(1),
                    (x @ x.mT)[:, i, j],
                ],
                1,
            )
            rows.append(seen.unflatten(0, (100, 2)).flatten(1))
        samples.append(Sample(torch.cat(rows), None))
    assert p_value(*samples) > FAMILY / 5


# One step


@pytest.mark.parametrize("name", CASES)
def test_one_step_has_equal_distributions(name):
    """Means and second moments of A' and C'. Only C' has an excess, and a known one."""
    case = CASES[name]
    start = state(case)
    direct = sample(DirectSimulator, case, start, REPLICAS, 1)
    assert p_value(sample(ReducedSimulator, case, start, REPLICAS, 2), direct) > FAMILY / len(CASES)


def test_compared_states_are_not_trivial():
    """Logits are not uniform, the bias closes some gates, and the step moves A and C."""
    for name, case in CASES.items():
        start, simulator = state(case), ReducedSimulator(case.d, case.d1, case.m, 1)
        step = one_step(simulator, *start, case, [seeded(5)], [seeded(6)])
        assert step.logits.max() > 2 / case.K, name
        gated = (step.pre.abs() < start.bias[:, None, None, :]).float().mean()
        assert (0.1 < gated < 0.9) == (case.share > 0), name
        assert (step.weights - start.weights).norm() > 0.05 * start.weights.norm(), name
    arms = {case.arm.arm for case in CASES.values()}
    assert arms == {"dense", "pruned_neuron", "oracle_all"}


# The direct side writes out R^d1 for every draw.
GIVEN = [name for name, case in CASES.items() if case.d1 <= 100]


@pytest.mark.parametrize("name", GIVEN)
def test_step_given_tokens_agrees_up_to_known_excess(name):
    """With the same tokens: equal A', and C' of equal mean and, less the excess, covariance."""
    case = CASES[name]
    given_tokens = sample_given_tokens(ReducedSimulator, case, state(case), REPLICAS, 4)
    assert p_value(*given_tokens) > FAMILY / len(GIVEN)


def test_comparison_detects_uncorrected_excess():
    """Without the correction the comparison rejects, so it is evidence for the formula."""
    case = CASES["half the neurons pruned, bias"]
    reduced, direct = sample_given_tokens(ReducedSimulator, case, state(case), REPLICAS, 4)
    assert p_value(reduced._replace(excess=None), direct) < LEVEL


@pytest.mark.parametrize("name", ["nothing beyond the span", "as many dimensions as features"])
def test_reduced_equals_rotated_direct_if_nu_is_zero(name):
    """Number by number: tokens and weights turned into R^d1 and back."""
    case = CASES[name]
    start, simulator = state(case), ReducedSimulator(case.d, case.d1, case.m, 1)
    assert (simulator.nu, simulator.p) == (0, case.d1)
    turn = torch.linalg.qr(torch.randn(case.d1, case.d1, generator=seeded(0), dtype=torch.float64))[
        0
    ].float()
    tokens = simulator.sample_tokens(start.latents, case.sigma, [seeded(1)])
    reduced = one_step(GivenTokens(simulator, tokens), *start, case, [seeded(2)], [seeded(3)])
    full = DirectSimulator(turn[:, : case.d][None].contiguous(), case.m)
    rest = start.bias, start.latents, case, [seeded(4)], [seeded(5)]
    direct = one_step(GivenTokens(full, tokens @ turn.T), start.weights @ turn.T, *rest)
    torch.testing.assert_close(direct.weights @ turn, reduced.weights, atol=1e-4, rtol=1e-4)


# Planted mistakes

REPETITIONS = 3
FEWER_REPLICAS = 1000


def test_planted_mistakes_are_detected():
    """A mistake in all repetitions but one; the right simulator as rarely as LEVEL allows."""
    counts = detections(REPETITIONS, FEWER_REPLICAS)
    allowed = binom.isf(FAMILY, REPETITIONS, LEVEL)
    for name in KINDS:
        if name in MISTAKES:
            assert counts[name] >= REPETITIONS - 1, (name, counts)
        else:
            assert counts[name] <= allowed, (name, counts)


# Degenerate states


@pytest.mark.parametrize("d1", [7, 15, 40, 500])
def test_simulators_agree_without_noise(d1):
    """Nothing is random but the frame of the lift: C' is decay^2 C."""
    case = STANDARD._replace(sigma=0.0, d1=d1)
    start = state(case)
    simulator = ReducedSimulator(case.d, case.d1, case.m, 1)
    reduced = one_step(simulator, *start, case, [seeded(1)], [seeded(2)]).weights
    weights, M = lift(start.weights, case.d, d1, [seeded(3)])
    rest = start.bias, start.latents, case, [seeded(4)], [seeded(5)]
    direct = one_step(DirectSimulator(M, case.m), weights, *rest).weights
    assert (reduced - start.weights).norm() > 0.01
    torch.testing.assert_close(direct @ M, reduced[..., : case.d], atol=1e-5, rtol=1e-4)
    decay = 1 - case.eta * case.lambda_
    torch.testing.assert_close(
        gram(reduced, case.d), decay**2 * gram(start.weights, case.d), atol=1e-5, rtol=1e-4
    )


# Whole trainings

SEEDS = 24
METRICS = [
    "aligned_neurons", "max_alignment", "majority_alignment", "feature_share", "weight_norm",
    "bias_share", "loss", "T1",
]  # fmt: skip


def training_of(m, K, T, **changes):
    bias = {"T1": "eq34"} | changes.pop("bias", {})
    return tiny_training(
        **{"m": m, "K": K, "T": T, "tau": 1.0, "eta": 0.2, "sigma_0": 0.02, "bias": bias} | changes
    )


def data_of(d, d1, L, **changes):
    return tiny_data(
        **{"d": d, "d1": d1, "L": L, "C": 1.5, "N": 512, "probe_pairs": 2, "test_pairs": 2}
        | changes
    )


DENSE, PRUNED = Arm(arm="dense"), Arm(arm="pruned_neuron", alpha=0.25)
TRAININGS = {
    "dense": (data_of(6, 40, 3), training_of(12, 48, 80), DENSE, 0.1, 0.5),
    "dense, no bias, one token": (
        data_of(9, 60, 1), training_of(10, 32, 120, bias={"share": 0}), DENSE, 0.15, 0.2,
    ),
    "dense, little noise, d1 = 100": (
        data_of(6, 100, 4), training_of(16, 32, 60), DENSE, 0.02, 1.0,
    ),
    "pruned, much noise": (
        data_of(5, 30, 2, C=2.0), training_of(8, 64, 80, bias={"T1": 30}), PRUNED, 0.3, 0.5,
    ),
    "pruned, few dimensions beyond": (
        data_of(4, 30, 4, C=2.0), training_of(20, 32, 80), PRUNED, 0.15, 0.3,
    ),
    "oracle_all": (
        data_of(6, 50, 3), training_of(12, 32, 150, eta=0.4, bias={"T1": 40}),
        Arm(arm="oracle_all"), 0.1, 0.8,
    ),
}  # fmt: skip


def trained(name, simulator, first):
    """{(metric, step): values over seeds}, at some steps of the trajectory."""
    data, training, arm, sigma, eps_min = TRAININGS[name]
    steps, values = log_spaced(training.T), {}
    kept = {0, steps[len(steps) // 2], steps[-4], steps[-2], training.T}
    for start in range(first, first + SEEDS, 8):
        seeds = list(range(start, start + 8))
        latents = synthesise("trainings", data, eps_min, seeds)["train"]
        _, rows = pretrain_arm("trainings", simulator, data, training, arm, sigma, seeds, latents)
        for row in rows:
            if row["metric"] in METRICS and row["step"] in kept:
                values.setdefault((row["metric"], row["step"]), []).append(row["value"])
    return {key: np.array(part) for key, part in values.items()}


@functools.cache
def measured(name, simulator):
    """The two simulators have no seed in common."""
    return trained(name, simulator, {"direct": 0, "reduced": 1000}[simulator])


def p_values(direct, reduced):
    """Welch's t and Kolmogorov-Smirnov for every metric that varies by more than rounding."""
    assert direct.keys() == reduced.keys()
    tests = {}
    for key in direct:
        pair = direct[key], reduced[key]
        everything = np.concatenate(pair)
        if np.ptp(everything) > TOLERANCE * np.abs(everything).max():
            tests[*key, "Kolmogorov-Smirnov"] = kstest(*pair).pvalue
            if min(map(np.ptp, pair)) > 0:
                tests[*key, "Welch"] = ttest_ind(*pair, equal_var=False).pvalue
    return tests


def rejected(tests):
    """What Holm's rule rejects at the family-wise level."""
    adjusted = holm(np.array(list(tests.values())))
    return [key for key, p in zip(tests, adjusted, strict=True) if p < FAMILY]


def test_trainings_have_equal_distributions():
    tests = {}
    for name in TRAININGS:
        found = p_values(measured(name, "direct"), measured(name, "reduced"))
        tests |= {(name, *key): p for key, p in found.items()}
        learned = measured(name, "direct")
        T = TRAININGS[name][1].T
        # The trainings do something: features take over.
        assert learned["feature_share", T].mean() > learned["feature_share", 0].mean() + 0.1, name
    assert len(tests) > 200
    assert rejected(tests) == []


@pytest.mark.parametrize(
    "arm", [Arm(arm="initial"), Arm(arm="ideal"), Arm(arm="dense")], ids=lambda arm: arm.arm
)
def test_probe_metrics_have_equal_distributions(arm):
    """Every column, for encoders before, after and without training, with strong noise."""
    data, training = (
        data_of(6, 40, 3, N=256, probe_pairs=80, test_pairs=160),
        training_of(10, 32, 60, eta=0.3, sigma_0=0.1),
    )
    both = {}
    for simulator, first in (("direct", 0), ("reduced", 1000)):
        seeds = list(range(first, first + SEEDS))
        latents = synthesise("probed", data, 0.5, seeds)
        encoder = None
        if arm.trained:
            trained_cell, _ = pretrain_arm(
                "probed", simulator, data, training, arm, 0.2, seeds, latents["train"]
            )
            encoder = trained_cell.weights, trained_cell.bias
        rows = probe_arm("probed", simulator, data, training, arm, 0.2, seeds, latents, encoder)
        columns = [
            name
            for name, value in rows[0].items()
            if value is not None and name not in ("seed", *ARM)
        ]
        both[simulator] = {(name,): np.array([row[name] for row in rows]) for name in columns}
    tests = p_values(both["direct"], both["reduced"])
    assert len(tests) > 12
    assert rejected(tests) == []


@pytest.mark.parametrize("kind", [DecayOfFeaturesAlone, NothingBeyond])
def test_planted_mistake_is_detected_in_trainings(monkeypatch, kind):
    """With strong noise: with little, directions beyond the span hardly matter."""
    name = "pruned, much noise"
    monkeypatch.setattr(
        "rarefeat.training.loop.make_simulator",
        lambda _, __, d, d1, m, seeds: kind(d, d1, m, len(seeds)),
    )
    mistaken = trained(name, "reduced", 2000)
    monkeypatch.undo()
    assert rejected(p_values(measured(name, "direct"), mistaken))
