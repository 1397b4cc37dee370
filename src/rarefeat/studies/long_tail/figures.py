"""Figures of long-tailed images: gains by pruning, accuracies, and training.

Gains are against rho, over training and by class size.
"""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import (
    INTERVALS,
    KEYS,
    Quantity,
    add_series_column,
    arm_label,
    n_of,
    quantity,
)
from rarefeat.figures.panels import (
    ESTIMATED,
    draw_zero_line,
    finish_figure,
    panels,
    plot_lines,
    plot_points,
)
from rarefeat.figures.style import STYLES, SeriesStyle, assign_styles
from rarefeat.run.job import Job

DENSE = "dense"
BALANCED = ", balanced images"
ENOUGH = 3


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a column `series`.

    It is the human-readable arm, and whether it was pretrained on balanced images.
    """
    table = add_series_column(table, ("alpha", "pruned_update", "threshold", "width"))
    balanced = table["split"] == "balanced"
    return table.assign(series=table["series"].mask(balanced, table["series"] + BALANCED))


def longtail(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot gains, two metrics of the balanced probe, and kNN accuracy of one data set.

    The gains are paired by seed; kNN accuracy is over training.
    """
    summary, trajectories = tables.values()
    summary, trajectories = named(summary[summary["probe"] == "balanced"]), named(trajectories)
    styles = series_looks(sorted({*summary["series"], *trajectories["series"]}))
    ratios = sorted(summary["rho"].unique())
    figure, axes = panels(2, 2, 4.6)
    for ax, metric, gain in (
        (axes[0, 0], "accuracy", True),
        (axes[0, 1], "delta_20", True),
        (axes[1, 0], "accuracy", False),
    ):
        plotted: Quantity = quantity(metric)
        column, low, high = (
            ("paired_difference", "paired_ci_low", "paired_ci_high")
            if gain
            else ("mean", "ci_low", "ci_high")
        )
        rows = summary[summary["metric"] == metric].dropna(subset=[column])
        rows = rows[["series", "rho", column, low, high]].set_axis(
            ["series", "rho", *ESTIMATED], axis=1
        )
        shown = {name: look for name, look in styles.items() if name in set(rows["series"])}
        # Places by order: the values of rho are few and far apart.
        plot_points(ax, rows, "rho", "value", shown, dodge=0.6, order=ratios)
        if gain:
            draw_zero_line(ax)
        ax.set_ylabel(("gain over dense, same seed:\n" if gain else "") + plotted.symbol)
        ax.set_xlabel(r"imbalance ratio $\rho$")
        ax.set_xticks(range(len(ratios)), [f"{rho:g}" for rho in ratios])
        ax.set_xlim(-0.5, len(ratios) - 0.5)
    ax, rho = axes[1, 1], trajectories["rho"].max()
    rows = trajectories[(trajectories["metric"] == "knn_accuracy") & (trajectories["rho"] == rho)]
    every = max(rows["epoch"].nunique() // 5, 1)
    plot_lines(
        ax,
        rows,
        "epoch",
        "value",
        styles,
        bounds=quantity("knn_accuracy").range,
        band=True,
        mark_every=every,
    )
    ax.set(xlabel="epoch", ylabel="accuracy of nearest\n" + rf"neighbours, $\rho$ = {rho:g}")
    entries = {arm_label(name): look for name, look in styles.items()}
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {n_of(*summary['n'].unique())}", columns=3
    )


