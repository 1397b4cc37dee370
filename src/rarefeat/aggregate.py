"""Stage 4: the points of a study as tidy, checked tables."""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from rarefeat.command import run, section
from rarefeat.config import Study
from rarefeat.core.statistics import student_interval
from rarefeat.files import read_table
from rarefeat.metadata import made_from, write_product
from rarefeat.sections import Arm
from rarefeat.tables import ARM, KEYS, METRICS, checked

# A cell is an arm at a point; pairs are with the plain arm at the same point.
DENSE = tuple(Arm(arm="dense").model_dump().values())
PAIRED = ("paired_difference", "paired_ci_low", "paired_ci_high")


def paired_interval(values: pd.Series, dense: pd.Series | None) -> tuple[float, float, float]:
    """Mean and interval of the difference to `dense`, seed by seed; NaN where there is nothing to compare with."""
    if dense is None:
        return np.nan, np.nan, np.nan
    mean, _, low, high, _ = student_interval((values - dense).to_numpy())
    return mean, low, high


def grid_table(rows: list[pa.Table]) -> pd.DataFrame:
    """One row per cell and seed, sorted, from the probe's files."""
    table = pd.concat([part.to_pandas() for part in rows], ignore_index=True)
    table[list(METRICS)] = table[list(METRICS)].astype(float)
    return checked("grid", table.sort_values([*KEYS, "seed"], ignore_index=True))


def summary_table(grid: pd.DataFrame) -> pd.DataFrame:
    """Mean, spread, interval and paired difference to `dense` of every metric of every cell."""
    cells = {key: cell.set_index("seed") for key, cell in grid.groupby(list(KEYS))}
    rows = []
    for key, cell in cells.items():
        dense = cells.get((*key[:2], *DENSE))
        for metric in METRICS:
            mean, sd, low, high, n = student_interval(cell[metric].to_numpy())
            paired = paired_interval(cell[metric], dense[metric] if dense is not None and dense is not cell else None)
            rows.append((*key, metric, mean, sd, low, high, n, *paired))
    columns = [*KEYS, "metric", "mean", "sd", "ci_low", "ci_high", "n", *PAIRED]
    return checked("summary", pd.DataFrame(rows, columns=columns))


def trends_table(grid: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Slope in eps_min and mean difference to `dense`, seed by seed, over each block of the grid.

    The draws of a seed are shared by every eps_min (common random numbers), so that a seed's own slope is a paired quantity.
    """
    rows = []
    for name, block in study.grid.items():
        inside = grid[grid["eps_min"].isin(block.eps_min) & grid["sigma"].isin(block.sigma) & grid["arm"].isin(block.arms)]
        for sigma, level in inside.groupby("sigma"):
            for metric in METRICS:
                curves = {
                    key: part.pivot(index="eps_min", columns="seed", values=metric) for key, part in level.groupby(list(ARM))
                }
                dense = curves.get(DENSE)
                for key, curve in curves.items():
                    x = curve.index.to_numpy() - curve.index.to_numpy().mean()
                    slopes = x @ curve.to_numpy() / (x @ x) if len(x) > 1 else np.full(curve.shape[1], np.nan)
                    slope, _, low, high, n = student_interval(slopes)
                    paired = paired_interval(curve.mean(), dense.mean() if dense is not None and dense is not curve else None)
                    ends = curve.iloc[0].mean(), curve.iloc[-1].mean()
                    rows.append((name, sigma, *key, metric, slope, low, high, n, *ends, *paired))
    columns = ["grid", "sigma", *ARM, "metric", "slope", "ci_low", "ci_high", "n", "at_lowest", "at_highest", *PAIRED]
    return checked("trends", pd.DataFrame(rows, columns=columns))


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["grid", "trajectories"], help="`grid` writes its summary and trends too")
    parser.add_argument("--study", type=section(Study), required=True, help="the study, as YAML or JSON")
    parser.add_argument("--points", type=Path, required=True, help="the study's folder of probes or of trajectories")
    parser.add_argument("--output", required=True, nargs="+", help="Parquet files to write")
    args = parser.parse_args()
    study: Study = args.study

    match args.table:
        case "grid":
            grid = grid_table([read_table(args.points / path) for path in study.paths(study.points(), "parquet")])
            tables = [grid, summary_table(grid), trends_table(grid, study)]
        case "trajectories":
            parts = [
                read_table(args.points / path).to_pandas().assign(eps_min=point.eps_min, sigma=point.sigma)
                for point in study.points()
                if point.trained
                for path in study.paths([point], "parquet")
            ]
            table = pd.concat(parts, ignore_index=True).sort_values([*KEYS, "seed", "step", "metric"], ignore_index=True)
            tables = [checked("trajectories", table)]

    name = Path(args.output[0]).stem.removesuffix(f"_{args.table}")
    found = made_from(args.table, {name: study})
    for output, table in zip(args.output, tables, strict=True):
        write_product(output, table, found)


if __name__ == "__main__":
    run(main)
