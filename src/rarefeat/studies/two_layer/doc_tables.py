"""Table that docs/studies/two_layer.md is filled in from."""

import pandas as pd

from rarefeat.studies.two_layer.paper_values import MIXTURES, PRINTED

QUANTITIES = ["train_accuracy", "test_accuracy", "cosine"]
"""Quantities of Tables A.1 to A.5; A.6 has pictures."""


def beside_printed(table: pd.DataFrame) -> pd.DataFrame:
    """Return every arm of every setting at the end of training, with its printed table, or `not
    printed`.
    """
    last = table["step"] == table.groupby(["setting", "arm"])["step"].transform("max")
    shown = (
        last
        & table["quantity"].isin([*QUANTITIES, "least_coverage"])
        & ~table["arm"].str.startswith("ticket")
    )
    tables = {item.setting: item.table for item in PRINTED} | {
        item.setting: "A.6" for item in MIXTURES
    }
    rows = table.loc[
        shown, ["setting", "arm", "quantity", "mean", "ci_low", "ci_high", "n", "printed"]
    ]
    return rows.assign(printed_in=rows["setting"].map(tables).fillna("not printed")).reset_index(
        drop=True
    )


TABLES = {"two_layer_printed": (("two_layer_summary",), beside_printed)}
