"""Measure how costs grow: of a training in neurons, replicas, d1 and pairs, of a plan in cells.

Each quantity is doubled and doubled again with all else fixed, rounds interleaved. The exponent is
the slope of log core seconds in log size, of the fastest rounds. A training has one thread. None
should be above 1 but that of the neurons m, whose products with the d + m coordinates of the
reduced simulator may take it towards 2; that of d1, which it never sees, and of N should be 0.

    python benchmarks/growth.py [--rounds 3] [--steps 40]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from rarefeat.stages.synthesise import synthesise
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.project import load

DOUBLED = (1, 2, 4)
START = {"m": 32, "seeds": 7, "d1": 500, "N": 1024, "cells": 100}
"""First size of each quantity."""


def training(steps: int, m: int = 32, seeds: int = 7, d1: int = 500, N: int = 1024) -> float:
    """Return the core seconds of a dense training of the paper's grid in the reduced simulator.

    Parameters
    ----------
    steps : int
        Training steps.
    m, seeds, d1, N : int
        Neurons, replicas, ambient dimensions and training pairs.
    """
    study = load("config/config.yaml").studies["paper"]
    data = study.data.model_copy(update={"d1": d1, "N": N})
    settings = study.training.model_copy(update={"m": m, "T": steps})
    replicas = list(range(seeds))
    train = synthesise("growth", data, 0.5, replicas)["train"]
    start = time.process_time()
    pretrain("growth", "reduced", data, settings, [Arm(arm="dense")], 0.05, replicas, train)
    return time.process_time() - start


def spent() -> float:
    """Return the core seconds of all processes that this one has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def plan(cells: int) -> float:
    """Return the core seconds of a dry run of so many cells, one block of 100 seeds each."""
    grid = {"eps_min": [(i + 1) / cells for i in range(cells)], "sigma": [0.05], "arms": ["dense"]}
    with tempfile.TemporaryDirectory() as scratch:
        study = {"seeds_per_block": 100, "grid": {"large": grid}}
        config = Path(scratch, "large.yaml")
        config.write_text(
            json.dumps({"results": scratch, "imbalance": {"studies": {"paper": study}}}),
            encoding="utf-8",
        )
        table = f"{scratch}/tables/paper_grid.parquet"
        before = spent()
        command = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "all", "--cores", "2"]
        subprocess.run(
            [*command, "--configfile", str(config), "--", table], check=True, capture_output=True
        )
        return spent() - before


def main() -> None:
    """Print a row for each quantity."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.set_num_threads(1)
    training(1)  # imports, and what else is done only once
    for name, first in START.items():
        sizes = [first * factor for factor in DOUBLED]
        rounds = [
            [
                plan(size) if name == "cells" else training(args.steps, **{name: size})
                for size in sizes
            ]
            for _ in range(args.rounds)
        ]
        least = np.min(rounds, axis=0)
        slope = np.polyfit(np.log(sizes), np.log(least), 1)[0]
        taken = ", ".join(
            f"{size}: {seconds:.2f} s" for size, seconds in zip(sizes, least, strict=True)
        )
        print(f"{name:6} {taken:45} exponent {slope:.2f}", flush=True)


if __name__ == "__main__":
    main()
