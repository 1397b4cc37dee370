"""The workflow as a module of another Snakefile, and what the catalogue and containers need."""

import shutil
import sys

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
