"""Figures of the two-layer study, for the settings of the job by name."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, STEP, display_name, n_of, seeds_of
from rarefeat.figures.panels import (
    ESTIMATED,
    add_legend,
    finish_figure,
    label_ends,
    panels,
    plot_lines,
)
from rarefeat.figures.style import COLUMN, GREY, PAGE, STYLES, SeriesStyle, sequential_styles
from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.compare import compared
from rarefeat.studies.two_layer.config import Problem, Setting
from rarefeat.studies.two_layer.paper_values import COLUMNS
from rarefeat.workflow.run.job import Job

# An arm has one look in all figures of the study; fixed features are grey.
OF_ARM = {
    "network": STYLES[0],
    "network-printed": STYLES[6],
    "network-weighted": STYLES[4],
    "ntk": STYLES[1],
    "random_features": SeriesStyle(GREY, "v", (0, (1, 1))),
    "two_step": STYLES[2],
    "two_step-weighted": STYLES[5],
}
NAMES = {
    "network": "network",
    "network-printed": "network, printed steps",
    "network-weighted": "network, class weights",
    "network-no_structure": "network, inputs without structure",
    "ntk": "tangent kernel",
    "random_features": "random features",
    "one_step": "one step",
    "two_step": "two steps",
    "two_step-weighted": "two steps, class weights",
}
OVER_STEPS = ("network", "network-printed", "network-weighted", "ntk", "random_features")
SHARE = (0.0, 1.0)


def settings_of(job: Job) -> dict[str, Setting]:
    """Return the settings that a figure shows."""
    return job.config_section("settings", dict[str, Setting])


def stairs_of(problem: Problem) -> dict[int, float]:
    """Return the accuracies below 1 that a parity's score reaches with 1, 3, ... sign changes; none
    for other labels.
    """
    if problem.labels != "parity":
        return {}
    law = theory.parity_counts(problem.k, problem.p_o, problem.negatives or 0.5)
    return {changes: theory.staircase(*law, changes) for changes in range(1, problem.k, 2)}


def accuracy_over_steps(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot test accuracy over steps as in Figures 2.1, A.1, A.3, A.5, A.7, A.9, with structure
    above and without below.
    """
    settings = settings_of(job)
    rows = tables["two_layer"].query("quantity == 'curve' and setting in @settings")
    figure, axes = panels(
        2, len(settings), 4.2, PAGE if len(settings) > 1 else COLUMN, sharey=True, sharex="col"
    )
    for column, (setting, definition) in enumerate(settings.items()):
        for line, suffix in enumerate(("", "-no_structure")):
            ax = axes[line, column]
            shown = {arm + suffix: OF_ARM[arm] for arm in OVER_STEPS}
            plot_lines(
                ax,
                rows[rows["setting"] == setting],
                "step",
                "value",
                shown,
                series_column="arm",
                bounds=SHARE,
                band=True,
                mark_every=8,
            )
            mark_stairs(ax, stairs_of(definition.problem) if not suffix else {})
            ax.set_title(f"{display_name(setting)}, {'no structure' if suffix else 'structured'}")
        axes[1, column].set_xlabel(STEP)
    for ax in axes[:, 0]:
        ax.set(ylabel="test accuracy", ylim=(0, 1.03))
    arms = (arm for arm in OVER_STEPS if rows["arm"].isin([arm, f"{arm}-no_structure"]).any())
    shown = {NAMES[arm]: OF_ARM[arm] for arm in arms}
    return finish_figure(figure, axes.flat, shown, f"{INTERVALS}, {seeds_of(rows)}", columns=3)


def mark_stairs(ax: Axes, stairs: dict[int, float]) -> None:
    """Mark the best accuracies of scores with few sign changes."""
    for height in stairs.values():
        ax.axhline(height, color=GREY, lw=0.7, zorder=0)


