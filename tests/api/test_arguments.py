"""Arguments of `train`: what is wrong is told in one line that names the key."""

import math

import pytest
import torch
from conftest import refusal
from session_code import define

import rarefeat
from rarefeat.api import arguments

REFUSED = [
    ({"taus": 1}, "train: taus: unknown key (did you mean 'tau'?); allowed are simulator"),
    ({"epsmin": 0.3}, "train: epsmin: unknown key (did you mean 'eps_min'?)"),
    ({"sgima": 0.3}, "train: sgima: unknown key (did you mean 'sigma' or 'sigma_0'?)"),
    ({"T_": 5}, "train: T_: unknown key (did you mean 'T'?); allowed are"),
    ({"lambda_": 0.1, "lambda": 0.2}, "train: lambda: given twice, as lambda_ as well"),
    ({"bias": {"shar": 0}}, "train: bias.shar: unknown key (did you mean 'share'?)"),
    ({"bias": None}, "train: bias: Input should be a valid dictionary"),
    ({"sigma": -1}, "train: sigma: Input should be greater than or equal to 0"),
    ({"eps_min": "1e-1"}, "train: eps_min: must be a number, got '1e-1'"),
    ({"eps_min": True}, "train: eps_min: must be a number, got True"),
    ({"eps_min": 2}, "train: eps_min: Input should be less than or equal to 1, got 2"),
    ({"T": True}, "train: T: must be a number, got True"),
    ({"T": "long"}, "train: T: Input should be a valid integer"),
    ({"T": 10**5000}, "train: T: must be at most 2^53, got <int>"),
    ({"eta": math.nan}, "train: eta: Input should be a finite number, got nan"),
    ({"eta": 1e300}, "train: eta: 1e+300 is beyond float32, from 1e-37 to 1e+37"),
    ({"K": 128, "N": 100}, "train: K must not exceed data.N = 100, got 128"),
    ({"arm": "pruned_neuron", "alpha": [0.1, 0.2]}, "train: alpha: must be one value, got [0.1,"),
    ({"arm": "pruned_neuron", "alpha": 3}, "train: alpha: Input should be less than 1, got 3"),
    ({"arm": {"alpha": 0.3}}, "train: arm: must name one, as in"),
    ({"arm": {"arm": "pruned_neuron", "alpha": 0.3}, "alpha": 0.1}, "train: alpha: given twice"),
    ({"arm": []}, "train: arm: must be a name, a function or a mapping, got []"),
    ({"arm": "dens"}, "train: arm: 'dens' is none of the trained arms of the study paper (did you"),
    ({"arm": "ideal"}, "train: arm: 'ideal' has no training; rarefeat.sweep measures it"),
    ({"arm": "pruned_neuron", "study": "pruning"}, "'pruned_neuron' is several of the trained"),
    ({"seed": "100"}, "train: seed: must be a whole number, got '100'"),
    ({"seed": -1}, "train: seed: Input should be greater than or equal to 0, got -1"),
    ({"draws": "a/b"}, "train: draws: invalid name 'a/b'; use letters"),
    ({"study": None}, "train: study: must be a text, got None"),
    ({"study": "papre"}, "train: study: 'papre' is no study of the contrastive encoder in this"),
    ({"study": "digits"}, "train: study: 'digits' is no study of the contrastive encoder"),
    ({"config": "file"}, "train: config: must be what load_config returns, got 'file'"),
    ({"config": {}}, "train: config: must be what load_config returns, got {}"),
    ({"N": 10**11}, "out of memory: "),
    ({"arm": lambda context: context.norms > 0}, "a rule of your own needs a name"),
    ({"arm": define("def dense(context):\n    pass", "dense")}, "is called dense, as one that is"),
    ({"bias": {"rule": define("def grow(x):\n    pass", "grow")}}, "is called grow, as one that"),
    (
        {"bias": {"rule": "folow"}},
        "train: bias.rule: must be one of follow, grow, gradient, or MOD",
    ),
    ({"arm": "no_rules:small"}, "no_rules.py"),
]


@pytest.mark.parametrize(("changes", "line"), REFUSED)
def test_train_refuses_in_one_line(quick_project, changes, line):
    config = {} if "study" in changes else {"config": quick_project}
    assert line in refusal(rarefeat.train, **config | changes)


@pytest.mark.parametrize(
    ("path", "line"),
    [(5, "load_config: path: must be a text or a path, got 5"), ("none.yaml", "none.yaml")],
)
def test_load_config_refuses_in_one_line(path, line):
    assert line in refusal(rarefeat.load_config, path)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ({"share": 0.2}, "share=0.2"),
        ({"share": 0.2, "rule": define("def mine(x):\n    pass", "mine")}, "share=0.2, rule=mine"),
        ([1.0, 0.5], "1.0, 0.5"),
        ({}, "default"),
        (0.3, 0.3),
    ],
)
def test_axis_label_is_text_or_number(value, label):
    assert arguments.axis_label(value) == label


@pytest.mark.parametrize("value", [[1, 2], (1, 2), range(2), torch.tensor([1, 2])])
def test_is_list_of_sequences(value):
    assert arguments.is_list(value)


@pytest.mark.parametrize("value", ["ab", {"a": 1}, 1, None, {1, 2}, torch.tensor(1), len])
def test_is_list_of_single_values(value):
    assert not arguments.is_list(value)
