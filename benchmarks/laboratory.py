"""Measure training by the laboratory against a hand-written autograd loop for one replica.

Both train the paper's encoder with InfoNCE and SGD on the same pairs: the loop with plain modules
and `loss.backward()`, its pairs and noise drawn at each step as the laboratory does. Ratios are
paired, one after the other in each round, since machines are shared and noisy; minimum and median
over rounds of CPU seconds per step and replica are printed. Run it in the root of the project.
"""

import argparse
import statistics
import time

import torch

import rarefeat
from rarefeat.training.encoders import Paper
from rarefeat.training.learners import DataLawSource, Learner, train_learners
from rarefeat.training.losses import infonce
from rarefeat.workflow.config.model import Arm

NAMESPACE, EPS_MIN = "benchmark", 0.5


def by_hand(data, training, sigma: float) -> None:
    """Train one replica by a loop of one's own."""
    source = DataLawSource(NAMESPACE, Learner(), data, training, sigma, [0])
    M, K = source.simulator.dictionary[0], training.K
    g = torch.Generator().manual_seed(0)
    latents = source.law(data.N, g, source.probability(EPS_MIN)).float()
    encoder = Paper(data.d1, training.m, training.sigma_0)
    optimiser = torch.optim.SGD(encoder.parameters(), training.eta, weight_decay=training.lambda_)
    for _ in range(training.T):
        z = latents[torch.randint(data.N, (K,), generator=g)].transpose(0, 1).flatten(0, 1)
        tokens = z @ M.mT + sigma * torch.randn(2 * K, data.L, data.d1, generator=g)
        f_x, f_y = encoder(tokens).split(K)
        optimiser.zero_grad()
        infonce(f_x, f_y, training.tau).backward()
        optimiser.step()


def by_laboratory(data, training, sigma: float, replicas: int) -> None:
    """Train replicas by autograd of the laboratory."""
    learner = Learner(optimiser_options={"momentum": 0.0})
    source = DataLawSource(NAMESPACE, learner, data, training, sigma, list(range(replicas)))
    train_learners(source, Arm(arm="dense"), EPS_MIN)


def seconds(function, *arguments) -> float:
    """Return the CPU seconds of one call."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def main() -> None:
    """Print costs and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--width", type=int, default=64, help="d1")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    study = rarefeat.load_config().studies["paper"]
    data = study.data.model_copy(update={"d1": arguments.width})
    training = study.training.model_copy(update={"T": arguments.steps})
    sigma = (1.25 / arguments.width) ** 0.5
    costs: dict[str, list[float]] = {}
    for function, more in ((by_hand, ()), (by_laboratory, (1,))):
        # The first call of each imports and allocates, which no later one does.
        function(data, training.model_copy(update={"T": 3}), sigma, *more)
    for _ in range(arguments.rounds):
        hand = seconds(by_hand, data, training, sigma) / arguments.steps
        costs.setdefault("by hand", []).append(1000 * hand)
        for replicas in (1, 9):
            cost = seconds(by_laboratory, data, training, sigma, replicas)
            cost /= arguments.steps * replicas
            costs.setdefault(f"{replicas} replicas", []).append(1000 * cost)
            costs.setdefault(f"{replicas} replicas / by hand", []).append(cost / hand)
    for name, values in costs.items():
        unit = "" if "/" in name else " ms a step and replica"
        print(f"{name:22} min {min(values):6.3f}  median {statistics.median(values):6.3f}{unit}")


if __name__ == "__main__":
    main()
