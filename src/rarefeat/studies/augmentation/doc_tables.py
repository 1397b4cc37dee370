"""Tables from which docs/studies/augmentation.md is filled in."""

import pandas as pd

from rarefeat.core.statistics import student_interval
from rarefeat.figures.labels import quantity

SHOWN = ["growth_over_closed_form", "pull_features", "lucky_above_threshold_at_T1",
         "lucky_focus_at_T2", "share_features", "share_colour", "covered_features",
         "features_per_neuron", "noise_cosine", "bias_share", "likeness_to_supervised",
         "regression_error"]  # fmt: skip
CROSSING = ["crossing-mask", "crossing-pruning"]


def means(table: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    """Compute the mean of a column over seeds with its interval, by some keys.

    Parameters
    ----------
    table : DataFrame
        Rows.
    keys : list of str
        Columns to group by, of which one is the metric.
    value : str
        Column of the values.
    """
    rows = []
    for key, group in table.groupby(keys):
        key_values = dict(zip(keys, key, strict=True))
        mean, _, low, high, n = student_interval(
            group[value].to_numpy(), inside=quantity(key_values["metric"]).range
        )
        if n:
            rows.append({**key_values, "mean": mean, "ci_low": low, "ci_high": high, "n": n})
    return pd.DataFrame(rows)


def augmentation(table: pd.DataFrame) -> pd.DataFrame:
    """Return every quantity of the page by study, of the dense arm at equal frequencies.

    Heads have the most labels.
    """
    labels = table["labels"].isin([0, table["labels"].max()])
    chosen = (
        table["metric"].isin(SHOWN)
        & (table["arm"] == "dense")
        & (table["encoder"] == "trained")
        & labels
    )
    equal = ~table["study"].str.startswith("imbalance")
    return means(table[chosen & equal], ["study", "metric"], "value")


def crossing(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims about a rare feature under a mask, and under pruning.

    The mask is compared with independent noise in each view.
    """
    columns = ["claim_id", "study", "point", "estimate", "ci_low", "ci_high", "n", "verdict"]
    return claims.loc[claims["claim_id"].isin(CROSSING), columns].reset_index(drop=True)


def image_views(table: pd.DataFrame) -> pd.DataFrame:
    """Return means of the digits' features by kind of views, before and after training."""
    return means(table, ["study", "network", "metric"], "value")


TABLES = {
    "augmentation": (("augmentation",), augmentation),
    "crossing": (("claims_wen_li_feature_decoupling",), crossing),
    "image_views": (("augmentation_images",), image_views),
}
