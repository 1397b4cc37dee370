"""Bad input, one line each: the key, what is wrong, what is allowed. Each of these was accepted, or ended in a traceback."""

import ast
import copy
from pathlib import Path

import pytest
import yaml

from rarefeat.config.images import ImageStudy
from rarefeat.config.model import Arm
from rarefeat.config.study import Study, merged
from rarefeat.core.errors import RarefeatError
from rarefeat.project import load, parse, read, retyped
from rarefeat.run import memory

ROOT = Path(__file__).parents[2]
RAW = read(ROOT / "config/config.yaml")
STUDIES = ROOT / "config/studies"
GRID = {"grid": {"g": {"eps_min": [0.5], "sigma": [0.05], "arms": ["dense"]}}}


def a_study(**changes) -> dict:
    """A config with a study of its own beside those that are shipped."""
    return {"imbalance": {"studies": {"mine": merged(GRID, changes)}}}


def of_arm(**keys) -> dict:
    return a_study(arms=[{"arm": "dense"}, keys], grid={"g": {"arms": ["dense", keys["arm"]]}})


CASES = {
    "a mask that never begins": (
        of_arm(arm="oracle_all", onset=501),
        "config: imbalance.studies.mine: arm oracle_all-onset=501 of grid.g: onset must be below T = 500, got 501; "
        "no step has a mask",
    ),
    "a mask that begins at the end": (of_arm(arm="oracle_all", onset=500), "onset must be below T = 500, got 500"),
    "a T1 after the end": (
        a_study(training={"bias": {"T1": 501}}),
        "config: imbalance.studies.mine.training: bias.T1 must be at most T = 500, got 501",
    ),
    "no neuron to prune": (
        of_arm(arm="pruned_neuron", alpha=0.03),
        "arm pruned_neuron-alpha=0.03 of grid.g: alpha must be at least 1 / (m) = 0.03333, got 0.03; it prunes nothing",
    ),
    "no weight to prune": (
        merged(of_arm(arm="pruned_weight", alpha=1e-5), {"imbalance": {"studies": {"mine": {"simulator": "direct"}}}}),
        "alpha must be at least 1 / (m d1) = 6.667e-05, got 1e-05; it prunes nothing",
    ),
    "seeds: true": ({"seeds": True}, "seeds: Input should be a valid integer, got True"),
    "seeds: a text": ({"seeds": "4"}, "seeds: Input should be a valid integer, got '4'"),
    "seeds: a fraction": ({"seeds": 4.0}, "seeds: Input should be a valid integer, got 4.0"),
    "a number for a switch": (a_study(training={"history": 1}), "training.history: Input should be a valid boolean, got 1"),
    "a number as text": (a_study(training={"eta": "0.1"}), "training.eta: Input should be a valid number, got '0.1'"),
    "weights that change sign": (
        a_study(training={"lambda": 50}),
        "lambda must be below 1 / eta = 10, got 50: a step multiplies the weights by 1 - eta lambda",
    ),
    "weights that vanish": (
        a_study(training={"sigma_0": 1e-300}),
        "training.sigma_0: Input should be greater than or equal to 0.000000000000001, got 1e-300",
    ),
    "a crop the wrong way round": (
        {"images": {"augmentation": {"crop_scale": [1.0, 0.2]}}},
        "augmentation: crop_scale must be [least, most], got [1.0, 0.2]",
    ),
    "hue beyond the circle": (
        {"images": {"augmentation": {"jitter": [0.4, 0.4, 0.4, 3.0]}}},
        "jitter: hue, the fourth, must be at most 0.5, half of the colour circle, got 3",
    ),
    **{
        f"study {name!r}": (
            {"imbalance": {"studies": {name: GRID}}},
            f"config: the study {name!r} must begin with a letter and hold letters, digits and _ = . + - alone",
        )
        for name in ("..", "../x", "a{b}", "a/b", "a b", "1st", "-x")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line(case):
    changes, line = CASES[case]
    with pytest.raises(RarefeatError) as error:
        parse(merged(copy.deepcopy(RAW), changes), STUDIES)
    assert line in str(error.value)
    assert str(error.value).startswith("config: ")
    assert "\n" not in str(error.value)


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
    assert isinstance(parse(merged(copy.deepcopy(RAW), changes), STUDIES).studies["mine"], Study)


def test_an_exponent_without_a_point_is_a_number():
    training = parse(merged(copy.deepcopy(RAW), a_study(training={"eta": "1e-1", "T": 600})), STUDIES).studies["mine"].training
    assert training.eta == 0.1
    with pytest.raises(RarefeatError, match=r"training.T: Input should be a valid integer, got 600.0"):
        parse(merged(copy.deepcopy(RAW), a_study(training={"T": "6e2"})), STUDIES)


def test_what_a_command_line_says_of_a_section_has_its_types():
    """Snakemake reads the values within `--config data={N: 64}` as texts."""
    said = {"size": "quick", "data": {"N": "64", "minority": ["1.0"]}, "training": {"history": "true"}, "seeds": 4}
    assert retyped(said) == {"size": "quick", "data": {"N": 64, "minority": [1.0]}, "training": {"history": True}, "seeds": 4}
    assert retyped({"results": "a: [b"}) == {"results": "a: [b"}


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("seeds: 4\nsize: quick\nseeds: 5\n", "seeds", 3),
        ("training:\n  eta: 0.1\n  eta: 0.2\n", "eta", 3),
        ("a: [{b: 1, b: 2}]\n", "b", 1),
        ("a: &a {b: 1}\nc: {<<: *a, <<: *a}\n", "<<", 2),
    ],
)
def test_a_key_given_twice_is_named_with_its_line(tmp_path, text, key, line):
    path = tmp_path / "twice.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RarefeatError) as error:
        load(path)
    assert str(error.value).startswith(f"cannot read config {path}: the key {key} is given twice")
    assert f"line {line}, column" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_key_over_a_merged_one_is_no_second_one(tmp_path):
    path = tmp_path / "merged.yaml"
    path.write_text("a: &a {b: 1, c: 2}\nd: &d {<<: *a, b: 3}\ne: {<<: *d, c: 4}\n", encoding="utf-8")
    assert read(path) == {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}, "e": {"b": 3, "c": 4}}


