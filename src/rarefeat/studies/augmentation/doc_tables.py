"""Tables from which docs/studies/augmentation.md is filled in."""

import pandas as pd

from rarefeat.figures.labels import quantity
from rarefeat.statistics import student_interval

SHOWN = ["growth_over_closed_form", "pull_features", "lucky_above_threshold_at_T1",
         "lucky_focus_at_T2", "share_features", "share_colour", "covered_features",
         "features_per_neuron", "noise_cosine", "bias_share", "likeness_to_supervised",
         "regression_error"]  # fmt: skip
CROSSING = ["crossing-mask", "crossing-pruning"]


def means(table: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    """Compute the mean of a column over seeds with its interval, by some keys."""
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
    """Return every quantity of the page by study, of the dense arm at equal frequencies, with heads
    of the most labels.
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


def image_views(table: pd.DataFrame, units: pd.DataFrame) -> pd.DataFrame:
    """Return means of the features of grey images by kind of views, before and after training."""
    return mean_features(table, units, coloured=False)


def photograph_views(table: pd.DataFrame, units: pd.DataFrame) -> pd.DataFrame:
    """Return the same of images with colour."""
    return mean_features(table, units, coloured=True)


def mean_features(table: pd.DataFrame, units: pd.DataFrame, coloured: bool) -> pd.DataFrame:
    """Return means of metrics, and of the firing rates of the last block, over seeds."""
    keys = ["study", "network", "seed"]
    last = units[units["layer"] == units.loc[units["layer"] != "stem", "layer"].max()]
    rates = last.groupby(keys)["firing_rate"].mean().reset_index(name="value")
    of_colour = table.loc[table["metric"] == "colour_invariance", "study"].unique()
    rows = pd.concat([table, rates.assign(metric="firing_rate")])
    rows = rows[rows["study"].isin(of_colour) == coloured]
    return means(rows, ["study", "network", "metric"], "value")


TABLES = {
    "augmentation": (("augmentation",), augmentation),
    "crossing": (("claims_wen_li_feature_decoupling",), crossing),
    "image_views": (("augmentation_images", "augmentation_images_units"), image_views),
    "photograph_views": (("augmentation_images", "augmentation_images_units"), photograph_views),
}
