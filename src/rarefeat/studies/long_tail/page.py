"""What docs/studies/long_tail.md is filled in from."""

import pandas as pd

from rarefeat.studies.long_tail.tables import IMAGE_KEYS

METRICS = ["accuracy", "delta_20"]


def table2(summary: pd.DataFrame, replicas: pd.DataFrame) -> pd.DataFrame:
    """Accuracy and Delta_20 of the balanced linear probe and their differences to dense; epochs and images."""
    keys = list(IMAGE_KEYS)
    sizes = replicas.groupby(keys)[["epochs", "images"]].mean().round().astype(int)
    chosen = summary[(summary["probe"] == "balanced") & summary["metric"].isin(METRICS)]
    found = chosen.join(sizes, on=keys)
    # The arm's name as Table 2 has it: what is pruned says with which update.
    update = found["pruned_update"].where(found["arm"] == "pruned")
    found["arm"] = found["arm"].str.cat(update, sep="_", na_rep="").str.rstrip("_")
    return found[
        ["dataset", "rho", "split", "width", "arm", "alpha", "metric", "mean", "ci_low", "ci_high",
         "paired_difference", "paired_ci_low", "paired_ci_high", "n", "epochs", "images"]
    ].reset_index(drop=True)  # fmt: skip


TABLES = {"table2": (("longtail_summary", "longtail"), table2)}
