"""What training and probing a cell of the paper's grid cost in two checkouts, in one run: CPU time, and the ratios of rounds.

`python benchmarks/checkouts.py BEFORE AFTER`, each a folder with `src/rarefeat`. Every measurement is a process of its own on
one thread; rounds are interleaved, and smallest and median are printed, because machines are shared. `core-minutes` are those
of the paper's 140 arm-points at 100 seeds and T = 500, by the arm-points of the sample of cells that is measured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CELLS = {(0.1, 0.05): 4, (0.5, 0.05): 4, (1.0, 0.05): 4, (0.3, 0.01): 2, (0.3, 0.1): 2}
"""eps_min and sigma, and how many arms are trained there."""
OLD = ("chain.synthesise", "chain.pretrain", "chain.probe")
"""Stages of checkouts in which each had a command line of its own."""


def commands(study: Any, cell: Any, block: str, folder: str) -> list[tuple[Any, str, list[str]]]:
    """The command line of each stage of a cell: the module whose `main` it is, what the job is told, and its files."""
    from rarefeat.chain import pretrain, probe, synthesise
    from rarefeat.run.job import job

    if not hasattr(pretrain, "main"):
        from rarefeat import study_kind
        from rarefeat.run import execute_job
        from rarefeat.run import job as jobs

        found = []
        for stage in (kind.SYNTHESISE, kind.PRETRAIN, kind.PROBE):
            told = stage.job("paper", study, stage.shared(cell), block)
            told = (
                jobs.job_file(told, folder) if hasattr(jobs, "job_file") else told.text
            )  # as older checkouts take it
            outputs = [f"{folder}/{stage.path(of, 'paper', cell, block)}" for of in stage.folders]
            found.append((make, told, ["--results", folder, "--output", *outputs]))
        return found
    latents, encoders = f"{folder}/latents.safetensors", f"{folder}/encoders.safetensors"
    trained = ["--encoders", encoders] if cell.trained else []
    told = (
        {"draws": study.draws, "data": study.data},
        study.pretrain_config(cell),
        study.probed(cell),
    )
    at = type(cell)((cell.axes[0],)), cell, cell
    files = (
        ["--output", latents],
        [
            "--latents",
            latents,
            "--encoders",
            encoders,
            "--trajectories",
            f"{folder}/trajectories.parquet",
        ],
        ["--latents", latents, "--output", f"{folder}/probes.parquet", *trained],
    )
    jobs = (job(name, OLD[:n], told[n], "paper", at[n], block).text for n, name in enumerate(OLD))
    return list(zip((synthesise, pretrain, probe), jobs, files, strict=True))


def measured(steps: int, seeds: int) -> dict[str, float]:
    """CPU seconds of training and of probing the chosen cells, by the stages' own command lines, and memory in MB."""
    import resource
    from unittest import mock

    import torch

    from rarefeat.project import load

    torch.set_num_threads(1)
    study = load("config/config.yaml").studies["paper"]
    study = study.model_copy(update={"training": study.training.model_copy(update={"T": steps})})
    found = {"synthesis": 0.0, "training": 0.0, "probes": 0.0}
    for cell in study.cells():
        if tuple(cell.values.values()) not in CELLS:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name, (module, told, files) in zip(
                found, commands(study, cell, f"100-{99 + seeds}", folder), strict=True
            ):
                with mock.patch.object(sys, "argv", [name, "--job", told, *files]):
                    begun = time.process_time()
                    module.main()
                    found[name] += time.process_time() - begun
    return found | {"MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def core_minutes(found: dict[str, float], steps: int, seeds: int) -> float:
    """Of the whole grid at T = 500 and 100 seeds, from arm-points of this sample: 140 against its own."""
    whole = 140 / sum(CELLS.values()) * 100 / seeds / 60
    return whole * (found["training"] * 500 / steps + found["probes"])


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
        print(json.dumps(measured(args.steps, args.seeds)))
        return
    rounds = []
    for _ in range(args.rounds):
        pair = []
        for checkout in (args.before, args.after):
            command = [
                sys.executable,
                str(Path(__file__).resolve()),
                ".",
                ".",
                "--one",
                "--steps",
                str(args.steps),
                "--seeds",
                str(args.seeds),
            ]
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
            found = json.loads(done.stdout.splitlines()[-1])
            pair.append(found | {"core-minutes": core_minutes(found, args.steps, args.seeds)})
        rounds.append(pair)
        print(
            *({name: round(value, 1) for name, value in part.items()} for part in pair),
            sep="\n",
            flush=True,
        )
    for name in ("training", "probes", "core-minutes", "MB"):
        before, after = ([pair[side][name] for pair in rounds] for side in (0, 1))
        ratios = [one / other for one, other in zip(before, after, strict=True)]
        print(
            f"{name:13} before {min(before):8.1f} {statistics.median(before):8.1f}   after {min(after):8.1f}"
            f" {statistics.median(after):8.1f}   ratio {min(ratios):.2f} {statistics.median(ratios):.2f}  (min, median)"
        )


if __name__ == "__main__":
    main()
