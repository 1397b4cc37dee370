"""Bad input gets one line that names the key and what is allowed."""

import copy
from pathlib import Path

import pytest
import yaml

from rarefeat.config import load, merged, parse
from rarefeat.files import RarefeatError

RAW = yaml.safe_load(Path("config/config.yaml").read_text())


def changed(path, value):
    """The shipped config with one key changed, by its dotted path."""
    raw = copy.deepcopy(RAW)
    *parents, last = path.split(".")
    node = raw
    for parent in parents:
        node = node[int(parent)] if isinstance(node, list) else node.setdefault(parent, {})
    node[int(last) if isinstance(node, list) else last] = value
    return raw


def test_the_shipped_config_is_the_papers_grid():
    study = load("config/config.yaml").studies["paper"]
    points = {(cell.eps_min, cell.sigma) for cell in study.cells() if cell.arm.arm in ("dense", "pruned_neuron")}
    assert len(points) == 60
    assert len(study.cells()) == len({cell.path for cell in study.cells()})


def test_the_quick_grid_is_smaller_and_has_the_same_studies():
    full, quick = load("config/config.yaml"), load("config/config.yaml", "config/quick.yaml")
    assert set(full.studies) == set(quick.studies)
    assert all(len(quick.studies[name].cells()) <= len(full.studies[name].cells()) for name in full.studies)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("trainig", {}, ["trainig"]),
        ("data.dd", 3, ["data.dd"]),
        ("training.m", 0, ["training.m", "greater than or equal to 1", "0"]),
        ("training.lambda", -0.1, ["training.lambda", "greater than or equal to 0"]),
        ("training.eta", float("nan"), ["training.eta", "finite"]),
        ("training.T", 1.5, ["training.T", "integer"]),
        ("training.bias.rule", "grwo", ["training.bias.rule", "follow", "grow"]),
        ("training.bias.T1", 0, ["training.bias.T1", "greater than or equal to 1"]),
        ("arms.1.alpha", 1.0, ["arms.1.alpha", "less than 1"]),
        ("arms.1.alpha", -0.1, ["arms.1.alpha", "greater than or equal to 0"]),
        ("arms.0.alpha", 0.5, ["arms.0", "alpha"]),
        ("arms.1", {"arm": "dense"}, ["distinct"]),
        ("data.minority", [1.0] * 9, ["minority", "fewer than d = 9"]),
        ("data.minority", [], ["minority", "at least 1"]),
        ("data.C", 50, ["C must be at most", "11.4"]),
        ("data.d1", 8, ["d1 must be at least d = 9"]),
        ("data.N", 64, ["training.K", "data.N = 64"]),
        ("studies.paper.grid.figure_3.sigma", [-0.1], ["figure_3.sigma.0", "greater than or equal to 0"]),
        ("studies.paper.grid.figure_3.eps_min", [], ["figure_3.eps_min", "at least 1"]),
        ("studies.paper.grid.figure_3.eps_min", [0.1, 0.1], ["figure_3", "eps_min", "distinct"]),
        ("studies.paper.grid.figure_3.eps_min", [1.2], ["figure_3.eps_min.0", "less than or equal to 1"]),
        ("studies.paper.grid.figure_3.arms", ["dens"], ["figure_3.arms.0", "dense"]),
        ("studies.paper.grid", {}, ["studies.paper.grid", "at least 1"]),
        ("studies.paper", 3, ["studies.paper"]),
        ("studies", {}, ["studies"]),
        ("seeds", 0, ["seeds", "greater than or equal to 1"]),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_key_and_what_is_allowed(path, value, words):
    with pytest.raises(RarefeatError) as caught:
        parse(changed(path, value))
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_an_arm_missing_from_the_study_is_named():
    raw = changed("arms", [{"arm": "dense"}])
    with pytest.raises(RarefeatError, match=r"grid.*pruned_neuron.*not among the study's arms"):
        parse(raw)


def test_unreadable_config_files_are_named(tmp_path):
    broken = tmp_path / "broken.yaml"
    for text in ("a: [1", "- 1", ""):
        broken.write_text(text)
        with pytest.raises(RarefeatError, match=r"broken.yaml"):
            load(broken)
    with pytest.raises(RarefeatError, match=r"absent.yaml"):
        load(tmp_path / "absent.yaml")


def test_a_study_overrides_key_by_key():
    config = parse(RAW)
    assert config.studies["neighbour"].training.lambda_ == 0.02
    assert config.studies["neighbour"].training.model_copy(update={"lambda_": 0.05}) == config.studies["paper"].training
    assert merged({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}}) == {"a": {"b": 1, "c": [2]}}


def test_blocks_cover_every_seed_once():
    study = parse(RAW).studies["paper"].model_copy(update={"seeds": 11, "seeds_per_block": 4})
    seeds = [seed for block in study.blocks().values() for seed in block]
    assert seeds == list(range(study.first_seed, study.first_seed + 11))
    assert list(study.blocks()) == ["100-103", "104-107", "108-110"]
