"""Pipeline stage 4: the results of a study as tidy, validated tables.

A group of rows that is summarised has one position on the axes of the grid and one arm; `dense` is
the arm without a mask, with which paired differences are formed seed by seed.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from pandera.pandas import Column

from rarefeat.stages.tables import (
    ARM,
    GRID,
    INDICATORS,
    INTERVAL,
    METRICS,
    PAIRED,
    POINT,
    SUMMARY,
    TRAJECTORIES,
    TRENDS,
)
from rarefeat.statistics import UNBOUNDED, fraction_interval, student_interval
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate, validate_sorted
from rarefeat.workflow.run.job_inputs import JobInputs

DENSE = tuple(Arm(arm="dense").model_dump().values())
"""Values of the columns of the arm `dense`."""


def column_bounds(item: Column) -> tuple[float, float]:
    """Return the bounds of a column from its checks, without their tolerance for rounding."""
    checks = ((check.statistics or {}).items() for check in item.checks)
    bounds = {key: round(value, 4) for key, value in itertools.chain(*checks)}
    return bounds.get("min_value", -math.inf), bounds.get("max_value", math.inf)


def difference_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the bounds of the difference of two values within the same bounds."""
    return bounds[0] - bounds[1], bounds[1] - bounds[0]


def paired_interval(
    values: pd.Series, dense: pd.Series | None, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float]:
    """Compute the mean and confidence interval of the paired difference to `dense`."""
    if dense is None:
        return np.nan, np.nan, np.nan
    change = (values - dense).to_numpy()
    mean, _, low, high, _ = student_interval(change, inside=difference_bounds(inside))
    return mean, low, high


def select_cells(tables: Mapping[str, list[pd.DataFrame]], study: Study) -> list[pd.DataFrame]:
    """Return the rows of a study, or of a block of its grid, of tables of cells.

    A cell's table may hold more arms than the block has; these rows are dropped.
    """
    selected = []
    for cell in study.cells():
        arms = {tuple(arm.model_dump().values()) for arm in cell.arms}
        for table in tables.get(cell.path, ()):
            keys = table[list(ARM)].itertuples(index=False, name=None)
            selected.append(table[[key in arms for key in keys]])
    return selected


def read_cells(inputs: JobInputs, folder: str) -> dict[str, list[pd.DataFrame]]:
    """Read the tables of every cell of the job's study."""
    tables: dict[str, list[pd.DataFrame]] = {}
    for file in inputs.files(folder):
        tables.setdefault(file.cell.path, []).append(file.table())
    return tables


def grid_table(probes: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return one row per cell, arm and seed, sorted, from the rows of the probes."""
    table = pd.concat(probes, ignore_index=True)
    table[list(METRICS)] = table[list(METRICS)].astype(float)
    return validate_sorted(GRID, table)


def summarise(
    grid: pd.DataFrame,
    point: Sequence[str],
    arm: Sequence[str],
    dense: tuple,
    metrics: Mapping[str, Column],
) -> pd.DataFrame:
    """Compute mean, spread, interval and paired difference to `dense` of every metric."""
    keys = [*point, *arm]
    cells = {key: cell.set_index("seed") for key, cell in grid.groupby(keys)}
    rows = []
    for key, cell in cells.items():
        plain = cells.get((*key[: len(point)], *dense))
        for metric, column in metrics.items():
            inside = column_bounds(column)
            values = cell[metric].to_numpy()
            mean, sd, low, high, n = student_interval(values, inside=inside)
            if metric in INDICATORS:
                low, high = fraction_interval(values)
            other = plain[metric] if plain is not None and plain is not cell else None
            paired = paired_interval(cell[metric], other, inside)
            rows.append((*key, metric, mean, sd, low, high, n, *paired))
    return pd.DataFrame(rows, columns=[*keys, "metric", "mean", "sd", *INTERVAL, *PAIRED])


def summary_table(grid: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of every metric of the grid table."""
    return validate(SUMMARY, summarise(grid, list(POINT), list(ARM), DENSE, METRICS))


def trends_table(grid: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Compute slopes in eps_min and mean differences to `dense` over each block of the grid.

    Both are taken seed by seed: the draws of a seed are shared by every eps_min (common random
    numbers), so that the slope of one seed is a paired quantity.
    """
    rows = []
    for name, block in study.grid.items():
        inside = grid[
            grid["eps_min"].isin(block.eps_min)
            & grid["sigma"].isin(block.sigma)
            & grid["arm"].isin(block.arms)
        ]
        for sigma, level in inside.groupby("sigma"):
            for metric, column in METRICS.items():
                curves = {
                    key: rows_of_arm.pivot(index="eps_min", columns="seed", values=metric)
                    for key, rows_of_arm in level.groupby(list(ARM))
                }
                dense = curves.get(DENSE)
                for key, curve in curves.items():
                    x = curve.index.to_numpy() - curve.index.to_numpy().mean()
                    alone = np.full(curve.shape[1], np.nan)
                    slopes = x @ curve.to_numpy() / (x @ x) if len(x) > 1 else alone
                    slope, _, low, high, n = student_interval(slopes)
                    other = dense.mean() if dense is not None and dense is not curve else None
                    paired = paired_interval(curve.mean(), other, column_bounds(column))
                    ends = curve.iloc[0].mean(), curve.iloc[-1].mean()
                    rows.append((name, sigma, *key, metric, slope, low, high, n, *ends, *paired))
    return validate(TRENDS, pd.DataFrame(rows, columns=list(TRENDS.columns)))


def trajectories_table(rows: Mapping[str, list[pd.DataFrame]], study: Study) -> pd.DataFrame:
    """Return one row per cell, arm, seed, step and metric of the neurons' training, sorted."""
    of_cells = {
        cell.path: [table.assign(**cell.values) for table in rows.get(cell.path, ())]
        for cell in study.cells()
    }
    table = pd.concat(select_cells(of_cells, study), ignore_index=True)
    return validate_sorted(TRAJECTORIES, table)


def aggregate_trajectories(inputs: JobInputs, study: Study) -> pd.DataFrame:
    """Return the trajectories of a study, from the files of all cells."""
    return trajectories_table(read_cells(inputs, "trajectories"), study)


def aggregate(inputs: JobInputs, study: Study) -> dict[str, pd.DataFrame]:
    """Return the tables of a study, or of a block of its grid, by the ends of their names."""
    grid = grid_table(select_cells(read_cells(inputs, "probes"), study))
    return {
        "grid": grid,
        "summary": summary_table(grid),
        "trends": trends_table(grid, study),
        "trajectories": trajectories_table(read_cells(inputs, "trajectories"), study),
    }
