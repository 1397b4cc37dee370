"""What a config makes; sizes, seeds and names."""

from pathlib import Path

import pytest
from conftest import quick, refusal

from rarefeat.workflow.config.images import ImageStudy
from rarefeat.workflow.config.study import Study, merge_configs
from rarefeat.workflow.config.yaml_reader import read_yaml
from rarefeat.workflow.project import parse

RAW = read_yaml(Path("config/config.yaml"))


def number(study) -> int:
    return sum(len(seeds) for seeds in study.blocks().values())


def test_a_study_overrides_key_by_key():
    config = parse(RAW)
    assert config.studies["neighbour"].training.lambda_ == 0.02
    assert (
        config.studies["neighbour"].training.model_copy(update={"lambda_": 0.05})
        == config.studies["paper"].training
    )
    assert merge_configs({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}}) == {"a": {"b": 1, "c": [2]}}


def test_the_cross_check_shares_the_test_set_of_the_paper_and_no_seed():
    studies = parse(RAW).studies
    assert studies["direct"].draws == studies["paper"].draws
    seeds = [
        {seed for block in studies[name].blocks().values() for seed in block}
        for name in ("paper", "direct")
    ]
    assert not seeds[0] & seeds[1]


def test_no_study_has_more_seeds_than_most_seeds():
    full, capped = parse(RAW), parse(RAW | {"most_seeds": 7})
    assert set(full.studies) == set(capped.studies)
    for name, study in capped.studies.items():
        assert number(study) == min(7, number(full.studies[name])), name
        if isinstance(study, Study | ImageStudy):
            # Nothing else is another, but for blocks of as many seeds as there are.
            same = {key: getattr(full.studies[name], key) for key in ("seeds", "seeds_per_block")}
            assert study.model_copy(update=same) == full.studies[name]
    assert max(map(number, full.studies.values())) > 7
    assert parse(RAW | {"most_seeds": 0}).studies == full.studies
    assert parse(RAW | {"most_seeds": "7.0"}).studies == capped.studies


def test_a_size_is_laid_over_the_files_that_have_it():
    project = parse(RAW | {"size": "full"})
    # A size that is larger is nothing that figures warn of, a small one is.
    assert project.size_section == {}
    assert parse(RAW | {"size": "quick"}).size_section == {"size": "quick"}
    assert project.sections["scaling"].d != parse(RAW).sections["scaling"].d
    assert project.sections["imbalance"] == parse(RAW).sections["imbalance"]
    # What a config says goes over the size.
    own = parse(RAW | {"size": "full", "scaling": {"neurons": 123}}).sections["scaling"]
    assert own == project.sections["scaling"].model_copy(update={"neurons": 123})


def a_study(name: str) -> dict:
    studies = read_yaml(Path("config/studies/imbalance.yaml"))["studies"]
    return {"imbalance": {"studies": {name: studies["neighbour"]}}}


def a_learner(options: dict) -> dict:
    studies = read_yaml(Path("config/studies/learners.yaml"))["studies"]
    return {"learners": {"studies": {next(iter(studies)): {"learners": {"mine": options}}}}}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"loss_options": {"temp": 1}}, "learners: mine: loss: infonce has no option temp"),
        (
            {"optimiser_options": {"lr": 1}},
            "learners: mine: optimiser: lr: the rate is the key eta",
        ),
        ({"optimiser_options": {"momentum": -1}}, "learners: mine: optimiser: Invalid momentum"),
    ],
)
def test_options_of_a_learner_are_refused_before_its_first_job(options, line):
    raw = RAW | a_learner(options)
    assert line in refusal(parse(raw).check_inputs, next(iter(raw["learners"]["studies"])))


@pytest.mark.parametrize("name", ["mask=0.3", "x-y", "_", "x" * 60])
def test_a_name_that_a_target_can_have_is_taken(name):
    project = parse(RAW | a_study(name))
    assert name in project.studies
    assert name in project.targets
    assert f"{name}_grid" in project.tables


def test_a_role_says_what_is_measured_of_a_study():
    """A new study with a role gets its tables and its claims, whatever its name.

    The chain is not told of the role.
    """
    project = parse(
        RAW | {"theory": {"studies": {"ours": {"role": "phase", "grid": GRID}, "my": MINE}}}
    )
    theory = project.claim_inputs["theory"].tables
    assert {"ours_trajectories", "my_milestones", "my_one_step"} <= set(theory)
    assert "my_trajectories" not in project.tables
    assert "ours_milestones" not in project.tables
    assert "ours" in project.sections["theory"].studies_with_role("phase")
    (part,) = project.table_job("my_milestones").config.values()
    assert "role" not in part
    other = parse(RAW | {"theory": {"studies": {"my": MINE | {"role": "T1_C"}}}})
    assert other.table_job("my_milestones") == project.table_job("my_milestones")


GRID = {"one": {"eps_min": [1.0], "sigma": [0.05], "arms": ["dense"]}}
MINE = {"role": "stages", "training": {"history": True}, "grid": GRID}


def test_name_of_a_run_is_its_folder_and_in_figures():
    plain, other = quick(), quick(name="other_noise")
    assert other.results == f"{plain.results}/other_noise"
    name = next(iter(other.figures))
    assert other.figure_job(name).size_note.startswith("run other_noise; a run of size quick")
    assert "other_noise" not in plain.figure_job(name).size_note
