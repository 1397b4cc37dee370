"""A figure for each result: what is measured beside what is stated."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from rarefeat.figures.labels import INTERVALS, STEP, seeds_of
from rarefeat.figures.panels import UNBOUNDED, finish_figure, panels, plot_lines, plot_points
from rarefeat.figures.style import COLUMN, GREY, PAGE, STYLES, SeriesStyle, sequential_styles
from rarefeat.run.job import Job
from rarefeat.studies.exact_results.config import TaskMixture
from rarefeat.studies.exact_results.paper_values import AGREES, OOD_ERM, OOD_NUCLEAR

Tables = Mapping[str, pd.DataFrame]
STATED = SeriesStyle("0", dash=(0, (4, 1.5)))
SHARE = (0.0, 1.0)


def of_quantity(table: pd.DataFrame, quantity: str, setting: str | None = None) -> pd.DataFrame:
    """Return rows of a quantity, of one setting if it is given.

    Parameters
    ----------
    table : pd.DataFrame
        Table of a result.
    quantity : str
        Name of the quantity.
    setting : str or None
        Name of the setting; all if none is given.
    """
    rows = table[table["quantity"] == quantity]
    return rows if setting is None else rows[rows["setting"] == setting]


def stated(ax: Axes, rows: pd.DataFrame, x: str = "at", **look: Any) -> None:
    """Plot the stated values over x as one line.

    Parameters
    ----------
    ax : Axes
        Axes.
    rows : pd.DataFrame
        Rows of a quantity.
    x : str
        Column of the horizontal axis.
    look : Any
        Changes of the line's style.
    """
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
    left.set(
        ylabel=r"$\log\ \|\theta^{(t)}-\theta^*\|^2 / \|\theta^{(0)}-\theta^*\|^2$", ylim=(-140, 4)
    )
    right.set(ylabel=r"$-t/\kappa$ minus that (nat)", ylim=(0, None))
    for ax in (left, right):
        ax.set_xlabel("loops $t$")
    entries = {f"{n:g} examples": look for n, look in looks.items()}
    entries |= {
        r"bound $-t/\kappa$": STATED,
        "double precision": SeriesStyle("0", "o").without_line,
    }
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}", columns=6)


def low_rank_attention(tables: Tables, job: Job) -> Figure:
    """Plot loss by rank, simulated and in closed form."""
    table = tables["low_rank_attention"]
    signals = named(table, "signal")
    figure, axes = panels(1, len(signals), 2.6, PAGE if len(signals) > 1 else COLUMN)
    look = STYLES[1]
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
    entries = {"simulated": look.without_line, "Theorem 5.4.2": STATED}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}")


def spurious_features(tables: Tables, job: Job) -> Figure:
    """Plot accuracy out of domain and ratio of weights of instances of Proposition 6.3.

    With their bounds.
    """
    table = tables["spurious_features"]
    factors = named(table, "factor")
    looks = {
        factor: look.replace(filled=False).without_line
        for factor, look in zip(factors, STYLES[1:], strict=False)
    }
    figure, axes = panels(1, 2, 2.9)
    left, right = axes[0]
    for factor, setting in factors.items():
        ood = of_quantity(table, "ood_accuracy", setting)
        left.plot(ood["at"], -np.log10(ood["value"]), **looks[factor].line)
        ratio = of_quantity(table, "alpha_over_beta", setting)
        right.plot(0.75 / ratio["stated"], ratio["value"], **looks[factor].line)
    r = np.linspace(ood["at"].min(), ood["at"].max(), 50)
    left.plot(r, r / 10 / np.log(10), **STATED.line)
    gamma = np.linspace((0.75 / ratio["stated"]).min(), 0.5, 50)
    right.plot(gamma, 0.75 / gamma, **STATED.line)
    limit = SeriesStyle(GREY)
    right.plot(gamma, 0.5 / gamma, **limit.line)
    left.set(
        yscale="log",
        xlabel="invariant features $r$",
        ylabel="$-\\log_{10}$ of the accuracy\nout of domain",
    )
    left.set_title("at least what is stated", loc="right")
    right.set(xlabel=r"$\gamma$ of the spurious features", ylabel=r"$\alpha / \beta$")
    entries = {
        rf"$\lambda$ = {factor:g} $\sqrt{{r}}\,e^{{-\sqrt{{r}}/5}}$": look
        for factor, look in looks.items()
    }
    entries |= {"bound": STATED, r"b: $1 / (2\gamma)$": limit}
    return finish_figure(
        figure, axes.flat, entries, f"{seeds_of(table)}, each an instance of its own", columns=3
    )


def task_mixture(tables: Tables, job: Job) -> Figure:
    """Plot weights over the frequency of the rare task, and fine-tuning over its radius.

    And errors of probes.
    """
    table, study = tables["task_mixture"], job.config_section("task_mixture", TaskMixture)
    figure, axes = panels(1, 3, 2.9)
    left, middle, right = axes[0]
    rare, frequent = STYLES[1], STYLES[2]
    share = {
        f"mixture={name}": mixture.weights[-1] / mixture.weights[0]
        for name, mixture in study.mixtures.items()
        if mixture.weights[-1] < mixture.weights[0]
    }
    rows = of_quantity(table, "private_weight")
    rows = rows[rows["setting"].isin(share)]
    rows = rows.assign(
        share=rows["setting"].map(share),
        last=rows["at"] == rows.groupby("setting")["at"].transform("max"),
    )
    by_seed = rows.groupby(["last", "share", "seed"])[["value", "stated"]].mean().reset_index()
    plot_points(
        left,
        by_seed,
        "share",
        "value",
        {True: rare, False: frequent},
        series_column="last",
        bounds=SHARE,
        dodge=0,
    )
    for last, look in ((True, rare), (False, frequent)):
        stated(left, by_seed[by_seed["last"] == last], "share", color=look.colour)
    left.set(xlabel="frequency of the rare task\nover that of the others", ylim=(-0.01, None))
    left.set_ylabel(r"weight of private features $\alpha_t$")

    tuned = of_quantity(table, "tuned_root_weight")
    several = sequential_styles(tuned["setting"].unique())
    plot_points(
        middle, tuned, "at", "value", several, series_column="setting", bounds=SHARE, dodge=0
    )
    for setting, look in several.items():
        stated(middle, tuned[tuned["setting"] == setting], color=look.colour)
    middle.set(
        xlabel=r"radius of fine-tuning $\gamma$", ylabel=r"$\sqrt{\beta}$ of the target's features"
    )

    of_last = of_quantity(table, "risk_last")
    errors = pd.concat([of_quantity(table, "risk_first"), of_last[of_last["setting"].isin(share)]])
    labels = sorted(errors["at"].unique())
    settings = [
        name for name in dict.fromkeys(errors["setting"]) if name.startswith("mixture=even_")
    ]
    series = {
        f"one of {name.removeprefix('mixture=even_')}": (name, "risk_first") for name in settings
    }
    series |= {f"rare, {share[name]:g}": (name, "risk_last") for name in list(share)[-2:]}
    of_task = dict(zip(series, STYLES, strict=False))
    names = {pair: name for name, pair in series.items()}
    series_of_row = [
        names.get(pair) for pair in zip(errors["setting"], errors["quantity"], strict=True)
    ]
    plot_lines(
        right, errors.assign(series=series_of_row), "at", "value", of_task, bounds=(0, np.inf)
    )
    right.set(
        xlabel="labels $m$",
        ylabel="error of the probe,\nover that of answering 0",
        xticks=labels,
        ylim=(-0.02, None),
    )
    entries = {"a: rare task": rare.without_line, "a: others": frequent.without_line}
    entries |= {
        f"b: $T$ = {setting.removeprefix('mixture=even_')}": look.without_line
        for setting, look in several.items()
    }
    entries |= {
        f"c: {name} task{'s' if 'one of' in name and not name.endswith(' 1') else ''}": look
        for look, name in zip(STYLES, series, strict=False)
    }
    entries["closed form"] = STATED
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}", columns=4)


def modular_addition(tables: Tables, job: Job) -> Figure:
    """Plot margin and frequencies over training steps."""
    table = tables["modular_addition"]
    settings = list(dict.fromkeys(table["setting"]))
    looks = dict(zip(settings, STYLES[1:], strict=False))
    figure, axes = panels(1, 3, 2.6)
    quantities = (
        ("margin_ratio", r"margin over $\gamma^*$", UNBOUNDED),
        ("one_frequency", "share of neurons\nwith one frequency", SHARE),
        ("phase", "mean cosine of the phases'\nsum minus that of $w$", (-1.0, 1.0)),
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
    entries = {name_of(setting, job): look for setting, look in looks.items()} | {
        "Theorem 4.9": STATED
    }
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}")


def name_of(setting: str, job: Job) -> str:
    """Return a table of sums in words."""
    definition = job.config["modular_addition"]["tables"][setting.removeprefix("table=")]
    return rf"$k$ = {definition['k']}, $p$ = {definition['p']}, $m$ = {definition['m']}"


def digit_neurons(tables: Tables, job: Job) -> Figure:
    """Plot clusters of neurons over training steps."""
    table = tables["digit_neurons"]
    sizes = named(table, "sigma")
    looks = sequential_styles(sizes)
    figure, axes = panels(1, 3, 2.6)
    quantities = (
        ("clusters", "clusters of the\nlargest silhouette", (2.0, 8.0)),
        ("silhouette", "their silhouette", (-1.0, 1.0)),
        ("median_cosine", "median |cosine| to the\ndifference of the class means", SHARE),
    )
    for ax, (quantity, label, inside) in zip(axes[0], quantities, strict=True):
        rows = of_quantity(table, quantity)
        styles = {setting: looks[sigma] for sigma, setting in sizes.items()}
        plot_lines(
            ax,
            rows.assign(at=rows["at"] + 1),
            "at",
            "value",
            styles,
            series_column="setting",
            bounds=inside,
            band=True,
            mark_every=2,
        )
        ax.set(xscale="log", xlabel="training step $t$ + 1", ylabel=label)
    axes[0, 0].set_ylim(1.5, 8.5)
    axes[0, 1].axhline(0.25, color=GREY, lw=0.7, zorder=0)
    for ax in axes[0, 1:]:
        ax.set_ylim(0, 1)
    entries = {rf"$\sigma$ = {sigma:g} / 8": look for sigma, look in looks.items()}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}")


MODELS = {"logits": "two logits", "head": "trained head", "fixed_head": "head of ones"}


def nuclear_norm(tables: Tables, job: Job) -> Figure:
    """Plot accuracy out of domain over the penalty by reading, and the line of all rules."""
    table = tables["nuclear_norm"]
    axes_of_setting = (
        table["setting"].str.extract(r"model=(?P<model>\w+)/n=(?P<n>\d+)").astype({"n": int})
    )
    table = table.join(axes_of_setting)
    models = list(dict.fromkeys(table["model"]))
    sizes = sequential_styles(sorted(table["n"].unique()))
    figure, axes = panels(1, len(models) + 1, 2.8)
    smallest = min((penalty for penalty in table["at"].unique() if penalty), default=1.0)
    for ax, model in zip(axes[0], models, strict=False):
        rows = of_quantity(table[table["model"] == model], "ood_accuracy")
        # No penalty has its place left of the smallest one.
        plot_lines(
            ax,
            rows.assign(at=rows["at"].clip(lower=smallest / 5)),
            "at",
            "value",
            sizes,
            series_column="n",
            bounds=SHARE,
        )
        ax.axhline(OOD_ERM, color=GREY, lw=0.7, ls=STATED.dash)
        ax.axhline(OOD_NUCLEAR, color=GREY, lw=0.7)
        ax.set(
            xscale="log",
            xlabel=r"penalty $\lambda$ (left: none)",
            title=MODELS[model],
            ylim=(0.55, 1.01),
        )
    axes[0, 0].set_ylabel("accuracy out of domain")
    line_of_rules(axes[0, -1], table)
    entries = {f"{n} training samples": look for n, look in sizes.items()}
    entries |= {
        "printed, ERM": SeriesStyle(GREY, dash=STATED.dash),
        "printed, nuclear norm": SeriesStyle(GREY),
        "every rule": STATED,
    }
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(table)}", columns=3)


def line_of_rules(ax: Axes, table: pd.DataFrame) -> None:
    """Plot both accuracies of every rule that was learned, and of every slope."""
    keys = ["setting", "seed", "at"]
    both = [
        of_quantity(table, f"{domain}_accuracy").set_index(keys)["value"]
        for domain in ("id", "ood")
    ]
    ax.plot(*both, ls="none", marker=".", ms=2, color=STYLES[6].colour)
    t = np.linspace(0, 1, 2)
    ax.plot(1 - t * (1 - AGREES) / 2, 1 - t * AGREES / 2, **STATED.line)
    for accuracy in (OOD_ERM, OOD_NUCLEAR):
        ax.plot(1.0, accuracy, marker="x", color="0", ls="none")
    ax.set(
        xlabel="accuracy in domain",
        ylabel="accuracy out of domain",
        title="all rules",
        xlim=(0.84, 1.01),
        ylim=(0.6, 1.01),
    )
