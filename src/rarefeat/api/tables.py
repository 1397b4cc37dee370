"""Tables of the workflow and the published ones, of which name, hash and columns are checked."""

import re
from pathlib import Path

import pandas as pd
from pandera.pandas import DataFrameSchema

from rarefeat.api.arguments import check_type
from rarefeat.api.entry_points import entry_point
from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.names import shorten_repr, suggest
from rarefeat.workflow.files.published import FOLDER, PublishedTables
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.project import resolve_path
from rarefeat.workflow.run.metadata import read_table_and_origin
from rarefeat.workflow.schemas import schemas


@entry_point
def read_table(results: str | Path, name: str) -> pd.DataFrame:
    """Read a table of the workflow, and check its hash, its name, its columns and their bounds.

    Parameters
    ----------
    results : str or Path
        Folder of results, as in "results/quick"; or "docs" for the published tables, from which
        every number of the documentation comes.
    name : str
        Name of the table without suffix, as in "paper_grid" or "paper.figure_3_grid".
        docs/reference/tables describes the columns of each. Published ones have other names, and
        fewer columns.

    Raises
    ------
    RarefeatError
        If there is no such table, or the file is damaged or holds another table.

    Examples
    --------
    >>> grid = rarefeat.read_table("results/quick", "paper_grid")
    >>> sorted(set(grid["eps_min"])), sorted(set(grid["arm"]))[:2]
    ([0.2, 1.0], ['dense', 'ideal'])
    >>> list(rarefeat.read_table("docs", "selection_law_constants"))[:2]
    ['kappa', 'gamma']
    """
    if str(check_type("results", results, str, Path)) == str(FOLDER.parent):
        return read_published_table(check_type("name", name, str))
    folder = Path(results) / "tables"
    schema = find_schema(check_type("name", name, str))
    path = folder / f"{name}.parquet"
    if not path.is_file():
        names = [item.name.removesuffix(".parquet") for item in folder.glob("*.parquet")]
        raise RarefeatError(
            f"{path} does not exist{suggest(name, names)}; is this the folder of results,"
            " and has snakemake made the table?"
        )
    table, _ = read_table_and_origin(path)
    try:
        return validate(schema, table)
    except RarefeatError as error:
        raise RarefeatError(
            f"{path} is not the table that its name says: {error}; run snakemake again"
        ) from error


def read_published_table(name: str) -> pd.DataFrame:
    """Return a table of docs/tables by its name; RarefeatError if there is none."""
    return PublishedTables(resolve_path(FOLDER))[name]


def find_schema(name: str) -> DataFrameSchema:
    """Return the schema of a table by its name; RarefeatError if no table has it."""
    tables = schemas()
    table = name.rpartition(".")[2]
    if table in tables:
        return tables[table]
    for template, schema in tables.items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", r"[^/\\0]{1,200}", re.escape(template)), name):
            return schema
    raise RarefeatError(
        f"name: {shorten_repr(name)} is the name of no table{suggest(name, tables)}; see"
        " docs/reference/tables"
    )
