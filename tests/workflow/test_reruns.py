"""The jobs that a dry run plans after an edit of the code or of the config."""

import json
import re
import shlex
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

from rarefeat.workflow.config.study import Study
from rarefeat.workflow.project import load
from rarefeat.workflow.run.code_hashes import is_registry_entry

CHAIN = ["synthesise", "pretrain", "probe", "aggregate_paper", "plot"]
STUDIES = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml").studies
NEIGHBOUR = STUDIES["neighbour"]
STUDY = NEIGHBOUR.model_dump(by_alias=True, mode="json", exclude={"draws"})


def edit(project: Path, path: str, pattern: str, replacement: str) -> None:
    """Replace the matches of a pattern in a file of the package; there must be some."""
    file = project / "src/rarefeat" / path
    text, count = re.subn(pattern, replacement, file.read_text(), flags=re.MULTILINE)
    assert count, f"{path} has no {pattern}"
    file.write_text(text)


def add_line(project: Path, path: str, function: str, line: str = "changed = True") -> None:
    """Add a line at the top of a function."""
    edit(project, path, rf"^(def {function}\((?:.|\n)*?\) -> [^\n]*:\n)", rf"\1    {line}\n")


def overlay(project: Path, **changes) -> dict[str, tuple[str, ...]]:
    """Write changes of the config into a file; return the config files."""
    (project / "more.yaml").write_text(yaml.safe_dump(changes))
    return {"configs": ("config/quick.yaml", "more.yaml")}


def test_edits_that_set_no_number_rerun_nothing(project):
    """Texts for readers, a new key, code that runs jobs, and code that nothing uses."""
    source = project / "src/rarefeat"
    for file in source.rglob("*.py"):
        text = file.read_text().replace('"""', '"""In other words: ', 1)
        text = text.replace('description="', 'description="In other words: ')
        file.write_text(text + "\n# A comment.\n")
    tables, declaration = "studies/augmentation/tables.py", "studies/imbalance/declaration.py"
    edit(project, tables, 'covered_features="', 'covered_features="reworded: ')
    edit(project, declaration, '"Neurons whose weights point', '"Reworded: neurons that point')
    key = r'\1    new: bool = Field(default=False, description="")\n'
    for path in ("workflow/config/model.py", "workflow/config/images.py"):
        edit(project, path, r"^(class \w+\(Section\):\n    \"\"\".*\"\"\"\n\n)", key)
    add_line(project, "workflow/files/sealed_files.py", "seal")
    add_line(project, "workflow/run/cli_helpers.py", "progress")
    add_line(project, "workflow/run/results_folder.py", "acquire")
    with open(project / "src/rarefeat/model/contrastive.py", "a") as source:
        source.write("\n\ndef one_more(x):\n    return x\n")
    assert planned_jobs(project) == {}


def test_new_study_runs_its_own_jobs(project):
    """And draws figures of its own; the page of the kind lists all of its studies."""
    jobs = planned_jobs(project, **overlay(project, imbalance={"studies": {"fresh": STUDY}}))
    cells = NEIGHBOUR.cells()
    assert jobs == {
        "synthesise": len({cell["eps_min"] for cell in cells}), "pretrain": len(cells),
        "probe": len(cells), "aggregate_fresh": 1, "plot": 4, "page": 1,
    }  # fmt: skip


def test_new_cell_runs_alone_with_what_aggregates_it(project):
    grid = {"arms": {"eps_min": [*NEIGHBOUR.grid["arms"].eps_min, 0.6]}}
    study = {"studies": {"neighbour": {"grid": grid}}}
    jobs = planned_jobs(project, **overlay(project, imbalance=study))
    assert jobs == dict.fromkeys(
        ["synthesise", "pretrain", "probe", "aggregate_neighbour", "page"], 1
    )


def test_changed_value_reruns_what_reads_it(project):
    study = {"studies": {"heatmap": {"training": {"eta": 0.2}}}}
    jobs = planned_jobs(project, **overlay(project, imbalance=study))
    rules = ["pretrain", "probe", "aggregate_heatmap", "tabulate", "plot", "page"]
    assert jobs == {**dict.fromkeys(rules, 1), "page": jobs["page"]}


