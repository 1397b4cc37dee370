"""Figures of a granularity sweep: errors by number of classes, and by epochs.

The last panel of each is the paper's. Captions are in `fine_labels/declaration.py`.
"""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.chain.tables import PAIRED
from rarefeat.figures.labels import INTERVALS, Quantity, seeds_of
from rarefeat.figures.panels import ESTIMATED, draw_zero_line, finish_figure, panels, plot_lines
from rarefeat.figures.style import STYLES, SeriesStyle, sequential_styles
from rarefeat.run.job import Job
from rarefeat.studies.fine_labels.granularity.aggregate import BASELINE, subtract_baseline
from rarefeat.studies.fine_labels.granularity.paper_values import BASELINE as PAPER_BASELINE
from rarefeat.studies.fine_labels.granularity.paper_values import TABLE_1, TABLE_2

KINDS = {
    "manual": "levels of the hierarchy",
    "clusters": "clusters in a superclass",
    "rebalanced": "rebalanced clusters",
    "whole": "clusters of all images",
    "random": "random in a superclass",
    "sample": "one class an image",
}
KIND_STYLES = dict(zip(KINDS, STYLES, strict=False))
READOUTS = {"finetuned": "fine-tuned", "probe": "linear probe"}
DIFFERENCE = Quantity("error minus the baseline's (%)")
CLASSES = "classes in pretraining, $G$"
PAPER = "iNaturalist, Hong et al."


def add_difference(errors: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the kind of labels and the difference to the baseline (%).

    From a table of replicas or from published means.
    """
    if "seed" in errors:
        columns = {"difference": 100 * subtract_baseline(errors)}
    else:
        pairs = zip(ESTIMATED, PAIRED, strict=True)
        columns = {"error": errors["mean"]} | {name: 100 * errors[paired] for name, paired in pairs}
    return errors.assign(kind=errors["labels"].str.partition("-")[0], **columns)


def granularity(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the difference to the baseline against G by kind of labels, as Figure 5.

    A row for each coarse task, and Table 1 as printed. Inputs: `STUDY_errors`, or the published
    means. Config: none.
    """
    (errors,) = tables.values()
    rows = add_difference(errors)
    rows = rows[rows["epoch"] == rows["epoch"].max()]
    tasks = sorted(rows["superclass"].unique())
    figure, axes = panels(len(tasks), 3, height=0.5 + 1.9 * len(tasks), sharex="col")
    for task, line in zip(tasks, axes, strict=True):
        for (readout, name), ax in zip(READOUTS.items(), line, strict=False):
            chosen = rows[(rows["superclass"] == task) & (rows["readout"] == readout)]
            # G of random labels differs between seeds where classes are empty: its mean over them.
            mean_classes = chosen.groupby("labels")["classes"].transform("mean")
            plot_by_classes(ax, chosen.assign(classes=mean_classes))
            baseline = chosen.loc[chosen["labels"] == BASELINE, "error"].mean()
            set_title(ax, f"{task}, {name}", 100 * baseline)
    for ax in axes[1:, 2]:
        ax.remove()
    printed = (printed_rows(table).assign(kind=kind) for kind, table in TABLE_1.items())
    plot_by_classes(axes[0, 2], pd.concat(printed))
    set_title(axes[0, 2], PAPER, PAPER_BASELINE[1])
    for ax in axes[:, 0]:
        ax.set_ylabel(DIFFERENCE.symbol)
    for ax in (*axes[-1, :2], axes[0, 2]):
        ax.set_xlabel(CLASSES)
        ax.tick_params(labelbottom=True)
    entries = {KINDS[kind]: style for kind, style in KIND_STYLES.items()}
    return finish_figure(
        figure, [*axes[0], *axes[1:, :2].flat], entries, f"{INTERVALS}, {seeds_of(errors)}"
    )


def set_title(ax: Axes, title: str, baseline: float) -> None:
    """Set the title of a panel.

    Parameters
    ----------
    ax : Axes
        Panel.
    title : str
        Title.
    baseline : float
        Error of the baseline (%), which is the zero of the panel.
    """
    ax.set_title(f"{title}\nbaseline {baseline:.1f} %")


def printed_rows(
    table: list[tuple[int, float, float]], baseline: float = PAPER_BASELINE[1]
) -> pd.DataFrame:
    """Return numbers of the paper minus a baseline, with one standard deviation either way."""
    rows = pd.DataFrame(table, columns=["classes", "mean", "sd"])
    rows["mean"] -= baseline
    return rows.assign(ci_low=rows["mean"] - rows["sd"], ci_high=rows["mean"] + rows["sd"])


def plot_by_classes(ax: Axes, rows: pd.DataFrame) -> None:
    """Plot differences of each kind of labels against G."""
    draw_zero_line(ax)
    plot_lines(ax, rows, "classes", "difference", KIND_STYLES, series_column="kind")
    ax.set_xscale("log")


def checkpoints(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the fine-tuned error against epochs of pretraining, as Table 2.

    A panel for each coarse task, and Table 2 as printed. Inputs: `STUDY_errors`, or the published
    means. Config: none.
    """
    (errors,) = tables.values()
    values = ["error"] if "seed" in errors else ESTIMATED
    rows = errors[errors["readout"] == "finetuned"].assign(
        **{name: 100 * errors[name] for name in values}
    )
    rows = rows.assign(kind=rows["labels"].str.partition("-")[0])
    kinds = set(rows["kind"])
    styles = {BASELINE: SeriesStyle("0.55", "v", (0, (1, 1)))}
    styles |= {kind: style for kind, style in KIND_STYLES.items() if kind in kinds}
    tasks = sorted(rows["superclass"].unique())
    figure, axes = panels(1, len(tasks) + 1, height=2.6)
    for task, ax in zip(tasks, axes[0], strict=False):
        of_task = rows[rows["superclass"] == task]
        # The labels with the most classes of each kind, the end of its curve over G.
        largest = {
            of_task.loc[group["classes"].idxmax(), "labels"] for _, group in of_task.groupby("kind")
        }
        chosen = of_task[of_task["labels"].isin(largest)]
        plot_lines(ax, chosen, "epoch", "error", styles, series_column="kind", bounds=(0, 100))
        ax.set(xlabel="epochs of pretraining", ylabel="error after fine-tuning (%)", title=task)
    last = axes[0, -1]
    level_styles = sequential_styles([classes for classes, _, _ in TABLE_2[90]])
    printed = (printed_rows(table, 0).assign(epoch=epoch) for epoch, table in TABLE_2.items())
    plot_lines(last, pd.concat(printed), "epoch", "error", level_styles, series_column="classes")
    last.set(xlabel="epochs of pretraining", title=f"{PAPER}, by $G$", xticks=list(TABLE_2))
    names = {BASELINE: "superclasses twice"} | KINDS
    entries = {names[kind]: style for kind, style in styles.items()}
    letter = "abcdefgh"[len(tasks)]
    entries |= {f"{letter}: $G$ = {classes}": style for classes, style in level_styles.items()}
    note = f"the most classes of each kind; {INTERVALS}, {seeds_of(errors)}"
    return finish_figure(figure, axes[0], entries, note)
