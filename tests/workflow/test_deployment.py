"""The workflow as a module of another Snakefile, and what the catalogue and containers need."""

import re
import shutil
import sys

import yaml
from whole_project import ROOT, count_jobs, environment, execute, planned_jobs, succeed

SNAKEFILE = f"""
configfile: "config/config.yaml"

module rarefeat:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: config | {{"results": "lab/results"}}

use rule * from rarefeat

onstart:
    rarefeat.onstart()
"""


def test_module_plans_the_workflow_and_runs_elsewhere(tmp_path):
    """In a folder with a config alone; results are where its config says."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow/Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--cores", "2"]
    command += ["--configfile", "config/quick.yaml"]
    options = {"env": environment(ROOT)}
    text = succeed(execute(tmp_path, *command, "--dry-run", **options))
    assert count_jobs(text) == planned_jobs(ROOT, "--forceall")
    table = tmp_path / "lab/results/tables/alignment_heatmap.parquet"
    succeed(execute(tmp_path, *command, "--", table.relative_to(tmp_path), **options))
    assert table.is_file()
    assert (tmp_path / "lab/results/.lock").is_file()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {".snakemake", "config", "workflow", "lab"}


def test_catalogue_and_container_files_are_in_step():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["report"] is True
    assert (ROOT / "workflow/Snakefile").is_file()
    assert (ROOT / "config/README.md").is_file()
    recipe = (ROOT / "Dockerfile").read_text()
    assert "--constraint /rarefeat/constraints.txt" in recipe
    (version,) = re.findall(r"on Python (3[\d.]+);", (ROOT / "CONTRIBUTING.md").read_text())
    assert f"FROM python:{version}-" in recipe
