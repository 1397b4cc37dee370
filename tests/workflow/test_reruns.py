"""What reruns is what matters: the jobs that a dry run plans after an edit of the code or of the config."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from whole_project import ROOT, copy_of_the_project, planned, run, succeeded

from rarefeat.project import load
from rarefeat.run.code_hashes import is_registry_entry

CHAIN = ["synthesise", "pretrain", "probe", "aggregate_grid", "plot"]
NEIGHBOUR = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml").studies["neighbour"]
SECTION = NEIGHBOUR.model_dump(by_alias=True, mode="json", exclude={"draws"})


def edit(project: Path, path: str, pattern: str, replacement: str) -> None:
    """Replace every match, of which there must be one."""
    file = project / path
    text, found = re.subn(pattern, replacement, file.read_text(), flags=re.MULTILINE)
    assert found, f"{pattern} is nowhere in {path}"
    file.write_text(text)


def change(project: Path, path: str, function: str) -> None:
    """Put a line into a function."""
    edit(project, path, rf"^(def {function}\((?:.|\n)*?\) -> [^\n]*:\n)", r"\1    changed = True\n")


def laid_over(project: Path, **changes) -> tuple[str, ...]:
    """The quick config with these changes over it."""
    (project / "more.yaml").write_text(yaml.safe_dump(changes))
    return ("config/quick.yaml", "more.yaml")


def test_what_is_for_people_and_what_is_new_rerun_nothing(project):
    """A comment and another docstring in every module; other meanings of columns, captions and pages; new keys."""
    source = project / "src/rarefeat"
    for file in source.rglob("*.py"):
        text = file.read_text()
        file.write_text(
            text.replace('"""', '"""In other words: ', 1) + "\n# A comment.\n"
            if '"""' in text
            else text
        )
    meanings = [file for file in source.rglob("*.py") if 'description="' in file.read_text()]
    assert len(meanings) > 5
    for file in meanings:
        file.write_text(file.read_text().replace('description="', 'description="In other words: '))
    edit(
        project,
        "src/rarefeat/studies/augmentation/tables.py",
        'covered_features="',
        'covered_features="reworded: ',
    )
    edit(
        project,
        "src/rarefeat/studies/imbalance/kind.py",
        '"Neurons whose weights point',
        '"Reworded: neurons that point',
    )
    edit(
        project,
        "src/rarefeat/studies/imbalance/kind.py",
        '"imbalance and pruning"',
        '"imbalance, reworded"',
    )
    key = r'\1    new: bool = Field(default=False, description="")\n'
    edit(
        project,
        "src/rarefeat/config/encoder.py",
        r"^(class \w+\(Section\):\n    \"\"\".*\"\"\"\n\n)",
        key,
    )
    edit(
        project,
        "src/rarefeat/config/images.py",
        r"^(class \w+\(Section\):\n    \"\"\".*\"\"\"\n\n)",
        key,
    )
    assert planned(project) == {}


def test_a_new_study_runs_its_own_jobs_alone(project):
    """And has figures of its own."""
    jobs = planned(project, configs=laid_over(project, imbalance={"studies": {"fresh": SECTION}}))
    cells, blocks = len(NEIGHBOUR.cells()), len(NEIGHBOUR.grid)
    assert jobs == {
        "synthesise": len({cell["eps_min"] for cell in NEIGHBOUR.cells()}), "pretrain": cells, "probe": cells,
        "aggregate_grid": 1 + blocks, "aggregate_trajectories": 1 + blocks,
        "plot": 4, "page": 1, "text_page": 1,  # Figures 1 to 4 of its own; the kind's page knows all of its studies
    }  # fmt: skip


