"""What the dissertation prints (shi_feature_learning, Tables A.1-A.6) beside what is measured.

Means over seeds beside the printed numbers, and the search for step sizes that it leaves open, on
draws that no table uses.
"""

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from rarefeat.studies.experiment import means_of
from rarefeat.studies.two_layer.config import Procedure, Rates, Setting
from rarefeat.workflow.run.cli_helpers import progress

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


KEYS = ["setting", "arm", "step", "quantity"]
LEARNERS = {
    "network": (Procedure(method="network"), ["network_head", "network_first"]),
    "ntk": (Procedure(method="ntk"), ["ntk"]),
    "heads": (Procedure(method="two_step"), ["head"]),
}
"""Each learner with its arm and the rates that concern it."""
RATE_TOLERANCE = 0.01
"""Accuracy over the steps that is no difference."""


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


def bounds_of(quantity: str) -> tuple[float, float]:
    """Return the range of a quantity, by whether it is a share, a cosine or cannot be negative."""
    if "accuracy" in quantity or quantity.endswith("_share") or quantity == "median_cosine":
        return 0.0, 1.0
    if quantity in ("cosine", "least_coverage"):
        return -1.0, 1.0
    positive = quantity.endswith("norm") or quantity in ("hinge_loss", "sigma")
    return 0.0 if positive else -math.inf, math.inf


def two_layer_summary(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return mean and interval over seeds of all but curves, with the printed values at the end."""
    rows = tables["two_layer"]
    last = rows[rows["quantity"] == "test_accuracy"].groupby("setting")["step"].max()
    table = means_of(rows[rows["quantity"] != "curve"], KEYS, inside=bounds_of)
    printed = pd.DataFrame(PRINTED)[["setting", "arm", "quantity", "printed"]]
    table = table.merge(printed, on=["setting", "arm", "quantity"], how="left")
    at_end = table["step"] == table["setting"].map(last)
    return table.drop(columns="sd").assign(printed=table["printed"].where(at_end))


def search_rates(
    cell: dict, seeds: list[int], setting: Setting, candidates: dict[str, list[float]]
) -> list[dict]:
    """Measure the accuracies of every combination of the rates that concern a learner."""
    # Imported here, as the table of the rates is made without torch.
    from rarefeat.studies.two_layer.measure import train_replica

    name, rows = cell["setting"], []
    tried = [
        (learner, arm, dict(zip(keys, values, strict=True)))
        for learner, (arm, keys) in LEARNERS.items()
        for values in itertools.product(*(candidates[key] for key in keys))
    ]
    for learner, arm, rates in progress(tried, len(tried), f"rates of {name}"):
        changed = {"arms": [arm], "rates": setting.rates.model_copy(update=rates)}
        for seed in seeds:
            candidate = setting.model_copy(update=changed)
            numbers = train_replica(candidate, f"two_layer_rates/{name}", seed, True).numbers
            curve = [value for (*_, quantity), value in numbers.items() if quantity == "curve"]
            rows.append(
                {
                    "setting": name, "learner": learner, "seed": seed,
                    **dict.fromkeys(candidates), **rates,
                    "train_accuracy": numbers[arm.label, setting.T, "train_accuracy"],
                    "held_out_accuracy": numbers[arm.label, setting.T, "test_accuracy"],
                    "held_out_over_steps": sum(curve) / len(curve),
                }
            )  # fmt: skip
    return rows


def choose(table: pd.DataFrame) -> dict[str, float]:
    """Choose for each learner the smallest rates whose held-out accuracy is near the best.

    The accuracy is the mean over steps and seeds: at the end many candidates are perfect.
    """
    chosen: dict[str, float] = {}
    for learner, tried in table.groupby("learner"):
        means = tried.groupby(LEARNERS[learner][1])["held_out_over_steps"].mean()
        near = means[means >= means.max() - RATE_TOLERANCE]
        chosen |= near.index.to_frame().iloc[0].to_dict()
    return chosen


def two_layer_rates(tables: Mapping[str, pd.DataFrame], rates: dict[str, Rates]) -> pd.DataFrame:
    """Return the rates that settings have with those that the search chooses."""
    table = tables["two_layer_search"]
    rows = [
        (name, rate, getattr(configured, rate), value)
        for name, configured in rates.items()
        for rate, value in choose(table[table["setting"] == name]).items()
    ]
    found = pd.DataFrame(rows, columns=["setting", "rate", "configured", "chosen"])
    return found.sort_values(["setting", "rate"], ignore_index=True)
