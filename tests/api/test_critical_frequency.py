"""The prediction of the critical frequency: its arguments, and where it warns."""

import numpy as np
import pytest
from conftest import refusal

import rarefeat
from rarefeat.api.critical_frequency import predict_critical_frequency
from rarefeat.stages import critical_frequency as closed_form

NAME = "predict_critical_frequency"


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"error": -1}, "error: must be at least 0, got -1"),
        ({"lambda_": 0.3}, "decay is 0."),
        ({"K": 64}, "K is 64, and not 128, where the model was not tested; say outside=True"),
        ({"bias": {"rule": "grow"}}, "study: 'paper' is none that the model is for"),
        ({"study": "random_mask"}, "study: 'random_mask' is none that the model is for"),
        ({"kappa": 0}, "kappa: must be above 0, got 0"),
        ({"kappa": "0.8"}, "kappa: must be a number, got '0.8'"),
        ({"replicas": 2.5}, "replicas: must be a whole number, got 2.5"),
    ],
)
def test_predict_refuses_in_one_line(keys, line):
    values = {"kappa": 0.8, "gamma": 3} | keys
    assert f"{NAME}: {line}" in refusal(predict_critical_frequency, **values)


def test_predict_goes_outside_of_tested_ranges_if_told():
    inside, outside = (
        predict_critical_frequency(0.8, 10, replicas=5, K=K, outside=True) for K in (128, 64)
    )
    assert inside == predict_critical_frequency(0.8, 10, replicas=5)
    assert outside != inside


def test_predict_gives_an_interval_and_a_spread():
    """The interval is that of normal errors; initial weights differ more where gamma is small."""
    without = predict_critical_frequency(0.8, 10, replicas=20)
    assert without.low == without.eps_min == without.high
    steep, flat = (predict_critical_frequency(0.8, g, error=0.05, replicas=20) for g in (10, 3))
    for predicted in (steep, flat):
        assert predicted.high - predicted.low == pytest.approx(0.24565, abs=1e-4)
        assert predicted.first < predicted.eps_min < predicted.last
    assert flat.last - flat.first > steep.last - steep.first


def test_interval_covers_normal_errors():
    errors = np.random.default_rng(0).normal(size=100_000) * 0.05
    half = closed_form.NORMAL_95 * np.abs(errors).mean()
    assert (np.abs(errors) < half).mean() == pytest.approx(0.95, abs=0.003)


def test_published_constants_are_the_default():
    names = "selection_law_constants", "selection_law_errors"
    constants, errors = (rarefeat.read_table("docs", name).iloc[0] for name in names)
    assert errors["parameter"] == "all"
    values = {"error": errors["error"], "replicas": 20}
    expected = predict_critical_frequency(constants["kappa"], constants["gamma"], **values)
    assert predict_critical_frequency(replicas=20) == expected
    assert f"{NAME}: gamma: must be a number" in refusal(predict_critical_frequency, kappa=1.0)
