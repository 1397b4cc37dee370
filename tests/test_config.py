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
    points = study.points()
    assert len(points) == len({point.path for point in points}) == 60
    assert all({"dense", "pruned_neuron"} <= {arm.arm for arm in point.arms} for point in points)


def test_a_point_has_the_arms_of_every_block_that_holds_it():
    for study in parse(RAW).studies.values():
        for point in study.points():
            named = {
                name
                for block in study.grid.values()
                if point.eps_min in block.eps_min and point.sigma in block.sigma
                for name in block.arms
            }
            assert [arm.label for arm in point.arms] == [arm.label for arm in study.arms if arm.arm in named]
            assert point.trained == [arm for arm in point.arms if arm.trained]


def test_the_quick_grid_is_smaller_and_has_the_same_studies():
    full, quick = load("config/config.yaml"), load("config/config.yaml", "config/quick.yaml")
    assert set(full.studies) == set(quick.studies)
    assert all(len(quick.studies[name].points()) <= len(full.studies[name].points()) for name in full.studies)


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
        ("arms.0.onset", 5, ["arms.0", "onset", "arms with a mask"]),
        ("arms.0.pruned_update", "straight_through", ["arms.0", "pruned_update", "arms with a mask"]),
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
        ("simulator", "exact", ["simulator", "direct", "reduced"]),
        ("studies.paper.draws", "", ["studies.paper.draws", "at least 1"]),
        (
            "studies.paper.grid.arms.arms",
            ["pruned_weight"],
            ["arms.arms", "pruned_weight", "reduced", "simulator: direct"],
        ),
        ("studies.direct.simulator", "reduced", ["grid.arms.arms", "pruned_weight", "simulator: direct"]),
        ("scaling.d", [9], ["scaling.d", "at least 2"]),
        ("scaling.ratio", [1.2], ["scaling.ratio.0", "less than or equal to 1"]),
        ("scaling.training", {"eta": -1}, ["scaling.training.eta", "greater than 0"]),
        ("scaling.data", {"C": 50}, ["C must be at most"]),
        ("scaling.data", {"N": 100}, ["scaling: at d = 9", "training.K must not exceed data.N = 100"]),
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


def test_draws_are_keyed_by_the_name_of_the_study_where_no_other_is_given():
    studies = parse(RAW).studies
    assert studies["paper"].draws == "paper"
    assert studies["neighbour"].draws == "neighbour"
    # The cross-check shares the test set of the paper's study, and no seed with it.
    assert studies["direct"].draws == "paper"
    seeds = [{seed for block in studies[name].blocks().values() for seed in block} for name in ("paper", "direct")]
    assert not seeds[0] & seeds[1]


def test_single_weights_may_be_pruned_in_a_study_that_is_direct():
    study = parse(RAW).studies["direct"]
    assert study.simulator == "direct"
    assert any(arm.arm == "pruned_weight" for point in study.points() for arm in point.arms)


def test_scaling_is_a_reduced_study_for_each_size_that_can_be_trained():
    config = parse(RAW)
    scaling, studies = config.scaling, config.scaling.studies()
    expected = set()
    for d in scaling.trained_d:
        for C_m in scaling.C_m:
            for power in scaling.d1_power:
                if (m := round(d**C_m)) <= scaling.most_neurons:
                    expected.add((d, m, round(d**power)))
    assert 0 < len(expected) < len(scaling.trained_d) * len(scaling.C_m) * len(scaling.d1_power)
    assert {(study.data.d, study.training.m, study.data.d1) for study in studies.values()} == expected
    assert len(studies) == len(expected)
    for name, study in studies.items():
        assert study.simulator == "reduced"
        assert study.draws == name
        assert {point.eps_min for point in study.points()} == set(scaling.ratio)
        assert all(point.sigma**2 * study.data.d1 == pytest.approx(scaling.nsr) for point in study.points())
    assert set(studies).isdisjoint(config.studies)
