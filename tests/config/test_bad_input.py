"""What is just allowed, and how YAML is read."""

import ast
import copy
from pathlib import Path

import pytest
import yaml
from conftest import refusal

from rarefeat.config.model import Arm
from rarefeat.config.reading import read, said, sound
from rarefeat.config.section import distinct
from rarefeat.config.study import Study, merged
from rarefeat.core.errors import RarefeatError
from rarefeat.project import load, parse

ROOT = Path(__file__).parents[2]
RAW = read(ROOT / "config/config.yaml")
STUDIES = ROOT / "config/studies"
GRID = {"grid": {"g": {"eps_min": [0.5], "sigma": [0.05], "arms": ["dense"]}}}


def a_study(**changes) -> dict:
    """A config with a study of its own beside those that are shipped."""
    return {"imbalance": {"studies": {"ours": merged(GRID, changes)}}}


def of_arm(**keys) -> dict:
    return a_study(arms=[{"arm": "dense"}, keys], grid={"g": {"arms": ["dense", keys["arm"]]}})


@pytest.mark.parametrize(
    "changes",
    [
        of_arm(arm="oracle_all", onset=499),
        of_arm(arm="pruned_neuron", alpha=1 / 30),
        a_study(training={"bias": {"T1": 500}}),
        # An arm that no block of the grid names may be whatever it likes.
        a_study(arms=[{"arm": "dense"}, {"arm": "oracle_all", "onset": 600}]),
        # What YAML 1.1 takes for a text.
        a_study(training={"eta": yaml.safe_load("1e-1")}),
        a_study(training={"eta": 1}),
    ],
)
def test_what_is_just_allowed_is_taken(changes):
    assert isinstance(parse(merged(copy.deepcopy(RAW), changes), STUDIES).studies["ours"], Study)


def test_an_exponent_without_a_point_is_a_number():
    training = parse(merged(copy.deepcopy(RAW), a_study(training={"eta": "1e-1", "T": 600})), STUDIES).studies["ours"].training
    assert training.eta == 0.1
    with pytest.raises(RarefeatError, match=r"training.T: Input should be a valid integer, got 600.0"):
        parse(merged(copy.deepcopy(RAW), a_study(training={"T": "6e2"})), STUDIES)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("seeds=4", 4),
        ('seeds="4"', "4"),
        ("eta=1e-3", "1e-3"),
        ("eta=1.0e-3", 1e-3),
        ("data={N: 64, minority: [1.0]}", {"N": 64, "minority": [1.0]}),
        ("training={history: true}", {"history": True}),
        ("results=a: [b", "a: [b"),
        ("results=a=b", "a=b"),
        ("size=", None),
        ("size=none", "none"),
    ],
)
def test_a_command_line_is_read_as_a_file_is(entry, value):
    """Snakemake has the values within `--config data={N: 64}` as texts, and 4 for "4"."""
    assert said([entry]) == {entry.partition("=")[0]: value}


@pytest.mark.parametrize(
    "value", ["010", "5:00", "1_000", "0x1F", "yes", "off", "2024-01-01", "{N: 1, N: 2}", "{{N: 1}: 2}", "1" * 400]
)
def test_a_command_line_has_nothing_that_a_file_may_not_have(value):
    with pytest.raises(RarefeatError, match=r"^--config data: "):
        said([f"data={value}"])


@pytest.mark.parametrize("value", [0, 7, -7, 0.5, -0.5, 1e-37, 1e37, 2**53, True, None, "x", [1.0, [2]], {"a": {"b": 1.5}}])
def test_sound_values_are_left_as_they_are(value):
    assert sound({"key": value}) == {"key": value}
    assert type(sound(value)) is type(value)


def test_zero_has_one_sign():
    assert str(sound({"sigma": [-0.0, 0.0]})) == "{'sigma': [0.0, 0.0]}"


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("training:\n  eta: 0.1\n  eta: 0.2\n", "eta", 3),
        ("a: [{b: 1, b: 2}]\n", "b", 1),
        ("a: &a {b: 1}\nc: {<<: *a, <<: *a}\n", "<<", 2),
    ],
)
def test_a_key_given_twice_is_named_with_its_line(tmp_path, text, key, line):
    path = tmp_path / "twice.yaml"
    path.write_text(text, encoding="utf-8")
    said = refusal(load, path)
    assert said.startswith(f"cannot read config {path}: the key {key!r} is given twice")
    assert f"line {line}, column" in said


def test_a_key_over_a_merged_one_is_no_second_one(tmp_path):
    path = tmp_path / "merged.yaml"
    path.write_text("a: &a {b: 1, c: 2}\nd: &d {<<: *a, b: 3}\ne: {<<: *d, c: 4}\n", encoding="utf-8")
    assert read(path) == {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}, "e": {"b": 3, "c": 4}}


def test_every_shipped_config_has_each_key_once():
    for path in (ROOT / "config").rglob("*.yaml"):
        read(path)


@pytest.mark.parametrize(("less", "more"), [(5, 5.0001), (0.5, 0.500001)])
def test_values_that_six_digits_tell_apart_are_taken(less, more):
    distinct([less, more])
    with pytest.raises(ValueError, match="to six digits"):
        distinct([less, less * (1 + 1e-7)])


def test_every_arm_s_label_is_a_name_of_its_own_at_the_bounds():
    assert len({Arm(arm="pruned_neuron", alpha=alpha).label for alpha in (0.1, 0.1 + 1e-12)}) == 2


def calls_without_encoding(path: Path) -> list[str]:
    """Where a text file is read, written or opened in the encoding of the locale."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        values = [item.value for item in node.args if isinstance(item, ast.Constant)]
        binary = any(isinstance(value, str) and "b" in value and len(value) <= 3 for value in values)
        opened = name == "open" and isinstance(node.func, ast.Name) and not binary
        said = {item.arg for item in node.keywords}
        if (name in ("read_text", "write_text") or opened or "text" in said) and "encoding" not in said:
            found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_every_text_file_is_read_and_written_as_utf_8():
    sources = [path for folder in ("src", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert [place for path in sources for place in calls_without_encoding(path) if "encoding" not in path.name] == []


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("\ufeffseeds: 3\n", 3), ("seeds: 3\r\nsize: full\r\n", 3), ("seeds: 3\n...\n", 3), ("seeds: !!int '3'\n", 3),
        ('"seeds": 3\n', 3), ("seeds : 3\n", 3), ("imbalance: {studies: {}}\nseeds: 3\n", 3),
        ("imbalance:\n  studies:\n    paper: &one {seeds: 2}\n    neighbour: {<<: *one, seeds: 3}\nseeds: 5\n", 2),
    ],
)  # fmt: skip
def test_odd_forms_of_yaml_are_taken_as_they_look(tmp_path, text, seeds):
    (tmp_path / "mine.yaml").write_bytes(text.encode())
    found = load(ROOT / "config/config.yaml", tmp_path / "mine.yaml", folder=ROOT / "config/studies")
    assert found.sections["imbalance"].studies["paper"].seeds == seeds
