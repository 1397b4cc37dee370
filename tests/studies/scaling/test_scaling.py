"""Tests of the scaling study.

Counted sets against definition and closed forms, exponents against planted ones, trained sizes.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import of_size, quick, write_encoders
from scipy.stats import beta, binomtest

from rarefeat.errors import RarefeatError
from rarefeat.model.neurons import lucky_neurons, ordinary_neurons
from rarefeat.model.randomness import make_generators
from rarefeat.model.simulators import make_simulator
from rarefeat.model.thresholds import GAMMA
from rarefeat.studies.scaling import KIND, LUCKY_SETS, Scaling
from rarefeat.studies.scaling.sets import (
    CHUNK,
    bounds,
    count,
    exponent_rows,
    lucky_sets_table,
    power_law,
    scaling_exponents,
    sets_of,
    trained_sizes,
)
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job_inputs import JobInputs

RATIOS = [0.7, 0.9, 1.0]


def scaling(**changes) -> Scaling:
    return quick().sections["scaling"].model_copy(update=changes)


def trained_of(config: Scaling, lucky_sets: pd.DataFrame, results: Path) -> pd.DataFrame:
    """Return the table of the trained sizes."""
    read = JobInputs(KIND.build_outputs(config).tables["scaling"].job({}), results)
    read["lucky_sets"] = lucky_sets
    return trained_sizes(read, config)


def counted(d: list[int], probability: float = 0.05) -> pd.DataFrame:
    """Return a table of lucky_sets with a given probability."""
    parts = [lucky_sets_table(each, RATIOS, 1000) for each in d]
    planted = {
        "lucky_probability": probability,
        "lucky_ci_low": 0.9 * probability,
        "lucky_ci_high": 1.1 * probability,
    }
    return pd.concat(parts, ignore_index=True).assign(**planted)


@pytest.mark.parametrize("d", [4, 9, 33])
@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0])
def test_sets_of_follows_definition_b1(d, ratio):
    weights = torch.randn(1, 20_000, d, generator=torch.Generator().manual_seed(d))
    lucky, ordinary = (
        sets(weights, torch.eye(d)[None], ratio, GAMMA)[0]
        for sets in (lucky_neurons, ordinary_neurons)
    )
    squared = weights[0].T.square()
    any_lucky, sizes = sets_of(squared / squared.sum(0), ratio)
    assert lucky.sum(-1).max() <= 1
    assert torch.equal(any_lucky, lucky.any(-1))
    assert torch.equal(sizes.long(), ordinary.sum(-1))


def test_count_covers_every_neuron_once():
    d, neurons = 64, 3 * CHUNK // 64 + 7
    totals = count(d, [1e-12, 1.0], neurons)
    # At a vanishing ratio every neuron is ordinary for every feature.
    assert totals[0].tolist() == [0.0] * (d + 1) + [neurons]
    assert torch.equal(totals, count(d, [1e-12, 1.0], neurons))


@pytest.mark.parametrize("d", [9, 40])
def test_ordinary_features_have_the_expectation_of_a_beta_share(d):
    """The share of a feature is Beta(1/2, (d - 1) / 2)."""
    for row in lucky_sets_table(d, RATIOS, 200_000).itertuples():
        threshold = 2 * row.ratio**2 * (1 - GAMMA) * math.log(d) / d
        expected = d * beta.sf(threshold, 0.5, (d - 1) / 2)
        error = (row.ordinary_ci_high - row.ordinary_ci_low) / 2 / 1.96
        assert abs(row.ordinary_features - expected) < 4 * error
        assert error < 0.01


@pytest.mark.parametrize(("d", "ratio"), [(4, 0.9), (5, 0.85), (9, 0.8)])
def test_lucky_probability_matches_closed_form(d, ratio):
    """Compare with the closed form where one condition of eq. (27) implies the other."""
    above, below = (
        2 * c * math.log(d) / d for c in ((1 + GAMMA) / ratio**2, (1 - GAMMA) * ratio**2)
    )
    assert 1 - above < below
    (row,) = lucky_sets_table(d, [ratio], 400_000).itertuples()
    expected = beta.sf(above, 0.5, (d - 1) / 2)
    assert abs(row.lucky_probability - expected) < 2 * (row.lucky_ci_high - row.lucky_ci_low) / 2
    exact = binomtest(row.lucky_neurons, row.neurons).proportion_ci(0.95, method="exact")
    assert (row.lucky_ci_low * d, row.lucky_ci_high * d) == pytest.approx(
        (exact.low, exact.high), rel=1e-9
    )


def test_impossible_set_has_an_interval_from_zero():
    (row,) = lucky_sets_table(9, [0.7], 10_000).itertuples()
    assert row.lucky_neurons == row.lucky_probability == row.lucky_ci_low == 0
    assert row.lucky_ci_high * 9 == pytest.approx(1 - 0.025 ** (1 / 10_000))


D = np.array([9, 12, 16, 23, 32, 45, 64, 91, 128])


def planted(exponent: float, misfit: float, rng: np.random.Generator) -> pd.DataFrame:
    """Draw points of a power law with 2 % sampling errors and a lognormal misfit."""
    mean = D**exponent
    noise = misfit * rng.standard_normal(len(D)) + 0.02 * rng.standard_normal(len(D))
    return pd.DataFrame({"d": D, "estimate": mean * np.exp(noise), "error": 0.02 * mean})


@pytest.mark.parametrize("misfit", [0.0, 0.1])
def test_power_law_interval_covers_a_planted_exponent(misfit):
    rng = np.random.default_rng(0)
    fits = [power_law(*planted(-1.3, misfit, rng).to_numpy().T) for _ in range(400)]
    assert np.mean([fit[0] for fit in fits]) == pytest.approx(-1.3, abs=0.01)
    # 95 % within three standard errors of 400 trials; more is allowed, as sampling errors are taken
    # as known.
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / 400)
    assert np.mean([low <= -1.3 <= high for _, low, high in fits]) > least


def test_power_law_widens_interval_of_bent_points():
    """Check that precise points on no power law get a wide interval."""
    bent = D**-1.0 * np.exp(-0.2 * (np.log(D) - 3) ** 2)
    slope, low, high = power_law(D, bent, 1e-6 * bent)
    assert slope == pytest.approx(np.polyfit(np.log(D), np.log(bent), 1)[0])
    assert high - low > 0.2
    straight = power_law(D, D**-1.0, 1e-6 * D**-1.0)
    assert straight[0] == pytest.approx(-1)
    assert straight[2] - straight[1] < 1e-5


@pytest.mark.parametrize("quantity", ["lucky_probability", "pure_minority_share",
                                      "ordinary_features", "learned_features"])  # fmt: skip
def test_consistency_depends_on_the_side_of_the_bound(quantity):
    side, bound = bounds(0.9)[quantity]
    beyond = -0.3 if side == "at least" else 0.3
    rng = np.random.default_rng(1)
    for shift, consistent in ((beyond, False), (0, True), (-beyond, True)):
        row = exponent_rows(quantity, 0.9, planted(bound + shift, 0.02, rng))[0]
        assert (row["consistent"], row["n"], row["d_low"], row["d_high"]) == (consistent, 9, 9, 128)


def test_exponent_rows_divide_out_the_logarithm():
    estimate = D**-1.2 / np.sqrt(np.log(D))
    points = pd.DataFrame({"d": D, "estimate": estimate, "error": 1e-3 * estimate})
    stated, derived = exponent_rows("lucky_probability", 1.0, points)
    assert (stated["log_power"], derived["log_power"]) == (0, -0.5)
    assert stated["exponent"] < derived["exponent"] == pytest.approx(-1.2)
    assert len(exponent_rows("ordinary_features", 1.0, points)) == 1


def test_exponent_rows_count_zeros_and_need_three_d():
    points = pd.DataFrame({"d": D, "estimate": D**-1.0, "error": 0.01 * D**-1.0})
    points.loc[0, "estimate"] = 0
    row = exponent_rows("lucky_probability", 1.0, points)[0]
    assert (row["left_out"], row["n"], row["d_low"]) == (1, 8, 12)
    assert exponent_rows("lucky_probability", 1.0, points.head(3)) == []


def test_only_sizes_with_enough_lucky_neurons_are_trained():
    sizes = {"trained_d": [4, 5], "C_m": [2.0, 2.5], "d1_power": [2.0], "ratio": [0.9, 1.0]}
    config = scaling(**sizes, least_lucky=1.0, most_neurons=40)
    table = counted([4, 5])
    table.loc[table["ratio"] == 0.9, "lucky_probability"] = 1 / 30
    chosen = config.trained_cells(table)
    # m = 16, 32 and 25; 5^2.5 = 56 is too large. Expected lucky neurons at ratio 1: 0.8, 1.6, 1.25;
    # at 0.9 only m = 32 has one.
    assert {name: [cell["eps_min"] for cell in cells] for name, cells in chosen.items()} == {
        "scaling_d=4_m=32_d1=16": [0.9, 1.0],
        "scaling_d=5_m=25_d1=25": [1.0],
    }


def test_tables_of_untrained_encoders_repeat_their_initial_sets(tmp_path):
    sizes = {"trained_d": [4, 5, 6], "C_m": [2.25], "d1_power": [1.0, 1.5], "ratio": [0.9, 1.0]}
    config = scaling(**sizes, least_lucky=0.1, seeds=3)
    lucky_sets = validate(LUCKY_SETS.schema, counted([4, 5, 6]))
    studies, initial = config.studies(), {}
    for name, cells in config.trained_cells(lucky_sets).items():
        data, training, draws = studies[name].data, studies[name].training, studies[name].draws
        for block, seeds in studies[name].blocks().items():
            space = make_simulator("reduced", draws, data.d, data.d1, training.m, seeds)
            generators = make_generators(draws, seeds, "weights")
            weights = space.initial_weights(training.sigma_0, generators)
            for seed, w in zip(seeds, weights, strict=True):
                initial[data.d, data.d1, seed] = w, space.dictionary[0]
            for cell in cells:
                tensors = {"dense/weights": weights}
                write_encoders(tmp_path, name, studies[name], cell, block, tensors)

    trained = trained_of(config, lucky_sets, tmp_path)
    assert len(trained) == 3 * 2 * 2 * 3
    assert (trained["d1"] == (trained["d"] ** trained["d1_power"]).round()).all()
    for row in trained.itertuples():
        weights, dictionary = initial[row.d, row.d1, row.seed]
        cosines = (weights @ dictionary).abs() / weights.norm(dim=-1, keepdim=True)
        lucky = lucky_neurons(weights[None], dictionary[None], row.ratio)[0, :, -1]
        ordinary = ordinary_neurons(weights[None], dictionary[None], row.ratio)
        pure = cosines[:, -1] > 0.9
        near = cosines >= 1 / math.sqrt(row.d)
        assert row.lucky_minority_neurons == lucky.sum()
        assert row.pure_minority_neurons == pure.sum()
        assert row.single_minority_neurons == sum(bool(n[-1]) and not n[:-1].any() for n in near)
        assert row.learned_features == pytest.approx(near.sum() / row.m)
        assert row.ordinary_features == pytest.approx(ordinary.sum() / row.m)
        share = (lucky & pure).sum() / lucky.sum()
        assert row.lucky_pure_share == pytest.approx(float(share), nan_ok=True)

    exponents = scaling_exponents({"lucky_sets": lucky_sets, "scaling": trained})
    fitted = exponents[exponents["quantity"] == "learned_features"]
    places = set(zip(fitted["ratio"], fitted["d1_power"], strict=True))
    assert places == {(0.9, 1.0), (0.9, 1.5), (1.0, 1.0), (1.0, 1.5)}
    assert exponents.loc[exponents["quantity"] == "lucky_probability", "d1_power"].isna().all()


def test_every_size_is_trained_until_T4():
    """T4 = d^1.99 / eta of Theorem 3.1, rounded up."""
    studies = of_size("").sections["scaling"].studies().values()
    lengths = {study.data.d: study.training.T for study in studies}
    assert (lengths[9], lengths[16]) == (793, 2490)
    assert list(lengths.values()) == sorted(lengths.values())


def test_no_trained_size_raises_one_line_error(tmp_path):
    with pytest.raises(RarefeatError, match="least_lucky"):
        trained_of(scaling(least_lucky=1e9), counted([4, 5]), tmp_path)