def gains(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot the few-shot probe over training, its gain over dense, and the gain by class size.

    They are at the largest rho, a column for each update. Below ENOUGH class orders bands are
    their range: the interval of two values is thirteen times as wide as they are apart.
    """
    trajectories, classes = tables.values()
    trajectories = trajectories[trajectories["metric"] == "few_shot_accuracy"]
    course, of_class = (
        labelled(table[table["rho"] == table["rho"].max()])
        for table in (
            trajectories,
            classes[classes["probe"] == "balanced"].rename(columns={"accuracy": "value"}),
        )
    )
    sizes = course[course["split"] == "long_tailed"]
    updates = sorted(set(sizes[sizes["arm"] != DENSE]["update"]))
    fixed = {DENSE: STYLES[0], DENSE + BALANCED: SeriesStyle("0.5", "", (0, (2, 1)))}
    styles = assign_styles([DENSE, *sorted(set(course["label"]) - {DENSE})], fixed)
    images = of_class[of_class["split"] == "long_tailed"].groupby("rank")["count"].mean()
    of_class = of_class.assign(images=of_class["rank"].map(images))
    rows = (
        (course, "epoch", quantity("accuracy").range, "few-shot probe,\naccuracy"),
        (over_dense(course, "epoch"), "epoch", (-1, 1), "few-shot probe,\ngain over dense"),
        (over_dense(of_class, "images"), "images", (-1, 1), "linear probe, gain\nover dense"),
    )
    names = {"epoch": "epoch", "images": "pretraining images of the class"}
    orders = course["seed"].nunique()
    figure, axes = panels(len(rows), len(updates), 1.6 * len(rows) + 0.8, sharey="row")
    for line, (table, x, ends, label) in zip(axes, rows, strict=True):
        gain = table is not course
        table = table[table["label"] != DENSE] if gain else table
        for ax, update in zip(line, updates, strict=True):
            rows_of_update = table[table["update"].isin([update, ""])]
            every = max(rows_of_update[x].nunique() // 5, 1)
            centre = "mean" if orders >= ENOUGH else "range"
            plot_lines(
                ax,
                rows_of_update,
                x,
                "value",
                styles,
                series_column="label",
                bounds=ends,
                estimator=centre,
                band=True,
                mark_every=every,
            )
            if gain:
                draw_zero_line(ax)
            if x == "images":
                ax.set_xscale("log")
            ax.set_xlabel(names[x])
        line[0].set_ylabel(label)
    for ax, update in zip(axes[0], updates, strict=True):
        ax.set_title(arm_label(update))
    shown = {arm_label(name): look for name, look in styles.items()}
    spread = INTERVALS if orders >= ENOUGH else "mean and range of the class orders"
    return finish_figure(figure, axes.flat, shown, f"{spread}, {n_of(orders)}", columns=4)


def labelled(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with columns `update` and `label`.

    `update` is the arm with its update, empty for dense; `label` is what else distinguishes its
    series.
    """
    masked = table[table["arm"] != DENSE]
    several = [name for name in ("alpha", "threshold", "width") if masked[name].nunique() > 1]

    def label(row: dict) -> str:
        """Return the label of a row."""
        if row["arm"] == DENSE:
            words = [BALANCED.strip(", ")] if row["split"] == "balanced" else []
            words += [KEYS["width"](row["width"])] if "width" in several else []
            return ", ".join([DENSE, *words])
        shown = [
            KEYS[name](row[name])
            for name in several
            if name != "threshold" or row[name] != "global"
        ]
        return ", ".join(shown) or "pruned"

    rows = table.to_dict("records")
    update = add_series_column(table, ("pruned_update",))["series"].mask(table["arm"] == DENSE, "")
    return table.assign(update=update, label=[label(row) for row in rows])


def over_dense(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return each value less that of dense on long-tailed images, at its width and seed."""
    keys = ["width", "seed", column]
    dense = table[(table["arm"] == DENSE) & (table["split"] == "long_tailed")].set_index(keys)[
        "value"
    ]
    return table.assign(
        value=table["value"].to_numpy()
        - dense.loc[pd.MultiIndex.from_frame(table[keys])].to_numpy()
    )


def series_looks(names: list[str]) -> dict[str, SeriesStyle]:
    """Return the style of every series, dense first.

    Series of balanced images look as on long-tailed ones, but hollow.
    """
    styles = assign_styles(
        [DENSE, *(name for name in names if not name.endswith(BALANCED) and name != DENSE)]
    )
    for name in names:
        if name.endswith(BALANCED):
            styles[name] = styles.get(name.removesuffix(BALANCED), SeriesStyle("0.5", "o")).replace(
                filled=False, dash=(0, (2, 1))
            )
    return {name: look for name, look in styles.items() if name in names}
