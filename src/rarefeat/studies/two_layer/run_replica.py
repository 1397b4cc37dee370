"""One seed of one setting: every arm on the same draws, and its metrics during training."""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch
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
    normalisation,
)
from rarefeat.studies.two_layer.reduced_training import TwoLayerNetwork

ERASING = 2
"""Steps of all n samples before the batches."""
FEATURE_SAMPLES = 10_000
"""Training samples of the heads on many random features, whose outputs have to fit in memory."""
DIVERGED = "training diverged: the scores are no longer finite; lower the rates or T"


class MetricRow(NamedTuple):
    """A number of an arm: at a step, or at the end with the step T."""

    arm: str
    step: int
    quantity: str
    value: float


class ReplicaResult(NamedTuple):
    """The metrics of a replica and the networks whose neurons are shown."""

    rows: list[MetricRow]
    neurons: dict[tuple[str, int], TwoLayerNetwork]
    """Neurons of network arms at the steps of `setting.neurons`."""


def recorded(T: int) -> list[int]:
    """Return the steps at which accuracies are taken: every one up to 4, then some forty on to
    T.
    """
    spaced = torch.linspace(0, T, 41).round().int().tolist()
    return sorted({step for step in [*range(5), *spaced] if step <= T})


class ReplicaSetup:
    """Data and the first two steps of one distribution, for every arm that begins with them."""

    def __init__(self, setting: Setting, draws: str, seed: int, structure: bool):
        problem = setting.problem
        self.setting, self.draws, self.seed = setting, draws, seed
        self.law = DataDistribution(problem, draws, seed, structure)
        self.train, self.test = (
            self.law.draw(setting.n, "train"),
            self.law.draw(setting.n_test, "test"),
        )
        self.normalised = normalisation(self.train.patterns)
        self.x, self.y = self.normalised(self.train.patterns), self.train.labels
        self.x_test = self.normalised(self.test.patterns)
        # Without structure a parity has gamma = 0, which sets no step: the rates are those of the
        # structured twin.
        twin = (
            self.train
            if structure
            else DataDistribution(problem, draws, seed).draw(setting.n, "train")
        )
        self.gamma = 0.0 if problem.labels == "hypercube" else correlation(twin, self.law.relevant)
        self.order = batches(setting.n, setting.batch, setting.T, generator(draws, seed, "batches"))

    @cached_property
    def start(self) -> TwoLayerNetwork:
        """The network at initialisation."""
        problem, random = self.setting.problem, generator(self.draws, self.seed, "initial network")
        if any(arm.schedule == "plain" for arm in self.setting.arms):
            return reduced_training.gaussian(2 * self.setting.m, problem.d, problem.D, random)
        sigma_a = self.normalised.sigma**2 / (self.gamma * problem.k**2)
        return reduced_training.initial(
            self.setting.m, problem.d, problem.D, problem.k, sigma_a, random
        )

    def erasing(self, weighted: bool) -> list[TwoLayerNetwork]:
        """Return the network after steps 0, 1 and 2, on all samples."""
        setting, positive = self.setting, float((self.y > 0).double().mean())
        p_min = min(positive, 1 - positive) if weighted else None
        steps = reduced_training.erasing_steps(
            setting.problem.k, setting.m, self.gamma, self.normalised.sigma, setting.noise, p_min
        )
        weights = class_weights(self.y) if weighted else None
        passed = [self.start]
        for step in steps:
            gradient = reduced_training.gradient(
                passed[-1], self.x, self.y, weights, sigma_xi=step.sigma_xi
            )
            passed.append(reduced_training.descend(passed[-1], gradient, step))
        return passed


def run(setting: Setting, draws: str, seed: int) -> ReplicaResult:
    """Train and measure every arm of a setting for one seed."""
    rows: list[MetricRow] = []
    pictures: dict[tuple[str, int], TwoLayerNetwork] = {}
    for structure in sorted({arm.structure for arm in setting.arms}, reverse=True):
        stage = ReplicaSetup(setting, draws, seed, structure)
        arms = [arm for arm in setting.arms if arm.structure == structure]
        rows += (
            [MetricRow("data", 0, name, value) for name, value in _of_the_data(stage).items()]
            if structure
            else []
        )
        for weighted in sorted({arm.weights for arm in arms}):
            passed = (
                stage.erasing(weighted)
                if any(arm.schedule != "plain" for arm in arms)
                else [stage.start]
            )
            for arm in arms:
                if arm.weights == weighted:
                    rows += _ARMS[arm.method](stage, arm, passed, pictures)
            if setting.tickets and structure:
                rows += _tickets(stage, passed[-1], "weighted" if weighted else "")
        if structure:
            rows += _random_features(stage)
    if not all(
        torch.isfinite(torch.tensor(row.value)) for row in rows if row.quantity.endswith("accuracy")
    ):
        raise RarefeatError(DIVERGED)
    return ReplicaResult(rows, pictures)


