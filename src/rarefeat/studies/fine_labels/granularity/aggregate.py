"""Means over the seeds of a sweep, and differences to the baseline."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.statistics import student_interval
from rarefeat.studies.fine_labels.tables import SWEEP_SUMMARY
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job

POINT = ["superclass", "labels", "epoch", "readout"]
BASELINE = "coarse"
KINDS = {
    "manual": "levels of the hierarchy",
    "clusters": "clusters in a superclass",
    "rebalanced": "rebalanced clusters",
    "whole": "clusters of all images",
    "random": "random in a superclass",
    "sample": "one class an image",
}
"""Names of the kinds of labels."""


def subtract_baseline(table: pd.DataFrame) -> pd.Series:
    """Return the error minus the baseline's at the same seed, coarse task, checkpoint and readout,
    in the order of the rows.
    """
    keys = ["superclass", "epoch", "readout", "seed"]
    baseline = table[table["labels"] == BASELINE].set_index(keys)["error"]
    return table["error"] - baseline.loc[pd.MultiIndex.from_frame(table[keys])].to_numpy()


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds of errors and of differences to the baseline, with intervals."""
    table = table.assign(difference=subtract_baseline(table))
    rows = []
    for point, group in table.groupby(POINT):
        mean, sd, low, high, n = student_interval(group["error"].to_numpy(), inside=(0, 1))
        difference, _, difference_low, difference_high, _ = student_interval(
            group["difference"].to_numpy(), inside=(-1, 1)
        )
        paired = difference, difference_low, difference_high
        rows.append((*point, group["classes"].mean(), mean, sd, low, high, n, *paired))
    columns = [*POINT, "classes", "mean", "sd", "ci_low", "ci_high", "n"]
    columns += ["paired_difference", "paired_ci_low", "paired_ci_high"]
    return validate_sorted(SWEEP_SUMMARY, pd.DataFrame(rows, columns=columns))


def sweep_summary(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the summary of the errors of one sweep.

    Inputs: `STUDY_errors`. Config: none.
    """
    (errors,) = tables.values()
    return summary(errors)