def staircase(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot every seed's test accuracy over steps on a logarithmic axis, at the first setting.

    The network and the tangent kernel have a panel each, with the stairs where runs can pause
    (theory.staircase).
    """
    setting, definition = next(iter(settings_of(job).items()))
    rows = tables["two_layer"].query("quantity == 'curve' and setting == @setting and step > 0")
    figure, axes = panels(1, 2, 2.4, sharey=True)
    for ax, arm in zip(axes[0], ("network", "ntk"), strict=True):
        for _, run in rows[rows["arm"] == arm].sort_values("step").groupby("seed"):
            ax.plot(run["step"], run["value"], color=OF_ARM[arm].colour, lw=0.6, alpha=0.7)
        mark_stairs(ax, stairs_of(definition.problem))
        ax.set(xscale="log", xlabel=STEP, title=f"{NAMES[arm]}, {display_name(setting)}")
    axes[0, 0].set(ylabel="test accuracy")
    stairs = {"best with one sign change, and with three": SeriesStyle(GREY)}
    return finish_figure(figure, (), stairs, f"each of {seeds_of(rows)}")


def printed_beside_measured(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot each number of Tables A.1-A.5 as measured over as printed."""
    (table,) = tables.values()
    # The published table has the last step alone.
    both = compared(table if "step" in table else table.assign(step=0))
    both = both[both["mean"].notna() & both["printed"].notna()]
    styles = dict(zip(COLUMNS, STYLES, strict=False))
    figure, axes = panels(1, 2, 3.6)
    quantities = {"test_accuracy": "test accuracy", "cosine": "best cosine of a neuron"}
    for ax, (quantity, label) in zip(axes[0], quantities.items(), strict=True):
        rows = both[both["quantity"] == quantity]
        ax.plot([0, 1], [0, 1], color=GREY, lw=0.7)
        for column, of_column in rows.groupby("column"):
            mean, low, high = (of_column[name] for name in ESTIMATED)
            errors = np.clip([mean - low, high - mean], 0, None)
            ax.errorbar(
                of_column["printed"], mean, errors, elinewidth=0.8,
                **styles[column].without_line.line,
            )  # fmt: skip
        ax.set(
            xlim=(-0.04, 1.06), ylim=(-0.04, 1.06), xlabel=f"{label}, printed",
            ylabel="measured", aspect="equal",
        )  # fmt: skip
    entries = {NAMES[arm]: styles[column].without_line for column, arm in COLUMNS.items()}
    n = int(both["n"].max()) if len(both) else 0
    add_legend(figure, entries, f"{INTERVALS} of {n_of(n)}", columns=3)
    return figure


MARKS = {
    ("neuron", 0): {
        "marker": ".",
        "color": "#56B4E9",
        "s": 10,
        "label": "neuron",
    },
    ("neuron", 1): {
        "marker": "o",
        "color": "#D55E00",
        "s": 12,
        "label": "near a target at the last step",
    },
    ("target", 0): {
        "marker": "*",
        "color": "#000000",
        "s": 90,
        "edgecolors": "white",
        "label": "direction of the labels, $E[y\\phi]$",
    },
    ("opposite", 0): {
        "marker": "*",
        "color": "white",
        "s": 90,
        "edgecolors": "black",
        "label": "its opposite",
    },
    ("positive", 0): {
        "marker": "^",
        "color": "#000000",
        "s": 30,
        "edgecolors": "white",
        "label": "centre of class $+1$",
    },
    ("negative", 0): {
        "marker": "v",
        "color": "white",
        "s": 30,
        "edgecolors": "black",
        "label": "centre of class $-1$",
    },
}


def neurons(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot embeddings of the neurons' cosines by step for one seed (Figures 2.2, A.2, A.4, A.6,
    A.8, A.10-A.12).

    Rows are with structure above, and without below where there is such an arm.
    """
    (setting,) = settings_of(job)
    pictures = tables["two_layer_pictures"]
    pictures = pictures[pictures["setting"] == setting]
    arms = [
        arm
        for arm in ("network", "network-plain", "network-no_structure")
        if arm in set(pictures["arm"])
    ]
    steps = sorted(pictures["step"].unique())
    figure, axes = panels(len(arms), len(steps), 2.4 * len(arms) + 0.3)
    entries = {}
    for line, arm in zip(axes, arms, strict=True):
        for ax, step in zip(line, steps, strict=True):
            selected = pictures[(pictures["arm"] == arm) & (pictures["step"] == step)]
            for kind, look in MARKS.items():
                points = selected[(selected["kind"] == kind[0]) & (selected["near"] == kind[1])]
                if len(points):
                    entries[look["label"]] = ax.scatter(
                        points["x"], points["y"], linewidths=0.5, **look
                    )
            reach = 1.1 * selected[["x", "y"]].abs().to_numpy().max()
            ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
            ax.set_title(f"step {step}, {int((selected['kind'] == 'neuron').sum())} neurons")
        line[0].set_ylabel("no structure" if "no_structure" in arm else "structured")
    return finish_figure(figure, axes.flat, entries, "one seed")


TICKETS = {
    "random": "random",
    "kink": "random with a kink inside the counts",
    "norm": "largest norm",
    "effective_rate": "largest effective rate",
}
"""Names of the rules that choose neurons."""


def tickets(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot test accuracy of sub-networks of step 2 over their number of neurons.

    They are trained alone (Proposition B.1).
    """
    looks = {"random": SeriesStyle(GREY, "v", (0, (1, 1)))} | dict(
        zip(("kink", "norm", "effective_rate"), STYLES, strict=False)
    )
    settings, rows = settings_of(job), tables["two_layer"]
    tickets_only = rows[
        rows["arm"].str.match(r"ticket-\w+-\d+$") & (rows["quantity"] == "test_accuracy")
    ]
    tickets_only = tickets_only.assign(
        score=tickets_only["arm"].str.split("-").str[1],
        size=tickets_only["arm"].str.split("-").str[2].astype(int),
    )
    figure, axes = panels(1, len(settings), 2.6, PAGE if len(settings) > 1 else COLUMN, sharey=True)
    for ax, setting in zip(axes[0], settings, strict=True):
        plot_lines(
            ax,
            tickets_only[tickets_only["setting"] == setting],
            "size",
            "value",
            looks,
            series_column="score",
            bounds=SHARE,
        )
        ax.set(xlabel="neurons kept", title=display_name(setting), ylim=(0.4, 1.03))
    axes[0, 0].set_ylabel("test accuracy")
    entries = {name: looks[score] for score, name in TICKETS.items()}
    figure.suptitle("A few neurons of the second step, trained alone")
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(tickets_only)}", columns=2
    )


