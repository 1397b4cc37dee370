"""Metrics of the theory on planted neurons: where a statement is true and where it is false."""

import math

import pytest
import torch
from conftest import tiny_data, tiny_training

from rarefeat.model.theory import attended_count
from rarefeat.model.theory_metrics import (
    NeuronSets,
    TheoryParameters,
    auc_of_smaller_norm,
    excess_precision_at_k,
    final_metrics,
    initial_metrics,
    last_linear_index,
    max_abs_coordinates,
    metrics_at_T1,
    metrics_at_T2,
    neurons_from_history,
    stage_one_metrics,
    stage_two_metrics,
)
from rarefeat.stages.milestones import milestones

D, D1, M = 4, 20, 3
EPS = torch.tensor([1.0, 1.0, 1.0, 0.5], dtype=torch.float64)
LAW = TheoryParameters(
    d=D,
    d1=D1,
    L=2,
    C=1.0,
    K=16,
    tau=1.0,
    eta=0.1,
    lambda_=0.05,
    sigma_0=0.1,
    nsr=0.05,
    eps=EPS,
    n_minority=1,
)
STEPS = [0, 1, 2, 5, 10, 20, 40, 80]
UNIT = torch.full((M,), 0.5, dtype=torch.float64)
START = [[0.1, 0.2, 0.05, 0.1], [0.2, 0.1, 0.1, 0.05], [0.05, 0.1, 0.2, 0.2]]


def planted(projections, outside=0.0, bias=0.0):
    """Neurons (..., m, d + 2) with this norm off the features."""
    projections = torch.as_tensor(projections, dtype=torch.float64)
    norms = (
        projections.square().sum(-1) + torch.as_tensor(outside, dtype=torch.float64) ** 2
    ).sqrt()
    bias = torch.as_tensor(bias, dtype=torch.float64).expand(norms.shape)
    return neurons_from_history(
        torch.cat([projections, norms[..., None], bias[..., None]], -1), projections.shape[-1]
    )


def course(growth, decay=1.0, scale=1e-3):
    """Every feature by its own factor a step, the rest by `decay`, from small weights."""
    t = torch.tensor(STEPS, dtype=torch.float64)
    rates = torch.tensor(growth, dtype=torch.float64) ** t[:, None]
    start = scale * torch.tensor(START, dtype=torch.float64)
    return planted(start * rates[:, None, :], 4 * scale * (decay ** t[:, None]).expand(-1, M))


def every(value):
    return NeuronSets(torch.full((M, D), value), torch.full((M, D), value))


# W(0)


def test_initial_norm_deviation_of_planted_neurons():
    on = planted(torch.full((M, D), LAW.sigma_0), outside=LAW.sigma_0 * math.sqrt(D1 - D))
    assert initial_metrics(on, LAW)["initial_norm_deviation"] == pytest.approx(0, abs=1e-6)
    assert initial_metrics(on, LAW)["initial_feature_norm_deviation"] == pytest.approx(0, abs=1e-6)
    off = planted(2 * on.projections, outside=on.complement_norm)
    assert initial_metrics(off, LAW)["initial_feature_norm_deviation"] == pytest.approx(3)
    assert initial_metrics(off, LAW)["initial_norm_deviation"] == pytest.approx(3 * D / D1)


def test_initial_strong_and_tiny_counts_are_maxima():
    start = LAW.sigma_0 * torch.tensor(
        [[9.0, 9.0, 9.0, 0.1], [0.1, 9.0, 9.0, 9.0], [9.0, 0.1, 0.1, 9.0]]
    )
    found = initial_metrics(planted(start), LAW)
    assert found["strong_features_at_0"] == pytest.approx(3 / (4 / 2 ** math.sqrt(math.log(4))))
    assert found["tiny_features_at_0"] == pytest.approx(2 * math.log(4) / 4)


# Stage 1


