"""The numbers printed in Tables A.1-A.6 of the dissertation, as printed.

shi_feature_learning, A.7.1-A.7.3.
"""

import math
from typing import Literal, NamedTuple

COLUMNS = {
    "Network": "network",
    "NTK": "ntk",
    "RF": "random_features",
    "One Step": "one_step",
    "Two Step": "two_step",
    "Network w/o structure": "network-no_structure",
}
"""The tables' columns and the arms that stand for them. `network` has the chosen schedule; no arm
but `network-printed`, which
has no column, is the paper's schedule."""

Quantity = Literal["train_accuracy", "test_accuracy", "cosine"]


class PaperTable(NamedTuple):
    """A number as printed: accuracies in percent, cosines as they are; NaN for NA."""

    table: str
    row: str
    column: str
    setting: str
    quantity: Quantity
    value: float

    @property
    def arm(self) -> str:
        """Label of the arm that it is compared with."""
        return COLUMNS[self.column]

    @property
    def share(self) -> float:
        """Value in the unit of the measurements: accuracies are shares."""
        return self.value if self.quantity == "cosine" else self.value / 100


NA = math.nan
_TABLES: dict[str, dict[str, tuple[str, dict[Quantity, tuple[float, ...]]]]] = {
    "A.1": {
        "": (
            "parity",
            {
                "train_accuracy": (100.0, 84.0, 74.7, 51.3, 100.0, 100.0),
                "test_accuracy": (100.0, 86.4, 76.0, 52.2, 100.0, 52.0),
                "cosine": (0.997, NA, 0.114, 0.848, 0.997, 0.253),
            },
        )
    },
    "A.2": {
        "": (
            "interval",
            {
                "train_accuracy": (100.0, 100.0, 76.4, 44.1, 100.0, 100.0),
                "test_accuracy": (100.0, 100.0, 73.2, 41.0, 100.0, 100.0),
                "cosine": (1.00, NA, 0.153, 0.901, 0.994, 0.965),
            },
        )
    },
    "A.3": {
        "d = 100": (
            "dimension_100",
            {
                "train_accuracy": (100.0, 83.1, 78.9, 53.0, 100.0, 100.0),
                "test_accuracy": (100.0, 81.5, 78.3, 51.1, 100.0, 51.0),
                "cosine": (1.000, NA, 0.354, 0.967, 1.000, 0.331),
            },
        ),
        "d = 2000": (
            "dimension_2000",
            {
                "train_accuracy": (100.0, 75.6, 80.0, 50.22, 100.0, 100.0),
                "test_accuracy": (100.0, 75.4, 77.0, 50.01, 100.0, 52.5),
                "cosine": (0.998, NA, 0.056, 0.560, 0.998, 0.309),
            },
        ),
    },
    "A.4": {
        "ratio = 0.8": (
            "class_ratio_0.8",
            {
                "train_accuracy": (100.0, 62.9, 72.7, 78.3, 100.0, 100.0),
                "test_accuracy": (100.0, 82.7, 70.4, 75.7, 100.0, 61.7),
                "cosine": (0.999, NA, 0.293, 0.950, 0.999, 0.218),
            },
        ),
        "ratio = 0.9": (
            "class_ratio_0.9",
            {
                "train_accuracy": (100.0, 84.0, 73.6, 92.3, 100.0, 100.0),
                "test_accuracy": (100.0, 81.7, 72.4, 89.2, 100.0, 71.8),
                "cosine": (0.997, NA, 0.296, 0.956, 0.997, 0.286),
            },
        ),
    },
    "A.5": {
        "n = 25000": (
            "samples_25000",
            {
                "train_accuracy": (100.0, 84.0, 78.6, 50.6, 100.0, 100),
                "test_accuracy": (100.0, 84.1, 74.7, 50.0, 100.0, 50.2),
                "cosine": (0.997, NA, 0.105, 0.851, 0.997, 0.230),
            },
        ),
        "n = 10000": (
            "samples_10000",
            {
                "train_accuracy": (100.0, 73.9, 71.6, 50.7, 100.0, 100.0),
                "test_accuracy": (100.0, 75.0, 74.3, 50.3, 100.0, 52.2),
                "cosine": (0.995, NA, 0.096, 0.974, 0.994, 0.176),
            },
        ),
    },
}

PRINTED: list[PaperTable] = [
    PaperTable(table, row, column, setting, quantity, value)
    for table, rows in _TABLES.items()
    for row, (setting, quantities) in rows.items()
    for quantity, values in quantities.items()
    for column, value in zip(COLUMNS, values, strict=True)
]
"""Tables A.1-A.5, number by number."""


class MixtureRow(NamedTuple):
    """A row of Table A.6, the Gaussian mixtures, whose results are pictures (Figure A.12)."""

    row: str
    setting: str
    d: int
    k: int
    clusters: int
    sigma_r: float
    epochs: tuple[int, int, int]


MIXTURES = [
    MixtureRow("Experiment 1", "hypercube_1", 100, 4, 16, 1.0, (0, 50, 80)),
    MixtureRow("Experiment 2", "hypercube_2", 25, 4, 16, 0.7, (0, 30, 50)),
    MixtureRow("Experiment 3", "hypercube_3", 100, 5, 32, 1.0, (0, 50, 80)),
]
"""Table A.6, with the epochs of Figure A.12's panels."""
