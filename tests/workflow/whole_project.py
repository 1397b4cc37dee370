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


def copy_of_the_project(folder: Path) -> Path:
    """Everything the workflow reads, so that a test may edit it; what a copy there has computed is kept."""
    for name in ("workflow", "config", "src"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    for name in ("Snakefile", "profiles"):
        (folder / name).unlink(missing_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def snakemake(folder: Path, *arguments: str, configs=QUICK) -> list[str]:
    files = ["--configfile", *configs] if configs else []
    return [sys.executable, "-m", "snakemake", "--directory", str(folder), "--snakefile", str(folder / "Snakefile"),
            *files, "--cores", "2", *arguments]  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    # The copy's modules, not the installed ones; and no fork of another run's.
    return {
        name: value for name, value in os.environ.items() if not name.startswith("RAREFEAT_")
    } | {"PYTHONPATH": str(folder / "src")}


def python(folder: Path, *arguments: str | Path, **options) -> subprocess.CompletedProcess:
    """`python ARGUMENTS` with the modules of a copy of the project, in its folder."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command,
        **{
            "cwd": folder,
            "env": environment(folder),
            "capture_output": True,
            "text": True,
            "check": False,
        }
        | options,
    )


def run(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    command = snakemake(folder, *arguments, **options)
    return subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )


def verified(folder: Path) -> subprocess.CompletedProcess:
    """Verify the results of the quick grid in a copy of the project."""
    return python(folder, "-m", "rarefeat.manage.provenance", "verify", RESULTS)


def succeeded(done: subprocess.CompletedProcess) -> subprocess.CompletedProcess:
    """What ended well, or what it said."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Language and text of every block of code of a page."""
    return re.findall(
        r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def run_block(language: str, text: str, folder: Path) -> str:
    """What a block of code prints, in a copy of the project."""
    surroundings = environment(folder)
    surroundings["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{surroundings['PATH']}"
    command = (
        ["bash", "-euo", "pipefail", "-c", text]
        if language == "bash"
        else [sys.executable, "-c", text]
    )
    ran = subprocess.run(
        command,
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )
    assert ran.returncode == 0, f"{text}\n{ran.stdout}{ran.stderr}"
    return ran.stdout + ran.stderr


def run_blocks(page: Path, folder: Path, done: frozenset[str] = frozenset()) -> list[str]:
    """What each block of a page prints; `done` are lines that a session has run already."""
    blocks = [
        (language, [line for line in text.splitlines() if line not in done])
        for language, text in blocks_of(page)
    ]
    return [run_block(language, "\n".join(lines), folder) for language, lines in blocks]


def planned(folder: Path, *arguments: str, **options) -> dict[str, int]:
    """Jobs of a dry run by rule, without `all`."""
    done = succeeded(run(folder, "--dry-run", *arguments, **options))
    return jobs_of(done.stdout)


def jobs_of(dry_run: str) -> dict[str, int]:
    """Jobs by rule in what a dry run prints, without `all`."""
    table = dry_run.partition("Job stats:")[2].partition("total")[0]
    return {
        rule: int(count)
        for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)
        if rule != "all"
    }
