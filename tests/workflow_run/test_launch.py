"""A job starts fast, and the last line of its log says what it used."""

import re
import subprocess
import sys
from pathlib import Path

from rarefeat.workflow.run import launch


def run(folder: Path, *words: str) -> subprocess.CompletedProcess:
    """Run the command in a folder."""
    command = [sys.executable, "-m", "rarefeat.workflow.run.launch", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_job_says_what_it_used_and_a_failed_one_why_it_failed(tmp_path):
    words = (
        "run",
        "stages.synthesise:stage",
        "heatmap",
        "--config",
        "--cell",
        "eps_min=0.1",
        "--seeds",
    )
    good = run(tmp_path, *words, "100-100", "--output", "a.safetensors")
    assert good.returncode == 0, good.stderr
    assert re.fullmatch(r"[\d.]+ s, [\d.]+ CPU s, \d+ MB", good.stdout.splitlines()[-1])
    bad = run(
        tmp_path,
        "run",
        "stages.synthesise:stage",
        "absent",
        "--config",
        "--output",
        "a.safetensors",
    )
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.startswith("error: stages.synthesise:stage runs on no study absent")


def test_launch_imports_nothing_slow():
    slow = ["torch", "numpy", "pandas", "pyarrow", "pydantic", "subprocess"]
    code = f"import sys, rarefeat.workflow.run.launch; print({{*{slow}}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_server_is_that_of_the_folder_above_the_output(tmp_path):
    name = f"of {launch.mount_namespace()}"
    (tmp_path / launch.SERVER).write_text(name)
    output = str(tmp_path / "tables/a.parquet")
    assert launch.find_server(["f", "name", "--output", output]) == name
