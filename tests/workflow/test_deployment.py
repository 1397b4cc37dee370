"""The workflow as others deploy it: as a module of a Snakefile of their own, in a folder that holds nothing but a config."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml
from whole_project import RESULTS, ROOT, environment, jobs_of, planned

DEPLOYED = f"""
configfile: "config/config.yaml"

module rarefeat:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: config

use rule * from rarefeat

onstart:
    rarefeat.onstart()
"""
PREFIX = 'config: config\n    prefix: "lab"'


@pytest.mark.parametrize(("snakefile", "place"), [(DEPLOYED, "."), (DEPLOYED.replace("config: config", PREFIX), "lab")])
def test_a_module_plans_what_the_workflow_plans_and_runs(tmp_path, snakefile, place):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "Snakefile").write_text(snakefile)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--configfile", "config/quick.yaml"]
    here = {"cwd": tmp_path, "env": environment(ROOT), "capture_output": True, "text": True, "timeout": 300, "check": True}
    done = subprocess.run([*command, "--dry-run"], **here)
    assert jobs_of(done.stdout) == planned(ROOT, "--forceall")
    results = place / RESULTS
    # It reads below the folder of results what its rules write there.
    table = results / "tables/without_bias_trajectories.parquet"
    subprocess.run([*command, "--", str(table)], **here)
    assert (tmp_path / table).is_file()
    assert (tmp_path / results / ".lock").is_file()  # a module's own hooks run where its user calls them
    assert {path.name for path in tmp_path.iterdir()} == {".snakemake", "config", "workflow", results.parts[0]}


def test_the_catalog_finds_what_it_asks_for():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["report"] is True
    assert (ROOT / "workflow" / "Snakefile").is_file()
    assert (ROOT / "config" / "README.md").is_file()


def test_conda_and_containers_install_what_constraints_pin_on_the_python_of_the_results():
    python, _, pip = yaml.safe_load((ROOT / "environment.yaml").read_text())["dependencies"]
    assert pip["pip"] == ["--constraint constraints.txt", ".[cluster]"]
    recipe = (ROOT / "Dockerfile").read_text()
    assert "--constraint /rarefeat/constraints.txt" in recipe
    assert '"/rarefeat[cluster]"' in recipe
    (version,) = re.findall(r"integration are of Python ([\d.]+)\.", (ROOT / "CONTRIBUTING.md").read_text())
    assert python == f"python={version}"
    assert f"FROM python:{version}-" in recipe
