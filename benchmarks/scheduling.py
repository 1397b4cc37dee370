"""Measure Snakemake itself: jobs per second of each executor, and the plan of a large grid.

Prints the rows of the tables in docs/operations/cluster.md. Run it in the root of the project,
alone on the machine. The executors of a cluster are measured if their options are given, as in

    python benchmarks/scheduling.py --cluster "--executor slurm --default-resources mem_mb=500"
"""

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

SNAKEFILE = """
rule all:
    input: expand("out/{{i}}", i=range({jobs}))

rule job:
    output: "out/{{i}}"
    shell: "{command} > {{output}}"
"""
SNAKEMAKE = [sys.executable, "-m", "snakemake"]
TORCH = f"{sys.executable} -c 'import torch'"
LARGE = {"eps_min": [i / 50 for i in range(1, 51)], "sigma": [i / 1000 for i in range(1, 51)],
         "arms": ["dense", "pruned_neuron", "initial", "ideal"]}  # fmt: skip


def run_timed(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Return the seconds of the clock and of a core, and the MB at most, of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    # In a process of its own, because the system remembers the greatest memory of any child alone.
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, timeout=500);"
        "usage = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(usage.ru_maxrss / 1000, file=open('memory', 'w'))"
    )
    with tempfile.TemporaryDirectory() as scratch:
        inner = f"cd {shlex.quote(str(folder))} && exec {shlex.join(command)} > /dev/null 2>&1"
        subprocess.run([sys.executable, "-c", script, "bash", "-c", inner], cwd=scratch, check=True)
        memory = float(Path(scratch, "memory").read_text(encoding="utf-8"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - start, core, memory


def throughput(name: str, jobs: int, command: str, options: list[str]) -> None:
    """Print the row of jobs that do nothing but one command.

    Parameters
    ----------
    name : str
        Name of the row.
    jobs : int
        Number of jobs.
    command : str
        Command of each.
    options : list of str
        Options of Snakemake.
    """
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as scratch:
        folder = Path(scratch)
        (folder / "Snakefile").write_text(
            SNAKEFILE.format(jobs=jobs, command=command), encoding="utf-8"
        )
        clock, core, _ = run_timed([*SNAKEMAKE, *options], folder)
    print(f"| {name} | {jobs} | {clock:.1f} | {jobs / clock:.2g} | {core / jobs:.3f} |", flush=True)


def plan(name: str, seeds_per_block: int) -> None:
    """Print the row of the dry run of a study of 10,000 cells of 100 seeds."""
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch, "large.yaml")
        study = {"seeds_per_block": seeds_per_block, "grid": {"large": LARGE}}
        config.write_text(
            yaml.safe_dump({"results": scratch, "imbalance": {"studies": {"paper": study}}}),
            encoding="utf-8",
        )
        table = f"{scratch}/tables/paper_grid.parquet"
        command = [*SNAKEMAKE, "--dry-run", "--quiet", "all", "--cores", "2", "--configfile"]
        clock, core, memory = run_timed([*command, str(config), "--", table], Path.cwd())
    print(f"| {name} | {clock:.1f} | {core:.1f} | {memory:.0f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--cluster", action="append", default=[], help="options of an executor for a cluster"
    )
    args = parser.parse_args()
    print("| executor | jobs | s | jobs/s | s of a core each |\n|---|---|---|---|---|")
    for scheduler in ("ilp", "greedy"):
        local = ["--cores", "2", "--scheduler", scheduler]
        throughput(f"local, {scheduler}", 300, "echo", local)
        throughput(
            f"local, {scheduler}, 500 jobs at most in 10 s",
            300,
            "echo",
            [*local, "--max-jobs-per-timespan", "500/10s"],
        )
    throughput("local, a job that imports torch", 20, TORCH, ["--cores", "2"])
    for options in args.cluster:
        cluster = ["--jobs", "2", "--cores", "1", "--latency-wait", "5", *shlex.split(options)]
        throughput(f"`{options}`", 8, "echo", cluster)
        together = ["--groups", "job=one", "--group-components", "one=8"]
        throughput("the same, in one group", 8, "echo", [*cluster, *together])
    print("\n| dry run | s | s of a core | MB |\n|---|---|---|---|")
    plan("10,000 cells, 100 seeds a block", 100)
    plan("10,000 cells, 50 seeds a block", 50)


if __name__ == "__main__":
    main()
