"""What the training images are called in pretraining: every scheme of Figure 5 and Table 1, one replica at a time."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import generator
from rarefeat.studies.fine_labels.config import LabelScheme

Levels = Mapping[str, Tensor]
"""At each level of the hierarchy the class of every label, int64."""


def read_levels(levels: Mapping[str, list[int]] | str, folder: str = "") -> Levels:
    """The hierarchy of the config, or of a CSV file: a header that names the levels, then a line for each label, in order.

    Raises:
        RarefeatError: the file is missing, or does not hold integers of 0 or more.
    """
    if not isinstance(levels, str):
        return {name: torch.tensor(classes) for name, classes in levels.items()}
    path = Path(folder) / levels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", pd.errors.ParserWarning
            )  # a line that is longer than the header
            table = pd.read_csv(path, index_col=False)
    except (OSError, ValueError, pd.errors.ParserWarning) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise RarefeatError(
            f"cannot read {path}: {reason}; levels must name a CSV file whose header names the levels"
        ) from error
    for name, column in table.items():
        if column.dtype != np.int64 or (column < 0).any():
            raise RarefeatError(
                f"{path}: the column {name} must hold an integer of 0 or more in every line"
            )
    return {str(name): torch.tensor(column.to_numpy()) for name, column in table.items()}


def at_level(levels: Levels, name: str, labels: Tensor) -> Tensor:
    """The class of each image at a level, (n,), numbered from 0 on; RarefeatError where the hierarchy lacks it."""
    if name not in levels:
        raise RarefeatError(f"levels: {name} is none of {', '.join(levels)}")
    if int(labels.max()) >= len(levels[name]):
        raise RarefeatError(
            f"levels: {name} has {len(levels[name])} labels, and an image has the label {int(labels.max())}"
        )
    return consecutive(levels[name][labels])


def consecutive(named: Tensor) -> Tensor:
    """Classes (n,) numbered 0, ..., G - 1 without a gap, in their order."""
    return named.unique(return_inverse=True)[1]


def clusters(features: Tensor, number: int, seed: int) -> Tensor:
    """k-means, (n, p) -> (n,), with at most n clusters; on one thread, as several add up in no order of their own."""
    with threadpool_limits(1):
        found = KMeans(min(number, len(features)), n_init=1, random_state=seed).fit_predict(
            features.numpy()
        )
    return torch.from_numpy(found).long()


def within(superclass: Tensor, cluster) -> Tensor:
    """Each superclass cut by itself: `cluster` takes the images of one, bool (n,), and gives their clusters."""
    named, first = torch.empty_like(superclass), 0
    for s in range(int(superclass.max()) + 1):
        member = superclass == s
        found = cluster(member)
        named[member] = first + found
        first += int(found.max()) + 1
    return named


def rebalanced(features: Tensor, candidates: list[int], smallest: int, seed: int) -> Tensor:
    """`clusters`, the most of the candidates that leave each of them `smallest` images (A.1.1); one where none does."""
    best = torch.zeros(len(features), dtype=torch.int64)
    for number in sorted(candidates):
        found = clusters(features, number, seed)
        if torch.bincount(found, minlength=number).min() >= smallest:
            best = found
    return best


def classes_of(
    scheme: LabelScheme, labels: Tensor, superclass: Tensor, levels: Levels, features: Tensor | None, draws: str, seed: int,
    candidates: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """Every image's class in pretraining, (n,), numbered 0, ..., G - 1.

    Args:
        labels: the images' own, (n,). superclass: (n,). features: (n, p), that no label has shaped, where clusters are wanted.
    """
    drawn = generator(draws, seed, scheme.label)
    state = drawn.initial_seed() % 2**32  # scikit-learn's seeds have 32 bits
    match scheme.kind:
        case "coarse":
            named = superclass
        case "manual":
            named = at_level(levels, scheme.level, labels) if scheme.level else labels
        case "random":
            named = superclass * scheme.ids + torch.randint(
                scheme.ids, labels.shape, generator=drawn
            )
        case "clusters":
            named = within(superclass, lambda member: clusters(features[member], scheme.ids, state))
        case "rebalanced":
            named = within(
                superclass,
                lambda member: rebalanced(features[member], candidates, scheme.ids, state),
            )
        case "whole":
            named = clusters(features, scheme.ids, state)
        case "sample":
            named = torch.arange(len(labels))
    return consecutive(named)


def most_classes(
    scheme: LabelScheme,
    levels: Levels,
    superclass: str,
    n: int,
    candidates: list[int] | None = None,
) -> int:
    """The largest G that a scheme can have on n images."""
    superclasses = len(levels[superclass].unique())
    match scheme.kind:
        case "coarse":
            return superclasses
        case "manual":
            return len(levels[scheme.level].unique() if scheme.level else levels[superclass])
        case "rebalanced":
            return superclasses * max(candidates)
        case "whole":
            return scheme.ids
        case "sample":
            return n
    return superclasses * scheme.ids
