"""Measure what a cell of few steps costs under Slurm: `docs/tables/slurm.csv`, with --publish.

As root, in the root of the project:

    python benchmarks/slurm_groups.py FOLDER --eps-min 50 --sigma 20 --publish

Runs a study in the groups of workflow/profiles/slurm, on the one node that the tests start. FOLDER
keeps its results and logs. Core-seconds are those of each Snakemake that Slurm starts and of all
that it starts, and do not depend on what else the machine does, as the minutes do.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import yaml

from rarefeat.workflow.files.published import PublishedTables, commit
from rarefeat.workflow.run.metadata import machine, packages

sys.path.insert(0, "tests/workflow")
SITE = """
import atexit, os, resource
def note():
    if "snakemake" in " ".join(open("/proc/self/cmdline").read().split("\\0")[:4]):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print(sum(u.ru_utime + u.ru_stime for u in used), file=open(os.environ["CPU_LOG"], "a"))
if os.environ.get("SLURM_JOB_ID"):
    atexit.register(note)
"""
# Without accounting squeue has to say what became of a job.
OPTIONS = ["--workflow-profile", "workflow/profiles/slurm", "--latency-wait", "5",
           "--slurm-groups-status-command", "squeue",
           "--slurm-groups-init-seconds-before-status-checks", "5"]  # fmt: skip


def config(folder: Path, n_eps_min: int, n_sigma: int) -> dict:
    """Return a study of two seeds and five steps in every cell."""
    axes = {
        "eps_min": [round((i + 1) / n_eps_min, 4) for i in range(n_eps_min)],
        "sigma": [round((i + 1) / 200, 4) for i in range(n_sigma)],
        "arms": ["dense", "pruned_neuron"],
    }
    study = {
        "data": {"d1": 60, "N": 256, "probe_pairs": 100, "test_pairs": 100},
        "training": {"K": 32, "T": 5, "sigma_0": 0.015},
        "seeds": 2,
        "seeds_per_block": 2,
        "grid": {"all": axes},
    }
    return {"results": f"{folder}/results", "imbalance": {"studies": {"many": study}}}


def core_seconds() -> float:
    """Return the core-seconds of what this process has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(folder: Path, n_eps_min: int, n_sigma: int) -> dict[str, float]:
    """Run the study under Slurm and return the row of the table."""
    from one_node import one_node

    (folder / "site").mkdir(parents=True)
    (folder / "site/sitecustomize.py").write_text(SITE, encoding="utf-8")
    path = folder / "many.yaml"
    path.write_text(yaml.safe_dump(config(folder, n_eps_min, n_sigma)), encoding="utf-8")
    places = f"{folder}/site:{Path.cwd()}/src"
    variables = os.environ | {"PYTHONPATH": places, "CPU_LOG": f"{folder}/core_seconds"}
    target = f"{folder}/results/tables/many_grid.parquet"
    command = ["snakemake", *OPTIONS, "--configfile", str(path), "--", target]
    with one_node(folder / "slurm"), open(folder / "log", "w", encoding="utf-8") as log:
        before, start = core_seconds(), time.monotonic()
        subprocess.run(command, env=variables, stdout=log, stderr=log, check=True)
        minutes, submitting = (time.monotonic() - start) / 60, core_seconds() - before
        show = ["scontrol", "-o", "show", "jobs"]
        states = subprocess.run(show, capture_output=True, encoding="utf-8", check=True).stdout
        (folder / "states").write_text(states, encoding="utf-8")
    return read(folder, minutes, submitting)


def read(folder: Path, minutes: float, submitting: float) -> dict[str, float]:
    """Read the row of a run off what it has left."""
    states = re.findall(r"JobName=(\S+).*?JobState=(\w+)", (folder / "states").read_text("utf-8"))
    states = [state for name, state in states if name != "wrap"]  # that of one_node
    logs = [path.read_text(encoding="utf-8") for path in folder.glob("results/logs/**/*.log")]
    own = [float(text) for log in logs for text in re.findall(r"([\d.]+) CPU s, \d+ MB$", log)]
    return {
        "cells": len([*folder.glob("results/probes/**/*.parquet")]),
        "jobs": len(logs),
        "submissions": len(states),
        "failed": len([state for state in states if state != "COMPLETED"]),
        "minutes": minutes,
        "core_seconds": sum(map(float, (folder / "core_seconds").read_text("utf-8").split())),
        "core_seconds_of_jobs": sum(own),
        "core_seconds_submitting": submitting,
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--eps-min", type=int, default=50, help="values of eps_min: submissions")
    parser.add_argument("--sigma", type=int, default=20, help="values of sigma: cells of each")
    parser.add_argument("--publish", action="store_true", help="write docs/tables/slurm.csv")
    args = parser.parse_args()
    table = pd.DataFrame([run(args.folder.resolve(), args.eps_min, args.sigma)])
    print(table.T.to_string(header=False))
    if args.publish:
        origin = {"commit": commit(), "run": "benchmarks/slurm_groups.py, beside other work"}
        PublishedTables().put(
            "slurm", table, origin | {"machine": machine(), "packages": packages()}
        )


if __name__ == "__main__":
    main()
