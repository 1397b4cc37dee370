"""Published tables of fine labels, from which docs/studies/fine_labels.md is filled in."""

import pandas as pd

from rarefeat.studies.fine_labels import RIDGE
from rarefeat.studies.fine_labels.tables import (
    coarse_or_fine,
    mean_by,
    published_errors,
    published_sweep,
)


def crossing(supervised: pd.DataFrame, encoders: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """Return means of quantities of contrastive encoders and of supervised networks."""
    networks = supervised.assign(pair="labels", arm=coarse_or_fine(supervised))
    networks = networks[(networks["features"] == "detectors") & networks["arm"].notna()]
    rows = pd.concat([networks, heads])
    rows = rows[(rows["hard_share"] == 0) & (rows["penalty"] == RIDGE)]
    rows = rows.melt(["k", "pair", "arm", "seed"], ["easy", "hard"], "quantity", "value")
    metrics = encoders.rename(columns={"metric": "quantity"})
    shown = ["within_subclass", "within_superclass", "across"]
    shown += ["pruned", "pure_common", "pure_subclass"]
    rows = pd.concat([rows, metrics[metrics["quantity"].isin(shown)]])
    return mean_by(rows, ["k", "pair", "arm", "quantity"]).drop(columns="sd")


TABLES = {
    "fine_labels_errors": (("fine_labels_summary",), published_errors),
    "fine_labels_crossing": (
        ("fine_labels_heads", "fine_labels_crossing", "fine_labels_crossing_heads"),
        crossing,
    ),
    "fine_labels_digits": (("fine_labels_digits_summary",), published_sweep),
    "cifar100_labels": (("cifar100_labels_summary",), published_sweep),
}
