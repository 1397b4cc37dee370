"""The numbers printed in Tables A.1-A.6 of the dissertation (shi_feature_learning, A.7.1-A.7.3)."""

import math
from typing import NamedTuple

COLUMNS = {
    "Network": "network",
    "NTK": "ntk",
    "RF": "random_features",
    "One Step": "one_step",
    "Two Step": "two_step",
    "Network w/o structure": "network-no_structure",
}
"""The tables' columns and the arms that stand for them.

`network` has the chosen schedule; no arm but `network-printed`, which has no column, is the paper's
schedule.
"""
NA = math.nan
TABLES = {
    ("A.1", "", "parity"): (
        (100.0, 84.0, 74.7, 51.3, 100.0, 100.0),
        (100.0, 86.4, 76.0, 52.2, 100.0, 52.0),
        (0.997, NA, 0.114, 0.848, 0.997, 0.253),
    ),
    ("A.2", "", "interval"): (
        (100.0, 100.0, 76.4, 44.1, 100.0, 100.0),
        (100.0, 100.0, 73.2, 41.0, 100.0, 100.0),
        (1.00, NA, 0.153, 0.901, 0.994, 0.965),
    ),
    ("A.3", "d = 100", "dimension_100"): (
        (100.0, 83.1, 78.9, 53.0, 100.0, 100.0),
        (100.0, 81.5, 78.3, 51.1, 100.0, 51.0),
        (1.000, NA, 0.354, 0.967, 1.000, 0.331),
    ),
    ("A.3", "d = 2000", "dimension_2000"): (
        (100.0, 75.6, 80.0, 50.22, 100.0, 100.0),
        (100.0, 75.4, 77.0, 50.01, 100.0, 52.5),
        (0.998, NA, 0.056, 0.560, 0.998, 0.309),
    ),
    ("A.4", "ratio = 0.8", "class_ratio_0.8"): (
        (100.0, 62.9, 72.7, 78.3, 100.0, 100.0),
        (100.0, 82.7, 70.4, 75.7, 100.0, 61.7),
        (0.999, NA, 0.293, 0.950, 0.999, 0.218),
    ),
    ("A.4", "ratio = 0.9", "class_ratio_0.9"): (
        (100.0, 84.0, 73.6, 92.3, 100.0, 100.0),
        (100.0, 81.7, 72.4, 89.2, 100.0, 71.8),
        (0.997, NA, 0.296, 0.956, 0.997, 0.286),
    ),
    ("A.5", "n = 25000", "samples_25000"): (
        (100.0, 84.0, 78.6, 50.6, 100.0, 100),
        (100.0, 84.1, 74.7, 50.0, 100.0, 50.2),
        (0.997, NA, 0.105, 0.851, 0.997, 0.230),
    ),
    ("A.5", "n = 10000", "samples_10000"): (
        (100.0, 73.9, 71.6, 50.7, 100.0, 100.0),
        (100.0, 75.0, 74.3, 50.3, 100.0, 52.2),
        (0.995, NA, 0.096, 0.974, 0.994, 0.176),
    ),
}
"""Rows by table, name and setting: accuracies on training and test samples (%), and cosines."""


class Printed(NamedTuple):
    """A number as printed; an accuracy is a share, and NA is NaN."""

    table: str
    row: str
    setting: str
    column: str
    arm: str
    quantity: str
    printed: float


PRINTED = [
    Printed(*row, column, arm, quantity, value / unit)
    for row, quantities in TABLES.items()
    for (quantity, unit), values in zip(
        {"train_accuracy": 100, "test_accuracy": 100, "cosine": 1}.items(), quantities, strict=True
    )
    for (column, arm), value in zip(COLUMNS.items(), values, strict=True)
]
"""Tables A.1-A.5, number by number."""
MIXTURES = {
    "hypercube_1": {"d": 100, "k": 4, "sigma_r": 1.0, "epochs": (0, 50, 80)},
    "hypercube_2": {"d": 25, "k": 4, "sigma_r": 0.7, "epochs": (0, 30, 50)},
    "hypercube_3": {"d": 100, "k": 5, "sigma_r": 1.0, "epochs": (0, 50, 80)},
}
"""Table A.6, the Gaussian mixtures, whose results are pictures, with the epochs of Figure A.12."""
