"""Label schemes of pretraining: those of Figure 5 and Table 1, one replica at a time."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import generator
from rarefeat.studies.fine_labels.config import LabelScheme

Levels = Mapping[str, Tensor]
"""Class of every label at each level of the hierarchy, int64."""


def read_levels(levels: Mapping[str, list[int]] | str, folder: str = "") -> Levels:
    """Read the hierarchy from the config or from a CSV file."""
    if not isinstance(levels, str):
        return {name: torch.tensor(classes) for name, classes in levels.items()}
    path = Path(folder) / levels
    try:
        with warnings.catch_warnings():
            # A line that is longer than the header is a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(path, index_col=False)
    except (OSError, ValueError, pd.errors.ParserWarning) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise RarefeatError(
            f"cannot read {path}: {reason}; levels must name a CSV file whose header names the"
            " levels"
        ) from error
    for name, column in table.items():
        if column.dtype != np.int64 or (column < 0).any():
            raise RarefeatError(
                f"{path}: the column {name} must hold an integer of 0 or more in every line"
            )
    return {str(name): torch.tensor(column.to_numpy()) for name, column in table.items()}


def at_level(levels: Levels, name: str, labels: Tensor) -> Tensor:
    """Return the class of each image at a level, (n,), numbered from 0 on.

    labels (n,).
    """
    if name not in levels:
        raise RarefeatError(f"levels: unknown level {name}; allowed: {', '.join(levels)}")
    if int(labels.max()) >= len(levels[name]):
        raise RarefeatError(
            f"levels: {name} has {len(levels[name])} labels, but an image has the label"
            f" {int(labels.max())}"
        )
    return number_classes(levels[name][labels])


def number_classes(values: Tensor) -> Tensor:
    """Return classes (n,) as numbers 0, ..., G - 1 without a gap, in their order."""
    return values.unique(return_inverse=True)[1]


def clusters(features: Tensor, number: int, seed: int) -> Tensor:
    """Cluster images by k-means.

    features (n, p) -> (n,).
    """
    # On one thread: several threads add up in an order that differs between runs.
    with threadpool_limits(1):
        result = KMeans(min(number, len(features)), n_init=1, random_state=seed).fit_predict(
            features.numpy()
        )
    return torch.from_numpy(result).long()


def cluster_within(superclass: Tensor, cluster: Callable[[Tensor], Tensor]) -> Tensor:
    """Cluster each superclass by itself.

    superclass (n,) -> (n,).
    """
    result, first = torch.empty_like(superclass), 0
    for s in range(int(superclass.max()) + 1):
        member = superclass == s
        index = cluster(member)
        result[member] = first + index
        first += int(index.max()) + 1
    return result


def rebalanced(features: Tensor, candidates: list[int], smallest: int, seed: int) -> Tensor:
    """Cluster images into as many clusters as possible, none of them small (A.1.1).

    features (n, p) -> (n,).
    """
    best = torch.zeros(len(features), dtype=torch.int64)
    for number in sorted(candidates):
        result = clusters(features, number, seed)
        if torch.bincount(result, minlength=number).min() >= smallest:
            best = result
    return best


def classes_of(
    scheme: LabelScheme,
    labels: Tensor,
    superclass: Tensor,
    levels: Levels,
    features: Tensor | None,
    draws: str,
    seed: int,
    candidates: list[int] | None = None,
) -> Tensor:
    """Return the class of every image in pretraining, (n,), numbered 0, ..., G - 1.

    labels (n,), superclass (n,), features (n, p).
    """
    random = generator(draws, seed, scheme.label)
    state = random.initial_seed() % 2**32  # scikit-learn's seeds have 32 bits
    match scheme.kind:
        case "coarse":
            classes = superclass
        case "manual":
            classes = at_level(levels, scheme.level, labels) if scheme.level else labels
        case "random":
            ids = torch.randint(scheme.ids, labels.shape, generator=random)
            classes = superclass * scheme.ids + ids
        case "clusters":
            classes = cluster_within(
                superclass, lambda member: clusters(features[member], scheme.ids, state)
            )
        case "rebalanced":
            classes = cluster_within(
                superclass,
                lambda member: rebalanced(features[member], candidates, scheme.ids, state),
            )
        case "whole":
            classes = clusters(features, scheme.ids, state)
        case "sample":
            classes = torch.arange(len(labels))
    return number_classes(classes)


def most_classes(
    scheme: LabelScheme,
    levels: Levels,
    superclass: str,
    n: int,
    candidates: list[int] | None = None,
) -> int:
    """Return the largest number of classes that a scheme can have."""
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