def test_one_more_eps_min_runs_its_own_cell_and_what_aggregates_it(project):
    more = [*NEIGHBOUR.grid["arms"].eps_min, 0.6]
    jobs = planned(
        project,
        configs=laid_over(
            project, imbalance={"studies": {"neighbour": {"grid": {"arms": {"eps_min": more}}}}}
        ),
    )
    # The neighbour's tables and those of its block, the one figure that shows them, the summary, and their pages.
    assert jobs == {
        "synthesise": 1, "pretrain": 1, "probe": 1, "aggregate_grid": 2, "aggregate_trajectories": 2, "plot": 1,
        "page": 1, "tables_page": 1, "text_page": 1,
    }  # fmt: skip


def test_a_changed_hyper_parameter_reruns_only_what_depends_on_it(project):
    jobs = planned(
        project,
        configs=laid_over(project, imbalance={"studies": {"heatmap": {"training": {"eta": 0.2}}}}),
    )
    assert "synthesise" not in jobs
    assert (jobs["pretrain"], jobs["probe"], jobs["alignment_map"], jobs["plot"]) == (1, 1, 1, 1)


OWN_RULE = """
from level import LEVEL


def mine(seen):
    \"\"\"A rule.\"\"\"
    return seen.norms < LEVEL
"""


def test_an_edit_of_a_rule_of_one_s_own_reruns_what_it_prunes(project):
    """Files count as a whole, comments and what they import."""
    (project / "level.py").write_text("LEVEL = 0.1\n")
    (project / "rules.py").write_text(OWN_RULE)
    arms = [{"arm": "dense"}, {"arm": "rules:mine"}]
    grid = {"all": {"eps_min": [1.0], "sigma": [0.05], "arms": ["dense", "rules:mine"]}}
    configs = laid_over(
        project, imbalance={"studies": {"own": SECTION | {"arms": arms, "grid": grid}}}
    )
    table = "results/quick/tables/own_grid.parquet"
    assert run(project, table, configs=configs).returncode == 0
    (project / "other.py").write_text("LEVEL = 0.2\n")
    assert planned(project, table, configs=configs) == {}
    (project / "level.py").write_text("LEVEL = 0.2\n")
    assert planned(project, table, configs=configs) == {
        "pretrain": 1,
        "probe": 1,
        "aggregate_grid": 1,
    }


@pytest.fixture(scope="module")
def everything(finished) -> dict[str, int]:
    """All jobs that there are before the checkpoint."""
    return planned(finished, "--forceall")


def test_a_changed_default_reruns_what_reads_it(project, everything):
    """It is in no digest of code: the trainings of images, under their names of before, are told another value."""
    edit(project, "src/rarefeat/config/images.py", 'default="global"', 'default="per_layer"')
    edit(
        project,
        "src/rarefeat/config/images.py",
        'threshold != "global"',
        'threshold != "per_layer"',
    )
    jobs = planned(project)
    assert not {"synthesise", "pretrain", "image_data", "image_splits"} & set(jobs)
    assert jobs["pretrain_images"] == everything["pretrain_images"] > 3
    assert jobs["probe_images"] == everything["probe_images"]


@pytest.mark.parametrize(
    ("module", "function", "first"),
    [("core/sparse_coding.py", "latent_pairs", "synthesise"), ("core/contrastive.py", "coefficients", "pretrain"),
     ("core/linear_probe.py", "linear_probe", "probe"), ("chain/aggregate.py", "summarised", "aggregate_grid")],
)  # fmt: skip
def test_a_changed_line_reruns_its_stage_and_what_follows(
    project, everything, module, function, first
):
    change(project, f"src/rarefeat/{module}", function)
    jobs = planned(project)
    assert [rule for rule in CHAIN if rule in jobs] == CHAIN[CHAIN.index(first) :]
    # Every cell of the stage, not just some; those behind the checkpoint are planned only once it has run.
    assert jobs[first] >= everything[first]
    # What is not of the chain stays as it is.
    assert not {"image_data", "image_splits", "pretrain_images"} & set(jobs)