def lower_bounds(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot hinge losses of heads on random features with the lower bounds of Theorem 2.2."""
    ((name, setting),) = settings_of(job).items()
    problem, rows = setting.problem, tables["two_layer"]
    rows = rows[(rows["setting"] == name) & (rows["step"] == setting.T)]
    fixed = rows[rows["arm"].str.match(r"random_features(-\d+)?$")]
    wide = fixed.pivot_table(index=["arm", "seed"], columns="quantity", values="value")[
        ["hinge_loss", "head_norm"]
    ].dropna()
    count = (
        wide.index.get_level_values("arm")
        .str.extract(r"(\d+)$")[0]
        .astype(float)
        .fillna(setting.m)
        .to_numpy()
    )
    x, loss = np.sqrt(count) * wide["head_norm"].to_numpy(), wide["hinge_loss"].to_numpy()
    figure, ((ax,),) = panels(height=2.8)
    looks = sequential_styles(sorted(set(count)))
    for N, look in looks.items():
        ax.plot(x[count == N], loss[count == N], **look.without_line.line)
    line = np.geomspace(1, 10 * x.max(initial=1), 200)
    bounds = {
        "lower bound, mean over $A$": theory.fixed_feature_bound_mean(
            1, line, problem.D, problem.k, problem.p_o
        ),
        "Theorem 2.2, some $A$": theory.fixed_feature_bound(1, line, problem.k, problem.p_o),
    }
    entries = {f"{N:g} random features": look.without_line for N, look in looks.items()}
    for (text, bound), dash in zip(bounds.items(), ("-", (0, (4, 1.5))), strict=True):
        entries[text] = SeriesStyle("0", dash=dash)
        ax.plot(line[bound > 0], bound[bound > 0], **entries[text].line)
    ax.set(
        xscale="log",
        ylim=(0, None),
        xlabel=r"$\sqrt{N}\,B$: features $N$, norm $B$ of the head",
        ylabel="hinge loss",
    )
    return finish_figure(figure, (), entries, f"each of {seeds_of(fixed)}", columns=3)


def rare_patterns(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot accuracy on the samples that a rare relevant pattern decides, over its frequency."""
    rows, settings = tables["two_layer"], settings_of(job)
    frequency = {name: min(setting.problem.frequency) for name, setting in settings.items()}
    rows = rows[rows["setting"].isin(settings) & (rows["quantity"] == "decisive_accuracy")]
    rows = rows[rows["step"] == rows["setting"].map({k: v.T for k, v in settings.items()})]
    rows = rows[rows["arm"].isin(OF_ARM)].assign(frequency=rows["setting"].map(frequency))
    arms = [arm for arm in OF_ARM if arm in set(rows["arm"])]
    figure, ((ax,),) = panels(height=2.5)
    styles = {arm: OF_ARM[arm] for arm in arms}
    plot_lines(ax, rows, "frequency", "value", styles, series_column="arm", bounds=SHARE)
    places = sorted({*frequency.values(), 1.0})
    ax.set(
        xscale="log",
        ylim=(-0.03, 1.03),
        xlabel="frequency of the rare pattern over that of the others\n"
        f"{INTERVALS}, {seeds_of(rows)}",
        ylabel="accuracy where the\nrare pattern decides",
    )
    ax.set_xticks(places, labels=[f"{share:g}" for share in places])
    ax.minorticks_off()
    last = rows[rows["frequency"] == rows["frequency"].max()].groupby("arm")["value"].mean()
    label_ends(ax, {NAMES[arm]: (last[arm], OF_ARM[arm].colour) for arm in last.index})
    return figure
