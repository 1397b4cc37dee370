"""Check statements of the papers that cost seconds: small lemmas, constructions, counts and bounds.

A row has the statement's paper and place, what is measured, what is stated, and the value with its
95 % interval over n replicas where there is chance. Exact values have none.

- imbalance_and_pruning, Lemma B.1 (Liao et al., Fact B.1; Wen and Li, Fact A.1): the mean of the
  gradient over n batches comes as near to the population's as one likes. The distance falls as
  n^(-1/2).
- liao_imbalanced_features, Lemma D.2; wen_li_feature_decoupling, Lemma C.3: near the start softmax
  weights differ from 1/K by the order of the sum of ||w_i||^2 over tau K.
- liao_imbalanced_features, Lemma C.1 (f): features that a neuron is ordinary for.
- shi_feature_learning, Lemma 2.5: the network of its proof, on every pattern of k relevant ones.
- shi_feature_learning, Theorem 8.17: examples that the earlier bound asks for.
- shi_feature_learning, Theorem 9.3: multiplications of the prompt, at section 9.4's sizes.
- hong_fine_grained_labels, Definition C.1, Proposition 1: expected detectors over d.
"""

import argparse
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.special import ndtr

from rarefeat.model.contrastive import probabilities
from rarefeat.model.neurons import ordinary_neurons
from rarefeat.model.randomness import make_generators
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.statistics import student_interval
from rarefeat.training.loop import PairSource
from rarefeat.training.step import initial_state
from rarefeat.workflow.files.published import PublishedTables, commit
from rarefeat.workflow.project import load
from rarefeat.workflow.run.metadata import machine, packages

NAME = "small_checks"
BATCHES = 2 ** np.arange(2, 7)
"""Numbers of batches in a mean of gradients."""
POPULATION = 1024
"""Batches that stand for the population."""


class Check(NamedTuple):
    """A statement, and what was found."""

    paper: str
    element: str
    quantity: str
    stated: float
    value: float
    ci_low: float = math.nan
    ci_high: float = math.nan
    n: int = 1


def over_seeds(paper: str, element: str, quantity: str, stated: float, values: list) -> Check:
    """Summarise replicas."""
    mean, _, low, high, n = student_interval(np.array(values, dtype=float))
    return Check(paper, element, quantity, stated, mean, low, high, n)


def source_of(seed: int, sigma_0: float, batches: int = 1) -> tuple[PairSource, Any]:
    """Make pairs of one seed, half as frequent, for so many batches, and initial weights."""
    study = load("config/config.yaml").studies["paper"]
    training = study.training.model_copy(update={"sigma_0": sigma_0, "kernel": "torch"})
    chance = activation_probability(
        frequencies(study.data.d, study.data.minority, 0.5), study.data.C
    )
    (stream,) = make_generators(NAME, [seed], "train")
    data = study.data.model_copy(update={"N": batches * training.K})
    latents = latent_pairs(data.N, data.L, chance, stream)[None]
    return PairSource(NAME, "reduced", data, training, 0.05, [seed], latents), training


