"""Runs of the whole workflow in copies of the project, for tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = Path("results/quick")


def copy_of_the_project(folder: Path) -> Path:
    """Everything the workflow reads, so that a test may edit it."""
    for name in ("workflow", "config", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "Snakefile", folder)
    return folder


def snakemake(folder: Path, *arguments: str, configs=("config/quick.yaml",)) -> list[str]:
    files = ["--configfile", *configs] if configs else []
    return [sys.executable, "-m", "snakemake", "--directory", str(folder), "--snakefile", str(folder / "Snakefile"),
            *files, "--cores", "2", *arguments]  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    # The copy's modules, not the installed ones.
    return os.environ | {"PYTHONPATH": str(folder / "src")}


def run(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    command = snakemake(folder, *arguments, **options)
    return subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)


def planned(folder: Path, *arguments: str, **options) -> dict[str, int]:
    """Jobs of a dry run by rule, without `all`."""
    done = run(folder, "--dry-run", *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout.partition("Job stats:")[2].partition("total")[0]
    return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE) if rule != "all"}
