"""What docs/studies/augmentation.md is filled in from."""

import pandas as pd

from rarefeat.core.statistics import student_interval
from rarefeat.figures.labels import quantity

SHOWN = ["growth_over_closed_form", "pull_features", "lucky_above_threshold_at_T1", "lucky_focus_at_T2", "share_features",
         "share_colour", "covered_features", "features_per_neuron", "noise_cosine", "bias_share", "likeness_to_supervised",
         "regression_error"]  # fmt: skip
CROSSING = ["crossing-mask", "crossing-pruning"]


def means(table: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    """Mean of a column over seeds with its interval, by some keys, of which one is the metric."""
    found = []
    for key, part in table.groupby(keys):
        at = dict(zip(keys, key, strict=True))
        mean, _, low, high, n = student_interval(
            part[value].to_numpy(), inside=quantity(at["metric"]).range
        )
        if n:
            found.append({**at, "mean": mean, "ci_low": low, "ci_high": high, "n": n})
    return pd.DataFrame(found)


def augmentation(table: pd.DataFrame) -> pd.DataFrame:
    """Of the dense arm at equal frequencies: every quantity of the page, by study; heads with the most labels."""
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
    """A rare feature under a mask against noise of its own, and under pruning: the measured differences."""
    columns = ["claim_id", "study", "point", "estimate", "ci_low", "ci_high", "n", "verdict"]
    return claims.loc[claims["claim_id"].isin(CROSSING), columns].reset_index(drop=True)


def image_views(table: pd.DataFrame) -> pd.DataFrame:
    """What the digits' features hold, by kind of views, before and after training."""
    return means(table, ["study", "network", "metric"], "value")


TABLES = {
    "augmentation": (("augmentation",), augmentation),
    "crossing": (("claims_wen_li_feature_decoupling",), crossing),
    "image_views": (("augmentation_images",), image_views),
}
