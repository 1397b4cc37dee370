"""Figure of the study of the premise of Theorem 3.2."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, n_of
from rarefeat.figures.panels import (
    add_panel_letters,
    draw_zero_line,
    label_ends,
    panels,
    plot_lines,
)
from rarefeat.figures.style import GREY, MASKED, STYLES, SeriesStyle
from rarefeat.run.job import Job
from rarefeat.studies.pruning_premise.changes import KEYS
from rarefeat.studies.pruning_premise.doc_tables import summarise_changes

SERIES = {
    ("pruned_neuron", "unmasked"): "smallest neurons,\neq. (5)",
    ("random_neuron", "unmasked"): "random neurons,\neq. (5)",
    ("pruned_neuron", "straight_through"): "smallest neurons,\nstraight-through",
}
"""Name of each arm and update in the figure; the oracle runs away, and is in the table alone."""
LOOKS = (
    SeriesStyle(MASKED, "o"),
    SeriesStyle(GREY, "s", (0, (4, 1.5))),
    STYLES[5].replace(dash=(0, (1, 1))),
)
STYLES_OF = dict(zip(SERIES.values(), LOOKS, strict=True))
LITTLE = 0.02
"""Change of R^2 that the title calls none, and half the range of its axis."""


def premise(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw changes from dense over how pure the initial weights are, where all else is one.

    Inputs: `premise_replicas`, or the published changes.
    """
    (table,) = tables.values()
    table = table if "quantity" in table else summarise_changes(table)
    names = [SERIES.get(pair) for pair in zip(table["arm"], table["pruned_update"], strict=True)]
    table = table.assign(series=names).dropna(subset="series")
    regime = [key for key in KEYS if key != "purity"]
    # Pure weights at the point where weights are mixed continue its lines.
    mixed = table.loc[table["purity"] < 1, regime].drop_duplicates()
    rows = table.merge(mixed, on=regime)
    lead, r2 = (rows[rows["quantity"] == name] for name in ("lead", "r2"))
    figure, axes = panels(1, 2, height=2.5)
    left, right = axes[0]
    for ax, changes in ((left, lead), (right, r2)):
        plot_lines(ax, changes, "purity", "value", STYLES_OF)
        draw_zero_line(ax)
        ax.set_xlabel("share of the premise in the initial weights")
    left.set_ylabel("strength of the rare feature,\nchange in doublings")
    reach = max(LITTLE, r2[["ci_low", "ci_high"]].abs().max().max()) if len(r2) else LITTLE
    right.set(ylabel="$R^2$ of a linear probe\nof it, change", ylim=(-1.05 * reach, 1.05 * reach))
    last = lead[lead["purity"] == lead["purity"].max()].set_index("series")["mean"]
    ends = {name: (mean, STYLES_OF[name].colour) for name, mean in last.items()}
    label_ends(left, ends, least=0.2)
    add_panel_letters(axes[0])
    figure.suptitle(summarise_premise(lead, r2))
    figure.supxlabel(f"minus dense at the same seed, {INTERVALS}, {n_of(*rows['n'])}", size=7.5)
    return figure


def summarise_premise(lead: pd.DataFrame, r2: pd.DataFrame) -> str:
    """Say in one line whether pruning by the premise is shown to strengthen the feature, and more.

    Parameters
    ----------
    lead, r2 : DataFrame
        Changes of the strength and of a probe's R^2, by series and purity.
    """
    smallest = SERIES["pruned_neuron", "unmasked"]
    pure = lead[(lead["series"] == smallest) & (lead["purity"] == lead["purity"].max())]
    if len(pure) and (pure["ci_low"] > 0).all():
        words = "Where its premise holds, pruning by eq. (5) strengthens the rare feature"
        ends = np.abs(r2[["ci_low", "ci_high"]].to_numpy())
        return words + ("; a probe reads it no better" if ends.max(initial=0) < LITTLE else "")
    return "Pruning by the premise: strength of the rare feature, and what a probe reads"
