"""Measure training and probing of cells of the paper's grid in two checkouts, in one run.

`python benchmarks/checkouts.py BEFORE AFTER`, each a folder with `src/rarefeat`. Every measurement
is a process of its own on one thread. Rounds are interleaved, and smallest and median are printed,
because machines are shared; so are the ratios of the rounds. `core-minutes` are those of the
paper's 140 arm-points at 100 seeds and T = 500, by the arm-points of the sample of cells that is
measured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CELLS = {(0.1, 0.05): 4, (0.5, 0.05): 4, (1.0, 0.05): 4, (0.3, 0.01): 2, (0.3, 0.1): 2}
"""Number of trained arms of each cell of the sample, by its eps_min and sigma."""


def stage_commands(
    study: Any, cell: Any, block: str, folder: str
) -> Iterator[tuple[Any, list[str]]]:
    """Yield the main function and the arguments of the job of each stage of a cell.

    Parameters
    ----------
    study : Study
        The study.
    cell : Cell
        Cell of its grid.
    block : str
        Seed block, FIRST-LAST.
    folder : str
        Folder of results.
    """
    try:
        from rarefeat import study_kind as kind
        from rarefeat.workflow.run import execute_job as runner
    except ImportError:  # a checkout of before version 0.2
        from rarefeat import kind
        from rarefeat.workflow.run import make as runner

    for stage in (kind.SYNTHESISE, kind.PRETRAIN, kind.PROBE):
        is_old = hasattr(stage, "shared")
        shared = stage.shared(cell) if is_old else stage.shared_cell(cell)
        job = stage.job("paper", study, shared, block)
        outputs = [f"{folder}/{stage.path(name, 'paper', cell, block)}" for name in stage.folders]
        source = [job.text, "--results", folder] if is_old else [job.write(folder)]
        yield runner.main, ["--job", *source, "--output", *outputs]


def measure(steps: int, seeds: int) -> dict[str, float]:
    """Return the CPU seconds of each stage of the sample of cells, and the memory (MB)."""
    import resource
    from unittest import mock

    import torch

    from rarefeat.workflow.project import load

    torch.set_num_threads(1)
    study = load("config/config.yaml").studies["paper"]
    study = study.model_copy(update={"training": study.training.model_copy(update={"T": steps})})
    costs = {"synthesis": 0.0, "training": 0.0, "probes": 0.0}
    for cell in study.cells():
        if tuple(cell.values.values()) not in CELLS:
            continue
        with tempfile.TemporaryDirectory() as folder:
            commands = stage_commands(study, cell, f"100-{99 + seeds}", folder)
            for name, (function, arguments) in zip(costs, commands, strict=True):
                with mock.patch.object(sys, "argv", [name, *arguments]):
                    started = time.process_time()
                    function()
                    costs[name] += time.process_time() - started
    return costs | {"MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def core_minutes(costs: dict[str, float], steps: int, seeds: int) -> float:
    """Return the core-minutes of the whole grid at T = 500 and 100 seeds.

    Parameters
    ----------
    costs : dict
        CPU seconds of the sample.
    steps, seeds : int
        Steps and seeds of the sample.
    """
    factor = 140 / sum(CELLS.values()) * 100 / seeds / 60
    return factor * (costs["training"] * 500 / steps + costs["probes"])


def main() -> None:
    """Print every round, and the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=28)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.steps, args.seeds)))
        return
    rounds = []
    for _ in range(args.rounds):
        pair = []
        for checkout in (args.before, args.after):
            script = [sys.executable, str(Path(__file__).resolve()), ".", ".", "--one"]
            command = [*script, "--steps", str(args.steps), "--seeds", str(args.seeds)]
            environment = os.environ | {
                "PYTHONPATH": str(checkout.resolve() / "src"),
                "OMP_NUM_THREADS": "1",
            }
            done = subprocess.run(
                command,
                env=environment,
                cwd=checkout,
                capture_output=True,
                encoding="utf-8",
                check=False,
            )
            if done.returncode:
                raise SystemExit(done.stderr)
            costs = json.loads(done.stdout.splitlines()[-1])
            pair.append(costs | {"core-minutes": core_minutes(costs, args.steps, args.seeds)})
        rounds.append(pair)
        for costs in pair:
            print({name: round(value, 1) for name, value in costs.items()}, flush=True)
    for name in ("training", "probes", "core-minutes", "MB"):
        before, after = ([pair[side][name] for pair in rounds] for side in (0, 1))
        ratios = [one / other for one, other in zip(before, after, strict=True)]
        texts = [
            f"{min(values):8.1f} {statistics.median(values):8.1f}" for values in (before, after)
        ]
        ratio = f"{min(ratios):.2f} {statistics.median(ratios):.2f}"
        print(f"{name:13} before {texts[0]}   after {texts[1]}   ratio {ratio}  (min, median)")


if __name__ == "__main__":
    main()