def _of_the_data(stage: ReplicaSetup) -> dict[str, float]:
    positive = float((stage.test.labels > 0).double().mean())
    return {
        "gamma": stage.gamma,
        "sigma": stage.normalised.sigma,
        "majority_accuracy": max(positive, 1 - positive),
    }


def _ends(stage: ReplicaSetup, arm: Procedure, train: Tensor, test: Tensor) -> list[MetricRow]:
    """Return accuracies at the end, from the scores of all training and test samples.

    train (n,), test (n_test,).
    """
    T = stage.setting.T
    values = {
        "train_accuracy": metrics.accuracy(train, stage.y),
        "test_accuracy": metrics.accuracy(test, stage.test.labels),
    }
    values["hinge_loss"] = hinge_loss(test, stage.test.labels)
    positive = stage.test.labels > 0
    values["balanced_accuracy"] = (
        sum(metrics.accuracy(test[is_y], stage.test.labels[is_y]) for is_y in (positive, ~positive))
        / 2
    )
    if stage.setting.problem.frequency:
        is_decisive = metrics.decisive(stage.test, stage.setting.problem, stage.law.relevant)
        values["decisive_accuracy"] = metrics.accuracy(
            test[is_decisive], stage.test.labels[is_decisive]
        )
    if not (train.isfinite().all() and test.isfinite().all()):
        raise RarefeatError(f"{arm.label}: {DIVERGED}")
    return [MetricRow(arm.label, T, name, value) for name, value in values.items()]


def hinge_loss(g: Tensor, y: Tensor) -> float:
    """Return the mean of max(1 - y g, 0), (n,), (n,)."""
    return float((1 - y * g).clamp(min=0).mean())


def _of_the_neurons(
    stage: ReplicaSetup, arm: Procedure, step: int, neurons: TwoLayerNetwork
) -> list[MetricRow]:
    problem, relevant = stage.setting.problem, stage.law.relevant
    values = {"cosine": metrics.largest_cosine(neurons, relevant)}
    values["median_cosine"] = float(metrics.cosines(neurons, relevant).abs().nanmedian())
    values["zero_share"] = float((neurons.norm() == 0).double().mean())
    values["live_share"] = metrics.live_share(neurons, stage.x_test[:1000])
    values["median_norm"] = float(neurons.norm().median())
    if problem.frequency:
        values["rare_ratio"] = metrics.rare_ratio(neurons, relevant, problem.frequency)
    if step == ERASING and (arm.method, arm.schedule, arm.structure, problem.labels) == (
        "network",
        "chosen",
        True,
        "parity",
    ):
        x, patterns = stage.x_test[:1000], stage.test.patterns[:1000, relevant]
        eigenvalues = metrics.head_kernel(neurons, x, patterns.sum(1), problem)
        values |= {f"head_kernel_{i}": value for i, value in enumerate(eigenvalues, start=1)}
    if problem.labels == "hypercube":
        values["least_coverage"] = float(metrics.coverage(neurons, centres(stage.law)).min())
    return [MetricRow(arm.label, step, name, value) for name, value in values.items()]


def centres(law: DataDistribution) -> Tensor:
    """Return the directions that neurons are compared with, (r, D).

    They are the corners of the hypercube, else E[y phi~] up to its length. That is sum_{j in A} M_j
    for counts, and for codes the difference of the classes' mean codes.
    """
    problem = law.problem
    if problem.labels == "hypercube":
        relevant_part = (
            2.0 * torch.cartesian_prod(*[torch.arange(2)] * problem.k).view(-1, problem.k) - 1
        )
    elif problem.labels == "codes":
        relevant_part = law.codes[: problem.codes].mean(0, keepdim=True) - law.codes[
            problem.codes :
        ].mean(0, keepdim=True)
    else:
        relevant_part = torch.ones(1, problem.k)
    directions = torch.zeros(len(relevant_part), problem.D)
    directions[:, law.relevant] = relevant_part
    return directions