def test_what_jobs_come_through_is_what_their_inputs_came_through(tmp_path):
    """Of rules that are written by hand as well: the files that they read, and the stages that the kind says are before."""
    done = succeeded(
        run(copy_of_the_project(tmp_path), "--dry-run", "--forceall", "--printshellcmds")
    )
    jobs, through = [], {}
    for block in done.stdout.split("\n\n"):
        rule, printed = (
            re.search(r"^(?:rule|checkpoint) (\w+):$", block, re.M),
            re.search(r"^Shell command: (.*--job.*)$", block, re.M),
        )
        if rule and printed:
            files = {
                key: found.split(", ")
                for key, found in re.findall(r"^    (input|output): (.*)$", block, re.M)
            }
            words = shlex.split(printed[1])
            told = json.loads((tmp_path / words[words.index("--job") + 1]).read_text())
            schema = told.get("config", {}).get("schema")
            code = {
                name
                for name in told.get("code", {})
                if not is_registry_entry(name) and name != schema
            }
            # What is made of tables is known by the identities of their jobs.
            through |= {
                path: code
                for path in files["output"]
                if not re.search("/tables/|/figures/|/pages/|\\.md$", path)
            }
            jobs.append((rule[1], files.get("input", []), code - {told["stage"], told.get("runs")}))
    rules = {rule for rule, *_ in jobs}
    assert rules >= {
        "pretrain",
        "probe",
        "pretrain_images",
        "probe_images",
        "measure_augmentation",
        "measure_image_views",
    }
    for rule in rules:
        of_rule = [
            (set().union(*(through.get(path, ()) for path in inputs)), before)
            for of, inputs, before in jobs
            if of == rule
        ]
        assert all(came <= before for came, before in of_rule), rule
        # What only the checkpoint knows is not there yet.
        if rule != "trained_sizes":
            assert set().union(*(came for came, _ in of_rule)) == set().union(
                *(before for _, before in of_rule)
            ), rule


def test_a_changed_line_of_a_figure_draws_that_figure_again(project):
    change(project, "src/rarefeat/studies/imbalance/figures.py", "fate")
    assert planned(project) == {"plot": 1}


def test_what_only_runs_jobs_and_what_nothing_reaches_rerun_nothing(project):
    change(project, "src/rarefeat/storage/sealed_files.py", "seal")
    change(project, "src/rarefeat/run/cli_helpers.py", "progress")
    change(project, "src/rarefeat/run/results_folder.py", "lock")
    with open(project / "src/rarefeat/core/contrastive.py", "a") as source:
        source.write("\n\ndef one_more(x):\n    return x\n")
    assert planned(project) == {}


CELL = "paper/eps_min=0.2/sigma=0.05/seeds=100-103"
FOLDERS = {"encoders": "safetensors", "trajectories": "parquet", "probes": "parquet"}
MADE = [f"results/quick/{folder}/{CELL}.{suffix}" for folder, suffix in FOLDERS.items()]


def test_a_value_that_is_changed_back_trains_nothing_unless_it_is_forced(tmp_path):
    folder = copy_of_the_project(tmp_path)

    def make(*arguments: str, over: float = 0.05) -> list[bool]:
        """Whether each stage came from the store."""
        succeeded(
            run(
                folder,
                *arguments,
                "--",
                *MADE,
                configs=laid_over(folder, training={"lambda": over}),
            )
        )
        logs = [folder / f"results/quick/logs/{rule}/{CELL}.log" for rule in ("pretrain", "probe")]
        return [log.read_text().startswith("kept: ") for log in logs]

    assert make() == [False, False]
    first = [(folder / path).read_bytes() for path in MADE]
    assert make(over=0.04) == [False, False]
    assert [(folder / path).read_bytes() for path in MADE] != first
    assert make() == [True, True]
    assert [(folder / path).read_bytes() for path in MADE] == first
    assert planned(folder, "--", *MADE, configs=laid_over(folder, training={"lambda": 0.05})) == {}
    assert make("--forceall") == [False, False]
