"""Measures of any encoder: how well a linear readout finds each feature, and what else is known.

The test set is balanced: every feature is independent and as frequent as the frequent ones, so that
a rare feature is tested as often as they are, whatever the law of training. A law that draws tokens
itself draws the test set, too, with equal probabilities.
Axes: S replicas, n samples, m outputs, d features.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from rarefeat.model.linear_probe import effective_rank
from rarefeat.model.neurons import absolute_cosines
from rarefeat.model.own_code import OwnCallable, own_name
from rarefeat.model.randomness import generator
from rarefeat.training.border import own_rules, train_apart
from rarefeat.training.data_laws import paper
from rarefeat.training.learners import (
    KINDS,
    DataLawSource,
    Learner,
    Pairs,
    TrainedLearners,
    bind_part,
    build_modules,
    draw_pairs,
    own_parts,
    train_learners,
    untrained_learners,
)
from rarefeat.workflow.config.model import Arm, Data, Training

RIDGE = 1e-3
"""Penalty of the ridge regression, in units of the mean variance of an output."""
PAIRS_STREAM, NOISE_STREAM, SHUFFLE_STREAM = "readout", "readout noise", "readout shuffle"
"""Random streams of the test set, its noise, and the control."""


class Measured(NamedTuple):
    """Replicas of a learner, and what is measured of them."""

    learners: TrainedLearners
    rows: list[dict]
    """A row for each replica and feature."""
    given: dict[str, dict[str, Any]]
    """What each part is given: its options, and what it takes of the config."""


def learn(
    namespace: str,
    learner: Learner,
    data: Data,
    training: Training,
    arm: Arm,
    sigma: float,
    eps_min: float | None,
    seeds: list[int],
    size: int = 0,
    label: str = "train",
    check: Callable[[Mapping, nn.Module], None] = lambda given, module: None,
    with_untrained: bool = False,
) -> Measured:
    """Train and measure a learner, some replicas at a time; without eps_min it is not trained.

    `check` sees what each part is given, and an encoder. With `with_untrained` the rows
    have `r2_untrained` and `cosine_untrained`, too.
    """
    options_of = {kind: dict(getattr(learner, name)) for kind, (name, _) in KINDS.items()}
    if own := own_parts(learner) + own_rules(arm, training):
        # As a first optimiser, and so each room, would.
        from torch import _dynamo  # noqa: F401

    def run(seeds: list[int], training: Training) -> Measured:
        settings = learner, data, training
        given = {kind: bind_part(kind, *settings).keywords for kind in KINDS}
        check(given, *build_modules(learner, namespace, data, training, seeds[:1]))
        # Embeddings are measured on the processor, wherever they were trained.
        on_cpu = training.model_copy(update={"device": "cpu"})
        source = DataLawSource(namespace, learner, data, on_cpu, sigma, seeds)
        if eps_min is None:
            result = untrained_learners(source)
        else:
            trained = DataLawSource(namespace, *settings, sigma, seeds)
            result = train_learners(trained, arm, eps_min, label)
        rows = measure_learners(result, source)
        if with_untrained:
            befores = measure_learners(untrained_learners(source), source)
            for row, before in zip(rows, befores, strict=True):
                row |= {f"{name}_untrained": before[name] for name in ("r2", "cosine")}
        is_own = own_name(learner.encoder) in own
        module = None if is_own else result.module.to("meta")
        # Options may be objects that no process can send to another.
        taken = {
            kind: {key: value for key, value in given[kind].items() if key not in options}
            for kind, options in options_of.items()
        }
        return Measured(result._replace(module=module), rows, taken)

    parts = train_apart(run, namespace, seeds, training, own, size, label)
    module, _, neurons, *_ = parts[0].learners
    _, values, _, *tensors, trajectories = zip(*(part.learners for part in parts), strict=True)
    parameters = {name: torch.cat([item[name] for item in values]) for name in values[0]}
    rows = [row for part in parts for row in part.rows]
    trajectory = [row for steps in trajectories for row in steps]
    together = TrainedLearners(module, parameters, neurons, *map(torch.cat, tensors), trajectory)
    given = {kind: parts[0].given[kind] | options for kind, options in options_of.items()}
    return Measured(together, rows, given)


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
    """Draw the balanced test pairs of each replica, from the stream "readout".

    Features are independent, unless the law draws tokens itself.
    """
    L, probability = source.data.L, source.probability()
    # Tokens are known once they are drawn; no law that is built in draws them.
    for law in ([source.law] * isinstance(source.law.func, OwnCallable)) + [partial(paper, L=L)]:
        streams = [generator(source.namespace, seed, PAIRS_STREAM) for seed in source.seeds]
        pairs = draw_pairs(law, n, probability, L, streams)
        if pairs.are_tokens:
            break
    return pairs


def measure_learners(learners: TrainedLearners, source: DataLawSource) -> list[dict]:
    """Return a row for each seed and feature.

    Random streams: "readout", "readout noise" and "readout shuffle".
    """
    namespace, n_fit, seeds = source.namespace, source.data.probe_pairs, source.seeds
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
