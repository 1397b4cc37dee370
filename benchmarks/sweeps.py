"""Measure a sweep against a loop of `rarefeat.train`, and a config that is changed back.

Ratios of a sweep to the loop over the same seeds are paired, one after the other in each round,
because machines are shared and noisy; minimum and median over rounds are printed. The output cache
is measured on Figure 2 of the quick grid with 600 steps, in a folder of its own, as A, B and A
again, which differ in `training.lambda`: seconds of `snakemake`, its start included. Run it in the
root of the project.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import rarefeat
from rarefeat.api.sweeps import SESSION_CACHE

SIZE = {"N": 4096, "progress": False}
TARGET = "figures/figure2_max_alignment.png"


def seconds(function, *arguments, **options) -> float:
    """Return the seconds of one call."""
    start = time.monotonic()
    function(*arguments, **options)
    return time.monotonic() - start


def loop(seeds: int, steps: int) -> None:
    """Train one seed after the other."""
    for seed in range(seeds):
        rarefeat.train(seed=seed, T=steps, **SIZE)


def together(seeds: int, steps: int) -> None:
    """Train all seeds at once, without records of an earlier round."""
    SESSION_CACHE.clear()
    rarefeat.sweep(seed=range(seeds), T=steps, **SIZE)


def visit(results: str, decay: float) -> None:
    """Make a figure of the quick grid with one lambda."""
    values = f"{{training: {{lambda: {decay}, T: 600}}, results: {results}}}"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(values)
        file.flush()
        command = [sys.executable, "-m", "snakemake", "--cores", "2", "--configfile"]
        target = ["config/quick.yaml", file.name, "--", f"{results}/{TARGET}"]
        subprocess.run([*command, *target], check=True, capture_output=True)


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()

    torch.set_num_threads(1)
    together(1, 1)  # what is imported only once
    rounds = [
        [seconds(way, args.seeds, args.steps) for way in (loop, together)]
        for _ in range(args.rounds)
    ]
    ratios = [of_loop / of_sweep for of_loop, of_sweep in rounds]
    loops, sweeps = zip(*rounds, strict=True)
    for name, values in {"loop, s": loops, "sweep, s": sweeps, "loop / sweep": ratios}.items():
        print(
            f"{name:12} median {statistics.median(values):7.2f}   minimum {min(values):7.2f}",
            flush=True,
        )
    with tempfile.TemporaryDirectory() as folder:
        for name, decay in (("A", 0.05), ("B", 0.04), ("A again", 0.05)):
            print(f"{name:12} {seconds(visit, folder, decay):7.1f} s", flush=True)


if __name__ == "__main__":
    main()
