"""What the report's first page says of this kind of study, from the tables of its run."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.core.statistics import student_interval
from rarefeat.figures.labels import quantity
from rarefeat.storage.markdown import interval
from rarefeat.studies.augmentation.config import Augmentation

TABLES = ("augmentation",)
METRIC = "covered_features"


def found(section: Augmentation, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """The share of the features that have a neuron of their own, by kind of positive pair, most first."""
    (table,) = tables.values()
    table = table[(table["metric"] == METRIC) & (table["arm"] == "dense") & (table["encoder"] == "trained")]
    shares = {
        name: student_interval(part["value"].to_numpy(), inside=quantity(METRIC).range)
        for name, part in table.groupby("study")
        if not name.startswith("imbalance")
    }
    ranked = sorted(shares, key=lambda name: -shares[name][0])
    said = [f"{name} {interval(shares[name][0], *shares[name][2:4])}" for name in ranked]
    seeds = sorted({section.studies[name].seeds for name in ranked})
    counts = " to ".join(dict.fromkeys(map(str, (seeds[0], seeds[-1]))))
    return [f"{counts} seeds. Share of the features with a neuron of their own, by kind of positive pair: {', '.join(said)}."]