def test_stage_one_rates_of_planted_growth():
    decay = LAW.eta * LAW.lambda_
    found = stage_one_metrics(
        course([1.03] * 3 + [1.01], 1 - decay),
        STEPS,
        40,
        course([1.03] * 3 + [1.01], 1 - decay).select(6),
        LAW,
    )
    assert found["stage1_growth_majority"] == pytest.approx(0.03 + decay)
    assert found["stage1_growth_minority"] == pytest.approx(0.01 + decay)
    assert found["stage1_decay_outside"] == pytest.approx(1.0)
    assert found["stage1_growth_over_closed_form"] == pytest.approx(
        (0.03 + decay) / (LAW.growth_per_step[0].item() - 1 + decay), rel=1e-6
    )
    still = stage_one_metrics(course([1.0] * 4), STEPS, 40, course([1.0] * 4).select(6), LAW)
    assert still["stage1_decay_outside"] == pytest.approx(0.0, abs=1e-9)


def test_linear_window_ends_where_logits_are_not_uniform():
    """At 200 neurons the window is half of stage 1; a rate over all of stage 1 is too small."""
    growing = course([1.3, 1.3, 1.3, 1.2], scale=0.02)
    last = last_linear_index(growing, STEPS, 80, LAW)
    a = attended_count(LAW.L, LAW.nsr)
    similarity = [
        a**2 * growing.projections[i].square().sum(0).max().item() for i in range(len(STEPS))
    ]
    assert similarity[last] <= math.log(1.1) < similarity[last + 1]
    assert last_linear_index(growing, STEPS, 2, LAW) == 2
    assert last_linear_index(course([1.3] * 4, scale=10.0), STEPS, 80, LAW) is None
    saturating = growing._replace(projections=growing.projections.clamp(max=0.3))
    assert stage_one_metrics(saturating, STEPS, 80, saturating.select(7), LAW)[
        "stage1_growth_majority"
    ] == pytest.approx(0.305, rel=1e-6)


def test_stage_one_bounds_of_lemma_c1():
    decay = LAW.eta * LAW.lambda_
    fastest, slowest = (LAW.growth_per_step + decay).max().item(), LAW.growth_per_step.min().item()
    middle = (fastest + slowest) / 2

    def found(rate, outside=1.0):
        grown = course([rate] * 4, outside)
        return stage_one_metrics(grown, STEPS, 80, grown.select(7), LAW)

    inside = found(middle)
    assert inside["growth_above_its_bound"] <= 0 <= inside["growth_below_its_bound"]
    assert found(fastest + 0.02)["growth_above_its_bound"] > 1
    assert found(slowest - 0.02)["growth_below_its_bound"] < -1
    assert found(middle, 1 - decay)["outside_growth"] < 1
    assert found(middle, 1.01)["outside_growth"] == pytest.approx(1.01**160)
    assert found(1.0)["features_over_initial_norm"] < 1 < found(1.2)["features_over_initial_norm"]


def test_t1_distinguishes_theorem_from_proof_bound():
    """A cosine of 0.7 lies between sqrt(2 log 4 / 4) = 0.83 and sqrt(log 4 / 4) = 0.59."""
    at_T1 = planted([[0.7, 0.0, 0.0, 0.0]] * M, outside=math.sqrt(1 - 0.49))
    sets = NeuronSets(torch.zeros(M, D, dtype=torch.bool), torch.zeros(M, D, dtype=torch.bool))
    sets.lucky[:, 0] = sets.ordinary[:, 0] = True
    found = metrics_at_T1(at_T1, sets, LAW, UNIT)
    assert (found["lucky_above_threshold_at_T1"], found["lucky_above_the_proofs_at_T1"]) == (
        0.0,
        1.0,
    )
    assert found["others_below_threshold_at_T1"] == 1.0
    assert found["few_strong_features_at_T1"] == 1.0
    assert found["outside_largest_at_T1"] == pytest.approx(
        0.5 * math.sqrt(0.51) / math.sqrt(math.log(4) / 20)
    )
    crowded = metrics_at_T1(planted([[0.7, 0.7, 0.0, 0.0]] * M), sets, LAW, UNIT)
    assert crowded["few_strong_features_at_T1"] == 0.0
    faint = planted([[0.5, 0.5, 0.0, 0.0]] * M, outside=math.sqrt(0.5))  # log(4)^(1/4) / 2 = 0.54
    assert metrics_at_T1(faint, sets, LAW, UNIT)["few_strong_features_at_T1"] == 1.0
    nothing = metrics_at_T1(at_T1, every(False), LAW, UNIT)
    assert math.isnan(nothing["lucky_above_threshold_at_T1"])


