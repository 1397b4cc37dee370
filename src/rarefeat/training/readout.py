"""Measures of any encoder: how well a linear readout finds each feature, and what else is known.

The test set is balanced: every feature is independent and as frequent as the frequent ones, so that
a rare feature is tested as often as they are, whatever the law of training. A law that draws tokens
itself draws the test set, too, with equal probabilities.
Axes: S replicas, n samples, m outputs, d features.
"""

import math

import torch
from jaxtyping import Float, Num
from torch import Tensor

from rarefeat.model.linear_probe import effective_rank
from rarefeat.model.neurons import absolute_cosines
from rarefeat.model.randomness import generator
from rarefeat.training.learners import DataLawSource, Learner, Pairs, TrainedLearners, draw_pairs

RIDGE = 1e-3
"""Penalty of the ridge regression, in units of the mean variance of an output."""
PAIRS_STREAM, NOISE_STREAM, SHUFFLE_STREAM = "readout", "readout noise", "readout shuffle"
"""Random streams of the test set, its noise, and the control."""


def ridge_r2(
    inputs: Float[Tensor, "n m"], targets: Num[Tensor, "n d"], n_fit: int
) -> Float[Tensor, " d"]:
    """Compute R^2 on the later samples of a ridge regression with intercept that the first ones
    fit.
    """
    x, y = inputs.double(), targets.double()
    if not x.isfinite().all():
        return torch.full((y.shape[1],), torch.nan, dtype=torch.float64)
    x, y = x - x[:n_fit].mean(0), y - y[:n_fit].mean(0)
    gram = x[:n_fit].mT @ x[:n_fit]
    # An encoder whose outputs are all zero has a readout of zero.
    penalty = RIDGE * gram.diagonal().mean().clamp_min(1e-30)
    head = torch.linalg.solve(gram + penalty * torch.eye(len(gram)), x[:n_fit].mT @ y[:n_fit])
    residual = y[n_fit:] - x[n_fit:] @ head
    return 1 - residual.square().mean(0) / y[n_fit:].var(0, correction=0)


def test_pairs(source: DataLawSource, n: int) -> Pairs:
    """Draw the balanced test pairs of each replica, from the stream "readout"."""
    sources = [generator(source.namespace, seed, PAIRS_STREAM) for seed in source.seeds]
    return draw_pairs(source.test_law, n, source.probability(), source.data.L, sources)


def measure_learners(
    learners: TrainedLearners,
    namespace: str,
    learner: Learner,
    source: DataLawSource,
) -> list[dict]:
    """Return a row for each seed and feature.

    Random streams: "readout", "readout noise" and "readout shuffle".
    """
    n_fit, seeds = source.data.probe_pairs, source.seeds
    pairs = test_pairs(source, 2 * n_fit)
    noise = [generator(namespace, seed, NOISE_STREAM) for seed in seeds]
    with torch.no_grad():
        embeddings = learners.embed(source.sample_tokens(pairs, noise)[:, : 2 * n_fit])
    cosines = None
    if learners.weights is not None:
        cosines = absolute_cosines(learners.weights.float(), learners.dictionary.float()).amax(1)
    rows = []
    for index, seed in enumerate(seeds):
        f, features = embeddings[index], pairs.features[index]
        shuffle = torch.randperm(
            len(features), generator=generator(namespace, seed, SHUFFLE_STREAM)
        )
        r2 = ridge_r2(f, features, n_fit).tolist()
        r2_shuffled = ridge_r2(f, features[shuffle], n_fit).tolist()
        loss = float(learners.loss[index])
        values = {
            "norm": float(f.norm(dim=-1).mean()),
            "rank": effective_rank(f),
            "loss": loss,
            "diverged": float(not (math.isfinite(loss) and bool(f.isfinite().all()))),
        }
        rows += [
            {
                "seed": seed,
                "feature": feature,
                "r2": r2[feature],
                "r2_shuffled": r2_shuffled[feature],
                "cosine": math.nan if cosines is None else float(cosines[index, feature]),
                **values,
            }
            for feature in range(source.data.d)
        ]
    return rows
