"""One setting and block of seeds: every arm trained on the same draws, and measured on the way."""

import itertools
from functools import cached_property
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import generator
from rarefeat.studies.two_layer import metrics, reduced_training
from rarefeat.studies.two_layer.config import Procedure, Setting
from rarefeat.studies.two_layer.data import (
    DataDistribution,
    batches,
    class_weights,
    correlation,
    moments,
)
from rarefeat.studies.two_layer.reduced_training import TwoLayerNetwork, frozen_features, scores
from rarefeat.workflow.run.cli_helpers import progress

ERASING = 2
"""Steps of all n samples before the batches."""
FEATURE_SAMPLES = 10_000
"""Training samples of the heads on many random features, whose outputs have to fit in memory."""
SEEN = 1000
"""Samples that show which neurons are live, and where their kinks are."""
FEATURES = {"random_features": 0, "one_step": 1, "one_step_rescaled": 1, "two_step": 2}
"""Step after which the features of a head are frozen, by method."""
PICTURES = {
    "setting": "str", "arm": "str", "step": "int64", "point": "int64", "kind": "str",
    "near": "int64", "x": "float64", "y": "float64",
}  # fmt: skip


class Replica:
    """Data and first steps of one seed, with structure or without, and what its arms measure."""

    def __init__(self, setting: Setting, draws: str, seed: int, structure: bool):
        problem, T = setting.problem, setting.T
        self.setting, self.draws, self.seed = setting, draws, seed
        self.law = DataDistribution(problem, draws, seed, structure)
        train, self.test = self.law.draw(setting.n, "train"), self.law.draw(setting.n_test, "test")
        mean, self.sigma = moments(train.patterns)
        self.x, self.x_test = ((part.patterns - mean) / self.sigma for part in (train, self.test))
        self.y, self.y_test = train.labels, self.test.labels
        self.count = train.patterns[:SEEN, self.law.relevant].sum(1)
        # Without structure a parity has gamma = 0, which sets no step: the rates are those of the
        # structured twin.
        twin = (
            train
            if structure
            else DataDistribution(problem, draws, seed).draw(len(self.y), "train")
        )
        self.gamma = 0.0 if problem.labels == "hypercube" else correlation(twin, self.law.relevant)
        self.order = batches(setting.n, setting.batch, T, generator(draws, seed, "batches"))
        self.recorded = {*range(min(5, T + 1)), *torch.linspace(0, T, 41).round().int().tolist()}
        """Steps at which accuracies are taken: every one up to 4, then some forty to T."""
        self.numbers: dict[tuple[str, int, str], float] = {}
        """By arm, step and quantity; what is measured at the end has step T."""
        self.pictured: dict[str, dict[int, TwoLayerNetwork]] = {}
        """Networks of an arm at the steps of `setting.neurons`."""

    @cached_property
    def start(self) -> TwoLayerNetwork:
        """The network at initialisation."""
        m, problem = self.setting.m, self.setting.problem
        random = generator(self.draws, self.seed, "initial network")
        if any(arm.schedule == "plain" for arm in self.setting.arms):
            return reduced_training.gaussian(2 * m, problem.d, problem.D, random)
        sigma_a = self.sigma**2 / (self.gamma * problem.k**2)
        return reduced_training.initial(m, problem.d, problem.D, problem.k, sigma_a, random)

    def erasing(self, weighted: bool) -> list[TwoLayerNetwork]:
        """Return the network after steps 0, 1 and 2, on all samples."""
        setting, positive = self.setting, float((self.y > 0).double().mean())
        p_min = min(positive, 1 - positive) if weighted else None
        weights = class_weights(self.y) if weighted else None
        passed = [self.start]
        for step in reduced_training.erasing_steps(
            setting.problem.k, setting.m, self.gamma, self.sigma, setting.noise, p_min
        ):
            gradient = reduced_training.gradient(
                passed[-1], self.x, self.y, weights, sigma_xi=step.sigma_xi
            )
            passed.append(reduced_training.descend(passed[-1], gradient, step))
        return passed

    def chosen_update(self, steps: int) -> reduced_training.Update:
        """Return Adam with the rates of the config."""
        rates = self.setting.rates
        return reduced_training.chosen_update(rates.network_head, rates.network_first, steps)

    @cached_property
    def decisive(self) -> Bool[Tensor, " n_test"]:
        """Test samples whose class the rarest relevant pattern decides."""
        return metrics.decisive(self.test, self.setting.problem, self.law.relevant)

    def accuracies(self, g: Float[Tensor, " n_test"]) -> dict[str, float]:
        """Return the accuracy of scores of the test samples, also where a rare pattern decides."""
        values = {"test_accuracy": metrics.accuracy(g, self.y_test)}
        if self.setting.problem.frequency:
            decided = g[self.decisive], self.y_test[self.decisive]
            values["decisive_accuracy"] = metrics.accuracy(*decided)
        return values

    def of_neurons(self, neurons: TwoLayerNetwork) -> dict[str, Any]:
        """Return what the weights of a network show."""
        problem, relevant, norm = self.setting.problem, self.law.relevant, neurons.norm()
        values = {
            "cosine": metrics.largest_cosine(neurons, relevant),
            "median_cosine": metrics.cosines(neurons, relevant).abs().nanmedian(),
            "zero_share": (norm == 0).double().mean(),
            "live_share": metrics.live_share(neurons, self.x_test[:SEEN]),
            "median_norm": norm.median(),
        }
        if problem.frequency:
            values["rare_ratio"] = metrics.rare_ratio(neurons, relevant, problem.frequency)
        if problem.labels == "hypercube":
            values["least_coverage"] = metrics.coverage(neurons, self.law.targets()[0]).min()
        return values

    def record(self, arm: str, step: int, **values: Any) -> None:
        """Keep numbers of an arm by their quantity."""
        self.numbers |= {(arm, step, name): float(value) for name, value in values.items()}

    def record_curve(self, arm: str, step: int, g_test: Float[Tensor, " n_test"]) -> None:
        """Keep the accuracy of scores of the test samples during training."""
        self.record(arm, step, curve=metrics.accuracy(g_test, self.y_test))

    def record_end(
        self, arm: str, g: Float[Tensor, " n"], g_test: Float[Tensor, " n_test"]
    ) -> None:
        """Keep accuracies and loss of the scores of training and test samples."""
        if not (g.isfinite().all() and g_test.isfinite().all()):
            raise RarefeatError(
                f"{arm}: training diverged: the scores are no longer finite; lower the rates or T"
            )
        y = self.y_test
        by_class = [metrics.accuracy(g_test[is_y], y[is_y]) for is_y in (y > 0, y < 0)]
        self.record(
            arm,
            self.setting.T,
            train_accuracy=metrics.accuracy(g, self.y),
            balanced_accuracy=sum(by_class) / 2,
            hinge_loss=metrics.hinge_loss(g_test, y),
            **self.accuracies(g_test),
        )


