"""A study of a new kind, added as CONTRIBUTING says, and the checks that its author runs."""

from pathlib import Path

import pytest
from whole_project import (
    RESULTS,
    ROOT,
    code_blocks,
    run,
    run_block,
    run_module,
    succeed,
)

from rarefeat.claims.tables import CLAIMS, VERDICTS
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.files.sealed_files import read_table
from rarefeat.workflow.run.metadata import read_origin

PYTHON = "src/rarefeat/studies/example.py"
FILES = {PYTHON, "src/rarefeat/studies/example.yaml"}
(RECIPE,) = (
    text
    for language, text in code_blocks(ROOT / "CONTRIBUTING.md")
    if language == "bash" and "toy.py" in text
)


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A clone of the project, after the recipe."""
    folder = tmp_path_factory.mktemp("clone")
    copy = "git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C"
    run_block("bash", f"{copy} {folder}", ROOT)
    git = "git -c user.name=a -c user.email=a@b"
    run_block("bash", f"git init -q && git add -A && {git} commit -qm first", folder)
    run_block("bash", RECIPE, folder)
    return folder


def test_recipe_adds_two_files_of_few_lines(clone):
    assert sum(len((clone / path).read_text().splitlines()) for path in FILES) <= 80
    changed = run_block("bash", "git status --porcelain -uall", clone)
    assert {line[3:] for line in changed.splitlines()} == FILES
    assert "toy" not in (clone / "src/rarefeat/studies/example.py").read_text().lower()


def test_study_has_table_figure_verdicts_pages_and_report(clone):
    results = clone / RESULTS
    table = read_table(results / "tables/example_replicas.parquet").to_pandas()
    assert table.groupby("samples")["seed"].nunique().to_dict() == {10: 6, 100: 6}
    assert table["accuracy"].between(0.3, 1).all()
    origin = read_origin(results / "figures/example_curve.pdf")
    assert origin["tables"].keys() == {"example_replicas"}
    claims = validate(CLAIMS, read_table(results / "tables/claims_example.parquet").to_pandas())
    found = claims.set_index("point")["estimate"]
    means = table.groupby("samples")["accuracy"].mean()
    assert found.to_dict() == pytest.approx({f"{n} samples": means[n] for n in (10, 100)})
    assert set(claims["verdict"]) <= set(VERDICTS[:4])
    assert "example-beats-chance | ten samples are" in (results / "claims_example.md").read_text()
    assert "![example_curve]" in (results / "example.md").read_text()
    succeed(run_module(clone, "rarefeat.workflow.cli", "verify", RESULTS))
    succeed(run(clone, "--report", "report.html", "--", "existing_outputs"))
    report = (clone / "report.html").read_text()
    for entry in ("figures/example_curve.png", "pages/example.html", "pages/claims_example.html"):
        assert str(RESULTS / entry) in report
    assert "See whether it rises." in report


MISTAKES = {
    "a name": ("setting(int", "settign(int", "NameError: name 'settign' is not defined"),
    "a key of the config": ("d: 20", "e: 20", "the study example is left out: config: "),
    "a setting": ("draws: str, d: int", "draws: str, D: int", "parameter D: there is none"),
    "a figure": ('figures={"example', 'figures={"exmple', "figure exmple_curve: there is none"),
    "a key of a pick": ("example-beats-chance:", "better:", "claim better: it needs an entry here"),
    "a key out of place": ("\nd: 20", "\nd: 20: 1", "src/rarefeat/studies/example.yaml: line "),
    "a column": ('"seed": seed, "acc', '"extra": 1, "seed": seed, "acc', "column extra"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_one_line_and_spares_other_studies(clone, name):
    old, new, message = MISTAKES[name]
    suffix = "yaml" if "key" in name else "py"
    file = clone / f"src/rarefeat/studies/example.{suffix}"
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, new))
    process = run(clone, RESULTS / "tables/example_replicas.parquet")
    other = run(clone, "--dry-run", "heatmap")
    file.write_text(before)
    lines = (process.stdout + process.stderr).splitlines()
    assert process.returncode == 1
    assert sum(message in line for line in lines) == 1, lines
    assert not [line for line in lines if "Traceback" in line]
    assert other.returncode == 0, other.stderr
