"""What docs/studies/two_layer.md is filled in from."""

import pandas as pd


def accuracies(table: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy at the end of every arm of every setting, beside the printed one."""
    last = table["step"] == table.groupby(["setting", "arm"])["step"].transform("max")
    shown = last & (table["quantity"] == "test_accuracy") & ~table["arm"].str.startswith("ticket")
    return table.loc[shown, ["setting", "arm", "mean", "ci_low", "ci_high", "n", "printed"]].reset_index(drop=True)


TABLES = {"two_layer_accuracies": (("two_layer_summary",), accuracies)}
