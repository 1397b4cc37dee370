"""A job starts fast, and the last line of its log says what it used."""

import re
import subprocess
import sys

from rarefeat.workflow.run import launch


def test_job_says_what_it_used(tmp_path):
    command = [sys.executable, "-m", "rarefeat.workflow.run.launch", "run"]
    place = "heatmap", "--config", "--cell", "eps_min=0.1", "--seeds", "100-100"
    words = [*command, "stages.synthesise:stage", *place, "--output", "a.safetensors"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[\d.]+ s, [\d.]+ CPU s, \d+ MB", done.stdout.splitlines()[-1])


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
