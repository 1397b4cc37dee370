"""Stage 4: the points of a study as tidy, checked tables."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from pandera.pandas import Column

from rarefeat.chain.tables import (
    ARM,
    GRID,
    KEYS,
    METRICS,
    PAIRED,
    POINT,
    SUMMARY,
    TRAJECTORIES,
    TRENDS,
)
from rarefeat.config.model import Arm
from rarefeat.config.study import Study
from rarefeat.core.statistics import UNBOUNDED, student_interval
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.storage.schema import validate

# A cell is an arm at a point; pairs are with the plain arm at the same point.
DENSE = tuple(Arm(arm="dense").model_dump().values())


def column_bounds(item: Column) -> tuple[float, float]:
    """The bounds of a column, infinite where it has none; without what a check leaves for rounding."""
    bounds = {
        key: round(value, 4)
        for check in item.checks
        for key, value in (check.statistics or {}).items()
    }
    return bounds.get("min_value", -math.inf), bounds.get("max_value", math.inf)


def difference_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """The bounds of the difference of two values within some."""
    return bounds[0] - bounds[1], bounds[1] - bounds[0]


def paired_interval(
    values: pd.Series, dense: pd.Series | None, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float]:
    """Mean and interval of the difference to `dense`, seed by seed; NaN where there is nothing to compare with.

    inside: the range of the quantity itself.
    """
    if dense is None:
        return np.nan, np.nan, np.nan
    mean, _, low, high, _ = student_interval(
        (values - dense).to_numpy(), inside=difference_bounds(inside)
    )
    return mean, low, high


def select_cells(tables: Mapping[str, pd.DataFrame], study: Study) -> list[pd.DataFrame]:
    """Return the rows of a study, or of a block of its grid, of tables of cells.

    A cell's table may hold more arms than the block has.

    Parameters
    ----------
    tables : mapping
        Rows of the files of each cell by its path, with the columns of its arms.
    study : Study
        The study, or one block of its grid.
    """
    selected = []
    for cell in study.cells():
        arms = {tuple(arm.model_dump().values()) for arm in cell.arms}
        for table in tables.get(cell.path, ()):
            selected.append(
                table[[key in arms for key in table[list(ARM)].itertuples(index=False, name=None)]]
            )
    return selected


def read_cells(inputs: JobInputs, folder: str) -> dict[str, list[pd.DataFrame]]:
    """Return the tables of every cell of the job's study, by the path of the cell, one for each seed block."""
    tables: dict[str, list[pd.DataFrame]] = {}
    for file in inputs.files(folder):
        tables.setdefault(file.cell.path, []).append(file.table())
    return tables


def grid_table(probes: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return one row per cell, arm and seed, sorted, from the rows of the probes."""
    table = pd.concat(probes, ignore_index=True)
    table[list(METRICS)] = table[list(METRICS)].astype(float)
    return validate(GRID, table.sort_values([*KEYS, "seed"], ignore_index=True))


def summarise(
    grid: pd.DataFrame,
    point: Sequence[str],
    arm: Sequence[str],
    dense: tuple,
    metrics: Mapping[str, Column],
) -> pd.DataFrame:
    """Mean, spread, interval and paired difference to `dense` of every metric of every cell.

    Args:
        grid: a row for each cell, arm and seed. point, arm: columns that name a cell, and an arm in it. dense: the values of
            the arm's columns with which pairs are formed. metrics: the columns of values, with their bounds.
    """
    keys = [*point, *arm]
    cells = {key: cell.set_index("seed") for key, cell in grid.groupby(keys)}
    rows = []
    for key, cell in cells.items():
        plain = cells.get((*key[: len(point)], *dense))
        for metric, column in metrics.items():
            inside = column_bounds(column)
            mean, sd, low, high, n = student_interval(cell[metric].to_numpy(), inside=inside)
            paired = paired_interval(
                cell[metric],
                plain[metric] if plain is not None and plain is not cell else None,
                inside,
            )
            rows.append((*key, metric, mean, sd, low, high, n, *paired))
    return pd.DataFrame(
        rows, columns=[*keys, "metric", "mean", "sd", "ci_low", "ci_high", "n", *PAIRED]
    )


def summary_table(grid: pd.DataFrame) -> pd.DataFrame:
    """The summary of every metric of the chain."""
    return validate(SUMMARY, summarise(grid, list(POINT), list(ARM), DENSE, METRICS))


def trends_table(grid: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Slope in eps_min and mean difference to `dense`, seed by seed, over each block of the grid.

    The draws of a seed are shared by every eps_min (common random numbers), so that a seed's own slope is a paired quantity.
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
                    key: part.pivot(index="eps_min", columns="seed", values=metric)
                    for key, part in level.groupby(list(ARM))
                }
                dense = curves.get(DENSE)
                for key, curve in curves.items():
                    x = curve.index.to_numpy() - curve.index.to_numpy().mean()
                    slopes = (
                        x @ curve.to_numpy() / (x @ x)
                        if len(x) > 1
                        else np.full(curve.shape[1], np.nan)
                    )
                    slope, _, low, high, n = student_interval(slopes)
                    other = dense.mean() if dense is not None and dense is not curve else None
                    paired = paired_interval(curve.mean(), other, column_bounds(column))
                    ends = curve.iloc[0].mean(), curve.iloc[-1].mean()
                    rows.append((name, sigma, *key, metric, slope, low, high, n, *ends, *paired))
    columns = [
        "grid",
        "sigma",
        *ARM,
        "metric",
        "slope",
        "ci_low",
        "ci_high",
        "n",
        "at_lowest",
        "at_highest",
        *PAIRED,
    ]
    return validate(TRENDS, pd.DataFrame(rows, columns=columns))


def trajectories_table(rows: Mapping[str, list[pd.DataFrame]], study: Study) -> pd.DataFrame:
    """Return one row per cell, arm, seed, step and metric of the neurons' training, sorted.

    Parameters
    ----------
    rows : mapping
        Rows of the files of each cell by its path.
    study : Study
        The study, or one block of its grid.
    """
    axes = {cell.path: cell.values for cell in study.cells()}
    rows = {
        path: [table.assign(**axes[path]) for table in tables]
        for path, tables in rows.items()
        if path in axes
    }
    table = pd.concat(select_cells(rows, study), ignore_index=True)
    return validate(
        TRAJECTORIES, table.sort_values([*KEYS, "seed", "step", "metric"], ignore_index=True)
    )


def aggregate_trajectories(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return the trajectories of a study."""
    (name,) = job.config
    return trajectories_table(read_cells(inputs, "trajectories"), job.config_section(name, Study))


def aggregate_study(inputs: JobInputs, job: Job) -> dict[str, pd.DataFrame]:
    """Return grid, summary, trends and trajectories of a study and of each block of its grid, by the name of the table."""
    (name,) = job.config
    study = job.config_section(name, Study)
    probes, trajectories = read_cells(inputs, "probes"), read_cells(inputs, "trajectories")
    tables = {}
    for prefix, block in {
        name: study,
        **{f"{name}.{block}": study.grid_block_study(block) for block in study.grid},
    }.items():
        grid = grid_table(select_cells(probes, block))
        tables[f"{prefix}_grid"] = grid
        tables[f"{prefix}_summary"] = summary_table(grid)
        tables[f"{prefix}_trends"] = trends_table(grid, block)
        tables[f"{prefix}_trajectories"] = trajectories_table(trajectories, block)
    return tables
