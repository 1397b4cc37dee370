"""Figures of a granularity sweep: the error over the number of classes, and over epochs of pretraining, beside the paper's."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.chain.tables import PAIRED
from rarefeat.figures.labels import INTERVALS, Quantity, seeds_of
from rarefeat.figures.panels import ESTIMATED, draw_zero_line, finish_figure, panels, plot_lines
from rarefeat.figures.style import STYLES, SeriesStyle, sequential_styles
from rarefeat.run.job import Job
from rarefeat.studies.fine_labels.granularity.aggregate import BASELINE, less_baseline
from rarefeat.studies.fine_labels.granularity.paper_values import BASELINE as PRINTED
from rarefeat.studies.fine_labels.granularity.paper_values import TABLE_1, TABLE_2

KINDS = {
    "manual": "levels of the hierarchy",
    "clusters": "clusters in a superclass",
    "rebalanced": "rebalanced clusters",
    "whole": "clusters of all images",
    "random": "random in a superclass",
    "sample": "one class an image",
}
OF_KIND = dict(zip(KINDS, STYLES, strict=False))
READOUTS = {"finetuned": "fine-tuned", "probe": "linear probe"}
DIFFERENCE = Quantity("error minus the baseline's (%)")
CLASSES = "classes in pretraining, $G$"
PAPER = "iNaturalist, Hong et al."


def with_difference(errors: pd.DataFrame) -> pd.DataFrame:
    """The rows with their kind of labels, and the difference to the baseline in per cent, of replicas or as estimated."""
    if "seed" in errors:
        own = {"difference": 100 * less_baseline(errors)}
    else:
        pairs = zip(ESTIMATED, PAIRED, strict=True)
        own = {"error": errors["mean"]} | {name: 100 * errors[paired] for name, paired in pairs}
    return errors.assign(kind=errors["labels"].str.partition("-")[0], **own)


def granularity(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Figure 5: difference to the baseline over G by kind of labels; a row for each coarse task, and Table 1 as printed."""
    (errors,) = tables.values()
    rows = with_difference(errors)
    last = rows[rows["epoch"] == rows["epoch"].max()]
    tasks = sorted(last["superclass"].unique())
    figure, axes = panels(len(tasks), 3, height=0.5 + 1.9 * len(tasks), sharex="col")
    for task, line in zip(tasks, axes, strict=True):
        for (readout, name), ax in zip(READOUTS.items(), line, strict=False):
            part = last[(last["superclass"] == task) & (last["readout"] == readout)]
            # G of random labels differs between seeds where classes are empty: its mean over them.
            over_classes(
                ax, part.assign(classes=part.groupby("labels")["classes"].transform("mean"))
            )
            note(ax, f"{task}, {name}", 100 * part.loc[part["labels"] == BASELINE, "error"].mean())
    for ax in axes[1:, 2]:
        ax.remove()
    over_classes(
        axes[0, 2], pd.concat(printed(table).assign(kind=kind) for kind, table in TABLE_1.items())
    )
    note(axes[0, 2], PAPER, PRINTED[1])
    for ax in axes[:, 0]:
        ax.set_ylabel(DIFFERENCE.symbol)
    for ax in (*axes[-1, :2], axes[0, 2]):
        ax.set_xlabel(CLASSES)
        ax.tick_params(labelbottom=True)
    entries = {KINDS[kind]: look for kind, look in OF_KIND.items()}
    return finish_figure(
        figure, [*axes[0], *axes[1:, :2].flat], entries, f"{INTERVALS}, {seeds_of(errors)}"
    )


def note(ax: Axes, title: str, baseline: float) -> None:
    """What a panel is of, and what its zero stands for."""
    ax.set_title(f"{title}\nbaseline {baseline:.1f} %")


def printed(table: list[tuple[int, float, float]], baseline: float = PRINTED[1]) -> pd.DataFrame:
    """Numbers of the paper less its baseline, with the printed standard deviation to either side."""
    found = pd.DataFrame(table, columns=["classes", "mean", "sd"])
    found["mean"] -= baseline
    return found.assign(ci_low=found["mean"] - found["sd"], ci_high=found["mean"] + found["sd"])


def over_classes(ax: Axes, rows: pd.DataFrame) -> None:
    """Each kind of labels over G."""
    draw_zero_line(ax)
    plot_lines(ax, rows, "classes", "difference", OF_KIND, by="kind")
    ax.set_xscale("log")


def checkpoints(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Table 2: the fine-tuned error by epochs of pretraining, a panel for each coarse task, and Table 2 as printed."""
    (errors,) = tables.values()
    values = ["error"] if "seed" in errors else ESTIMATED
    rows = errors[errors["readout"] == "finetuned"].assign(
        **{name: 100 * errors[name] for name in values}
    )
    rows = rows.assign(kind=rows["labels"].str.partition("-")[0])
    looks = {BASELINE: SeriesStyle("0.55", "v", (0, (1, 1)))}
    looks |= {kind: look for kind, look in OF_KIND.items() if kind in set(rows["kind"])}
    tasks = sorted(rows["superclass"].unique())
    figure, axes = panels(1, len(tasks) + 1, height=2.6)
    for task, ax in zip(tasks, axes[0], strict=False):
        part = rows[rows["superclass"] == task]
        # Of each kind the labels with the most classes that are not one an image: the end of its curve.
        largest = {part.loc[own["classes"].idxmax(), "labels"] for _, own in part.groupby("kind")}
        plot_lines(
            ax,
            part[part["labels"].isin(largest)],
            "epoch",
            "error",
            looks,
            by="kind",
            inside=(0, 100),
        )
        ax.set(xlabel="epochs of pretraining", ylabel="error after fine-tuning (%)", title=task)
    last = axes[0, -1]
    levels = sequential_styles([classes for classes, _, _ in TABLE_2[90]])
    every = pd.concat(printed(table, 0).assign(epoch=epoch) for epoch, table in TABLE_2.items())
    plot_lines(last, every, "epoch", "error", levels, by="classes")
    last.set(xlabel="epochs of pretraining", title=f"{PAPER}, by $G$", xticks=list(TABLE_2))
    names = {BASELINE: "superclasses twice"} | KINDS
    entries = {names[kind]: look for kind, look in looks.items()}
    entries |= {
        f"{'abcdefgh'[len(tasks)]}: $G$ = {classes}": look for classes, look in levels.items()
    }
    return finish_figure(
        figure, axes[0], entries, f"the most classes of each kind; {INTERVALS}, {seeds_of(errors)}"
    )
