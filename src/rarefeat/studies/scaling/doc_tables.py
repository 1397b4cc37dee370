"""Tables from which docs/studies/theory.md is filled in."""

import pandas as pd


def lucky(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of lucky neurons at each size."""
    return table[
        ["d", "ratio", "lucky_probability", "lucky_ci_low", "lucky_ci_high", "ordinary_features"]
    ]


def trained(table: pd.DataFrame) -> pd.DataFrame:
    """Compute means over seeds of the sizes that were trained."""
    keys = ["d", "m", "d1_power", "ratio"]
    neurons = ["lucky_minority_neurons", "pure_minority_neurons", "single_minority_neurons"]
    counted = [*neurons, "learned_features", "lucky_pure_share"]
    means = table.groupby(keys)[counted].mean()
    return means.assign(n=table.groupby(keys)["seed"].nunique()).reset_index()


TABLES = {
    "scaling_exponents": (("scaling_exponents",), pd.DataFrame.copy),
    "lucky_sets": (("lucky_sets",), lucky),
    "scaling_sizes": (("scaling",), trained),
}
