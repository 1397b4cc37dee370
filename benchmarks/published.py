"""Publish what a script of benchmarks/ measured."""

import pandas as pd

from rarefeat.workflow.files.published import PublishedTables, commit
from rarefeat.workflow.run.metadata import machine, packages


def publish(name: str, table: pd.DataFrame, seeds: range | list[int]) -> None:
    """Write docs/tables/NAME.csv with its origin."""
    origin = {
        "run": f"benchmarks/{name}.py",
        "commit": commit(),
        "seeds": {name: f"{seeds[0]}-{seeds[-1]}"},
        "machine": machine(),
        "packages": packages(),
    }
    PublishedTables().put(name, table, origin)
