"""Figures of the two-layer study, each of some settings of the config by name."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import ARM_WORDS, INTERVALS, STEP, display_name, seeds_of
from rarefeat.figures.panels import (
    ESTIMATED,
    finish_figure,
    label_ends,
    panels,
    plot_groups,
    plot_lines,
    title_with_key,
    titled,
)
from rarefeat.figures.style import (
    COLUMN,
    GREY,
    MASKED,
    NARROW,
    PAGE,
    STYLES,
    SeriesStyle,
    sequential_styles,
)
from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.config import Problem, Setting

Tables = Mapping[str, pd.DataFrame]
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
NAMES = ARM_WORDS | {
    "network-printed": "network, printed steps",
    "network-no_structure": "network, no structure",
    "random_features": "random features",
    "one_step": "features, one step",
    "two_step": "features, two steps",
}
OVER_STEPS = ("network", "network-printed", "network-weighted", "ntk", "random_features")
SHARE = (0.0, 1.0)


def mark_stairs(ax: Axes, problem: Problem) -> None:
    """Mark the best accuracies of a parity's score with 1, 3, ... sign changes."""
    law = theory.parity_counts(problem.k, problem.p_o, problem.negatives or 0.5)
    for changes in range(1, problem.k, 2):
        ax.axhline(theory.staircase(*law, changes), color=GREY, lw=0.7, zorder=0)


def accuracy_over_steps(tables: Tables, settings: dict[str, Setting]) -> Figure:
    """Plot accuracy as in Figures 2.1, A.1, ..., A.9: with structure above, without below."""
    rows = tables["two_layer"].query("quantity == 'curve' and setting in @settings")
    width = PAGE if len(settings) > 1 else COLUMN
    figure, axes = panels(2, len(settings), 4.2, width, sharey=True, sharex="col")
    for line, suffix in zip(axes, ("", "-no_structure"), strict=True):
        for ax, (name, setting) in zip(line, settings.items(), strict=True):
            looks = {arm + suffix: OF_ARM[arm] for arm in OVER_STEPS}
            plot_lines(
                ax, rows[rows["setting"] == name], "step", "value", looks, series_column="arm",
                bounds=SHARE, band=True, mark_every=8,
            )  # fmt: skip
            ax.set_title(f"{display_name(name)}, {'no structure' if suffix else 'structured'}")
            if suffix:
                ax.set_xlabel(STEP)
            elif setting.problem.labels == "parity":
                mark_stairs(ax, setting.problem)
        line[0].set(ylabel="test accuracy", ylim=(0, 1.03))
    arms = set(rows["arm"].str.removesuffix("-no_structure"))
    shown = {NAMES[arm]: OF_ARM[arm] for arm in OVER_STEPS if arm in arms}
    return finish_figure(figure, axes.flat, shown, f"{INTERVALS}, {seeds_of(rows)}", columns=3)


FAR = 0.05
"""Difference from a printed accuracy from which on it is drawn."""


def printed_beside_measured(tables: Tables) -> Figure:
    """Plot the test accuracies that are far from those of Tables A.1-A.5, beside these.

    A line is the accuracy of always naming the larger class, where classes are unbalanced.
    """
    (table,) = tables.values()
    both = table[table["quantity"] == "test_accuracy"].dropna(subset=["mean", "printed"])
    far = both[(both["mean"] - both["printed"]).abs() > FAR]
    share = far["setting"].str.extract(r"class_ratio_(.+)")[0].astype(float)
    far = far.assign(share=share).sort_values(["share", "printed"], ascending=[True, False])
    settings = far["setting"].map(display_name).replace("interval", "label interval")
    ratios = (100 * far["share"]).map(lambda percent: f"{percent:g}:{100 - percent:g}")
    settings = settings.where(far["share"].isna(), ratios)
    far = far.assign(place=far["arm"].map(NAMES) + ", " + settings, series="measured")
    printed = far.assign(series="printed", **dict.fromkeys(ESTIMATED, far["printed"]))
    styles = {
        "printed": STYLES[1].replace(filled=False).without_line,
        "measured": SeriesStyle(MASKED, "o").without_line,
    }
    sides = {"unbalanced classes": far["share"].notna(), "other settings": far["share"].isna()}
    groups = {side: list(far.loc[chosen, "place"]) for side, chosen in sides.items()}
    figure, ((ax,),) = panels(height=1.3 + 0.2 * len(far), width=NARROW)
    plot_groups(ax, pd.concat([printed, far]), styles, groups)
    shares = far["share"].dropna()
    ends = np.arange(len(shares) + 1) + 0.5
    look = {"orientation": "horizontal", "color": GREY, "lw": 0.7, "zorder": 0.5}
    ax.stairs(shares, ends, baseline=None, **look)
    name = "  always the\n  larger class"
    for share, y in zip(shares.tail(1), ends[-2:-1], strict=True):
        ax.text(share, y, name, color="0.35", va="center")
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    ax.set_xlabel("test accuracy")
    title = f"Test accuracies more than {100 * FAR:g} points from the printed ones"
    title_with_key(figure, title, styles)
    near = f"the other {len(both) - len(far)} of {len(both)} are nearer"
    figure.supxlabel(f"{INTERVALS}, {seeds_of(both)};\n{near}")
    return figure