def train_network(replica: Replica, arm: Procedure, passed: list[TwoLayerNetwork]) -> None:
    """Train a network from the last of the passed ones on."""
    setting, problem = replica.setting, replica.setting.problem
    steps = setting.T - len(passed) + 1
    update = (
        reduced_training.printed_update(problem.k, setting.m, setting.T)
        if arm.schedule == "printed"
        else replica.chosen_update(steps)
    )
    trained = reduced_training.train(
        passed[-1], replica.x, replica.y, replica.order[:steps], update, setting.activation
    )
    for step, neurons in enumerate(itertools.chain(passed, trained)):
        if step in replica.recorded:
            g = scores(neurons, replica.x_test, setting.activation)
            replica.record_curve(arm.label, step, g)
        if step in (0, 1, ERASING, setting.T):
            replica.record(arm.label, step, **replica.of_neurons(neurons))
        if step in setting.neurons:
            replica.pictured.setdefault(arm.label, {})[step] = neurons
    at_end = (scores(neurons, x, setting.activation) for x in (replica.x, replica.x_test))
    replica.record_end(arm.label, *at_end)
    if (arm.schedule, arm.structure, problem.labels) == ("chosen", True, "parity"):
        count = replica.test.patterns[:SEEN, replica.law.relevant].sum(1)
        kernel = metrics.head_kernel(passed[ERASING], replica.x_test[:SEEN], count, problem)
        values = {f"head_kernel_{i}": value for i, value in enumerate(kernel, start=1)}
        replica.record(arm.label, ERASING, **values)


