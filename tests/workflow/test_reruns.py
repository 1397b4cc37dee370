"""The jobs that a dry run plans after an edit of the code or of the config."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from whole_project import (
    RESULTS,
    ROOT,
    planned_jobs,
    run,
    run_module,
    succeed,
)

from rarefeat.workflow.config.study import merge_configs
from rarefeat.workflow.project import load

CHAIN = ["synthesise", "pretrain", "probe", "aggregate", "plot"]
STUDIES = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml").studies
NEIGHBOUR = STUDIES["neighbour"]


STUDY = NEIGHBOUR.model_dump(by_alias=True, mode="json", exclude={"draws"})


def edit(project: Path, path: str, pattern: str, replacement: str) -> None:
    file = project / "src/rarefeat" / path
    text, count = re.subn(pattern, replacement, file.read_text(), flags=re.MULTILINE)
    assert count, f"{path} has no {pattern}"
    file.write_text(text)


def add_line(project: Path, path: str, function: str, line: str = "changed = True") -> None:
    edit(project, path, rf"^(def {function}\((?:.|\n)*?\) -> [^\n]*:\n)", rf"\1    {line}\n")


def overlay(project: Path, **changes) -> dict[str, tuple[str, ...]]:
    (project / "more.yaml").write_text(yaml.safe_dump(changes))
    return {"configs": ("config/quick.yaml", "more.yaml")}


def test_edits_that_set_no_number_rerun_nothing(project):
    """Docstrings, comments, a new key, the text of an error, and code that runs jobs."""
    source = project / "src/rarefeat"
    for file in source.rglob("*.py"):
        text = file.read_text().replace('"""', '"""In other words: ', 1)
        file.write_text(text + "\n# A comment.\n")
    key = r'\1    new: bool = Field(default=False, description="")\n'
    for path in ("workflow/config/model.py", "workflow/config/images.py"):
        edit(project, path, r"^(class \w+\(Section\):\n    \"\"\".*\"\"\"\n\n)", key)
    add_line(project, "workflow/files/sealed_files.py", "seal")
    add_line(project, "workflow/run/cli_helpers.py", "progress")
    add_line(project, "workflow/run/results_folder.py", "acquire")
    assert planned_jobs(project) == {}


def test_plan_writes_nothing_and_names_what_has_changed(project):
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*") if path.is_file()}
    study = {"studies": {"heatmap": {"training": {"eta": 0.2}}}}
    configs = overlay(project, imbalance=study)
    text = succeed(run(project, "--dry-run", **configs))
    assert "before: 'training.eta=0.1' now: 'training.eta=0.2'" in text
    add_line(project, "model/contrastive.py", "weight_gradient_coefficients")
    assert re.search(
        r"before: 'model\.contrastive \w+' now: 'model\.contrastive \w+'",
        succeed(run(project, "--dry-run")),
    )
    written = {path for path in project.rglob("*") if path.is_file() and path not in before}
    folders = {path.relative_to(project).parts[0] for path in written}
    assert folders <= {"more.yaml", ".snakemake", "src"}


def test_new_study_runs_its_own_jobs(project):
    """And draws figures of its own; that it differs where all others agree moves no other."""
    another = merge_configs(STUDY, {"training": {"bias": {"cap": 1.1}}})
    jobs = planned_jobs(project, **overlay(project, imbalance={"studies": {"another": another}}))
    cells = NEIGHBOUR.cells()
    assert jobs == {
        "synthesise": len({cell["eps_min"] for cell in cells}), "pretrain": len(cells),
        "probe": len(cells), "aggregate": 2, "plot": 4,
    }  # fmt: skip


def test_new_cell_runs_alone_with_what_aggregates_it(project):
    grid = {"arms": {"eps_min": [*NEIGHBOUR.grid["arms"].eps_min, 0.6]}}
    study = {"studies": {"neighbour": {"grid": grid}}}
    jobs = planned_jobs(project, **overlay(project, imbalance=study))
    rules = ["synthesise", "pretrain", "probe", "page"]
    assert jobs == dict.fromkeys(rules, 1) | {"aggregate": 2}  # of the study, and of its block


def test_changed_value_reruns_what_reads_it(project):
    study = {"studies": {"heatmap": {"training": {"eta": 0.2}}}}
    jobs = planned_jobs(project, **overlay(project, imbalance=study))
    rules = ["pretrain", "probe", "tabulate", "plot", "page"]
    assert jobs == dict.fromkeys(rules, 1) | {"aggregate": 2}


@pytest.mark.parametrize(
    ("path", "function", "first"),
    [
        ("model/sparse_coding.py", "latent_pairs", "synthesise"),
        ("model/contrastive.py", "weight_gradient_coefficients", "pretrain"),
        ("stages/aggregate.py", "summarise", "aggregate"),
    ],
)
def test_changed_line_reruns_its_stage_and_what_follows(project, path, function, first):
    add_line(project, path, function)
    jobs = planned_jobs(project)
    assert [rule for rule in CHAIN if rule in jobs] == CHAIN[CHAIN.index(first) :]
    # Every cell of the stage; those behind the checkpoint are planned once it has run.
    if (folder := project / RESULTS / f"{first}s").exists():
        assert jobs[first] >= len(list(folder.glob("[!s]*/*/*/seeds=*.parquet"))) > 3
    assert not {"image_data", "image_splits", "pretrain_images"} & set(jobs)


def test_changed_line_of_a_figure_draws_it_alone(project):
    add_line(project, "studies/imbalance/figures.py", "fate")
    assert planned_jobs(project).keys() == {"plot", "page"}


def test_accepted_refactoring_reruns_nothing(project):
    """And a change of the numbers is named, and not accepted."""
    accept = "rarefeat.workflow.cli", "accept", RESULTS
    table = RESULTS / "tables/heatmap_grid.parquet"
    # A sample has jobs of every function; those of one study are enough here.
    for path in (project / RESULTS).glob("*/*"):
        if path.parent.name != "logs" and path.name not in ("heatmap", table.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    add_line(project, "model/linear_probe.py", "linear_probe", "unused = 1")
    jobs = {"probe": 1, "aggregate": 1}
    assert planned_jobs(project, table) == jobs
    assert "accepted: stages.probe:stage" in succeed(run_module(project, *accept))
    assert planned_jobs(project, table) == {}
    edit(project, "model/linear_probe.py", r"return mse.item\(\),", "return 2 * mse.item(),")
    refused = run_module(project, *accept)
    assert refused.returncode == 1
    assert "the new bytes differ" in refused.stderr
    assert planned_jobs(project, table) == jobs


RULE = """
from level import LEVEL


def mine(seen):
    return seen.norms < LEVEL
"""


def test_edit_behind_a_user_rule_reruns_what_it_prunes(project):
    """Files of a user count as a whole, with what they import."""
    (project / "level.py").write_text("LEVEL = 0.1\n")
    (project / "rules.py").write_text(RULE)
    arms = [{"arm": "dense"}, {"arm": "rules:mine"}]
    grid = {"all": {"eps_min": [1.0], "sigma": [0.05], "arms": ["dense", "rules:mine"]}}
    study = STUDY | {"arms": arms, "grid": grid}
    configs = overlay(project, imbalance={"studies": {"own": study}})
    target = RESULTS / "tables/own_grid.parquet"
    succeed(run(project, target, **configs))
    (project / "other.py").write_text("LEVEL = 0.2\n")
    assert planned_jobs(project, target, **configs) == {}
    (project / "level.py").write_text("LEVEL = 0.2\n")
    rules = ["pretrain", "probe", "aggregate"]
    assert planned_jobs(project, target, **configs) == dict.fromkeys(rules, 1)
