"""Table 2 of imbalance_and_pruning as printed, for the comparison with what is measured."""

import math
from typing import NamedTuple


class PaperRow(NamedTuple):
    """A printed row of Table 2, in per cent with the printed spread, without and with pruning."""

    accuracy: str
    accuracy_pruned: str
    delta_20: str
    delta_20_pruned: str


TABLE_2 = {
    ("CIFAR10-LT", 10.0): PaperRow("79.25 ± 1.03", "84.92 ± 0.67", "3.42 ± 1.02", "2.99 ± 0.92"),
    ("CIFAR10-LT", 50.0): PaperRow("75.58 ± 0.84", "83.60 ± 1.02", "3.92 ± 1.21", "3.35 ± 0.76"),
    ("CIFAR10-LT", 100.0): PaperRow("74.24 ± 0.82", "81.31 ± 0.94", "5.69 ± 1.35", "5.62 ± 0.99"),
    ("CIFAR100-LT", 10.0): PaperRow("51.21 ± 1.21", "56.33 ± 1.51", "2.45 ± 0.57", "1.37 ± 0.46"),
    ("CIFAR100-LT", 50.0): PaperRow("49.32 ± 0.45", "56.12 ± 0.32", "4.95 ± 1.02", "2.57 ± 0.92"),
    ("CIFAR100-LT", 100.0): PaperRow("47.12 ± 0.51", "54.93 ± 0.50", "7.11 ± 0.45", "4.38 ± 0.22"),
    ("ImageNet-LT", 256.0): PaperRow("63.21", "65.12", "8.47", "7.21"),
}


def printed_gain(dataset: str, rho: float, metric: str = "accuracy") -> float:
    """Return a metric with pruning less that without, in points; NaN for an unprinted row."""
    row = TABLE_2.get((dataset, rho))
    if row is None:
        return math.nan
    dense, pruned = getattr(row, metric), getattr(row, f"{metric}_pruned")
    return round(float(pruned.split()[0]) - float(dense.split()[0]), 2)


def printed_spread(dataset: str, rho: float, metric: str = "accuracy") -> float:
    """Return the root sum of squares of both standard deviations in a row, in points."""
    row = TABLE_2[dataset, rho]
    spreads = (getattr(row, metric), getattr(row, f"{metric}_pruned"))
    return math.hypot(*(float(text.split("±")[1]) for text in spreads))
