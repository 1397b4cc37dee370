"""How YAML is read, and which values a config may have."""

from pathlib import Path

import pytest

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.section import Section
from rarefeat.workflow.config.study import Study, merge_configs
from rarefeat.workflow.config.yaml_reader import read_yaml
from rarefeat.workflow.project import load, parse

ROOT = Path(__file__).parents[2]
RAW = read_yaml(ROOT / "config/config.yaml")
GRID = {"grid": {"g": {"eps_min": [0.5], "sigma": [0.05], "arms": ["dense"]}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1.0e+3", 1000.0),
        ("'010'", "010"),
        ("'5:00'", "5:00"),
        ("yes", "yes"),
        ("~", None),
    ],
)
def test_read_yaml_has_values_of_yaml_1_2(text, value, tmp_path):
    (tmp_path / "mine.yaml").write_text(f"key: {text}\n", encoding="utf-8")
    found = read_yaml(tmp_path / "mine.yaml")["key"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("text", "value"), [("0100", 64), ("5:00", 300), ("-1:30.5", -90.5)])
def test_number_that_snakemake_misreads_is_refused(text, value, tmp_path):
    (tmp_path / "mine.yaml").write_text(f"a: [1_000, 0.5, 0]\nb: {text}\n", encoding="utf-8")
    with pytest.raises(RarefeatError, match=f"line 2: {text} is {value} to Snakemake"):
        read_yaml(tmp_path / "mine.yaml")


@pytest.mark.parametrize("text", ["\ufeffseeds: 3\r\n", "seeds: '3'\n", "seeds: 3.0\n"])
def test_odd_forms_of_a_number_are_read(tmp_path, text):
    (tmp_path / "mine.yaml").write_bytes(text.encode())
    found = load(
        ROOT / "config/config.yaml", tmp_path / "mine.yaml", folder=ROOT / "config/studies"
    )
    assert found.sections["imbalance"].studies["paper"].seeds == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": [{"arm": "dense"}, {"arm": "oracle_all", "onset": 499}]},
        {"arms": [{"arm": "dense"}, {"arm": "pruned_neuron", "alpha": 1 / 30}]},
        {"training": {"bias": {"T1": 500}}},
        {"training": {"eta": "1e-1", "T": "600"}},
        {"training": {"eta": 1}},
        # What an arm that no block of the grid names says has no effect.
        {"arms": [{"arm": "dense"}, {"arm": "oracle_all", "onset": 600}]},
    ],
)
def test_value_at_its_bound_is_allowed(changes):
    study = merge_configs(GRID, changes)
    if "arms" in changes and changes["arms"][1].get("onset") != 600:
        study = merge_configs(
            study, {"grid": {"g": {"arms": ["dense", changes["arms"][1]["arm"]]}}}
        )
    raw = merge_configs(RAW, {"imbalance": {"studies": {"ours": study}}})
    assert isinstance(parse(raw, ROOT / "config/studies").studies["ours"], Study)


class Numbers(Section):
    values: list[float]


def test_section_has_one_zero():
    assert str(Numbers(values=[-0.0, 0.0]).values) == "[0.0, 0.0]"


def test_arm_labels_differ_beyond_six_digits():
    assert len({Arm(arm="pruned_neuron", alpha=alpha).label for alpha in (0.1, 0.1 + 1e-12)}) == 2
