"""Compare two folders of results value by value: tables, files of cells, and pixels of figures.

    python benchmarks/compare_results.py BEFORE AFTER

Rows count in any order; metadata do not count. It lists what differs or is missing in AFTER, and
exits with status 1 if a table or the file of a cell does.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from safetensors.numpy import load_file


def read_rows(path: Path) -> pd.DataFrame:
    """Return the rows of a table in an order of their values."""
    table = pd.read_parquet(path)
    order = table.astype(str).sort_values(list(table.columns), kind="stable").index
    return table.loc[order].reset_index(drop=True)


def are_equal(before: Path, after: Path) -> bool:
    """Return whether two files hold the same values, exactly."""
    if before.suffix == ".parquet":
        return read_rows(before).equals(read_rows(after))
    if before.suffix == ".safetensors":
        first, second = load_file(before), load_file(after)
        same = first.keys() == second.keys()
        return same and all(np.array_equal(first[k], second[k], equal_nan=True) for k in first)
    first, second = (np.asarray(Image.open(path).convert("RGB")) for path in (before, after))
    return np.array_equal(first, second)


def main(before: Path, after: Path) -> int:
    """Print how many files of each folder are equal, different and missing."""
    counts: dict[str, Counter] = {}
    for path in sorted(before.rglob("*")):
        place = path.relative_to(before)
        if path.suffix not in (".parquet", ".safetensors", ".png") or place.parts[0][0] == ".":
            continue
        other = after / place
        what = "missing" if not other.exists() else "equal" if are_equal(path, other) else "differs"
        counts.setdefault(place.parts[0], Counter())[what] += 1
        if what != "equal":
            print(f"{what}: {place}")
    for folder, count in counts.items():
        print(f"{folder}: {', '.join(f'{n} {what}' for what, n in count.items())}")
    numbers = (count for folder, count in counts.items() if folder != "figures")
    return int(any(count["differs"] or count["missing"] for count in numbers))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
