"""Figure of the study of the premise of Theorem 3.2."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.core.statistics import student_interval
from rarefeat.figures.panels import (
    add_legend,
    add_panel_letters,
    draw_zero_line,
    panels,
    plot_lines,
)
from rarefeat.figures.style import MARKERS, QUALITATIVE, SeriesStyle
from rarefeat.run.job import Job
from rarefeat.studies.pruning_premise.changes import KEYS, changes_from_dense

SERIES = {
    ("pruned_neuron", "unmasked"): "smallest neurons, eq. (5)",
    ("random_neuron", "unmasked"): "random neurons, eq. (5)",
    ("pruned_neuron", "straight_through"): "smallest, straight-through",
}
"""Name of each arm and update in the figure; the oracle runs away, and is in the table alone."""
STYLES = {
    name: SeriesStyle(QUALITATIVE[i], MARKERS[i], dash)
    for i, (name, dash) in enumerate(
        zip(SERIES.values(), ("-", (0, (4, 1.5)), (0, (1, 1))), strict=True)
    )
}
LEAD = "$\\log_2$ strength beside the\nothers', minus dense"


def premise(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw changes from dense over the premise, and over how pure the initial weights are."""
    table = changes_from_dense(tables["premise_replicas"])
    names = [SERIES.get(pair) for pair in zip(table["arm"], table["pruned_update"], strict=True)]
    table = table.assign(series=names).dropna(subset="series")
    pure = table[table["purity"] == 1]
    mixed = table[table["purity"] < 1]
    regime = [key for key in KEYS if key != "purity"]
    # Pure weights at the point where weights are mixed continue its lines.
    between = table.merge(mixed[regime].drop_duplicates(), on=regime)
    figure, axes = panels(1, 3, height=2.5)
    left, middle, right = axes[0]
    for (_, name), group in pure.groupby([pure[KEYS].apply(tuple, axis=1), "series"]):
        mean, _, low, high, _ = student_interval(group["lead"].to_numpy())
        style = STYLES[name].line | {"ls": "none"}
        left.errorbar(group["premise"].mean(), mean, [[mean - low], [high - mean]], **style)
    left.set(xlabel="share of the smallest neurons\nthat are the rare feature's", ylabel=LEAD)
    for ax, column, label in (
        (middle, "lead", LEAD),
        (right, "r2", "$R^2$ of a probe of the\nrare feature, minus dense"),
    ):
        plot_lines(ax, between, "purity", column, STYLES)
        ax.set(xlabel="initial weights:\ndrawn (0) to pure (1)", ylabel=label)
    for ax in axes[0]:
        draw_zero_line(ax)
    add_panel_letters(axes[0])
    add_legend(figure, STYLES)
    return figure
