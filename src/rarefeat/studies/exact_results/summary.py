"""Means over seeds of all results, beside what is stated and what is printed."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from rarefeat.core.statistics import ANYWHERE, student_interval
from rarefeat.run.command import run, stage
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.exact_results.printed import PRINTED
from rarefeat.studies.exact_results.tables import EXACT_RESULTS

OVER_SEEDS = {"spurious_features"}
"""Results whose axis is drawn by the seed: their rows come together over it."""


SHARE = (0.0, 1.0)
SHARES = {"id_accuracy", "ood_accuracy", "rank_ood_accuracy", "accuracy", "one_frequency", "aligned", "median_cosine"}


def summary(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row for each quantity at each place of its axis."""
    rows = []
    for result, table in tables.items():
        table = table.assign(at=0.0) if result in OVER_SEEDS else table
        for (setting, at, quantity), part in table.groupby(["setting", "at", "quantity"]):
            mean, _, low, high, n = student_interval(part["value"].to_numpy(), inside=SHARE if quantity in SHARES else ANYWHERE)
            printed = PRINTED.get((result, setting, quantity, at), PRINTED.get((result, setting, quantity)))
            rows.append((result, setting, at, quantity, mean, low, high, n, part["stated"].mean(), printed))
    found = pd.DataFrame(rows, columns=list(EXACT_RESULTS.columns))
    return ordered(EXACT_RESULTS, found.astype({"printed": float}))


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", type=Path, nargs="+", required=True, help="the tables of the results")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    args = parser.parse_args()
    found = summary({path.stem: read_table(path).to_pandas() for path in args.tables})
    write_product(args.output, found, made_from(args.job, args.tables))


if __name__ == "__main__":
    run(main)
