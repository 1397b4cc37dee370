"""Arguments of `train`: what is wrong is told in one line that names the key."""

import pickle

import pytest
from conftest import refusal
from session_code import define

import rarefeat

REFUSED = [
    ({"taus": 1}, "train: taus: unknown key (did you mean 'tau'?); allowed are eps_min"),
    ({"sgima": 0.3}, "train: sgima: unknown key (did you mean 'sigma' or 'sigma_0'?)"),
    ({"lr": 0.1}, "train: lr: unknown key (it is called 'eta' here); allowed are eps_min"),
    ({"loss": "vicreg"}, "train: loss: unknown key (it is an argument of train_learners)"),
    ({"data_options": {}}, "train: data_options: unknown key (it is an argument of train_l"),
    ({"bias": {"shar": 0}}, "train: bias.shar: unknown key (did you mean 'share'?)"),
    ({"eps_min": "1e-1"}, "train: eps_min: must be a number, got '1e-1'"),
    ({"T": "long"}, "train: T: Input should be a valid integer"),
    ({"T": 2**60}, "train: T: must be at most 2^53, got 1152921504606846976"),
    ({"eta": 1e300}, "train: eta: 1e+300 is beyond float32, from 1e-37 to 1e+37"),
    ({"K": 128, "N": 100}, "train: K must not exceed data.N = 100, got 128"),
    ({"arm": "pruned_neuron", "alpha": [0.1, 0.2]}, "train: arm: must be one with a training, got"),
    ({"arm": {"arm": "pruned_neuron", "alpha": 0.3}, "alpha": 0.1}, "train: alpha: given twice"),
    ({"arm": "dens"}, "train: arm: 'dens' is none of the trained arms of the study paper (did you"),
    ({"arm": "ideal"}, "train: arm: must be one with a training, got 'ideal'; see rarefeat.sweep"),
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