def draw_gradient(source: PairSource, training: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradient of a batch along the features, and its softmax weights."""
    batch, state = source.draw(), initial_state(source.weights)
    dense = source.kernel.forward(batch.attended, state)
    gradient = source.kernel.loss_gradient(dense, dense, state.bias, training)
    anchors = batch.attended[:, : training.K, :, : source.weights.shape[-1]]
    by_weight = torch.einsum("sklm,sklp->smp", gradient.coefficients, anchors)
    f_x, f_y, _ = dense.views(training.K)
    return by_weight @ source.simulator.dictionary, probabilities(f_x, f_y, training.tau)


def empirical_gradients(seeds: range) -> Iterator[Check]:
    """Lemma B.1: fit the exponent of the distance in the number of batches."""
    exponents = []
    for seed in seeds:
        source, training = source_of(seed, 0.005, POPULATION)
        gradients = torch.stack([draw_gradient(source, training)[0] for _ in range(POPULATION)])
        population = gradients.mean(0)
        distances = [
            (gradients[: POPULATION // n * n].unflatten(0, (-1, n)).mean(1) - population)
            .square().mean().sqrt().item()
            for n in BATCHES
        ]  # fmt: skip
        exponents.append(np.polyfit(np.log(BATCHES), np.log(distances), 1)[0])
    what = "exponent of the gradient's distance in the number of batches"
    yield over_seeds("imbalance_and_pruning", "Lemma B.1", what, -0.5, exponents)


def logits_near_start(seeds: range) -> Iterator[Check]:
    """Lemma D.2: fit the exponent of the largest |softmax weight - 1/K| in sum ||w_i||^2."""
    exponents, ratios = [], []
    for seed in seeds:
        sums, distances = [], []
        for sigma_0 in (0.0005, 0.001, 0.002, 0.004):
            source, training = source_of(seed, sigma_0)
            p = draw_gradient(source, training)[1]
            distances.append((p - 1 / training.K).abs().max().item())
            sums.append(
                training.m * sigma_0**2 * load("config/config.yaml").studies["paper"].data.d1
            )
        exponents.append(np.polyfit(np.log(sums), np.log(distances), 1)[0])
        ratios.append(distances[0] * training.K * training.tau / sums[0])
    paper, element = "liao_imbalanced_features", "Lemma D.2"
    what = "exponent of the largest distance of a softmax weight from 1/K in the sum of ||w_i||^2"
    yield over_seeds(paper, element, what, 1, exponents)
    what = "that distance times K tau over the sum of ||w_i||^2, at the smallest start"
    yield over_seeds(paper, element, what, math.inf, ratios)


def ordinary_features(seeds: range, neurons: int = 4096) -> Iterator[Check]:
    """Lemma C.1 (f) of Liao et al.: the most features that one of the neurons is ordinary for."""
    for d in (9, 32, 128, 512):
        most = []
        for seed in seeds:
            weights = torch.randn(1, neurons, d, generator=make_generators(NAME, [seed], "f")[0])
            most.append(ordinary_neurons(weights, torch.eye(d)[None], 1.0).sum(-1).max().item())
        what = f"most features that one of {neurons} neurons is ordinary for, d = {d}, equal frequencies"
        yield over_seeds("liao_imbalanced_features", "Lemma C.1 (f)", what, math.inf, most)


def ground_truth_network(k: int, positive: set[int], mean: float) -> tuple[np.ndarray, ...]:
    """Build Lemma 2.5's network on <w, x> = count - mean: outer weights, slope and thresholds."""
    networks = []
    for shift, a in ((0.0, 2.0), (0.25, 4.0)):
        outer, bias = [], []
        for p in range(k + 1):
            sign = 1 if p in positive else -1
            at = p + shift - mean
            outer += [sign * a, -2 * sign * a, sign * a]
            bias += [-at + 0.5, -at, -at - 0.5]
        networks.append((np.array(outer), np.array(bias)))
    outer, bias = max(networks, key=lambda network: np.abs(network[1]).min())
    return 4 * k * outer, 1 / (4 * k), bias / (4 * k)


def ground_truth(seeds: range) -> Iterator[Check]:
    """Lemma 2.5: errors of the network on all numbers of active relevant patterns."""
    wrong, largest, thresholds, sizes = [], [], [], []
    for k in range(2, 31):
        for seed in seeds:
            rng = np.random.default_rng([seed, k])
            positive = set(np.flatnonzero(rng.random(k + 1) < 0.5).tolist())
            mean = rng.uniform(0, k)
            outer, slope, bias = ground_truth_network(k, positive, mean)
            counts = np.arange(k + 1)
            inner = slope * (counts[:, None] - mean) + bias
            y = np.clip(inner, 0, 1) @ outer
            truth = np.where([count in positive for count in counts], 1, -1)
            wrong.append(np.abs(y - truth).max())
            largest.append(np.abs(outer).max() / (32 * k))
            thresholds.append(np.abs(bias).min() * 32 * k)
            sizes.append(np.abs(inner).max())
    of = "shi_feature_learning", "Lemma 2.5"
    yield Check(*of, "largest distance of the network's output from the label", 0, max(wrong))
    yield Check(*of, "largest outer weight over 32 k, at most", 1, max(largest))
    yield Check(*of, "smallest bias times 32 k, at least", 1, min(thresholds))
    yield Check(*of, "largest input of a unit, at most", 1, max(sizes))


def earlier_bound() -> Iterator[Check]:
    """Theorem 8.17: log10 of the examples at which its condition holds, and the bound there."""
    d, T = 4, 20
    examples = (8 * T * d**2 * 2 ** (2 * T)) ** 2
    of = "shi_feature_learning", "Theorem 8.17"
    yield Check(
        *of,
        f"log10 of the examples that it asks for, d = {d}, T = {T}",
        math.nan,
        math.log10(examples),
    )
    own = math.exp(-T / (2 * 1.62))
    yield Check(*of, f"Theorem 8.16's bound with 128 examples, T = {T}", math.nan, own)


def complexity() -> Iterator[Check]:
    """Theorem 9.3: multiply the matrices of every layer, head and pass of both methods."""
    layers, heads, d, n, k, r = 32, 32, 128, 108_172, 1024, 13

    def attention(length: int, depth: int) -> int:
        return sum(2 * length * length * d for _ in itertools.product(range(depth), range(heads)))

    standard = attention(n, layers)
    own = attention(n, r) + attention(k, layers)
    what = "attention's multiplications of a prompt, standard over GemFilter's"
    yield Check("shi_feature_learning", "Theorem 9.3", what, layers / r, standard / own)


def detectors() -> Iterator[Check]:
    """Proposition 1: expected detectors of a feature, over d^c0 / sqrt(log d), from d = 64 on."""
    for c0 in (0.1, 0.5):
        ratios = []
        for d in 2 ** np.arange(6, 31):
            level = math.sqrt(4 + 2 * c0) * math.sqrt(math.log(d) + math.log(d) ** -5)
            ratios.append(d ** (2 + 2 * c0) * ndtr(-level) * math.sqrt(math.log(d)) / d**c0)
        what = f"largest over smallest ratio of expected detectors to d^c0 / sqrt(log d), c0 = {c0}"
        yield Check(
            "hong_fine_grained_labels", "Proposition 1", what, math.inf, max(ratios) / min(ratios)
        )


def main() -> None:
    """Print the table, and publish it if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=44000)
    parser.add_argument("--publish", action="store_true", help="write docs/tables/small_checks.csv")
    args = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    drawn = (empirical_gradients, logits_near_start, ordinary_features, ground_truth)
    exact = (earlier_bound, complexity, detectors)
    checks = [check for function in drawn for check in function(seeds)]
    checks += [check for function in exact for check in function()]
    table = pd.DataFrame(checks)
    print(table.to_string(index=False, float_format="%.4g"))
    if args.publish:
        origin = {"run": "benchmarks/small_checks.py", "commit": commit()}
        details = {"seeds": {NAME: f"{seeds[0]}-{seeds[-1]}"}, "machine": machine()}
        PublishedTables().put(NAME, table, origin | details | {"packages": packages()})


if __name__ == "__main__":
    main()
