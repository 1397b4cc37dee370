"""The rows of every cell and block of a sweep in one table, and means over seeds beside the baseline."""

from pathlib import Path

import pandas as pd

from rarefeat.core.statistics import student_interval
from rarefeat.run.command import run, stage
from rarefeat.run.job import of_cells
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.fine_labels.config import Digits, Granularity, Photographs
from rarefeat.studies.fine_labels.tables import SWEEP, SWEEP_SUMMARY

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
        gain, _, gain_low, gain_high, _ = student_interval(part["difference"].to_numpy(), inside=(-1, 1))
        rows.append((*point, part["classes"].mean(), mean, sd, low, high, n, gain, gain_low, gain_high))
    columns = [*POINT, "classes", "mean", "sd", "ci_low", "ci_high", "n"]
    columns += ["paired_difference", "paired_ci_low", "paired_ci_high"]
    return ordered(SWEEP_SUMMARY, pd.DataFrame(rows, columns=columns))


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--errors", required=True, help="Parquet file to write, of all replicas")
    parser.add_argument("--summary", required=True, help="Parquet file to write, of means")
    args = parser.parse_args()
    sweep: Granularity = args.job.part("sweep", Digits | Photographs)
    files = of_cells("sweeps", "parquet", args.job, sweep, sweep.measured, args.results)
    table = ordered(SWEEP, pd.concat([read_table(path, expected).to_pandas() for _, path, expected in files]))
    for path, part in ((args.errors, table), (args.summary, summary(table))):
        write_product(path, part, made_from(args.job))


if __name__ == "__main__":
    run(main)