def train_ntk(replica: Replica, arm: Procedure, passed: list[TwoLayerNetwork]) -> None:
    """Train the network linearised at its initialisation."""
    models = reduced_training.train_linearised(
        passed[0], replica.x, replica.y, replica.order, replica.setting.rates.ntk
    )
    for step, model in enumerate(models):
        if step in replica.recorded:
            replica.record_curve(arm.label, step, model.scores(replica.x_test))
    replica.record_end(arm.label, model.scores(replica.x), model.scores(replica.x_test))


def train_head(replica: Replica, arm: Procedure, passed: list[TwoLayerNetwork]) -> None:
    """Train a head on frozen features, by stochastic gradient and by least squares."""
    setting, step = replica.setting, FEATURES[arm.method]
    # Of each pair of equal features at initialisation, one.
    neurons = passed[step] if step else passed[0].select(torch.arange(setting.m))
    if arm.method == "one_step_rescaled":
        neurons = neurons._replace(w=neurons.w * step_two_scale(passed))
    h, h_test = frozen_features(neurons, replica.x), frozen_features(neurons, replica.x_test)
    heads = reduced_training.train_head(
        h, replica.y, replica.order, setting.rates.head, setting.rates.momentum
    )
    for t, a in enumerate(heads):
        if t in replica.recorded:
            replica.record_curve(arm.label, t, h_test @ a)
    replica.record_end(arm.label, h @ a, h_test @ a)
    exact = reduced_training.least_squares(h, replica.y)
    replica.record(
        arm.label,
        setting.T,
        head_norm=a.norm(),
        train_accuracy_least_squares=metrics.accuracy(h @ exact, replica.y),
        test_accuracy_least_squares=metrics.accuracy(h_test @ exact, replica.y_test),
        **replica.of_neurons(neurons),
    )


def step_two_scale(passed: list[TwoLayerNetwork]) -> float:
    """Return the factor from step-1 weights to the median norm of step 2, without those of 0."""
    one, two = (neurons.norm()[neurons.norm() > 0] for neurons in passed[1:3])
    return float(two.median() / one.median()) if len(one) and len(two) else 1.0


def train_random_features(replica: Replica) -> None:
    """Train heads on some numbers of random features, for the lower bounds."""
    setting, problem = replica.setting, replica.setting.problem
    random = generator(replica.draws, replica.seed, "random features")
    network = reduced_training.initial(
        max(setting.fixed_features), problem.D, problem.D, problem.k, 1.0, random
    )
    n = min(setting.n, FEATURE_SAMPLES)
    order = batches(n, min(setting.batch, n), setting.T, random)
    for N in setting.fixed_features:
        some, rates = network.select(torch.arange(N)), setting.rates
        h, y = frozen_features(some, replica.x[:n]), replica.y[:n]
        *_, a = reduced_training.train_head(h, y, order, rates.head, rates.momentum)
        g = frozen_features(some, replica.x_test) @ a
        replica.record(
            f"random_features-{N}",
            setting.T,
            hinge_loss=metrics.hinge_loss(g, replica.y_test),
            head_norm=a.norm(),
            test_accuracy=metrics.accuracy(g, replica.y_test),
        )


