"""The published table of small theorems, from which docs/studies/small_theorems.md is filled in."""

import pandas as pd

from rarefeat.studies.small_theorems import TABLE
from rarefeat.studies.theorems.results import means


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean, interval and stated value of each quantity at every point."""
    return means(table, ["result", "point", "at", "quantity"])


TABLES = {"theorem_means": ((TABLE,), summarise)}
