"""Means over the seeds of a sweep, beside the baseline."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.core.statistics import student_interval
from rarefeat.run.job import Job
from rarefeat.storage.schema import validate_sorted
from rarefeat.studies.fine_labels.tables import SWEEP_SUMMARY

POINT = ["superclass", "labels", "epoch", "readout"]
BASELINE = "coarse"


def less_baseline(table: pd.DataFrame) -> pd.Series:
    """Error less that of the baseline at the same seed, coarse task, checkpoint and readout, in the order of the rows."""
    at = ["superclass", "epoch", "readout", "seed"]
    baseline = table[table["labels"] == BASELINE].set_index(at)["error"]
    return table["error"] - baseline.loc[pd.MultiIndex.from_frame(table[at])].to_numpy()


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds with their intervals, of the errors and of their differences to the baseline."""
    table = table.assign(difference=less_baseline(table))
    rows = []
    for point, part in table.groupby(POINT):
        mean, sd, low, high, n = student_interval(part["error"].to_numpy(), inside=(0, 1))
        gain, _, gain_low, gain_high, _ = student_interval(
            part["difference"].to_numpy(), inside=(-1, 1)
        )
        rows.append(
            (*point, part["classes"].mean(), mean, sd, low, high, n, gain, gain_low, gain_high)
        )
    columns = [*POINT, "classes", "mean", "sd", "ci_low", "ci_high", "n"]
    columns += ["paired_difference", "paired_ci_low", "paired_ci_high"]
    return validate_sorted(SWEEP_SUMMARY, pd.DataFrame(rows, columns=columns))


def sweep_summary(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """The summary of the errors of one sweep."""
    (errors,) = tables.values()
    return summary(errors)
