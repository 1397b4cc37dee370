"""The published table of two-layer networks, from which docs/studies/two_layer.md is filled in."""

import pandas as pd

from rarefeat.studies.two_layer.printed import PRINTED

MIXTURES = {
    "hypercube_1": {"d": 100, "k": 4, "sigma_r": 1.0, "epochs": (0, 50, 80)},
    "hypercube_2": {"d": 25, "k": 4, "sigma_r": 0.7, "epochs": (0, 30, 50)},
    "hypercube_3": {"d": 100, "k": 5, "sigma_r": 1.0, "epochs": (0, 50, 80)},
}
"""Table A.6, the Gaussian mixtures, whose results are pictures, with the epochs of Figure A.12."""


def beside_printed(table: pd.DataFrame) -> pd.DataFrame:
    """Return all arms at the end of training, each with its printed table, or `not printed`."""
    last = table["step"] == table.groupby(["setting", "arm"])["step"].transform("max")
    compared = ["train_accuracy", "test_accuracy", "cosine", "least_coverage"]
    tables = {item.setting: item.table for item in PRINTED} | dict.fromkeys(MIXTURES, "A.6")
    rows = table[last & table["quantity"].isin(compared) & ~table["arm"].str.startswith("ticket")]
    rows = rows.drop(columns="step").reset_index(drop=True)
    return rows.assign(printed_in=rows["setting"].map(tables).fillna("not printed"))


TABLES = {"two_layer_printed": (("two_layer_summary",), beside_printed)}
