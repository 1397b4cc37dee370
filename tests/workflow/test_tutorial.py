"""The tutorial, run as it stands: its commands in a copy of the small grid, its Python in one process after another."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from whole_project import environment

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"
DONE = {"make quick", "source .venv/bin/activate"}
"""What the session's shared run stands for."""


def blocks() -> list[tuple[str, str]]:
    """Language and text of every block of code."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def said(finished, tmp_path_factory) -> list[str]:
    """What each block prints."""
    folder = Path(shutil.copytree(finished, tmp_path_factory.mktemp("tutorial") / "project", symlinks=True))
    surroundings = environment(folder)
    surroundings["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{surroundings['PATH']}"
    outputs = []
    for language, text in blocks():
        if language == "bash":
            text = "\n".join(line for line in text.splitlines() if line not in DONE)
            command = ["bash", "-euo", "pipefail", "-c", text]
        else:
            command = [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        outputs.append(done.stdout + done.stderr)
    return outputs


def test_it_has_commands_and_python():
    assert [language for language, _ in blocks()] == ["bash", "python", "bash", "python"]


def test_the_table_has_a_row_for_each_point(said):
    assert re.search(r"eps_min +sigma +mean", said[1])
    assert {float(value) for value in re.findall(r"^\d+ +(0\.\d+|1\.0) ", said[1], re.MULTILINE)} == {0.2, 1.0}


def test_only_the_new_point_is_trained(said):
    trained = re.findall(r"^\[\d+/\d+\] pretrain (.*)$", said[2], re.MULTILINE)
    assert len(trained) == 1, said[2]
    assert "eps_min=0.6" in trained[0]


def test_the_neuron_grows_towards_the_feature(said):
    cosines = [float(value) for value in re.findall(r"^\d+ +(\d\.\d+)$", said[3], re.MULTILINE)]
    assert len(cosines) > 10
    assert cosines[-1] > cosines[0]
