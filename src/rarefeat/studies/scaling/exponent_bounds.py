"""Bounds that the scaling study tests, and the sizes that it trains.

Apart from its stages, so that the workflow need not import torch.
"""

from typing import Literal, NamedTuple

import pandas as pd

from rarefeat.model.thresholds import GAMMA
from rarefeat.studies.scaling.config import Scaling
from rarefeat.workflow.config.cells import Cell


class ExponentBound(NamedTuple):
    """A one-sided bound on the exponent of a quantity in d."""

    side: Literal["at least", "at most"]
    exponent: float


def bounds(ratio: float) -> dict[str, ExponentBound]:
    """Return the bounds of imbalance_and_pruning by quantity at ratio = eps_min / eps_max.

    At initialisation, with gamma: lucky_probability is |M_j^*| / m of Lemma B.2(c), eq. (31),
    (32) and (239), and ordinary_features the mean |N_i| of eq. (247), largest_features the largest
    of Lemma B.2(d). After training, by
    Theorem 3.1 without gamma: at least m d^(-1/ratio^2) neurons with N_i = {j}, counted by purity
    or by eq. (12) and (13), and |N_i| of eq. (14), which is learned_features.
    """
    ordinary = ExponentBound("at most", 1 - ratio**2 * (1 - GAMMA))
    return {
        "lucky_probability": ExponentBound("at least", -(1 + GAMMA) / ratio**2),
        **dict.fromkeys(("ordinary_features", "largest_features"), ordinary),
        "pure_minority_share": ExponentBound("at least", -1 / ratio**2),
        "single_minority_share": ExponentBound("at least", -1 / ratio**2),
        "learned_features": ExponentBound("at most", 1 - ratio**2),
    }


def trained_cells(scaling: Scaling, lucky_sets: pd.DataFrame) -> dict[str, list[Cell]]:
    """Return the cells by study at which enough lucky neurons are expected.

    The expected number of lucky neurons of the minority feature is m times the probability;
    enough is `least_lucky`. Studies without such a cell are left out.
    """
    probability = lucky_sets.set_index(["d", "ratio"])["lucky_probability"]
    chosen = {
        name: [
            cell
            for cell in study.cells()
            if study.training.m * probability[study.data.d, cell["eps_min"]] >= scaling.least_lucky
        ]
        for name, study in scaling.studies().items()
    }
    return {name: cells for name, cells in chosen.items() if cells}
