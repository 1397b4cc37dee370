"""Tables that the docs of the exact results are filled in from.

docs/studies/two_layer.md and docs/papers_hong_shi.md.
"""

import pandas as pd

LAST = {"modular_addition", "digit_neurons"}
"""Results over training steps, whose end is shown."""


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the summary without its courses: the end of trainings, and the extremes over all
    loops.
    """
    steps = table["result"].isin(LAST)
    last = table["at"] == table.groupby(["result", "setting"])["at"].transform("max")
    courses = table["quantity"].isin(["log_error", "log_error_rounded", "gap"])
    return table[(~steps | last) & ~courses].reset_index(drop=True)


TABLES = {
    "exact_results": (("exact_results",), shown),
    "out_of_reach": (("out_of_reach",), pd.DataFrame.copy),
}
