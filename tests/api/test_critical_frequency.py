"""The prediction of the critical frequency: its arguments, and where it warns."""

import math
import warnings

import numpy as np
import pytest
from conftest import refusal

import rarefeat
from rarefeat.api.critical_frequency import predict_critical_frequency

NAME = "predict_critical_frequency"
LATE = {"late": [-2.0, -0.6, 0.0, 0.7], "replicas": 20, "lambda_": 0.02}


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"taus": 1},
            "taus: has no effect on the prediction (did you mean 'tau'?); allowed are d,",
        ),
        ({"kapa": 1}, "kapa: has no effect on the prediction (did you mean 'kappa'?)"),
        ({"T": 900}, "T: goes with late, its four constants drop"),
        ({"late": [0] * 4}, "T: goes with late"),
        ({"T": 900, "late": [1]}, "T: goes with late"),
        ({"T": 900, "late": 5}, "T: goes with late"),
        ({"T": 900, "late": [math.nan] * 4}, "late: must be a finite number, got nan"),
        ({"T": 900, "late": "abcd"}, "late: must be a number, got 'abcd'"),
        ({"T": 400, "late": [0] * 4}, "T: must be at least 500"),
        ({"N": 4096}, "N: has no effect on the prediction"),
        ({"views": {"mask": 0.5}}, "views: has no effect on the prediction"),
        ({"minority": [0.5]}, "minority: has no effect on the prediction"),
        ({"bias": {"rule": "grow"}}, "bias.rule: has no effect on the prediction"),
        ({"study": "random_mask"}, "study: 'random_mask' is none that the model is for"),
        ({"kappa": True}, "kappa: must be a number, got True"),
        ({"kappa": 0}, "kappa: must be above 0, got 0"),
        ({"kappa": math.inf}, "kappa: must be a finite number, got inf"),
        ({"kappa": "0.8"}, "kappa: must be a number, got '0.8'"),
        ({"replicas": 2.5}, "replicas: must be a whole number, got 2.5"),
    ],
)
def test_predict_refuses_in_one_line(keys, line):
    values = {"kappa": 0.8, "gamma": 3} | keys
    assert f"{NAME}: {line}" in refusal(predict_critical_frequency, **values)


def test_predict_takes_numbers_of_numpy():
    one = predict_critical_frequency(np.float64(0.8), np.int64(10), replicas=np.int64(20))
    assert one == predict_critical_frequency(0.8, 10, replicas=20)


def test_predict_warns_outside_of_tested_ranges():
    with pytest.warns(UserWarning, match=r"decay is 0\.\d+, outside of 0\.03 to 0\.2") as caught:
        predict_critical_frequency(0.8, 10, replicas=5, lambda_=0.3)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict_critical_frequency(0.8, 10, replicas=5)


def test_predict_falls_with_steps():
    with pytest.warns(UserWarning, match="T is inf, outside of 500 to 4000"):
        limit = predict_critical_frequency(0.8, 10, T=math.inf, **LATE)
    with pytest.warns(UserWarning, match="m is 40, outside of 30 to 30"):
        predict_critical_frequency(0.8, 10, T=2000, m=40, **LATE)
    early, later = (predict_critical_frequency(0.8, 10, T=T, N=8192, **LATE) for T in (500, 2000))
    assert 0 < limit < later < early, (limit, later, early)


def test_predict_step_is_the_former_name():
    with pytest.warns(DeprecationWarning, match=f"predict_step is now {NAME}"):
        assert rarefeat.predict_step is rarefeat.predict_critical_frequency