def test_every_shipped_config_has_each_key_once():
    for path in (ROOT / "config").rglob("*.yaml"):
        read(path)


def test_rho_that_differ_a_little_have_files_of_their_own():
    study = load(ROOT / "config/config.yaml").studies["digits"]
    raw = study.model_dump(by_alias=True, exclude_defaults=True) | {"rho": [5, 5.0000001]}
    cells = ImageStudy.model_validate(raw).cells()
    assert len({cell.path for cell in cells}) == len(cells)


def sized(**changes) -> Study:
    return parse(merged(copy.deepcopy(RAW), a_study(**changes)), STUDIES).studies["mine"]


TOO_LARGE = {
    "N": ({"data": {"N": 10**10}}, r"study mine: data.N = 10000000000 needs 36,000.0 GB .* 8.0 GB here"),
    "m": ({"training": {"m": 10**9}}, r"study mine: training.m = 1000000000 needs .* 8.0 GB here"),
    "m under direct": (
        {"simulator": "direct", "training": {"m": 10**7}},
        r"study mine: training.m = 10000000 needs 20.0 GB .* under the simulator direct .* 8.0 GB here",
    ),
    "d1": ({"simulator": "direct", "data": {"d1": 10**9}}, r"study mine: data.d1 = 1000000000 needs .* 8.0 GB here"),
    "test_pairs": ({"data": {"test_pairs": 10**10}}, r"study mine: data.test_pairs = 10000000000 needs"),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_cannot_fit_the_memory_is_refused_with_the_numbers(case):
    changes, line = TOO_LARGE[case]
    with pytest.raises(RarefeatError, match=line):
        memory.refuse_too_large({"mine": sized(**changes)}, have=8e9)


def test_what_fits_is_not_refused():
    """The reduced simulator does not know d1."""
    memory.refuse_too_large({"mine": sized(data={"d1": 10**12})}, have=8e9)
    shipped = load(ROOT / "config/config.yaml").studies
    memory.refuse_too_large(shipped, have=4e9)
    assert memory.of_this_machine() > 1e8


def test_what_is_needed_is_at_most_what_a_training_holds():
    """A bound from below: the tensors of the chain themselves are as large."""
    from rarefeat.chain.synthesise import synthesise

    study = sized(data={"N": 3000, "probe_pairs": 200, "test_pairs": 128}, seeds=3, seeds_per_block=3)
    held = {name: tensor.nbytes for name, tensor in synthesise("mine", study.data, 0.5, [1, 2, 3]).items()}
    needs = memory.needs(study)
    assert needs["data.N"] == held["train"]
    assert needs["data.probe_pairs"] == held["probe_balanced"] + held["probe_matched"]
    assert needs["data.test_pairs"] == held["test_balanced"] + held["test_matched"]


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
