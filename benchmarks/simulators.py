"""Measure the reduced simulator: against the direct one, over d1, and function by function.

Both train the paper's cell (d1 = 500, d = 9, m = 30, L = 4, K = 128), dense arm, on one thread, ten
replicas at once. Rounds are interleaved and medians of the rounds' ratios are printed, because
machines are shared and noisy. Functions are timed by wrapping those that pretrain calls; the time
of `standard_normals` is within that of `sample_tokens`, and that of `descend` within `apply_step`.
"""

import argparse
import collections
import functools
import math
import statistics
import time

import torch

from rarefeat.model import simulators
from rarefeat.model.randomness import generator
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.training import loop
from rarefeat.training import step as training
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.project import load

NSR = 1.25
TIMED = [
    (simulators.ReducedSimulator, "sample_tokens"),
    (training, "attend"),
    (training, "forward"),
    (training, "loss_gradient"),
    (loop, "apply_step"),
    (simulators.ReducedSimulator, "descend"),
    (simulators, "standard_normals"),
]
"""Functions that are timed, with the class or module that has them."""
ARMS = [Arm(arm="dense"), Arm(arm="pruned_neuron", alpha=0.1), Arm(arm="oracle_all")]


def milliseconds(
    simulator: str, study, train: torch.Tensor, d1: int, steps: int, arms: int = 1
) -> float:
    """Return the milliseconds per replica-step and arm of one training.

    Parameters
    ----------
    simulator : str
        direct or reduced.
    study : Study
        Study with the cell's config.
    train : Tensor of shape (S, N, 2, L, d)
        Latent training pairs.
    d1 : int
        Ambient dimension; noise and weights keep their norms.
    steps : int
        Training steps.
    arms : int
        Number of arms on the same tokens.
    """
    data = study.data.model_copy(update={"d1": d1})
    settings = study.training.model_copy(
        update={"T": steps, "sigma_0": study.training.sigma_0 * math.sqrt(500 / d1)}
    )
    start = time.perf_counter()
    seeds = list(range(len(train)))
    pretrain("benchmark", simulator, data, settings, ARMS[:arms], math.sqrt(NSR / d1), seeds, train)
    return 1e3 * (time.perf_counter() - start) / steps / len(train) / arms


def profile(study, train: torch.Tensor, steps: int) -> dict[str, float]:
    """Return the microseconds per replica-step of each function of TIMED, and of a step.

    Parameters
    ----------
    study : Study
        Study with the cell's config.
    train : Tensor of shape (S, N, 2, L, d)
        Latent training pairs.
    steps : int
        Training steps.
    """
    spent = collections.Counter()

    def timed(name, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            start = time.perf_counter()
            result = function(*args, **kwargs)
            spent[name] += time.perf_counter() - start
            return result

        return wrapper

    originals = [(owner, name, getattr(owner, name)) for owner, name in TIMED]
    for owner, name, function in originals:
        setattr(owner, name, timed(name, function))
    total = 1e3 * milliseconds("reduced", study, train, study.data.d1, steps)
    for owner, name, function in originals:
        setattr(owner, name, function)
    return {name: 1e6 * seconds / steps / len(train) for name, seconds in spent.items()} | {
        "whole step": total
    }


def main() -> None:
    """Print medians over rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="config/config.yaml")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--replicas", type=int, default=10)
    args = parser.parse_args()

    torch.set_num_threads(1)
    study = load(args.config).studies["paper"]
    probability = activation_probability(
        frequencies(study.data.d, study.data.minority, 0.5), study.data.C
    )
    draws = [generator("benchmark", seed, "train") for seed in range(args.replicas)]
    train = torch.stack(
        [latent_pairs(study.data.N, study.data.L, probability, draw) for draw in draws]
    )

    widths = [500, 10**3, 10**4, 10**5, 10**6]
    rounds = []
    for _ in range(args.rounds):
        reduced = [milliseconds("reduced", study, train, d1, args.steps) for d1 in widths]
        direct = milliseconds("direct", study, train, 500, args.steps)
        shared = [
            milliseconds(kind, study, train, 500, args.steps, arms=3)
            for kind in ("reduced", "direct")
        ]
        ratios = direct / reduced[0], *(cost / reduced[1] for cost in reduced[2:])
        rounds.append(
            (*reduced, direct, *ratios, *shared, shared[0] / reduced[0], shared[1] / direct)
        )
    names = [
        *(f"reduced, ms, d1 = {d1}" for d1 in widths),
        "direct, ms, d1 = 500",
        "direct / reduced at d1 = 500",
    ]
    names += [f"d1 = {d1} / d1 = 1000" for d1 in widths[2:]]
    names += [
        "reduced, ms an arm, three arms",
        "direct, ms an arm, three arms",
        "reduced, of three / alone",
        "direct, of three / alone",
    ]
    for name, values in zip(names, zip(*rounds, strict=True), strict=True):
        print(
            f"{name:32} {statistics.median(values):8.3f}   [{min(values):.3f}, {max(values):.3f}]"
        )
    profiles = [profile(study, train, args.steps) for _ in range(args.rounds)]
    for name in sorted(profiles[0], key=lambda name: -profiles[0][name]):
        print(f"{name:32} {statistics.median(each[name] for each in profiles):8.1f} us")


if __name__ == "__main__":
    main()
