"""Runs of the whole workflow in copies of the project, for tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = Path("results/quick")
QUICK = ("config/quick.yaml",)


def copy_project(folder: Path) -> Path:
    """Copy what the workflow reads, so that a test may edit it; keep what was computed there."""
    for name in ("workflow", "config", "src"):
        shutil.rmtree(folder / name, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return variables for the modules of a copy, and for no fork of another run."""
    variables = {key: text for key, text in os.environ.items() if not key.startswith("RAREFEAT_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    return variables | {"PYTHONPATH": str(folder / "src"), "PATH": path}


def execute(folder: Path, *command: str | Path, **options) -> subprocess.CompletedProcess:
    settings = {"cwd": folder, "env": environment(folder), "capture_output": True, "text": True}
    return subprocess.run(list(map(str, command)), **(settings | options))


def snakemake(folder: Path, *arguments: str | Path, configs=QUICK) -> list[str]:
    files = ["--configfile", *configs] if configs else []
    place = ["--directory", str(folder), "--snakefile", str(folder / "workflow/Snakefile")]
    return [sys.executable, "-m", "snakemake", *place, *files, "--cores", "2", *map(str, arguments)]


def run(folder: Path, *arguments: str | Path, configs=QUICK) -> subprocess.CompletedProcess:
    return execute(folder, *snakemake(folder, *arguments, configs=configs))


def run_module(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess:
    return execute(folder, sys.executable, "-m", *arguments)


def succeed(process: subprocess.CompletedProcess) -> str:
    text = process.stdout + process.stderr
    assert process.returncode == 0, text
    return text


def planned_jobs(folder: Path, *arguments: str | Path, configs=QUICK) -> dict[str, int]:
    return count_jobs(succeed(run(folder, "--dry-run", *arguments, configs=configs)))


def count_jobs(dry_run: str) -> dict[str, int]:
    """Return the number of jobs of each rule in the text of a dry run, without `all`."""
    table = dry_run.partition("Job stats:")[2].partition("\ntotal")[0]
    counts = re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)
    return {rule: int(count) for rule, count in counts if rule != "all"}


def code_blocks(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def run_block(language: str, text: str, folder: Path) -> str:
    shell = ["bash", "-euo", "pipefail", "-c", text]
    command = shell if language == "bash" else [sys.executable, "-c", text]
    return succeed(execute(folder, *command, timeout=3000))


def run_page(page: Path, folder: Path, skipped: frozenset[str] = frozenset()) -> list[str]:
    return [
        run_block(language, "\n".join(x for x in text.splitlines() if x not in skipped), folder)
        for language, text in code_blocks(page)
    ]
