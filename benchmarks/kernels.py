"""Measure what a training step costs with the native kernel and with torch, as ratios of one run.

The paper's cell (reduced simulator, d1 = 500, arms dense and pruned_neuron) is trained by both
kernels in turn, in one process and in two at once, each on one thread. CPU time of the process is
counted, because machines are shared; rounds alternate the kernels, and medians, smallest and
largest are printed. The functions of the step are timed in the last round by wrapping them, so that
they add up to more than the step.
"""

import argparse
import collections
import functools
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable

import torch

from rarefeat.chain import pretrain as stage
from rarefeat.config.model import Arm
from rarefeat.core import simulators, training
from rarefeat.core.randomness import generator
from rarefeat.core.sparse_coding import frequencies, latent_pairs
from rarefeat.core.theory import activation_probability
from rarefeat.project import load

KERNELS = ("torch", "native")
ARMS = [Arm(arm="dense"), Arm(arm="pruned_neuron", alpha=0.1)]
NSR = 1.25
NATIVE_FUNCTIONS = (
    "draw_stream",
    "attend",
    "chi_variables",
    "forward",
    "sum_brelu",
    "loss_gradient",
    "apply_gates",
    "sum_beyond",
    "finish_descent",
    "matmul",
    "probabilities",
    "embedding_gradient",
)
"""Functions of `core.native_step` that are timed."""


def measure_rounds(
    config: str, replicas: int, steps: int, rounds: int, kernels: tuple[str, ...] = KERNELS
) -> list[dict[str, float]]:
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
    kernels : tuple of str
        Kernels, in the order of a round.

    Returns
    -------
    list of dict of str to float
        CPU time of a replica-step by kernel, for each round (us).
    """
    torch.set_num_threads(1)
    study = load(config).studies["paper"]
    data, frequency = study.data, frequencies(study.data.d, study.data.minority, 0.5)
    probability = activation_probability(frequency, data.C)
    draws = [generator("benchmark", seed, "train") for seed in range(replicas)]
    train = torch.stack([latent_pairs(data.N, data.L, probability, draw) for draw in draws])

    def time_training(kernel: str, T: int) -> float:
        settings = study.training.model_copy(update={"T": T, "kernel": kernel})
        start = time.process_time()
        sigma, seeds = math.sqrt(NSR / data.d1), list(range(replicas))
        stage.pretrain("benchmark", "reduced", data, settings, ARMS, sigma, seeds, train)
        return 1e6 * (time.process_time() - start) / T / replicas

    for kernel in kernels:
        time_training(kernel, 5)
    return [{kernel: time_training(kernel, steps) for kernel in kernels} for _ in range(rounds)]


def time_functions(config: str, replicas: int, steps: int) -> dict[str, dict[str, float]]:
    """Measure the CPU time of each function in a replica-step, by kernel.

    Parameters
    ----------
    config : str
        Path of the config.
    replicas : int
        Number of replicas.
    steps : int
        Steps of the training.

    Returns
    -------
    dict of str to dict of str to float
        CPU time by kernel and name of the function (us).
    """
    from rarefeat.core import native_step

    spent = {kernel: collections.Counter() for kernel in KERNELS}

    def wrap(owner: object, name: str, kernel: str) -> Callable[[], None]:
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args, **kwargs):
            start = time.process_time()
            result = function(*args, **kwargs)
            spent[kernel][name] += time.process_time() - start
            return result

        setattr(owner, name, timed)
        return lambda: setattr(owner, name, function)

    shared = [
        (simulators, "chi_variables"),
        (simulators.ReducedSimulator, "draw_complement"),
        (stage, "apply_step"),
        (stage, "apply_mask"),
    ]
    functions = {
        "torch": [
            (simulators.ReducedSimulator, "sample_tokens"),
            (simulators.ReducedSimulator, "descend"),
            *((training, name) for name in ("attend", "forward", "loss_gradient")),
        ],
        "native": [
            (native_step.NativeSimulator, "attended_tokens"),
            (native_step.NativeSimulator, "descend"),
            *((native_step, name) for name in NATIVE_FUNCTIONS),
        ],
    }
    for kernel, places in functions.items():
        undo = [wrap(owner, name, kernel) for owner, name in shared + places]
        (cost,) = measure_rounds(config, replicas, steps, 1, (kernel,))
        spent[kernel]["step"] = cost[kernel] * steps * replicas / 1e6
        for restore in undo:
            restore()
    return {
        kernel: {name: 1e6 * seconds / steps / replicas for name, seconds in times.items()}
        for kernel, times in spent.items()
    }


def main() -> None:
    """Print medians over rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="config/config.yaml")
    parser.add_argument("--replicas", type=int, nargs="+", default=[10, 20, 50])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--functions", action="store_true", help="print the functions of the step as well"
    )
    args = parser.parse_args()

    for replicas in args.replicas:
        for jobs in (1, 2):
            task = [(args.config, replicas, args.steps, args.rounds)] * jobs
            with multiprocessing.get_context("spawn").Pool(jobs) as pool:
                rounds = [each for rounds in pool.starmap(measure_rounds, task) for each in rounds]
            by_kernel = {kernel: [each[kernel] for each in rounds] for kernel in KERNELS}
            ratios = [each["torch"] / each["native"] for each in rounds]
            print(f"S = {replicas}, {jobs} at once:", end=" ")
            print(
                *(
                    f"{kernel} {statistics.median(cost):.0f} us,"
                    for kernel, cost in by_kernel.items()
                ),
                end=" ",
            )
            print(
                f"ratio {statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]",
                flush=True,
            )
    if args.functions:
        for kernel, costs in time_functions(args.config, args.replicas[0], args.steps).items():
            for name, cost in sorted(costs.items(), key=lambda item: -item[1]):
                print(f"{kernel:8} {name:16} {cost:8.1f} us")


if __name__ == "__main__":
    main()
