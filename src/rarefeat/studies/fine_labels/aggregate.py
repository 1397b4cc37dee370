"""Means over seeds of the errors of coarse, fine and other labels."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.statistics import UNBOUNDED, student_interval
from rarefeat.studies.fine_labels.tables import SUMMARY
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job


def summary(errors: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of every metric over seeds, with its interval."""
    keys = ["k", "labels", "s_dag", "metric"]
    rows = [
        (
            *key,
            *student_interval(
                group["value"].to_numpy(), inside=(0, 1) if "error" in key[-1] else UNBOUNDED
            ),
        )
        for key, group in errors.groupby(keys)
    ]
    return validate_sorted(
        SUMMARY, pd.DataFrame(rows, columns=[*keys, "mean", "sd", "ci_low", "ci_high", "n"])
    )


def fine_labels_summary(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the summary of the errors of all networks.

    Inputs: `fine_labels_errors`. Config: none.
    """
    return summary(tables["fine_labels_errors"])
