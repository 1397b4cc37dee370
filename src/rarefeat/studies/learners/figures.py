"""Figure of the study of learners."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import EPS
from rarefeat.figures.panels import panels
from rarefeat.figures.style import GREY, QUALITATIVE
from rarefeat.statistics import student_interval
from rarefeat.workflow.run.job import Job

PAPER = "infonce"
"""The learner that every other one is held against."""
LABELS = {
    "infonce": "InfoNCE",
    "symmetric": "symmetric InfoNCE",
    "nt_xent": "NT-Xent",
    "spectral": "the spectral loss",
    "barlow_twins": "Barlow Twins",
    "vicreg": "VICReg",
    "supervised": "a supervised loss",
    "relu": "ReLU neurons",
    "linear": "linear neurons",
    "mlp": "two layers",
    "attention": "trained attention",
    "momentum": "momentum",
    "adam": "Adam",
    "adamw": "AdamW",
}
"""Words for the one thing in which a learner differs from the paper's."""
LOOKS = {
    ("returning", "readout"): {"color": QUALITATIVE[0], "marker": "o", "offset": -0.24},
    ("returning", "cosine"): {"color": QUALITATIVE[0], "marker": "o", "mfc": "w", "offset": -0.08},
    ("fresh", "readout"): {"color": QUALITATIVE[4], "marker": "s", "offset": 0.08},
    ("fresh", "cosine"): {"color": QUALITATIVE[4], "marker": "s", "mfc": "w", "offset": 0.24},
}
"""Style and offset within a row, by kind of pairs and measure."""
PAIRS = {"returning": "pairs that come back", "fresh": "pairs seen once"}
MEASURES = {"readout": "a linear readout", "cosine": "one neuron"}
ENDS = {"at most": "<", "above": ">"}
"""Markers of frequencies beyond the grid."""


BEFORE = "before training"


def describe_learner(learner: str) -> str:
    """Return the words for a learner; the name of a user's own."""
    return LABELS.get(learner, learner.replace("_", " "))


def lockout(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw from which frequency on each learner learns, and how well it learns frequent features.

    Config: `order`, the learners from the top. Tables: frequencies, learners and rates of a study.
    """
    untrained = pd.DataFrame(columns=["learner", "eta", "r2"])
    frequencies, learners, rates = (
        next((table for name, table in tables.items() if name.endswith(suffix)), untrained)
        for suffix in ("_frequencies", "_learners", "_rates")
    )
    # A published table has no value where a run's has an empty text.
    frequencies = frequencies.fillna({"bound": ""})
    order = job.config_section("order", list[str])
    figure, ((ax, right),) = panels(
        1, 2, 0.9 + 0.27 * len(order), sharey=True, width_ratios=[2.2, 1]
    )
    for (pairs, measure), look in LOOKS.items():
        rows = frequencies.query("pairs == @pairs and measure == @measure").dropna()
        plot_frequencies(ax, rows, order, f"{PAIRS[pairs]}, by {MEASURES[measure]}", look)
    names = [
        f"{describe_learner(name)}, the paper's" if name == PAPER else describe_learner(name)
        for name in order
    ]
    ax.set(
        yticks=range(len(order)),
        yticklabels=names,
        xlabel=f"{EPS}\nfrom which half of the runs pass",
    )
    ax.set_title("the rare feature", loc="left")
    base = frequencies.query("learner == @PAPER and pairs == 'returning' and measure == 'readout'")
    for row in base.dropna().itertuples():
        ax.axvspan(row.ci_low, row.ci_high, color="0.9", lw=0, zorder=0)
    figure.suptitle("Relative frequency from which half of the runs pass a test")
    ax.invert_yaxis()
    for row, name in enumerate(order):
        before = rates.loc[(rates["learner"] == name) & (rates["eta"] == 0), "r2"]
        if len(before):
            right.plot(before.mean(), row, "x", color=GREY, label="_" * bool(row) + BEFORE)
        for pairs, group in learners[learners["learner"] == name].groupby("pairs"):
            look = LOOKS[pairs, "readout"]
            mean, _, low, high, _ = student_interval(group["r2_frequent"].to_numpy())
            right.errorbar(
                mean, row + look["offset"], xerr=[[mean - low], [high - mean]],
                color=look["color"], marker=look["marker"], label="_" * bool(row) + pairs,
            )  # fmt: skip
    right.set(xlabel="$R^2$ of a readout", xlim=(min(0, *right.get_xlim()), 1))
    right.set_title("the frequent features", loc="left")
    n = int(frequencies["n"].max()) if len(frequencies) else 0
    entries = zip(*ax.get_legend_handles_labels(), strict=True)
    before = [
        (handle, label)
        for handle, label in zip(*right.get_legend_handles_labels(), strict=True)
        if label == BEFORE
    ]
    handles, labels = zip(*entries, *before, strict=True)
    figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=3,
        title=f"95 % interval over {n} seeds; an arrow: beyond the grid",
    )
    return figure


def plot_frequencies(
    ax: Axes, rows: pd.DataFrame, order: list[str], label: str, look: Mapping
) -> None:
    """Draw the frequencies of one kind of pairs and one measure."""
    style = {key: value for key, value in look.items() if key != "offset"}
    for index, row in enumerate(rows.to_dict("records")):
        y, x = order.index(row["learner"]) + look["offset"], row["frequency"]
        errors = np.clip([[x - row["ci_low"]], [row["ci_high"] - x]], 0, None)
        marker = {"marker": ENDS[row["bound"]]} if row["bound"] else {}
        name = "_" * bool(index) + label
        ax.errorbar(x, y, xerr=errors, ls="none", **(style | marker))
        if not index:
            ax.plot([], [], ls="none", label=name, **style)
