"""Published tables of augmentation, from which docs/studies/augmentation.md is filled in."""

import pandas as pd

from rarefeat.studies.augmentation import augmentation, means


def crossing(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims about a rare feature under a mask, beside noise, and under pruning."""
    columns = ["claim_id", "study", "point", "estimate", "ci_low", "ci_high", "n", "verdict"]
    chosen = claims["claim_id"].isin(["crossing-mask", "crossing-pruning"])
    return claims.loc[chosen, columns].reset_index(drop=True)


def image_views(table: pd.DataFrame, units: pd.DataFrame, coloured: bool = False) -> pd.DataFrame:
    """Return means of metrics of grey images, and of the firing rates of the last block."""
    last = units[units["layer"] == units.loc[units["layer"] != "stem", "layer"].max()]
    rates = last.groupby(["study", "network", "seed"])["firing_rate"].mean()
    of_colour = table.loc[table["metric"] == "colour_invariance", "study"].unique()
    rows = pd.concat([table, rates.reset_index(name="value").assign(metric="firing_rate")])
    return means(rows[rows["study"].isin(of_colour) == coloured], "study", "network")


def photograph_views(table: pd.DataFrame, units: pd.DataFrame) -> pd.DataFrame:
    """Return the same of images with colour."""
    return image_views(table, units, coloured=True)


VIEWED = "augmentation_images", "augmentation_images_units"
TABLES = {
    "augmentation": (("augmentation",), augmentation),
    "crossing": (("claims_wen_li_feature_decoupling",), crossing),
    "image_views": (VIEWED, image_views),
    "photograph_views": (VIEWED, photograph_views),
}
