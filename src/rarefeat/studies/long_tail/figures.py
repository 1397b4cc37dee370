"""The figure of long-tailed images: what each mask gains over dense, a row for each mask."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, KEY_WORDS, arm_name, n_of
from rarefeat.figures.panels import ESTIMATED, draw_zero_line, panels, plot_points, title_with_key
from rarefeat.figures.style import FREQUENT, NARROW, RARE, SeriesStyle, sequential_styles
from rarefeat.stages.tables import PAIRED
from rarefeat.workflow.config.images import ImageArm

THIRDS = {"few": "rarest third", "many": "most frequent third"}
"""Metrics of the linear probe on balanced images; `accuracy` is of all classes."""
LOOKS = {
    "rarest third": SeriesStyle(RARE, "s"),
    "most frequent third": SeriesStyle(FREQUENT, "D", filled=False),
}
BALANCED = "no mask, balanced images"


def longtail(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot the gain of each mask, and of balanced images, over dense at the same seed.

    A series is a third of the classes; of all classes, where there are several imbalances, one.
    """
    (table,) = tables.values()
    if "probe" in table:
        rows = table[table["probe"] == "balanced"]
        arms = rows[list(ImageArm.model_fields)].to_dict("records")
        rows = rows.assign(arm=[ImageArm(**arm).label for arm in arms])
    else:
        rows = table.assign(metric=table["metric"].str.removeprefix("balanced_"))
    rows = rows.dropna(subset="paired_difference")
    ratios = sorted(rows["rho"].unique())
    if len(ratios) == 1 and "few" in set(rows["metric"]):
        looks, where = LOOKS, rf"imbalance $\rho$ = {ratios[0]:g}, "
        rows = rows.assign(series=rows["metric"].map(THIRDS)).dropna(subset="series")
    else:
        names = {rho: rf"$\rho$ = {rho:g}" for rho in ratios}
        looks = dict(zip(names.values(), sequential_styles(ratios).values(), strict=True))
        where = r"imbalance $\rho$, "
        rows = rows[rows["metric"] == "accuracy"]
        rows = rows.assign(series=rows["rho"].map(names))
    rows = rows.assign(
        place=name_rows(rows),
        **{name: 100 * rows[paired] for name, paired in zip(ESTIMATED, PAIRED, strict=True)},
    )
    means = rows.pivot_table("mean", "place", "series")[list(looks)]
    means = means.sort_values(next(iter(looks)), ascending=False)
    dodge, height = 0.2 * len(looks), 0.9 + 0.11 * (1 + len(looks)) * max(len(means), 2)
    figure, ((ax,),) = panels(height=height, width=NARROW)
    plot_points(
        ax, rows, "value", "place", looks, order=list(means.index), horizontal=True, dodge=dodge
    )
    for label in ax.get_yticklabels():
        label.set_style("italic" if "at random" in label.get_text() else "normal")
    draw_zero_line(ax, vertical=True)
    ax.set_xlabel("change of accuracy (points)")
    dataset = ", ".join(rows["dataset"].unique())
    title_with_key(figure, f"Change of accuracy against the unpruned network, on {dataset}", looks)
    figure.supxlabel(f"{where}difference at the same seed,\n{INTERVALS}, {n_of(*rows['n'])}")
    return figure


def name_rows(rows: pd.DataFrame) -> list[str]:
    """Return the name of each row: its arm, the share that it masks, and what differs else."""
    names = []
    for row in rows.to_dict("records"):
        words = [BALANCED if row["split"] == "balanced" else arm_name(row["arm"])]
        words += [KEY_WORDS["alpha"](row["alpha"])] * (row["alpha"] > 0 and "=" not in row["arm"])
        words += [f"width {row['width']}"] * (rows["width"].nunique() > 1)
        names.append(", ".join(words).replace(" masked", ""))
    return names