def test_max_abs_coordinates_of_uniform_directions():
    unit = max_abs_coordinates(500, 400, torch.Generator().manual_seed(0))
    assert 0.12 < unit.mean() < 0.18  # sqrt(2 log 400 / 400) = 0.17
    assert max_abs_coordinates(3, 1, torch.Generator().manual_seed(0)).tolist() == [1.0, 1.0, 1.0]


# Stage 2


def test_stage_two_metrics_of_lemma_d1():
    sets = NeuronSets(torch.eye(D, dtype=torch.bool)[:M], torch.eye(D, dtype=torch.bool)[:M])
    good = planted((torch.eye(D)[:M] + 0.01).expand(2, M, D), bias=0.5)
    found = stage_two_metrics(good, sets, LAW, UNIT)
    assert (found["lucky_above_bias"], found["others_below_bias"]) == (1.0, 1.0)
    assert found["others_largest"] == pytest.approx(0.01 / 1.0102 * 2 / math.log(4), rel=1e-3)
    assert found["features_near_bias"] == pytest.approx(1 / LAW.lemma_c2_count)
    assert found["norm_over_bias"] == pytest.approx(1.0204 * math.log(4) / (4 * 0.25), rel=1e-3)
    bad = stage_two_metrics(
        good._replace(bias=torch.full((2, M), 1.5, dtype=torch.float64)), sets, LAW, UNIT
    )
    assert bad["lucky_above_bias"] == 0.0
    mixed = stage_two_metrics(planted(torch.ones(2, M, D), bias=0.5), sets, LAW, UNIT)
    assert mixed["others_below_bias"] == 0.0
    assert mixed["features_near_bias"] == pytest.approx(4 / LAW.lemma_c2_count)
    out = stage_two_metrics(planted(torch.zeros(1, M, D), outside=1.0, bias=0.5), sets, LAW, UNIT)
    assert out["outside_largest_in_stage_two"] == pytest.approx(0.5 * math.sqrt(20) / math.log(20))
    history = torch.ones(9, M, D + 2)
    history[:5, :, -1] = 0.0  # up to T1 = 4 no bias, which does not count
    at = tiny_data(d=D), tiny_training(T=10), 0.5, 0.1
    found = milestones(history, history[-2:], 4, 8, *at, torch.Generator())
    assert found["norm_over_bias"] == pytest.approx(math.log(D) / D)


def test_t2_compares_lucky_neurons_with_t1():
    at_T1, at_T2 = planted(torch.ones(M, D)), planted(3 * torch.eye(D)[:M])
    sets = NeuronSets(torch.eye(D, dtype=torch.bool)[:M], torch.ones(M, D, dtype=torch.bool))
    found = metrics_at_T2(at_T1, at_T2, sets, LAW)
    assert found["lucky_growth_at_T2"] == 1.0  # 9 >= 2 * 4
    assert found["ordinary_over_lucky_at_T2"] == 1.0
    assert found["lucky_focus_at_T2"] == pytest.approx(1 / 0.5)
    assert (
        metrics_at_T2(at_T1, planted(2.5 * torch.eye(D)[:M]), sets, LAW)["lucky_growth_at_T2"]
        == 0.0
    )
    biased = planted(torch.eye(D)[:M], bias=torch.tensor([0.5, 0.2, 0.9]))
    assert metrics_at_T2(at_T1, biased, sets, LAW)["bias_at_T2"] == pytest.approx(0.2 * 2)


# The end

END = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.2, 0.0], [0.0, 0.0, 1.0, 0.5]]


def test_strength_ratio_sums_over_ordinary_set():
    """Eq. (89): over i in M_j. A neuron outside, however strong, does not count."""
    ordinary = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]], dtype=torch.bool)
    found = final_metrics(planted(END), NeuronSets(every(False).lucky, ordinary), LAW, UNIT)
    assert found["strength_ratio"] == pytest.approx(0.25 / ((1 + 1 + 0.04) / 3))
    assert found["strength_ratio_of_all"] == pytest.approx(0.25 / ((1 + 1 + 1.04) / 3))
    assert math.isnan(final_metrics(planted(END), every(False), LAW, UNIT)["strength_ratio"])


def test_final_magnitude_purity_and_learned():
    found = final_metrics(planted(END), every(True), LAW, UNIT)
    assert found["magnitude_ratio"] == pytest.approx(0.5)
    assert found["pure_share"] == pytest.approx(2 / 3)
    assert found["pure_minority_neurons"] == 0
    assert found["largest_norm"] == pytest.approx(math.sqrt(1.25))
    assert found["learned"] == 0.0
    assert found["alignment_gap"] == pytest.approx((1 + 1.04**-0.5 + 0.8**0.5) / 3 - 0.2**0.5)
    two_rare = final_metrics(planted(END), every(True), LAW._replace(n_minority=2), UNIT)
    assert two_rare["magnitude_ratio"] == pytest.approx((1 + 0.5) / 2)
    assert (
        final_metrics(planted([*END[:2], [0.0, 0.0, 1.0, 0.7]]), every(True), LAW, UNIT)["learned"]
        == 1.0
    )


def test_final_metrics_of_oracle_neurons():
    end = planted(
        [[1.0, 0.9, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.3, 1.0]],
        outside=torch.tensor([5.0, 0.0, 0.4]),
    )
    found = final_metrics(end, every(True), LAW, UNIT)
    norm = math.sqrt(1 + 0.09 + 0.16)
    assert found["pruned_other_features"] == pytest.approx(2 * 0.3 / norm)
    assert found["pruned_outside"] == pytest.approx(math.sqrt(20) * 0.5 * 0.4 / norm)
    assert found["outside_largest_at_T"] > 2
    assert found["oracle_neurons"] == 1
    none = final_metrics(planted(torch.eye(D)[:M]), every(True), LAW, UNIT)
    assert math.isnan(none["pruned_outside"])


def test_final_metrics_use_initial_sets():
    sets = NeuronSets(torch.eye(D, dtype=torch.bool)[:M], torch.eye(D, dtype=torch.bool)[:M])
    kept = final_metrics(planted(torch.eye(D)[:M]), sets, LAW, UNIT)
    assert (
        kept["lucky_focus_at_T"]
        == kept["lucky_over_strongest_at_T"]
        == kept["others_small_at_T"]
        == 1.0
    )
    lost = final_metrics(planted([[0.0, 0.0, 0.0, 1.0]] * M), sets, LAW, UNIT)
    assert lost["lucky_focus_at_T"] == 0.0
    assert lost["others_small_at_T"] < 1.0


def test_auc_and_precision_of_smaller_norms():
    norms, wanted = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([True, True, False, False])
    assert auc_of_smaller_norm(norms, wanted) == 1.0
    assert auc_of_smaller_norm(norms, ~wanted) == 0.0
    assert auc_of_smaller_norm(torch.ones(4), wanted) == 0.5
    assert math.isnan(auc_of_smaller_norm(norms, torch.zeros(4, dtype=torch.bool)))
    assert excess_precision_at_k(norms, wanted) == pytest.approx(0.5)
    assert excess_precision_at_k(norms, ~wanted) == pytest.approx(-0.5)
    assert excess_precision_at_k(norms, torch.tensor([True, False, False, True])) == pytest.approx(
        0.0
    )
    assert math.isnan(excess_precision_at_k(norms, torch.zeros(4, dtype=torch.bool)))
