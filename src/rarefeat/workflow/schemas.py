"""The schemas of all tables of a run."""

from functools import cache

from pandera.pandas import DataFrameSchema

from rarefeat.claims import tables as claims_tables
from rarefeat.stages import tables as chain_tables
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.run.cli_helpers import load_function


@cache
def schemas_by_maker() -> dict[str, dict[str, DataFrameSchema]]:
    """Return every schema by maker of its table and by file.

    A maker is `chain`, `claims`, or the name of a kind of study.
    """
    modules = {"chain": chain_tables, "claims": claims_tables} | {
        name: kind.load("tables") for name, kind in kinds().items()
    }
    schemas_of: dict[str, dict[str, DataFrameSchema]] = {}
    for maker, module in modules.items():
        # What declares a table without pandera has its schema in `schema`.
        items = [getattr(item, "schema", item) for item in vars(module).values()]
        items += map(load_function, kinds()[maker].schemas if maker in kinds() else ())
        items = [item for item in items if isinstance(item, DataFrameSchema)]
        listed = {name for others in schemas_of.values() for name in others}
        schemas_of[maker] = {item.name: item for item in items if item.name not in listed}
    return schemas_of


def schemas() -> dict[str, DataFrameSchema]:
    """Return every schema by its file."""
    return {
        name: schema for by_name in schemas_by_maker().values() for name, schema in by_name.items()
    }
