"""Arguments of `train`: what is wrong is told in one line that names the key."""

import inspect
import pickle
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from conftest import refusal
from session_code import define

import rarefeat
from rarefeat.api import keys
from rarefeat.api.arguments import ARGUMENT_SECTIONS
from rarefeat.api.learner_sweeps import LEARNER_ONLY
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.config.section import Section

REFUSED = [
    ({"taus": 1}, "train: taus: unknown key (did you mean 'tau'?); allowed are simulator"),
    ({"sgima": 0.3}, "train: sgima: unknown key (did you mean 'sigma' or 'sigma_0'?)"),
    ({"lr": 0.1}, "train: lr: unknown key (it is called 'eta' here); allowed are simulator"),
    ({"loss": "vicreg"}, "train: loss: unknown key (it is an argument of train_learners)"),
    ({"data_options": {}}, "train: data_options: unknown key (it is an argument of train_l"),
    ({"lambda_": 0.1, "lambda": 0.2}, "train: lambda: given twice, as lambda_ as well"),
    ({"bias": {"shar": 0}}, "train: bias.shar: unknown key (did you mean 'share'?)"),
    ({"eps_min": "1e-1"}, "train: eps_min: must be a number, got '1e-1'"),
    ({"T": "long"}, "train: T: Input should be a valid integer"),
    ({"T": 10**5000}, "train: T: must be at most 2^53, got <int>"),
    ({"eta": 1e300}, "train: eta: 1e+300 is beyond float32, from 1e-37 to 1e+37"),
    ({"K": 128, "N": 100}, "train: K must not exceed data.N = 100, got 128"),
    ({"arm": "pruned_neuron", "alpha": [0.1, 0.2]}, "train: alpha: must be one value, got [0.1,"),
    ({"arm": {"arm": "pruned_neuron", "alpha": 0.3}, "alpha": 0.1}, "train: alpha: given twice"),
    ({"arm": "dens"}, "train: arm: 'dens' is none of the trained arms of the study paper (did you"),
    ({"arm": "ideal"}, "train: arm: 'ideal' has no training; rarefeat.sweep measures it"),
    ({"arm": "pruned_neuron", "study": "pruning"}, "'pruned_neuron' is several of the trained"),
    ({"seed": "100"}, "train: seed: must be a whole number, got '100'"),
    ({"draws": "a/b"}, "train: draws: invalid name 'a/b'; use letters"),
    ({"study": "digits"}, "train: study: 'digits' is no study of the contrastive encoder"),
    ({"config": "file"}, "train: config: must be what load_config returns, got 'file'"),
    ({"N": 10**11}, "out of memory: "),
    ({"arm": lambda context: context.norms > 0}, "a rule of your own needs a name"),
    ({"arm": define("def dense(context):\n    pass", "dense")}, "is called dense, as one that is"),
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


def test_keys_are_those_of_the_config_with_their_types():
    expected: dict[str, Any] = dict.fromkeys(ARGUMENT_SECTIONS["study"], keys.Text)
    kinds = {bool: keys.Flag, int: keys.Whole, float: keys.Number, str: keys.Text}
    for section in (Data, Training, Arm):
        for name, field in section.model_fields.items():
            (first, *_) = get_args(field.annotation) or [field.annotation]
            is_section = isinstance(first, type) and issubclass(first, Section)
            expected[name] = keys.Part if is_section else kinds.get(type(first), kinds.get(first))
    expected |= {"minority": Sequence[Any], "attention_scale": keys.Number | keys.Text}
    del expected["arm"]
    assert keys.Keys.__annotations__ == expected
    choices = keys.LearnerKeys.__annotations__.keys() - keys.Keys.__annotations__.keys()
    assert choices == LEARNER_ONLY
    assert {*inspect.signature(rarefeat.train_learners).parameters} >= {*expected, "seed"}


@pytest.mark.parametrize(
    ("path", "line"),
    [(5, "load_config: path: must be a text or a path, got 5"), ("none.yaml", "none.yaml")],
)
def test_load_config_refuses_in_one_line(path, line):
    assert line in refusal(rarefeat.load_config, path)


def test_config_can_be_pickled():
    """As a pool of processes sends it."""
    project = rarefeat.load_config("config/quick.yaml")
    again = pickle.loads(pickle.dumps(project))
    assert again.results == project.results
    assert again.studies.keys() == project.studies.keys()
    assert again.studies["paper"] == project.studies["paper"]


def test_own_function_is_that_beside_the_config_in_use(tmp_path):
    configs = []
    for name, threshold in (("some", "context.norms.median()"), ("none", "9")):
        (tmp_path / name).mkdir()
        text = f"def mine(context):\n    return context.norms > {threshold}\n"
        (tmp_path / name / "twin_rule.py").write_text(text)
        (tmp_path / name / "own.yaml").write_text("size: quick\n")
        configs.append(rarefeat.load_config(tmp_path / name / "own.yaml"))
    size = {"d1": 60, "N": 64, "K": 32, "T": 2, "m": 4, "progress": False}
    some, none = (rarefeat.train(config=c, arm="twin_rule:mine", **size) for c in configs)
    dense = rarefeat.train(config=configs[0], **size)
    assert (none.weights == dense.weights).all()
    assert not (some.weights == dense.weights).all()
