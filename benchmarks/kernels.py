"""Measure a training step with the native kernel and with torch, and how far their results differ.

The paper's cell (reduced simulator, d1 = 500, arms dense and pruned_neuron) is trained by both
kernels in turn, in one process and in two at once, each on one thread and with malloc as jobs have
it. CPU time of the process is counted, because machines are shared; rounds alternate the kernels,
and medians with the smallest and the largest are printed. `--seeds N` trains the same N replicas of
every frequency by both, to the last step of the config, and compares their metrics.
"""

import argparse
import math
import multiprocessing
import os
import statistics
import time

import pandas as pd
import torch

from rarefeat.model.randomness import generator
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.stages import pretrain as stage
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.files.published import PublishedTables, commit
from rarefeat.workflow.project import load
from rarefeat.workflow.run.metadata import machine, packages

KERNELS = ("torch", "native")
ARMS = [Arm(arm="dense"), Arm(arm="pruned_neuron", alpha=0.1)]
NSR = 1.25
MOVED = 1e-3
"""Difference of a metric above which a replica has moved."""
METRICS = ("max_alignment", "aligned_neurons", "pure_neurons", "loss")
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


class Cell:
    """The paper's cell at one frequency of the rare feature, with the latents of some seeds."""

    def __init__(self, config: str, eps_min: float, seeds: list[int]):
        torch.set_num_threads(1)
        self.study, self.seeds = load(config).studies["paper"], seeds
        data = self.study.data
        probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
        draws = [generator("benchmark", seed, "train") for seed in seeds]
        self.latents = torch.stack(
            [latent_pairs(data.N, data.L, probability, draw) for draw in draws]
        )

    def train(self, kernel: str, T: int) -> list[dict]:
        """Train both arms; return the rows of the trajectories."""
        data = self.study.data
        training = self.study.training.model_copy(update={"T": T, "kernel": kernel})
        sigma = math.sqrt(NSR / data.d1)
        arguments = "benchmark", "reduced", data, training, ARMS, sigma, self.seeds, self.latents
        return stage.pretrain(*arguments)[1]


def measure_rounds(config: str, replicas: int, steps: int, rounds: int) -> list[dict[str, float]]:
    """Train with each kernel in turn.

    Parameters
    ----------
    config : str
        Path of the config.
    replicas : int
        Number of replicas.
    steps : int
        Steps of a training.
    rounds : int
        Number of rounds.

    Returns
    -------
    list of dict of str to float
        CPU time of a replica-step by kernel, for each round (us).
    """
    cell = Cell(config, 0.5, list(range(replicas)))

    def time_training(kernel: str, T: int) -> float:
        start = time.process_time()
        cell.train(kernel, T)
        return 1e6 * (time.process_time() - start) / T / replicas

    for kernel in KERNELS:
        time_training(kernel, 5)
    return [{kernel: time_training(kernel, steps) for kernel in KERNELS} for _ in range(rounds)]


def compare_results(config: str, eps_min: float, seeds: list[int]) -> dict[str, float]:
    """Train the same replicas by both kernels, and compare them at the last step.

    Parameters
    ----------
    config : str
        Path of the config.
    eps_min : float
        Frequency of the rare feature.
    seeds : list of int
        Seeds.

    Returns
    -------
    dict of str to float
        A row of the table `kernel_differences`: replicas of both arms; how many have another T1,
        have moved in `max_alignment`, and differ in a count of neurons; the largest difference;
        and the largest difference of a metric's mean over its standard error.
    """
    cell = Cell(config, eps_min, seeds)
    T = cell.study.training.T
    keys = ["arm", "seed", "metric"]
    last = {}
    for kernel in KERNELS:
        rows = pd.DataFrame(cell.train(kernel, T))
        last[kernel] = rows[rows["step"] == T].set_index(keys)["value"].unstack("metric")
    difference = last["native"] - last["torch"]
    largest = difference["max_alignment"].abs()
    counts = difference[["aligned_neurons", "pure_neurons"]].abs().max(axis=1)
    by_arm = last["torch"][list(METRICS)].groupby("arm")
    shift = difference[list(METRICS)].groupby("arm").mean().abs() / by_arm.sem()
    return {
        "eps_min": eps_min,
        "replicas": len(difference),
        "other_T1": int((difference["T1"] != 0).sum()),
        "moved": int((largest > MOVED).sum()),
        "other_counts": int((counts > 0).sum()),
        "median": largest.median(),
        "largest": largest.max(),
        "shift": shift.max().max(),
    }


def main() -> None:
    """Print both tables, and publish them if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="config/config.yaml")
    parser.add_argument("--replicas", type=int, nargs="*", default=[10, 20, 50])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=0, help="replicas to compare at a frequency")
    parser.add_argument("--eps-min", type=float, nargs="+", default=[0.2, 0.35, 0.5, 0.65, 0.8])
    parser.add_argument("--jobs", type=int, default=2, help="processes that compare")
    parser.add_argument("--publish", action="store_true", help="write docs/tables/kernel_*.csv")
    args = parser.parse_args()

    os.environ.update(MALLOC)
    context, tables = multiprocessing.get_context("spawn"), {}
    rows = []
    for replicas in args.replicas:
        for jobs in (1, 2):
            task = [(args.config, replicas, args.steps, args.rounds)] * jobs
            with context.Pool(jobs) as pool:
                rounds = [each for rounds in pool.starmap(measure_rounds, task) for each in rounds]
            ratios = [each["torch"] / each["native"] for each in rounds]
            medians = {
                f"{kernel}_us": statistics.median(each[kernel] for each in rounds)
                for kernel in KERNELS
            }
            ratio = {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
            rows.append({"replicas": replicas, "jobs": jobs, **medians, **ratio})
            print(rows[-1], flush=True)
    if rows:
        tables["kernel_times"] = pd.DataFrame(rows)
    if args.seeds:
        seeds = list(range(args.seeds))
        with context.Pool(args.jobs) as pool:
            task = [(args.config, eps_min, seeds) for eps_min in args.eps_min]
            tables["kernel_differences"] = pd.DataFrame(pool.starmap(compare_results, task))
    for name, table in tables.items():
        print(table.to_string(index=False, float_format="%.3g"))
        if args.publish:
            origin = {"run": "benchmarks/kernels.py", "commit": commit()}
            versions = {"machine": machine(), "packages": packages()}
            PublishedTables().put(name, table, origin | versions)


if __name__ == "__main__":
    main()