def _network(
    stage: ReplicaSetup, arm: Procedure, passed: list[TwoLayerNetwork], pictures: dict
) -> list[MetricRow]:
    setting = stage.setting
    steps = setting.T - (len(passed) - 1)
    rates = setting.rates
    if arm.schedule == "printed":
        update = reduced_training.printed_update(setting.problem.k, setting.m, setting.T)
    else:
        update = reduced_training.chosen_update(rates.network_head, rates.network_first, steps)
    wanted, rows = set(recorded(setting.T)), []

    def see(step: int, neurons: TwoLayerNetwork) -> None:
        if step in wanted:
            g = reduced_training.scores(neurons, stage.x_test, setting.activation)
            rows.append(MetricRow(arm.label, step, "curve", metrics.accuracy(g, stage.test.labels)))
        if step in {0, 1, 2, setting.T}:
            rows.extend(_of_the_neurons(stage, arm, step, neurons))
        if step in setting.neurons:
            pictures[arm.label, step] = neurons

    for step, neurons in enumerate(passed):
        see(step, neurons)
    order = stage.order[:steps]
    for step, neurons in enumerate(
        reduced_training.train(passed[-1], stage.x, stage.y, order, update, setting.activation),
        start=len(passed),
    ):
        see(step, neurons)
    g, g_test = (
        reduced_training.scores(neurons, x, setting.activation) for x in (stage.x, stage.x_test)
    )
    return [*rows, *_ends(stage, arm, g, g_test)]


def _ntk(
    stage: ReplicaSetup, arm: Procedure, passed: list[TwoLayerNetwork], pictures: dict
) -> list[MetricRow]:
    rows, wanted = [], set(recorded(stage.setting.T))
    model = reduced_training.linearised(passed[0])
    rows.append(
        MetricRow(
            arm.label, 0, "curve", metrics.accuracy(model.scores(stage.x_test), stage.test.labels)
        )
    )
    trained = reduced_training.train_linearised(
        model, stage.x, stage.y, stage.order, stage.setting.rates.ntk
    )
    for step, model in enumerate(trained, start=1):
        if step in wanted:
            rows.append(
                MetricRow(
                    arm.label,
                    step,
                    "curve",
                    metrics.accuracy(model.scores(stage.x_test), stage.test.labels),
                )
            )
    return [*rows, *_ends(stage, arm, model.scores(stage.x), model.scores(stage.x_test))]


def _head(step: int, rescale: bool = False) -> Callable[..., list[MetricRow]]:
    """Return the procedure that trains heads on the features after a step, by stochastic gradient
    and by least squares.
    """

    def run_head(
        stage: ReplicaSetup, arm: Procedure, passed: list[TwoLayerNetwork], pictures: dict
    ) -> list[MetricRow]:
        setting, neurons = stage.setting, passed[step]
        if step == 0:
            neurons = neurons.select(torch.arange(setting.m))  # of each pair of equal features, one
        if rescale:
            neurons = neurons._replace(w=neurons.w * _scale(passed))
        h, h_test = (
            reduced_training.frozen_features(neurons, stage.x),
            reduced_training.frozen_features(neurons, stage.x_test),
        )
        wanted = set(recorded(setting.T))
        rows = [
            MetricRow(
                arm.label, 0, "curve", metrics.accuracy(torch.zeros(len(h_test)), stage.test.labels)
            )
        ]
        rates = setting.rates
        for t, a in enumerate(
            reduced_training.train_head(h, stage.y, stage.order, rates.head, rates.momentum),
            start=1,
        ):
            if t in wanted:
                rows.append(
                    MetricRow(
                        arm.label, t, "curve", metrics.accuracy(h_test @ a, stage.test.labels)
                    )
                )
        rows += [row._replace(step=setting.T) for row in _of_the_neurons(stage, arm, step, neurons)]
        rows += _ends(stage, arm, h @ a, h_test @ a)
        rows.append(MetricRow(arm.label, setting.T, "head_norm", float(a.norm())))
        exact = reduced_training.least_squares(h, stage.y)
        for name, features, y in (("train", h, stage.y), ("test", h_test, stage.test.labels)):
            rows.append(
                MetricRow(
                    arm.label,
                    setting.T,
                    f"{name}_accuracy_least_squares",
                    metrics.accuracy(features @ exact, y),
                )
            )
        return rows

    return run_head


