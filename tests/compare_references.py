"""Compare the tables of a run with committed references: the same rows, equal within the tolerance.

A reference is a CSV file with the name of a table: its key, a value and n, means over seeds.
"""

import argparse
import io
from pathlib import Path

import numpy as np
import pandas as pd

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.project import load
from rarefeat.workflow.run.cli_helpers import load_function, run_main
from rarefeat.workflow.run.metadata import read_table_and_origin

VALUES = ("mean", "exponent", "value")
# Another processor or BLAS changes the last bits, and training carries them on; a count over a
# threshold, or the step at which one is passed, may differ by one in one replica of three, and of
# some hundred test images a few fall on the other side.
RELATIVE, ABSOLUTE, COUNT, SHARE = 0.02, 0.01, 0.34, 0.03
COUNTS = (
    "aligned_neurons", "pure_neurons", "pure_minority_neurons", "singletons",
    "minority_singletons", "T1", "T2",
)  # fmt: skip
SHARES = (
    "accuracy", "delta_20", "few", "group_std", "many", "medium", "few_shot_accuracy",
    "knn_accuracy",
)  # fmt: skip
ALLOWED = dict.fromkeys(COUNTS, COUNT) | dict.fromkeys(SHARES, SHARE)


def reference_rows(table: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Reduce a table to what its reference holds: key, value and n, with the mean over seeds."""
    value = next(name for name in VALUES if name in table)
    if "seed" in key:
        key = [name for name in key if name != "seed"]
        table = (
            table.groupby(key, dropna=False)[value]
            .agg([("mean", "mean"), ("n", "count")])
            .reset_index()
        )
        table = table.rename(columns={"mean": value})
    return pd.read_csv(io.StringIO(text(table[[*key, value, "n"]])))


def text(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.8g")


def list_differences(reference: pd.DataFrame, fresh: pd.DataFrame) -> list[str]:
    *key, value, _ = reference.columns
    if list(fresh.columns) != list(reference.columns):
        return [
            f"its columns are {', '.join(fresh.columns)}, reference {', '.join(reference.columns)}"
        ]
    both = reference.merge(fresh, on=key, how="outer", suffixes=("", "_fresh"))
    allowed = ABSOLUTE + RELATIVE * both[value].abs().fillna(0)
    if "metric" in both:
        allowed = both["metric"].map(ALLOWED).fillna(allowed)
    close = np.isclose(both[f"{value}_fresh"], both[value], rtol=0, atol=allowed, equal_nan=True)
    # A row that one of them lacks has no n there.
    return [
        f"{', '.join(f'{column} {row[column]}' for column in key)}:"
        f" {row[f'{value}_fresh']:.6g} (n = {row['n_fresh']:g}), reference {row[value]:.6g} (n ="
        f" {row['n']:g})"
        for row in both[~close | (both["n"] != both["n_fresh"])].to_dict("records")
    ]


def main() -> None:
    """Exit 0 if every table agrees with its reference, else name the first difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("references", type=Path, help="folder of CSV files, TABLE.csv")
    parser.add_argument(
        "--configfile",
        nargs="+",
        default=[],
        help="laid over config/config.yaml, as snakemake does",
    )
    parser.add_argument(
        "--update", action="store_true", help="write what was made as the new references"
    )
    args = parser.parse_args()
    project = load("config/config.yaml", *args.configfile)
    if not (references := sorted(args.references.glob("*.csv"))):
        raise RarefeatError(f"{args.references} holds no CSV file")
    for path in references:
        if path.stem not in project.tables:
            raise RarefeatError(f"{path}: no study of this config makes the table {path.stem}")
        key = list(load_function(project.tables[path.stem].schema).unique)
        table_path = Path(project.results, "tables", f"{path.stem}.parquet")
        fresh = reference_rows(read_table_and_origin(table_path)[0], key)
        if args.update:
            write_file(path, text(fresh))
        elif lines := list_differences(pd.read_csv(path), fresh):
            raise RarefeatError(
                f"{table_path}: {len(lines)} differences to {path}, the first: {lines[0]}"
            )
        print(
            f"{table_path} {'is now' if args.update else 'agrees with'} {path}: {len(fresh)} rows"
        )


if __name__ == "__main__":
    run_main(main)
