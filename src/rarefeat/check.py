"""Compare a summary with a committed reference: the same rows, and the same numbers within the stated tolerance."""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from rarefeat.command import run
from rarefeat.files import RarefeatError, read_table
from rarefeat.tables import KEYS

KEY = [*KEYS, "metric"]
# Another processor or BLAS changes the last bits, and training carries them on; a count over a threshold may differ by one in
# one replica of three.
RELATIVE, ABSOLUTE, COUNT = 0.02, 0.01, 0.34
COUNTS = ("aligned_neurons", "pure_neurons", "pure_minority_neurons")


def differences(reference: pd.DataFrame, fresh: pd.DataFrame) -> list[str]:
    """What differs between two summaries, a line each."""
    both = reference.merge(fresh, on=KEY, how="outer", suffixes=("", "_fresh"), indicator=True)
    lines = [f"{tuple(row[KEY])}: only in the {row['_merge']} table" for _, row in both[both["_merge"] != "both"].iterrows()]
    for _, row in both[both["_merge"] == "both"].iterrows():
        allowed = COUNT if row["metric"] in COUNTS else ABSOLUTE + RELATIVE * abs(row["mean"])
        close = abs(row["mean_fresh"] - row["mean"]) <= allowed or (np.isnan(row["mean"]) and np.isnan(row["mean_fresh"]))
        if not close or row["n"] != row["n_fresh"]:
            lines.append(f"{tuple(row[KEY])}: {row['mean_fresh']:.6g} (n = {row['n_fresh']}), reference {row['mean']:.6g}")
    return lines


def main() -> None:
    """Exit 0 where the fresh summary agrees with the reference; otherwise say where it does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", type=Path, help="CSV with the columns of the summary table")
    parser.add_argument("fresh", type=Path, help="Parquet file of a fresh run")
    parser.add_argument("--update", action="store_true", help="write the fresh summary as the new reference")
    args = parser.parse_args()
    fresh = read_table(args.fresh).to_pandas()
    if args.update:
        fresh[[*KEY, "mean", "n"]].to_csv(args.reference, index=False, float_format="%.8g")
        return
    if lines := differences(pd.read_csv(args.reference), fresh):
        raise RarefeatError(f"{len(lines)} differences to {args.reference}, the first: {lines[0]}")
    print(f"{args.fresh} agrees with {args.reference}: {len(fresh)} rows")


if __name__ == "__main__":
    run(main)
