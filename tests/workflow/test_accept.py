"""Code that was changed without changing a byte of what it makes is accepted after a look at a sample, and only then."""

import json

import pytest
from test_reruns import edit
from whole_project import RESULTS, planned, python, succeeded

PROBE = "src/rarefeat/core/linear_probe.py"


def accept(project):
    return python(project, "-m", "rarefeat.manage.accept", RESULTS)


def test_a_refactoring_that_changes_no_byte_makes_nothing_again(project):
    edit(project, PROBE, r"^(def linear_probe\((?:.|\n)*?\) -> [^\n]*:\n)", r"\1    unused = 1\n")
    assert planned(project)["probe"] > 3
    done = succeeded(accept(project))
    assert "accepted: chain.probe:stage, " in done.stdout
    assert planned(project) == {}
    entry = next(
        entry
        for entry in json.loads((project / RESULTS / "accepted.json").read_text())["accepted"]
        if entry["stage"] == "chain.probe:stage"
    )
    assert entry["before"] != entry["now"]
    studies = {path.split("/")[3] for path in entry["sample"]}
    assert studies == {
        path.name
        for path in (project / RESULTS / "probes").iterdir()
        if (project / RESULTS / "latents" / path.name).exists()
    }
    # A second change stands for the same.
    edit(project, PROBE, "unused = 1", "unused = 2")
    assert planned(project)
    assert accept(project).returncode == 0
    assert planned(project) == {}


def test_what_comes_out_otherwise_is_named_and_nothing_is_accepted(project):
    edit(
        project,
        "src/rarefeat/core/statistics.py",
        r"return mean, sd,",
        "return mean * (1 + 1e-15), sd,",
    )
    before = planned(project)
    assert before
    done = accept(project)
    assert done.returncode == 1
    assert "cannot accept: results/quick/" in done.stderr
    assert "the new bytes differ" in done.stderr
    assert not (project / RESULTS / "accepted.json").exists()
    assert planned(project) == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("chain.probe:stage", "chain.pretrain:stage"),
        lambda text: text[:-20],
    ],
)
def test_a_record_that_was_changed_by_hand_is_refused(project, damage):
    edit(project, PROBE, r"^(def linear_probe\((?:.|\n)*?\) -> [^\n]*:\n)", r"\1    unused = 1\n")
    assert accept(project).returncode == 0
    path = project / RESULTS / "accepted.json"
    path.write_text(damage(path.read_text()))
    done = accept(project)
    assert done.returncode == 1
    assert f"error: cannot read {RESULTS}/accepted.json: it is damaged" in done.stderr
