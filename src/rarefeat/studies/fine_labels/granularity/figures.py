"""Figures of a granularity sweep: the error over the number of classes, and over epochs of pretraining, beside the paper's."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, Quantity, seeds_of
from rarefeat.figures.panels import ANYWHERE, beside, estimates, handle, key, letter, marks, panels, zero
from rarefeat.figures.style import LOOKS, PAGE, Look, ordered
from rarefeat.run.job import Job
from rarefeat.studies.fine_labels.granularity.aggregate import BASELINE, less_baseline
from rarefeat.studies.fine_labels.granularity.published import BASELINE as PRINTED
from rarefeat.studies.fine_labels.granularity.published import TABLE_1, TABLE_2

KINDS = {
    "manual": "levels of the hierarchy",
    "clusters": "clusters in a superclass",
    "rebalanced": "rebalanced clusters",
    "whole": "clusters of all images",
    "random": "random in a superclass",
    "sample": "one class an image",
}
OF_KIND = dict(zip(KINDS, LOOKS, strict=False))
READOUTS = {"finetuned": "fine-tuned", "probe": "linear probe"}
DIFFERENCE = Quantity("error less the baseline's (%)")
CLASSES = "classes in pretraining, $G$"
PAPER = "iNaturalist, Hong et al."


def with_difference(errors: pd.DataFrame) -> pd.DataFrame:
    """The rows with their kind of labels and the difference to the baseline in per cent."""
    return errors.assign(kind=errors["labels"].str.partition("-")[0], difference=100 * less_baseline(errors))


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
            over_classes(ax, {kind: means(part[part["kind"] == kind], "labels") for kind in KINDS})
            note(ax, f"{task}, {name}", 100 * part.loc[part["labels"] == BASELINE, "error"].mean())
    for ax in axes[1:, 2]:
        ax.remove()
    over_classes(axes[0, 2], {kind: printed(table) for kind, table in TABLE_1.items()})
    note(axes[0, 2], PAPER, PRINTED[1])
    for ax in axes[:, 0]:
        ax.set_ylabel(DIFFERENCE.symbol)
    for ax in (*axes[-1, :2], axes[0, 2]):
        ax.set_xlabel(CLASSES)
        ax.tick_params(labelbottom=True)
    letter([*axes[0], *axes[1:, :2].flat])
    key(figure, {KINDS[kind]: handle(look) for kind, look in OF_KIND.items()}, note=f"{INTERVALS}, {seeds_of(errors)}")
    return figure


def note(ax: Axes, title: str, baseline: float) -> None:
    """What a panel is of, and what its zero stands for."""
    ax.set_title(f"{title}\nbaseline {baseline:.1f} %")


def means(rows: pd.DataFrame, by: str, value: str = "difference") -> pd.DataFrame:
    """Means over seeds by G, each kind of labels for itself: G of random ones differs between seeds where classes are empty."""
    if rows.empty:
        return pd.DataFrame(columns=["mean", "low", "high", "n"])
    found = estimates(rows, by, value, ANYWHERE)
    return found.set_index(rows.groupby(by)["classes"].mean().rename("classes")).sort_index()


def printed(table: list[tuple[int, float, float]]) -> pd.DataFrame:
    """Numbers of the paper less its baseline, with the printed standard deviation to either side."""
    found = pd.DataFrame(table, columns=["classes", "mean", "sd"]).set_index("classes")
    found["mean"] -= PRINTED[1]
    return found.assign(low=found["mean"] - found["sd"], high=found["mean"] + found["sd"])


def over_classes(ax: Axes, curves: dict[str, pd.DataFrame]) -> None:
    """Each kind of labels over G, side by side where they share one."""
    zero(ax)
    for index, (kind, rows) in enumerate(curves.items()):
        if len(rows):
            x = np.exp(beside(np.log(rows.index.to_numpy(dtype=float)), index, len(curves), 0.12))
            marks(ax, x, rows, OF_KIND[kind], line=len(rows) > 1)
    ax.set_xscale("log")


def checkpoints(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Table 2: the fine-tuned error by epochs of pretraining, a panel for each coarse task, and Table 2 as printed."""
    (errors,) = tables.values()
    rows = errors[errors["readout"] == "finetuned"].assign(error=100 * errors["error"])
    kinds = [BASELINE, *(kind for kind in KINDS if kind in set(rows["labels"].str.partition("-")[0]))]
    # Of each kind the labels with the most classes that are not one an image: the end of its curve.
    looks = {BASELINE: Look("0.55", "v", (0, (1, 1)))} | OF_KIND
    tasks = sorted(rows["superclass"].unique())
    figure, axes = panels(1, len(tasks) + 1, height=2.6, width=PAGE)
    for task, ax in zip(tasks, axes[0], strict=False):
        part = rows[rows["superclass"] == task]
        for index, kind in enumerate(kinds):
            own = part[part["labels"].str.partition("-")[0] == kind]
            largest = own.loc[own["classes"].idxmax(), "labels"]
            curve = estimates(own[own["labels"] == largest], "epoch", "error", (0, 100))
            width = 0.03 * float(np.ptp(rows["epoch"]) or 1) * len(kinds)
            marks(ax, beside(curve.index, index, len(kinds), width), curve, looks[kind])
        ax.set(xlabel="epochs of pretraining", ylabel="error after fine-tuning (%)", title=task)
    last = axes[0, -1]
    for level, look in ordered([classes for classes, _, _ in TABLE_2[90]]).items():
        curve = pd.DataFrame(
            [(epoch, *next(row[1:] for row in table if row[0] == level)) for epoch, table in TABLE_2.items()],
            columns=["epoch", "mean", "sd"],
        ).set_index("epoch")
        marks(
            last, curve.index, curve.assign(low=curve["mean"] - curve["sd"], high=curve["mean"] + curve["sd"]), look, f"{level}"
        )
    last.set(xlabel="epochs of pretraining", title=f"{PAPER}, by $G$", xticks=list(TABLE_2))
    last.legend(ncols=2)
    letter(axes[0])
    names = {BASELINE: "superclasses twice"} | KINDS
    key(
        figure,
        {names[kind]: handle(looks[kind]) for kind in kinds},
        note=f"the most classes of each kind; {INTERVALS}, {seeds_of(errors)}",
    )
    return figure