def _random_features(stage: ReplicaSetup) -> list[MetricRow]:
    """Return hinge loss and norm of heads on some numbers of random features.

    They are for the lower bounds.
    """
    setting, problem, rows = stage.setting, stage.setting.problem, []
    if not setting.fixed_features:
        return rows
    random = generator(stage.draws, stage.seed, "random features")
    network = reduced_training.initial(
        max(setting.fixed_features), problem.D, problem.D, problem.k, 1.0, random
    )
    n = min(setting.n, FEATURE_SAMPLES)
    order = batches(n, min(setting.batch, n), setting.T, random)
    for N in setting.fixed_features:
        some = network.select(torch.arange(N))
        h = reduced_training.frozen_features(some, stage.x[:n])
        *_, a = reduced_training.train_head(
            h, stage.y[:n], order, setting.rates.head, setting.rates.momentum
        )
        g = reduced_training.frozen_features(some, stage.x_test) @ a
        values = {"hinge_loss": hinge_loss(g, stage.test.labels), "head_norm": float(a.norm())}
        values["test_accuracy"] = metrics.accuracy(g, stage.test.labels)
        rows += [
            MetricRow(f"random_features-{N}", setting.T, name, value)
            for name, value in values.items()
        ]
    return rows


def _scale(passed: list[TwoLayerNetwork]) -> float:
    """Return the factor that brings step-1 weights to the median norm of those of step 2.

    Weights that are 0 are left out of both medians.
    """
    one, two = passed[1].norm(), passed[2].norm()
    return (
        float(two[two > 0].median() / one[one > 0].median())
        if (one > 0).any() and (two > 0).any()
        else 1.0
    )


def _tickets(stage: ReplicaSetup, neurons: TwoLayerNetwork, suffix: str) -> list[MetricRow]:
    """Measure sub-networks of the step-2 network, trained alone (Proposition B.1).

    They are trained by the chosen schedule; accuracies are means over random draws.
    """
    setting, rates = stage.setting, stage.setting.rates
    x, k = stage.x[:1000], setting.problem.k
    count = stage.train.patterns[:1000, stage.law.relevant].sum(1)
    order = stage.order[: setting.T - ERASING]
    rows = []
    for size in setting.tickets.sizes:
        chosen: list[tuple[str, Tensor]] = []
        for draw in range(setting.tickets.random_draws):
            for score in metrics.SCORES if draw == 0 else metrics.RANDOM_SCORES:
                random = generator(stage.draws, stage.seed, f"ticket {draw}")
                chosen.append((score, metrics.ticket(neurons, score, size, x, count, k, random)))
        tickets = neurons._replace(outside=neurons.outside[:, :0]).select(
            torch.cat([index for _, index in chosen])
        )
        update = reduced_training.chosen_update(rates.network_head, rates.network_first, len(order))
        trained = reduced_training.train_groups(
            tickets, len(chosen), stage.x, stage.y, order, update
        )
        scores = reduced_training.group_scores(trained, stage.x_test, len(chosen)).T
        for score in metrics.SCORES:
            arm = "-".join(word for word in ("ticket", score, str(size), suffix) if word)
            score_draws = [g for g, (name, _) in zip(scores, chosen, strict=True) if name == score]
            rows.append(
                MetricRow(arm, setting.T, "test_accuracy", _mean(score_draws, stage.test.labels))
            )
            if setting.problem.frequency:
                is_decisive = metrics.decisive(stage.test, setting.problem, stage.law.relevant)
                rows.append(
                    MetricRow(
                        arm,
                        setting.T,
                        "decisive_accuracy",
                        _mean(
                            [g[is_decisive] for g in score_draws], stage.test.labels[is_decisive]
                        ),
                    )
                )
    # What magnitude pruning would throw away: the fifth of smallest norm.
    fifth = len(neurons.b) // 5
    smallest = neurons.select(neurons.norm().argsort(stable=True)[:fifth])
    update = reduced_training.chosen_update(rates.network_head, rates.network_first, len(order))
    *_, trained = reduced_training.train(smallest, stage.x, stage.y, order, update)
    arm = "-".join(word for word in ("ticket", "smallest", str(fifth), suffix) if word)
    rows.append(
        MetricRow(
            arm,
            setting.T,
            "test_accuracy",
            _mean([reduced_training.scores(trained, stage.x_test)], stage.test.labels),
        )
    )
    return rows


def _mean(scores: list[Tensor], labels: Tensor) -> float:
    return sum(metrics.accuracy(g, labels) for g in scores) / len(scores)


_ARMS: dict[str, Callable[..., list[MetricRow]]] = {
    "network": _network,
    "ntk": _ntk,
    "random_features": _head(0),
    "one_step": _head(1),
    "one_step_rescaled": _head(1, rescale=True),
    "two_step": _head(2),
}
