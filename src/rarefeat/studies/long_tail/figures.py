"""The figure of long-tailed images: what each mask gains over dense, a row for each mask."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, KEY_WORDS, arm_name, n_of
from rarefeat.figures.panels import ESTIMATED, add_legend, draw_zero_line, panels, plot_points
from rarefeat.figures.style import MASKED, NARROW, SeriesStyle, sequential_styles
from rarefeat.stages.tables import PAIRED
from rarefeat.workflow.config.images import ImageArm

METRICS = {"accuracy": "all classes", "many": "most frequent third", "few": "rarest third"}
"""Metrics of the linear probe on balanced images: of all classes where no thirds are known."""
BALANCED = "as many images, balanced"


def longtail(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot the gain of each mask over dense at the same seed; last, dense on balanced images."""
    (table,) = tables.values()
    if "probe" in table:
        rows = table[table["probe"] == "balanced"]
        arms = rows[list(ImageArm.model_fields)].to_dict("records")
        rows = rows.assign(arm=[ImageArm(**arm).label for arm in arms])
    else:
        rows = table.assign(metric=table["metric"].str.removeprefix("balanced_"))
    rows = rows[rows["metric"].isin(list(METRICS))].dropna(subset="paired_difference")
    rows = rows.assign(
        place=name_rows(rows),
        series=rows["rho"],
        **{name: 100 * rows[paired] for name, paired in zip(ESTIMATED, PAIRED, strict=True)},
    )
    ratios = sorted(rows["rho"].unique())
    shown = [name for name in ("many", "few") if name in set(rows["metric"])] or ["accuracy"]
    # Sorted by the rarest classes; the balanced images come last.
    sizes = rows[rows["metric"] == shown[-1]].groupby(["split", "place"])["mean"].mean()
    order = list(sizes.reset_index().sort_values(["split", "mean"], ascending=False)["place"])
    looks = sequential_styles(ratios) if len(ratios) > 1 else {}
    looks = looks or dict.fromkeys(ratios, SeriesStyle(MASKED, "o"))
    figure, axes = panels(
        1, len(shown), 1.1 + 0.12 * (1 + len(ratios)) * max(len(order), 2), NARROW, sharey=True
    )
    for ax, metric in zip(axes[0], shown, strict=True):
        plot_points(
            ax, rows[rows["metric"] == metric], "value", "place", looks, order=order,
            horizontal=True,
        )  # fmt: skip
        draw_zero_line(ax, vertical=True)
        ax.locator_params(axis="x", nbins=6)
        ax.set(title=METRICS[metric], xlabel="change (points)")
    names = {rho: rf"imbalance $\rho$ = {rho:g}" for rho in ratios}
    note = f"minus dense at the same seed,\n{INTERVALS}, {n_of(*rows['n'])}"
    figure.suptitle(f"Change of accuracy by each method on {', '.join(rows['dataset'].unique())}")
    if len(ratios) == 1:
        figure.supxlabel(f"{names[ratios[0]]}, {note}", size=7)
    else:
        add_legend(figure, {names[rho]: looks[rho].without_line for rho in ratios}, note)
    return figure


def name_rows(rows: pd.DataFrame) -> list[str]:
    """Return the name of each row: its arm, the share that it masks, and what differs else."""
    names = []
    for row in rows.to_dict("records"):
        words = [BALANCED if row["split"] == "balanced" else arm_name(row["arm"])]
        words += [KEY_WORDS["alpha"](row["alpha"])] * (row["alpha"] > 0 and "=" not in row["arm"])
        words += [f"width {row['width']}"] * (rows["width"].nunique() > 1)
        names.append(", ".join(words))
    return names
