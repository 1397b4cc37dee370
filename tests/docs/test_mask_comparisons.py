"""Changes by masks on the page of selection: by kind, without duplicates, and corrected."""

import pandas as pd

from mask_comparisons import OTHER, count_masks


def test_masks_are_counted_by_kind_without_duplicates_and_corrected():
    def row(arm, mean, half, diverged=0):
        ends = {"ci_low": mean - half, "ci_high": mean + half}
        cell = {"point": "share=0.2", "eps_min": 0.7, "quantity": "gain"}
        return {**cell, "arm": arm, "mean": mean, **ends, "n": 30, "diverged": diverged}

    rows = [
        row("norm-onset=92", 0.0, 0.0),
        row("norm-stop-onset=92", 0.0, 0.0),
        row("oracle_all-onset=92", -0.2, 0.02, diverged=3),
        row("random-onset=92", 0.01, 0.009),
        row("effective_rate-onset=92", 0.2, 0.02),
    ]
    counts = count_masks(pd.DataFrame(rows)).set_index("kind")
    assert counts.loc["magnitude pruning"].tolist() == [1, 0, 0, 0]
    assert counts.loc["oracles"].tolist() == [1, 0, 1, 1]
    assert counts.loc[OTHER].tolist() == [1, 1, 0, 0]
    # Alone its interval does not hold 0; as one of four comparisons it shows nothing.
    assert counts.loc["random neurons, a control"].tolist() == [1, 0, 0, 0]
