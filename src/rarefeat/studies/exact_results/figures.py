"""A figure for each result: what is measured beside what is stated."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from rarefeat.figures.labels import INTERVALS, STEP, seeds_of
from rarefeat.figures.panels import (
    UNBOUNDED,
    finish_figure,
    label_ends,
    panels,
    plot_lines,
    plot_points,
)
from rarefeat.figures.style import (
    COLUMN,
    FREQUENT,
    GREY,
    PAGE,
    RARE,
    STYLES,
    SeriesStyle,
    sequential_styles,
)
from rarefeat.studies.exact_results.config import TaskMixture
from rarefeat.studies.exact_results.paper_values import OOD_ERM, OOD_NUCLEAR
from rarefeat.workflow.run.job import Job

Tables = Mapping[str, pd.DataFrame]
STATED = SeriesStyle("0", dash=(0, (4, 1.5)))
SHARE = (0.0, 1.0)


def of_quantity(table: pd.DataFrame, quantity: str, setting: str | None = None) -> pd.DataFrame:
    """Return rows of a quantity, of one setting if it is given."""
    rows = table[table["quantity"] == quantity]
    return rows if setting is None else rows[rows["setting"] == setting]


def stated(ax: Axes, rows: pd.DataFrame, x: str = "at", **look: Any) -> None:
    """Plot the stated values over x as one line."""
    means = rows.groupby(x)["stated"].mean()
    ax.plot(means.index, means, **(STATED.line | look))


def named(table: pd.DataFrame, axis: str) -> dict[float, str]:
    """Return settings by their value on an axis of numbers, ascending."""
    values = {
        float(setting.removeprefix(f"{axis}=")): setting for setting in table["setting"].unique()
    }
    return dict(sorted(values.items()))


def looped_transformer(tables: Tables, job: Job) -> Figure:
    """Plot error over loops with its bound, and without rounding (Figure 8.1)."""
    table = tables["looped_transformer"]
    sizes = named(table, "n")
    looks = sequential_styles(sizes)
    figure, axes = panels(1, 2, 2.9)
    left, right = axes[0]
    settings = {setting: looks[n] for n, setting in sizes.items()}
    exact, rounded = of_quantity(table, "log_error"), of_quantity(table, "log_error_rounded")
    plot_lines(left, exact, "at", "value", settings, series_column="setting", band=True)
    for setting, look in settings.items():
        stated(left, exact[exact["setting"] == setting], color=look.colour, lw=0.8)
    dots = {setting: look.without_line for setting, look in settings.items()}
    every = 2 * np.diff(sorted(set(rounded["at"]))).min(initial=1)
    plot_lines(
        left, rounded[rounded["at"] % every == 0], "at", "value", dots, series_column="setting"
    )
    plot_lines(
        right,
        of_quantity(table, "gap"),
        "at",
        "value",
        settings,
        series_column="setting",
        band=True,
        mark_every=4,
    )
    left.set(ylabel="log of the squared error\nover that at the start", ylim=(-140, 4))
    right.set(ylabel="bound minus error (nat)", ylim=(0, None))
    figure.suptitle("The error of the looped transformer, and its bound")
    for ax in (left, right):
        ax.set_xlabel("loops $t$")
    entries = {f"{n:g} examples": look for n, look in looks.items()}
    entries |= {
        r"bound, $-t/\kappa$": STATED,
        "double precision": SeriesStyle("0", "o").without_line,
    }
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}", columns=6)


def low_rank_attention(tables: Tables, job: Job) -> Figure:
    """Plot loss by rank, simulated and in closed form."""
    table = tables["low_rank_attention"]
    signals = named(table, "signal")
    figure, axes = panels(1, len(signals), 2.6, PAGE if len(signals) > 1 else COLUMN)
    look = STYLES[0]
    for ax, (signal, setting) in zip(axes[0], signals.items(), strict=True):
        rows = of_quantity(table, "loss", setting)
        plot_points(ax, rows, "at", "value", look, bounds=(0, np.inf))
        stated(ax, rows)
        ax.set(
            xlabel="rank $r$",
            ylim=(0, None),
            title=f"task in {signal:g} of {int(rows['at'].max())} directions",
        )
    axes[0, 0].set_ylabel("mean squared error")
    figure.suptitle("The error of attention of low rank, simulated and by the theorem")
    entries = {"simulated": look.without_line, "Theorem 5.4.2": STATED}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}")


def spurious_features(tables: Tables, job: Job) -> Figure:
    """Plot accuracy out of domain of instances of Proposition 6.3, with its bound."""
    table = tables["spurious_features"]
    factors = named(table, "factor")
    looks = dict(zip(factors, STYLES[1:], strict=False))
    figure, ((ax,),) = panels(height=2.8)
    for factor, setting in factors.items():
        rows = of_quantity(table, "ood_accuracy", setting)
        ax.plot(rows["at"], rows["value"], **looks[factor].replace(filled=False).without_line.line)
    r = np.linspace(table["at"].min(), table["at"].max(), 50)
    ax.plot(r, np.exp(-r / 10), **STATED.line)
    ax.set(yscale="log", xlabel="invariant features $r$", ylabel="accuracy out of domain")
    entries = {
        rf"penalty {factor:g} $\sqrt{{r}}\,e^{{-\sqrt{{r}}/5}}$": look.without_line
        for factor, look in looks.items()
    }
    entries |= {"bound of the proposition, from above": STATED}
    note = f"{seeds_of(table)}, each an instance of its own"
    return finish_figure(figure, (), entries, note, columns=3)


def task_mixture(tables: Tables, job: Job) -> Figure:
    """Plot weights of a rare and of a frequent task over the frequency of the rare one.

    Inputs: `task_mixture`, or the published means.
    """
    table, study = tables["task_mixture"], job.config_section("task_mixture", TaskMixture)
    share = {
        f"mixture={name}": mixture.weights[-1] / mixture.weights[0]
        for name, mixture in study.mixtures.items()
        if mixture.weights[-1] < mixture.weights[0]
    }
    rows = of_quantity(table, "private_weight")
    rows = rows[rows["setting"].isin(share)]
    last = rows.groupby("setting")["at"].transform("max")
    tasks = {"rare task": rows["at"] == last, "a frequent task": rows["at"] == 1}
    looks = dict(zip(tasks, (SeriesStyle(RARE, "o"), SeriesStyle(FREQUENT, "s")), strict=True))
    figure, ((ax,),) = panels(height=2.5)
    ends = {}
    for name, chosen in tasks.items():
        of_task = rows[chosen].assign(share=rows["setting"].map(share), series=name)
        plot_points(ax, of_task, "share", "value", {name: looks[name]}, bounds=SHARE, dodge=0)
        stated(ax, of_task, "share", color=looks[name].colour)
        stated_values = of_task.sort_values("share")["stated"]
        ends[name] = stated_values.iloc[-1] if len(stated_values) else 0.0, looks[name].colour
    ax.set(
        xlabel=f"frequency of the rare task over that of the others\n{INTERVALS}, "
        f"{seeds_of(rows)}; dashed: Lemma F.3",
        ylabel="weight of private features",
        ylim=(-0.01, None),
        title="Weight of the private features of a rare task and of a frequent one",
    )
    label_ends(ax, ends)
    return figure


def modular_addition(tables: Tables, job: Job) -> Figure:
    """Plot margin and frequencies over training steps."""
    table = tables["modular_addition"]
    settings = list(dict.fromkeys(table["setting"]))
    looks = dict(zip(settings, STYLES[1:], strict=False))
    figure, axes = panels(1, 3, 2.6)
    quantities = (
        ("margin_ratio", "margin over the largest", UNBOUNDED),
        ("one_frequency", "share of neurons\nwith one frequency", SHARE),
        ("phase", "cosine of the phases' sum\nminus the output's", (-1.0, 1.0)),
    )
    for ax, (quantity, label, inside) in zip(axes[0], quantities, strict=True):
        rows = of_quantity(table, quantity)
        plot_lines(
            ax,
            rows[rows["at"] > 0],
            "at",
            "value",
            looks,
            series_column="setting",
            bounds=inside,
            band=True,
            mark_every=2,
        )
        ax.axhline(1, **(STATED.line | {"lw": 0.8}))
        ax.set(xscale="log", xlabel=STEP, ylabel=label)
        ax.xaxis.set_minor_formatter(NullFormatter())
    axes[0, 0].set_ylim(-0.3, 1.05)
    figure.suptitle("Modular addition over training")
    entries = {name_of(setting, job): look for setting, look in looks.items()} | {
        "Theorem 4.9": STATED
    }
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}")


def name_of(setting: str, job: Job) -> str:
    """Return a table of sums in words."""
    definition = job.config["modular_addition"]["tables"][setting.removeprefix("table=")]
    return "{k} numbers modulo {p}, {m} neurons".format(**definition)


def digit_neurons(tables: Tables, job: Job) -> Figure:
    """Plot how clear the clusters of neurons are after training, a row for each initial size.

    Inputs: `digit_neurons`, or the published means.
    """
    table = tables["digit_neurons"]
    names = {setting: f"spread {sigma:g} / 8" for sigma, setting in named(table, "sigma").items()}
    last = table[table["at"] == table["at"].max()]
    last = last.assign(place=last["setting"].map(names))
    figure, axes = panels(1, 2, 0.9 + 0.25 * max(len(names), 2), sharey=True)
    quantities = {
        "silhouette": "silhouette of the best clustering",
        "median_cosine": "median |cosine| with the\ndifference of the class means",
    }
    for ax, (quantity, label) in zip(axes[0], quantities.items(), strict=True):
        rows = of_quantity(last, quantity)
        plot_points(
            ax, rows, "value", "place", STYLES[0], bounds=SHARE, order=list(names.values()),
            horizontal=True,
        )  # fmt: skip
        ax.set(xlim=(-0.02, 1.02), xlabel=label)
    axes[0, 0].axvline(CLEAR, color=GREY, lw=0.7, zorder=0)
    axes[0, 0].set_ylabel("initial weights")
    figure.suptitle(f"How clearly two clusters of neurons are apart (line: {CLEAR:g})")
    figure.supxlabel(f"after {last['at'].max():g} steps; {INTERVALS}, {seeds_of(table)}", size=7.5)
    return figure


CLEAR = 0.25
"""Silhouette from which on clusters are clearly apart."""
MODELS = {"logits": "two logits", "head": "a trained head", "fixed_head": "a head of ones"}


def nuclear_norm(tables: Tables, job: Job) -> Figure:
    """Plot accuracy out of domain over the penalty, a line for each reading of the text.

    Inputs: `nuclear_norm`, or the published means. At the middle number of training samples.
    """
    table = tables["nuclear_norm"]
    keys = table["setting"].str.extract(r"model=(?P<model>\w+)/n=(?P<n>\d+)").astype({"n": int})
    sizes = sorted(keys["n"].unique())
    n = sizes[len(sizes) // 2]
    table = table.assign(series=keys["model"].map(MODELS))[keys["n"] == n]
    rows = of_quantity(table, "ood_accuracy")
    smallest = min((penalty for penalty in rows["at"].unique() if penalty), default=1.0)
    # No penalty has its place left of the smallest one.
    rows = rows.assign(at=rows["at"].clip(lower=smallest / 5))
    styles = dict(zip(MODELS.values(), (STYLES[0], STYLES[2], STYLES[4]), strict=True))
    figure, ((ax,),) = panels(height=2.5)
    plot_lines(ax, rows, "at", "value", styles, bounds=SHARE)
    value = "value" if "value" in rows else "mean"
    last = rows[rows["at"] == rows["at"].max()].groupby("series")[value].mean()
    ends = {name: (last[name], styles[name].colour) for name in last.index}
    for name, accuracy in (
        ("printed, nuclear norm", OOD_NUCLEAR),
        ("printed, no penalty", OOD_ERM),
    ):
        ax.axhline(accuracy, color=GREY, lw=0.8, ls=STATED.dash, zorder=0)
        ends[name] = accuracy, "0.35"
    ax.set(
        xscale="log",
        xlabel=rf"penalty $\lambda$ on the nuclear norm, left: none; {INTERVALS}, {seeds_of(rows)}",
        ylabel="accuracy out of domain",
        ylim=(0.55, 1.02),
        title=f"Accuracy out of domain with {n} training samples, by reading of the text",
    )
    label_ends(ax, ends)
    return figure