MARKS = {
    ("neuron", 0): (".", 10, "#56B4E9", "#56B4E9", "neuron"),
    ("neuron", 1): ("o", 12, "#D55E00", "#D55E00", "near a target at the last step"),
    ("target", 0): ("*", 90, "black", "white", r"direction of the labels, $E[y\phi]$"),
    ("opposite", 0): ("*", 90, "white", "black", "its opposite"),
    ("positive", 0): ("^", 30, "black", "white", "centre of class $+1$"),
    ("negative", 0): ("v", 30, "white", "black", "centre of class $-1$"),
}
"""Marker, size, colours and name of points, by kind, and by whether they are near a target."""


def neurons(tables: Tables, settings: dict[str, Setting]) -> Figure:
    """Plot planes of the neurons' cosines by step for one seed, as Figures 2.2, A.2, ..., A.12."""
    table = tables["two_layer_pictures"]
    table = table[table["setting"].isin(settings)]
    names = ("network", "network-plain", "network-no_structure")
    arms, steps = [arm for arm in names if arm in set(table["arm"])], sorted(set(table["step"]))
    figure, axes = panels(len(arms), len(steps), 2.4 * len(arms) + 0.3)
    entries = {}
    for line, arm in zip(axes, arms, strict=True):
        for ax, step in zip(line, steps, strict=True):
            rows = table[(table["arm"] == arm) & (table["step"] == step)]
            for (kind, near), (marker, size, face, edge, label) in MARKS.items():
                points = rows[(rows["kind"] == kind) & (rows["near"] == near)]
                if len(points):
                    looks = {"color": face, "edgecolors": edge, "marker": marker, "linewidths": 0.5}
                    entries[label] = ax.scatter(points["x"], points["y"], size, **looks)
            reach = 1.1 * rows[["x", "y"]].abs().to_numpy().max()
            ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
            ax.set_title(f"step {step}, {(rows['kind'] == 'neuron').sum()} neurons")
        line[0].set_ylabel("no structure" if "no_structure" in arm else "structured")
    return finish_figure(figure, axes.flat, entries, "one seed")


TICKETS = {
    "random": ("random", SeriesStyle(GREY, "v", (0, (1, 1)))),
    "kink": ("random with a kink\ninside the counts", STYLES[0]),
    "norm": ("largest norm", STYLES[1]),
    "effective_rate": ("largest\neffective rate", STYLES[2]),
}
"""Names and looks of the scores that choose neurons."""


def tickets(tables: Tables, settings: dict[str, Setting]) -> Figure:
    """Plot test accuracy of sub-networks of step 2, trained alone, over their number of neurons."""
    (name,) = settings
    rows = tables["two_layer"].query("quantity == 'test_accuracy' and setting == @name")
    rows = rows.join(rows["arm"].str.extract(r"^ticket-(?P<score>\w+)-(?P<size>\d+)$"))
    rows = rows[rows["score"].isin(list(TICKETS))].astype({"size": int})
    looks = {score: look for score, (_, look) in TICKETS.items()}
    figure, ((ax,),) = panels(height=2.7, width=NARROW)
    plot_lines(ax, rows, "size", "value", looks, series_column="score", bounds=SHARE)
    ax.set(xlabel="neurons kept", ylabel="test accuracy", ylim=(0.45, 1.03))
    ax.set_xticks(sorted(set(rows["size"])))
    last = rows[rows["size"] == rows["size"].max()].groupby("score")["value"].mean()
    ends = {TICKETS[score][0]: (y, looks[score].colour) for score, y in last.items()}
    label_ends(ax, ends, least=0.13)
    return titled(
        figure,
        f"A few neurons of the second step, trained alone: {display_name(name)}",
        f"{INTERVALS}, {seeds_of(rows)}",
        size=7,
    )


def lower_bounds(tables: Tables, settings: dict[str, Setting]) -> Figure:
    """Plot hinge losses of heads on random features with the lower bounds of Theorem 2.2."""
    ((name, setting),) = settings.items()
    problem, rows = setting.problem, tables["two_layer"]
    rows = rows[(rows["setting"] == name) & (rows["step"] == setting.T)]
    fixed = rows[rows["arm"].str.match(r"random_features(-\d+)?$")]
    wide = fixed.pivot_table(index=["arm", "seed"], columns="quantity", values="value")
    wide = wide[["hinge_loss", "head_norm"]].dropna().reset_index()
    count = wide["arm"].str.extract(r"(\d+)$")[0].astype(float).fillna(setting.m).to_numpy()
    x, loss = np.sqrt(count) * wide["head_norm"].to_numpy(), wide["hinge_loss"].to_numpy()
    figure, ((ax,),) = panels(height=2.8)
    looks = {N: look.without_line for N, look in sequential_styles(sorted(set(count))).items()}
    for N, look in looks.items():
        ax.plot(x[count == N], loss[count == N], **look.line)
    line = np.geomspace(1, 10 * x.max(initial=1), 200)
    mean = theory.fixed_feature_bound_mean(1, line, problem.D, problem.k, problem.p_o)
    some = theory.fixed_feature_bound(1, line, problem.k, problem.p_o)
    bounds = {
        "lower bound, mean over $A$": (mean, SeriesStyle("0", dash="-")),
        "Theorem 2.2, some $A$": (some, SeriesStyle("0", dash=(0, (4, 1.5)))),
    }
    for bound, look in bounds.values():
        ax.plot(line[bound > 0], bound[bound > 0], **look.line)
    label = r"$\sqrt{N}\,B$: features $N$, norm $B$ of the head"
    ax.set(xscale="log", ylim=(0, None), xlabel=label, ylabel="hinge loss")
    entries = {f"{N:g} random features": look for N, look in looks.items()}
    entries |= {text: look for text, (_, look) in bounds.items()}
    return finish_figure(figure, (), entries, f"each of {seeds_of(fixed)}", columns=3)