@pytest.mark.parametrize(
    ("path", "function", "first"),
    [
        ("model/sparse_coding.py", "latent_pairs", "synthesise"),
        ("model/contrastive.py", "weight_gradient_coefficients", "pretrain"),
        ("stages/aggregate.py", "summarise", "aggregate_paper"),
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
    assert planned_jobs(project) == {"plot": 1}


def test_accepted_refactoring_reruns_nothing(project):
    """And a change of the numbers is named, and not accepted."""
    accept = "rarefeat.workflow.cli", "accept", RESULTS
    table = RESULTS / "tables/heatmap_grid.parquet"
    # A sample has jobs of every study; those of two are enough here.
    for name, study in STUDIES.items():
        if isinstance(study, Study) and name not in ("heatmap", "neighbour"):
            shutil.rmtree(project / RESULTS / "probes" / name, ignore_errors=True)
    add_line(project, "model/linear_probe.py", "linear_probe", "unused = 1")
    jobs = {"probe": 1, "aggregate_heatmap": 1}
    assert planned_jobs(project, table) == jobs
    assert "accepted: stages.probe:stage, " in succeed(run_module(project, *accept))
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
    rules = ["pretrain", "probe", "aggregate_own"]
    assert planned_jobs(project, target, **configs) == dict.fromkeys(rules, 1)


CELL = "paper/eps_min=0.2/sigma=0.05/seeds=100-103"
SUFFIXES = {"encoders": "safetensors", "trajectories": "parquet", "probes": "parquet"}
OUTPUTS = [RESULTS / f"{folder}/{CELL}.{suffix}" for folder, suffix in SUFFIXES.items()]


def test_value_changed_back_is_restored_unless_forced(project):
    """A forced job runs."""

    def restored(*arguments: str, weight: float = 0.05, **keys: int) -> list[bool]:
        configs = overlay(project, training={"lambda": weight}, **keys)
        succeed(run(project, *arguments, "--", *OUTPUTS, **configs))
        logs = [project / RESULTS / f"logs/{rule}/{CELL}.log" for rule in ("pretrain", "probe")]
        return [log.read_text().startswith("from the output cache: ") for log in logs]

    def contents() -> list[bytes]:
        return [(project / path).read_bytes() for path in OUTPUTS]

    first = contents()
    assert restored(weight=0.04) == [False, False]
    assert contents() != first
    assert restored() == [True, True]
    assert contents() == first
    configs = overlay(project, training={"lambda": 0.05})
    assert planned_jobs(project, "--", *OUTPUTS, **configs) == {}
    linked = {path.stat().st_ino for path in (project / RESULTS / ".cache").iterdir()}
    assert {(project / path).stat().st_ino for path in OUTPUTS} <= linked
    assert restored("--forceall") == [False, False]
    assert contents() == first


def test_lineage_of_a_job_is_that_of_its_inputs(finished):
    """A job depends on the code of every stage upstream, also in rules written by hand."""
    text = succeed(run(finished, "--dry-run", "--forceall", "--printshellcmds"))
    jobs, code_of = [], {}
    for block in text.split("\n\n"):
        rule = re.search(r"^(?:rule|checkpoint) (\w+):$", block, re.M)
        command = re.search(r"^Shell command: (.*--job.*)$", block, re.M)
        if not rule or not command:
            continue
        paths = dict(re.findall(r"^    (input|output): (.*)$", block, re.M))
        words = shlex.split(command[1])
        job = json.loads((finished / words[words.index("--job") + 1]).read_text())
        schema = job.get("config", {}).get("schema", {})
        names = {schema} if isinstance(schema, str) else set(schema.values())
        code = {name for name in job.get("code", {}) if not is_registry_entry(name)} - names
        # A table is known by the identity of its job instead.
        products = re.compile(r"/tables/|/figures/|/pages/|\.md$")
        outputs = paths["output"].split(", ")
        code_of |= {path: code for path in outputs if not products.search(path)}
        inputs = paths.get("input", "").split(", ")
        jobs.append((rule[1], inputs, code - {job["stage"], job.get("runs")}))
    rules = {rule for rule, *_ in jobs}
    assert rules >= {"probe", "pretrain_images", "measure_augmentation", "measure_image_views"}
    for rule in rules:
        pairs = [
            (set().union(*(code_of.get(path, ()) for path in inputs)), upstream)
            for name, inputs, upstream in jobs
            if name == rule
        ]
        assert all(expected <= upstream for expected, upstream in pairs), rule
        # The inputs of `trained_sizes` are known once the checkpoint has run.
        if rule != "trained_sizes":
            expected, upstream = (set().union(*sets) for sets in zip(*pairs, strict=True))
            assert expected == upstream, rule
