"""Measure the direct simulator against matrix products, and against a plain autograd loop.

The plain loop is what one would write first: one seed at a time, tokens mixed by attention before
the projection, autograd. Both train the paper's cell (d1 = 500, d = 9, m = 30, L = 4, K = 128) with
new noise at each step, on one thread. Rounds are interleaved and the median of the rounds' ratios
is printed, because machines are shared and noisy.
"""

import argparse
import statistics
import time

import torch

from rarefeat.model.encoder import brelu
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.stages.synthesise import synthesise
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.project import load


def plain_loop(study, latents, sigma: float, seeds: list[int]) -> None:
    """Train seed by seed with autograd, on the paper's cell without a bias.

    Parameters
    ----------
    study : Study
        Study with the cell's config.
    latents : dict
        What `synthesise` returns.
    sigma : float
        Standard deviation of the noise.
    seeds : list of int
        Seeds.
    """
    data, training = study.data, study.training
    for index, seed in enumerate(seeds):
        space = make_simulator("direct", "benchmark", data.d, data.d1, training.m, [seed])
        dictionary, train = space.dictionary[0], latents["train"][index]
        weights = space.initial_weights(
            training.sigma_0, [generator("benchmark", seed, "weights")]
        )[0].requires_grad_()
        draws = generator("benchmark", seed, "plain")
        for _ in range(training.T):
            rows = torch.randint(data.N, (training.K,), generator=draws)
            pair = train[rows].float() @ dictionary.T
            pair = pair + sigma * torch.randn(pair.shape, generator=draws)
            mixed = torch.softmax(pair @ pair.transpose(-1, -2), -1) @ pair
            f_x, f_y = brelu(mixed @ weights.T, 0.0).sum(2).unbind(1)
            similarity = f_x @ f_y.detach().T / training.tau
            loss = torch.nn.functional.cross_entropy(similarity, torch.arange(training.K))
            (gradient,) = torch.autograd.grad(loss, weights)
            weights = (
                ((1 - training.eta * training.lambda_) * weights - training.eta * gradient)
                .detach()
                .requires_grad_()
            )


def flops_per_step(study) -> float:
    """Return the operations of one replica's step in the trainer's matrix products."""
    data, training = study.data, study.training
    rows = training.K * data.L
    products = 3 * rows * data.d1 * training.m  # two views forward, one backward
    signal = 2 * rows * data.d * data.d1
    attention = 2 * rows * data.L * (data.d1 + training.m) + rows * data.L * training.m
    similarity = 2 * training.K**2 * training.m
    return 2.0 * (products + signal + attention + similarity)


def seconds(function, *arguments) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def main() -> None:
    """Print the figures of every round and their medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="config/config.yaml")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--replicas", type=int, default=10)
    args = parser.parse_args()

    torch.set_num_threads(1)
    study = load(args.config).studies["paper"]
    study = study.model_copy(
        update={"training": study.training.model_copy(update={"T": args.steps})}
    )
    seeds, sigma = list(range(args.replicas)), 0.05
    latents = synthesise("benchmark", study.data, 0.5, seeds)
    square = torch.randn(2048, 2048)
    noise = torch.empty(2 * study.training.K * study.data.L * study.data.d1)
    draws = generator("benchmark", 0, "noise")

    def train() -> None:
        pretrain(
            "benchmark",
            "direct",
            study.data,
            study.training,
            [Arm(arm="dense")],
            sigma,
            seeds,
            latents["train"],
        )

    rounds = []
    for _ in range(args.rounds):
        rate = 2 * 2048**3 / seconds(torch.mm, square, square)
        step = seconds(train) / (args.steps * args.replicas)
        plain = seconds(plain_loop, study, latents, sigma, seeds) / (args.steps * args.replicas)
        normals = seconds(lambda: noise.normal_(generator=draws))
        rounds.append(
            (1e3 * step, flops_per_step(study) / step / rate, normals / step, plain / step)
        )
    names = ("ms a replica-step", "share of mm rate", "share of normals")
    print("".join(f"{name:>18}" for name in names), f"{'plain / trainer':>16}")
    for row in [*rounds, tuple(map(statistics.median, zip(*rounds, strict=True)))]:
        print("".join(f"{value:18.3f}" for value in row[:3]), f"{row[3]:16.2f}")
    print("the last row: medians; normals: the time to draw a step's noise alone")


if __name__ == "__main__":
    main()