def train_tickets(replica: Replica, neurons: TwoLayerNetwork, suffix: str) -> None:
    """Train sub-networks of step 2 alone (Proposition B.1); accuracies are means over draws."""
    setting, order = replica.setting, replica.order[: replica.setting.T - ERASING]
    draws = [
        (score, draw)
        for draw in range(setting.tickets.random_draws)
        for score in (metrics.RANDOM_SCORES if draw else metrics.SCORES)
    ]
    for size in setting.tickets.sizes:
        chosen = [
            metrics.ticket(
                neurons, score, size, replica.x[:SEEN], replica.count, setting.problem.k,
                generator(replica.draws, replica.seed, f"ticket {draw}"),
            )
            for score, draw in draws
        ]  # fmt: skip
        tickets = neurons._replace(outside=neurons.outside[:, :0]).select(torch.cat(chosen))
        trained = reduced_training.train_groups(
            tickets, len(draws), replica.x, replica.y, order, replica.chosen_update(len(order))
        )
        of_draws = reduced_training.group_scores(trained, replica.x_test, len(draws)).T
        table = pd.DataFrame(map(replica.accuracies, of_draws))
        for score in metrics.SCORES:
            means = table[[name == score for name, _ in draws]].mean()
            replica.record(f"ticket-{score}-{size}{suffix}", setting.T, **means)
    # What magnitude pruning would throw away: the fifth of smallest norm.
    fifth = len(neurons.b) // 5
    smallest = neurons.select(neurons.norm().argsort(stable=True)[:fifth])
    *_, trained = reduced_training.train(
        smallest, replica.x, replica.y, order, replica.chosen_update(len(order))
    )
    accuracy = metrics.accuracy(scores(trained, replica.x_test), replica.y_test)
    replica.record(f"ticket-smallest-{fifth}{suffix}", setting.T, test_accuracy=accuracy)


def train_replica(setting: Setting, draws: str, seed: int, structure: bool) -> Replica:
    """Train and measure the arms of a setting, with structure or without, for one seed."""
    replica = Replica(setting, draws, seed, structure)
    arms = [arm for arm in setting.arms if arm.structure == structure]
    plain = all(arm.schedule == "plain" for arm in arms)
    passed = {
        weighted: [replica.start] if plain else replica.erasing(weighted)
        for weighted in sorted({arm.weights for arm in arms})
    }
    for arm in arms:
        train = {"network": train_network, "ntk": train_ntk}.get(arm.method, train_head)
        train(replica, arm, passed[arm.weights])
    if structure:
        for weighted in passed if setting.tickets else ():
            train_tickets(replica, passed[weighted][-1], "-weighted" if weighted else "")
        if setting.fixed_features:
            train_random_features(replica)
        positive = float((replica.y_test > 0).double().mean())
        majority = max(positive, 1 - positive)
        known = {"gamma": replica.gamma, "sigma": replica.sigma, "majority_accuracy": majority}
        replica.record("data", 0, **known)
    return replica


def measure_two_layer(
    cell: dict, seeds: list[int], setting: Setting, pictured: int
) -> tuple[list[dict], pd.DataFrame]:
    """Train and measure every arm of a setting for some seeds; embed the neurons of one of them."""
    name, numbers, pictures = cell["setting"], [], [pd.DataFrame(columns=list(PICTURES))]
    for seed in progress(seeds, len(seeds), name):
        for structure in sorted({arm.structure for arm in setting.arms}):
            replica = train_replica(setting, f"two_layer/{name}", seed, structure)
            for (arm, step, quantity), value in replica.numbers.items():
                keys = {"setting": name, "seed": seed, "arm": arm, "step": step}
                numbers.append({**keys, "quantity": quantity, "value": value})
            for arm, states in replica.pictured.items() if seed == pictured else ():
                table = metrics.picture(states, *replica.law.targets())
                pictures.append(table.assign(setting=name, arm=arm))
    return numbers, pd.concat(pictures)[list(PICTURES)].astype(PICTURES)
