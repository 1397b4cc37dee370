"""The workflow as others deploy it: as a module of a Snakefile of their own, in a folder that holds nothing but a config."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml
from whole_project import (
    RESULTS,
    ROOT,
    copy_of_the_project,
    environment,
    jobs_of,
    planned,
    snakemake,
)

from rarefeat.core.errors import RarefeatError
from rarefeat.run.results_folder import deployable

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


@pytest.mark.parametrize(
    ("snakefile", "place"), [(DEPLOYED, "."), (DEPLOYED.replace("config: config", PREFIX), "lab")]
)
def test_a_module_plans_what_the_workflow_plans_and_runs(tmp_path, snakefile, place):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "Snakefile").write_text(snakefile)
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--cores",
        "2",
        "--configfile",
        "config/quick.yaml",
    ]
    here = {
        "cwd": tmp_path,
        "env": environment(ROOT),
        "capture_output": True,
        "text": True,
        "timeout": 300,
        "check": True,
    }
    done = subprocess.run([*command, "--dry-run"], **here)
    assert jobs_of(done.stdout) == planned(ROOT, "--forceall")
    results = place / RESULTS
    # It reads below the folder of results what its rules write there.
    table = results / "tables/without_bias_trajectories.parquet"
    subprocess.run([*command, "--", str(table)], **here)
    assert (tmp_path / table).is_file()
    assert (
        tmp_path / results / ".lock"
    ).is_file()  # a module's own hooks run where its user calls them
    assert {path.name for path in tmp_path.iterdir()} == {
        ".snakemake",
        "config",
        "workflow",
        results.parts[0],
    }


def test_the_catalog_finds_what_it_asks_for():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["report"] is True
    assert (ROOT / "workflow" / "Snakefile").is_file()
    assert (ROOT / "config" / "README.md").is_file()


def test_conda_and_containers_install_what_constraints_pin_on_the_python_of_the_results():
    python, _, pip = yaml.safe_load((ROOT / "workflow/envs/rarefeat.yaml").read_text())[
        "dependencies"
    ]
    pinned = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    assert set(pip["pip"]) == set(pinned)
    recipe = (ROOT / "Dockerfile").read_text()
    assert "--constraint /rarefeat/constraints.txt" in recipe
    assert '"/rarefeat[cluster]"' in recipe
    (version,) = re.findall(
        r"integration are of Python ([\d.]+)\.", (ROOT / "CONTRIBUTING.md").read_text()
    )
    assert python == f"python={version}"
    assert f"FROM python:{version}-" in recipe


CONDA = """
case "$1" in
  info) echo '{{"conda_prefix": "{folder}", "platform": "linux-64"}}';;
  --version) echo conda 25.1.0;;
  config) echo '{{"get": {{"channel_priority": "strict"}}}}';;
  env) for last; do :; done; mkdir -p "$last"; ln -s {folder}/inside "$last/bin";;
esac
"""
APPTAINER = """
test "$1" = --version && exec echo apptainer version 1.3.0
for last; do :; done
unset PYTHONPATH; PATH={folder}/inside:$PATH exec bash -c "$last"
"""


@pytest.mark.parametrize(("method", "text"), [("conda", CONDA), ("apptainer", APPTAINER)])
def test_jobs_run_in_the_environment_that_is_asked_for_by_the_code_that_plans(
    tmp_path, method, text
):
    """Stand-ins of conda and Apptainer, which get the Python of this environment and write down what it is asked for."""
    place = copy_of_the_project(tmp_path / "project")
    programs = {
        f"bin/{method}": text,
        "bin/activate": 'PATH="$1/bin:$PATH"',
        "inside/python": 'echo "$PYTHONPATH $@" >> {folder}/asked; exec {python} "$@"',
    }
    for name, lines in programs.items():
        (path := tmp_path / name).parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{lines.format(folder=tmp_path, python=sys.executable)}\n")
        path.chmod(0o755)
    surroundings = environment(place)
    surroundings["PATH"] = f"{tmp_path}/bin:{surroundings['PATH']}"
    target = str(RESULTS / "figures/figure1_aligned_neurons.png")
    command = snakemake(
        place, "--software-deployment-method", method, "--until", "synthesise", "--", target
    )
    here = {"cwd": place, "env": surroundings, "capture_output": True, "text": True, "timeout": 300}
    if method == "apptainer":
        assert (
            "rarefeat.sif must be in the working directory"
            in subprocess.run(command, **here).stderr
        )
        (place / "rarefeat.sif").touch()
    done = subprocess.run(command, **here)
    assert not done.returncode, done.stdout + done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert all(line.startswith(f"{place}/src -m rarefeat.run.launch") for line in asked)
    assert len(asked) == len(list((place / RESULTS / "latents").rglob("*.safetensors")))


def test_an_environment_gets_no_code_that_lies_beside_other_packages(tmp_path):
    deployable(tmp_path, "")
    (tmp_path / "torch").mkdir()
    with pytest.raises(RarefeatError, match="must be that of a clone"):
        deployable(tmp_path, "")
