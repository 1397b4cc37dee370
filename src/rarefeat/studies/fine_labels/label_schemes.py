"""What both sweeps share: labels of pretraining (Figure 5, Table 1), learning rate, and shifts.

Axes: n images, S replicas, p features of an image, C channels, H and W pixels.
"""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, Num
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional

from rarefeat.errors import RarefeatError
from rarefeat.images.trainer import warmed_cosine
from rarefeat.model.randomness import generator
from rarefeat.studies.fine_labels.granularity import LabelScheme, SGDSettings

Levels = Mapping[str, Int[Tensor, " labels"]]
"""Class of every label at each level of the hierarchy."""
Classes = Int[Tensor, " n"]
Features = Float[Tensor, "n p"]


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


def at_level(levels: Levels, name: str, labels: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """Return the class of each image at a level, numbered from 0 on."""
    if name not in levels:
        raise RarefeatError(f"levels: unknown level {name}; allowed: {', '.join(levels)}")
    if (largest := int(labels.max())) >= (n := len(levels[name])):
        raise RarefeatError(f"levels: {name} has {n} labels, but an image has the label {largest}")
    return number_classes(levels[name][labels])


def number_classes(values: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """Return classes as numbers 0, ..., G - 1 without a gap, in their order."""
    return values.unique(return_inverse=True)[1]


def clusters(features: Features, number: int, seed: int) -> Classes:
    """Cluster images by k-means."""
    # On one thread: several threads add up in an order that differs between runs.
    with threadpool_limits(1):
        kmeans = KMeans(min(number, len(features)), n_init=1, random_state=seed)
        return torch.from_numpy(kmeans.fit_predict(features.numpy())).long()


def cluster_within(superclass: Classes, cluster: Callable[[Tensor], Classes]) -> Classes:
    """Cluster each superclass by itself."""
    result, first = torch.empty_like(superclass), 0
    for s in range(int(superclass.max()) + 1):
        member = superclass == s
        index = cluster(member)
        result[member] = first + index
        first += int(index.max()) + 1
    return result


def rebalanced(features: Features, candidates: list[int], smallest: int, seed: int) -> Classes:
    """Cluster images into as many clusters as possible, none of them small (A.1.1)."""
    best = torch.zeros(len(features), dtype=torch.int64)
    for number in sorted(candidates):
        result = clusters(features, number, seed)
        if torch.bincount(result, minlength=number).min() >= smallest:
            best = result
    return best


def classes_of(
    scheme: LabelScheme, labels: Classes, superclass: Classes, levels: Levels,
    features: Features | None, draws: str, seed: int, candidates: list[int],
) -> Classes:  # fmt: skip
    """Return the class of every image in pretraining, numbered 0, ..., G - 1."""
    random, ids = generator(draws, seed, scheme.label), scheme.ids
    state = random.initial_seed() % 2**32  # scikit-learn's seeds have 32 bits
    match scheme.kind:
        case "coarse":
            classes = superclass
        case "manual":
            classes = at_level(levels, scheme.level, labels) if scheme.level else labels
        case "random":
            classes = superclass * ids + torch.randint(ids, labels.shape, generator=random)
        case "clusters":
            classes = cluster_within(superclass, lambda rows: clusters(features[rows], ids, state))
        case "rebalanced":
            classes = cluster_within(
                superclass, lambda rows: rebalanced(features[rows], candidates, ids, state)
            )
        case "whole":
            classes = clusters(features, ids, state)
        case "sample":
            classes = torch.arange(len(labels))
    return number_classes(classes)


def most_classes(
    scheme: LabelScheme, levels: Levels, superclass: str, n: int, candidates: list[int]
) -> int:
    """Return the largest number of classes that a scheme can have."""
    superclasses = len(levels[superclass].unique())
    most = {
        "coarse": superclasses,
        "manual": len(levels[scheme.level].unique() if scheme.level else levels[superclass]),
        "rebalanced": superclasses * max(candidates, default=0),
        "whole": scheme.ids,
        "sample": n,
    }
    return most.get(scheme.kind, superclasses * scheme.ids)


def learning_rate(descent: SGDSettings, step: int, steps: int) -> float:
    """Return the learning rate at a step: linear warm-up, then a cosine to 0 (A.1.1)."""
    return warmed_cosine(step, steps, descent.warmup * steps, descent.lr)


def shift_images(
    images: Num[Tensor, "S n C H W"], pixels: int, generators: list[torch.Generator]
) -> Num[Tensor, "S n C H W"]:
    """Shift each image by up to some pixels in either direction, both axes alike."""
    if not pixels:
        return images
    S, n, C, H, W = images.shape
    draws = [torch.randint(2 * pixels + 1, (n, 2), generator=rng) for rng in generators]
    shift = torch.stack(draws).to(images.device).flatten(0, 1)
    padded = functional.pad(images.flatten(0, 1), (pixels,) * 4, value=images.min().item())
    image, channel, row, column = (torch.arange(m).to(images.device) for m in (S * n, C, H, W))
    row, column = shift[:, :1] + row, shift[:, 1:] + column
    image, channel = image[:, None, None, None], channel[None, :, None, None]
    return padded[image, channel, row[:, None, :, None], column[:, None, None, :]].view_as(images)
