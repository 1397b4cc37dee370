"""Tables and numbers in Markdown."""

import math

import pandas as pd


def row(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def pipe_table(table: pd.DataFrame) -> list[str]:
    """The lines of a table whose cells are texts."""
    lines = [list(table.columns), ["---"] * len(table.columns), *table.to_numpy().tolist()]
    return ["| " + " | ".join(line) + " |" for line in lines]


def number(value: float) -> str:
    """Three decimals; an empty cell where there is none."""
    return "" if math.isnan(value) else f"{value:.3f}"


def interval(mean: float, low: float, high: float) -> str:
    """A mean with its interval; an empty cell where there is none."""
    # Adding zero turns a rounded -0 into 0.
    mean, low, high = (round(value, 3) + 0.0 for value in (mean, low, high))
    return "" if math.isnan(mean) else f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
