"""The exact results together: means over seeds beside what is stated and printed, and claims."""

from collections.abc import Iterator, Mapping

import pandas as pd
import pandera.pandas as pa

from rarefeat.claims.measurements import Measurement
from rarefeat.studies.theorems import (
    digit_neurons,
    looped_transformer,
    low_rank_attention,
    modular_addition,
    nuclear_norm,
    spurious_features,
    task_mixture,
)
from rarefeat.studies.theorems.tables import AXIS, NUMBER, PLACE, SETTING, SHI, means
from rarefeat.workflow.files.schema import at_least, column, schema, validate_sorted

PARTS = (
    looped_transformer, low_rank_attention, spurious_features, task_mixture, modular_addition,
    digit_neurons, nuclear_norm,
)  # fmt: skip
KEYS = ["result", "setting", "at", "quantity"]
RESULTS = pa.Check.isin([part.STUDY for part in PARTS])
STATED = "what the text has of it, mean over seeds"
SCHEMA = schema(
    "exact_results",
    f"a row per ({', '.join(KEYS)})",
    {
        "result": column(str, RESULTS, "", "the result's table"),
        "setting": SETTING,
        "at": column(float, None, AXIS, PLACE),
        "quantity": column(str, None, "", "as in the result's table"),
        "mean": column(float, None, NUMBER, "mean over seeds", nullable=True),
        "ci_low": column(
            float, None, NUMBER, "lower end of its 95 % interval (Student)", nullable=True
        ),
        "ci_high": column(float, None, NUMBER, "upper end", nullable=True),
        "n": column("int64", at_least(0), "replicas", "seeds with a value"),
        "stated": column(float, None, NUMBER, STATED, SHI, nullable=True),
        "printed": column(
            float, None, NUMBER, "as printed; null where nothing is", SHI, nullable=True
        ),
    },
    KEYS,
)
PRINTED = {
    (looped_transformer.STUDY, f"n={n}", "kappa"): value
    for n, value in looped_transformer.KAPPA.items()
}


def summarise(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return means over seeds of every quantity at each place of its axis."""
    rows = pd.concat([table.assign(result=name) for name, table in tables.items()])
    # Its axis is drawn by the seed: rows come together over it.
    rows["at"] = rows["at"].mask(rows["result"] == spurious_features.STUDY, 0.0)
    table = means(rows, KEYS)
    names = zip(table["result"], table["setting"], table["quantity"], strict=True)
    printed = pd.Series([PRINTED.get(name) for name in names], dtype=float)
    return validate_sorted(SCHEMA, table.assign(printed=printed))


def claims(tables: Mapping[str, pd.DataFrame]) -> Iterator[Measurement]:
    """Measure the claims of every result."""
    for part in PARTS:
        yield from part.claims(tables[part.STUDY])
