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
    found = {"chain": vars(chain_tables).values(), "claims": vars(claims_tables).values()} | {
        name: [*vars(kind.load("tables")).values(), *map(load_function, kind.schemas)]
        for name, kind in kinds().items()
    }
    schemas_of: dict[str, dict[str, DataFrameSchema]] = {}
    for maker, values in found.items():
        items = (item for item in values if isinstance(item, DataFrameSchema))
        listed = {name for others in schemas_of.values() for name in others}
        schemas_of[maker] = {item.name: item for item in items if item.name not in listed}
    return schemas_of


def schemas() -> dict[str, DataFrameSchema]:
    """Return every schema by its file."""
    return {
        name: schema for by_name in schemas_by_maker().values() for name, schema in by_name.items()
    }
