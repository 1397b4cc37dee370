"""The workflow as others deploy it: as a module of a Snakefile of their own, in a folder that holds nothing but a config."""

import re
import shutil
import subprocess
import sys

import yaml
from whole_project import RESULTS, ROOT, planned

DEPLOYED = f"""
configfile: "config/config.yaml"

module rarefeat:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: config

use rule * from rarefeat

onstart:
    rarefeat.onstart()
"""


def test_a_module_plans_what_the_workflow_plans_and_runs(tmp_path):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "Snakefile").write_text(DEPLOYED)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--configfile", "config/quick.yaml"]
    here = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120, "check": True}
    done = subprocess.run([*command, "--dry-run"], **here)
    deployed = dict(re.findall(r"^(\w+) +(\d+)$", done.stdout.partition("Job stats:")[2].partition("total")[0], re.MULTILINE))
    assert {rule: int(count) for rule, count in deployed.items() if rule != "all"} == planned(ROOT, "--forceall")
    latents = RESULTS / "latents/neighbour/eps_min=0.2/seeds=100-103.safetensors"
    subprocess.run([*command, "--", str(latents)], **here)
    assert (tmp_path / latents).is_file()
    assert (tmp_path / RESULTS / ".lock").is_file()  # a module's own hooks run where its user calls them


def test_the_catalog_finds_what_it_asks_for():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["report"] is True
    assert (ROOT / "workflow" / "Snakefile").is_file()
    assert (ROOT / "config" / "README.md").is_file()
