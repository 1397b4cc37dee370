"""Published tables of exact results, from which docs/studies/two_layer.md is filled in."""

import pandas as pd


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return of trainings the end alone, of loops the extremes over all of them."""
    trained = table["result"].isin(["modular_addition", "digit_neurons"])
    last = table["at"] == table.groupby(["result", "setting"])["at"].transform("max")
    courses = table["quantity"].isin(["log_error", "log_error_rounded", "gap"])
    return table[(~trained | last) & ~courses].reset_index(drop=True)


TABLES = {
    "exact_results": (("exact_results",), shown),
    "out_of_reach": (("out_of_reach",), pd.DataFrame.copy),
}
