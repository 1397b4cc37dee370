"""Figures of the two-layer study, for the settings of the job by name."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, STEP, display_name, seeds_of
from rarefeat.figures.panels import finish_figure, panels, plot_lines, plot_points
from rarefeat.figures.style import COLUMN, GREY, PAGE, STYLES, SeriesStyle, sequential_styles
from rarefeat.run.job import Job
from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.compare import compared
from rarefeat.studies.two_layer.config import Problem, Setting
from rarefeat.studies.two_layer.paper_values import COLUMNS

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
    "ntk": "NTK",
    "random_features": "random features",
    "two_step": "Two Step",
    "two_step-weighted": "Two Step, class weights",
}
OVER_STEPS = ("network", "network-printed", "network-weighted", "ntk", "random_features")
SHARE = (0.0, 1.0)


def settings_of(job: Job) -> dict[str, Setting]:
    """Return the settings that a figure shows."""
    return job.config_section("settings", dict[str, Setting])


def stairs_of(problem: Problem) -> dict[int, float]:
    """Return the accuracies that a parity's score reaches with 1, 3, ... sign changes.

    Those below 1; none for other labels.
    """
    if problem.labels != "parity":
        return {}
    law = theory.parity_counts(problem.k, problem.p_o, problem.negatives or 0.5)
    return {changes: theory.staircase(*law, changes) for changes in range(1, problem.k, 2)}


def accuracy_over_steps(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot test accuracy over steps as in Figures 2.1, A.1, A.3, A.5, A.7, A.9.

    With structure above and without below.
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
    """Plot every seed's test accuracy over steps on a logarithmic axis.

    With the stairs where runs can pause (theory.staircase).
    """
    settings, arms = settings_of(job), ("network", "network-printed", "two_step", "ntk")
    rows = tables["two_layer"].query(
        "quantity == 'curve' and setting in @settings and arm in @arms and step > 0"
    )
    width = PAGE if len(settings) > 1 else COLUMN
    figure, axes = panels(
        len(arms), len(settings), 1.0 * len(arms) + 0.8, width, sharex="col", sharey=True
    )
    for column, (setting, definition) in zip(axes.T, settings.items(), strict=True):
        for ax, arm in zip(column, arms, strict=True):
            selected = rows[(rows["setting"] == setting) & (rows["arm"] == arm)]
            one = {"color": OF_ARM[arm].colour, "lw": 0.6, "alpha": 0.7, "legend": False}
            if len(selected):
                sns.lineplot(
                    selected, x="step", y="value", units="seed", estimator=None, ax=ax, **one
                )
            mark_stairs(ax, stairs_of(definition.problem))
            ax.set(xscale="log", xlabel="", ylabel="")
        column[0].set_title(display_name(setting))
        column[-1].set_xlabel(STEP)
    for ax, arm in zip(axes[:, 0], arms, strict=True):
        ax.set_ylabel(NAMES[arm].replace(", ", ",\n"))
    figure.supylabel("test accuracy", size="medium")
    best = SeriesStyle(GREY)
    return finish_figure(
        figure,
        axes.flat,
        {"best with one sign change, and with three": best},
        f"each of {seeds_of(rows)}",
    )


def printed_beside_measured(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot each number of Tables A.1-A.5 as printed and as measured.

    Printed an open diamond, measured a dot with its 95 % interval.
    """
    (table,) = tables.values()
    both = compared(
        table if "step" in table else table.assign(step=0)
    )  # the published one has the last step alone
    both = both[both["mean"].notna()]
    names = list(dict.fromkeys(zip(both["table"], both["row"], strict=True)))
    quantities = {
        "test_accuracy": ("test accuracy", SHARE),
        "cosine": (r"$\max_i\ \cos(w_i, \sum_{j\in A} M_j)$", (-1.0, 1.0)),
    }
    measured_style, printed_style = (
        STYLES[2].replace(marker="o"),
        STYLES[1].replace(marker="D", filled=False),
    )
    columns = min(4, len(names))
    lines = -(-len(names) // columns)
    figure, axes = panels(2 * lines, columns, 3.1 * lines + 0.6, sharey=True)
    places = {column: -i for i, column in enumerate(COLUMNS)}
    for ax in axes.flat:
        ax.set_axis_off()
    for index, (table, which) in enumerate(names):
        for row, (quantity, (label, (low, high))) in enumerate(quantities.items()):
            ax = axes[2 * (index // columns) + row, index % columns]
            ax.set_axis_on()
            selected = both[
                (both["table"] == table) & (both["row"] == which) & (both["quantity"] == quantity)
            ]
            selected = selected.assign(y=selected["column"].map(places))
            plot_points(
                ax,
                selected.assign(y=selected["y"] - 0.12),
                "value",
                "y",
                measured_style,
                horizontal=True,
            )
            ax.plot(selected["printed"], selected["y"] + 0.12, **printed_style.without_line.line)
            ax.set(
                xlim=(low - 0.04, high + 0.04) if low == 0 else (-0.04, 1.04),
                xlabel=label,
                ylim=(-len(places) + 0.5, 0.5),
            )
            ax.set_yticks(list(places.values()), list(places))
            ax.grid(axis="y", lw=0.3)
            ax.set_title(f"Table {table}{': ' + which if which else ''}" if not row else "")
    n = int(both["n"].max()) if len(both) else 0
    entries = {"printed": printed_style.without_line, "measured": measured_style.without_line}
    return finish_figure(figure, (), entries, f"{INTERVALS} of {n} seeds")


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
    """Plot embeddings of the neurons' cosines by step for one seed.

    Figures 2.2, A.2, A.4, A.6, A.8, A.10-A.12. With structure above, and without below where there
    is such an arm.
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


def tickets(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot test accuracy of sub-networks of step 2 over their number of neurons.

    They are trained alone (Proposition B.1).
    """
    names = {
        "random": "random",
        "kink": "random with a kink inside the counts",
        "norm": "largest norm",
        "effective_rate": r"largest $(E h^2)^2 / E h^4$",
    }
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
    entries = {name: looks[score] for score, name in names.items()}
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(tickets_only)}", columns=2
    )


def lower_bounds(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot hinge losses with the lower bounds of Theorem 2.2 and of Corollary 2.3.

    Theorem 2.2 is for heads on random features, Corollary 2.3 for kernels.
    """
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
    figure, axes = panels(1, 2, 3.0)
    left, right = axes[0]
    looks = sequential_styles(sorted(set(count)))
    for N, look in looks.items():
        left.plot(x[count == N], loss[count == N], **look.without_line.line)
    line = np.geomspace(1, 10 * x.max(initial=1), 200)
    mean = theory.fixed_feature_bound_mean(1, line, problem.D, problem.k, problem.p_o)
    stated = theory.fixed_feature_bound(1, line, problem.k, problem.p_o)
    of_mean, of_theorem, of_corollary = (
        SeriesStyle("0"),
        SeriesStyle("0", dash=(0, (4, 1.5))),
        SeriesStyle("0", dash=(0, (1, 1))),
    )
    for bound, look in ((mean, of_mean), (stated, of_theorem)):
        left.plot(line[bound > 0], bound[bound > 0], **look.line)
    left.set(
        xscale="log",
        ylim=(0, None),
        xlabel=r"$\sqrt{N}\,B$: features $N$, norm $B$ of the head",
        ylabel="hinge loss",
    )

    scale = np.geomspace(1, 10 * 2**problem.k, 200)
    bound = theory.kernel_bound(scale, problem.k, problem.p_o)
    right.plot(scale, np.where(bound > 0, bound, np.nan), **of_corollary.line)
    for value in rows[(rows["arm"] == "ntk") & (rows["quantity"] == "hinge_loss")]["value"]:
        right.axhline(value, color=OF_ARM["ntk"].colour, ls=OF_ARM["ntk"].dash, lw=0.8, alpha=0.75)
    # Where k = 3 there is no such bound, and nothing that would give the axis its limits.
    right.set(xlim=(scale[0], scale[-1]), xscale="log", ylim=(0, None))
    right.set(xlabel="$P$, the value of the polynomial in $d$ and $L$", ylabel="hinge loss")
    entries = {f"$N$ = {N:g} random features": look.without_line for N, look in looks.items()}
    entries |= {"lower bound, mean over $A$": of_mean, "Theorem 2.2, some $A$": of_theorem}
    entries |= {"Corollary 2.3, some $A$": of_corollary, "NTK": OF_ARM["ntk"].replace(marker="")}
    return finish_figure(figure, axes.flat, entries, f"each of {seeds_of(fixed)}", columns=3)


def rare_patterns(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot accuracy on the samples that a rare relevant pattern decides, over its frequency.

    With the relative weight of the pattern.
    """
    rows, settings = tables["two_layer"], settings_of(job)
    frequency = {name: min(setting.problem.frequency) for name, setting in settings.items()}
    selected = rows[rows["setting"].isin(settings)].assign(
        frequency=lambda table: table["setting"].map(frequency)
    )
    last = selected[
        selected["step"]
        == selected["setting"].map({name: setting.T for name, setting in settings.items()})
    ]
    figure, axes = panels(1, 3, 2.9)
    arms = (
        "network",
        "network-weighted",
        "two_step",
        "two_step-weighted",
        "ntk",
        "random_features",
    )
    of_arm = {arm: OF_ARM[arm] for arm in arms}
    labels = {
        "decisive_accuracy": "accuracy where the\nrare pattern decides",
        "test_accuracy": "test accuracy",
    }
    for ax, (quantity, label) in zip(axes[0], labels.items(), strict=False):
        plot_lines(
            ax,
            last[last["quantity"] == quantity],
            "frequency",
            "value",
            of_arm,
            series_column="arm",
            bounds=SHARE,
        )
        ax.set(ylabel=label, xscale="log")
    right = axes[0, 2]
    weights = selected[(selected["quantity"] == "rare_ratio") & (selected["arm"] == "network")]
    early, late = STYLES[3].replace(marker="s"), STYLES[0].replace(marker="o", filled=False)
    marks = {"early": early.without_line, "late": late.without_line}
    plot_lines(
        right,
        weights.assign(series=np.where(weights["step"] == 2, "early", "late")),
        "frequency",
        "value",
        marks,
    )
    law = next(iter(settings.values())).problem
    grid = np.geomspace(min(frequency.values()), 1, 40)
    right.plot(
        grid,
        [theory.rare_pattern_ratio(law.k, law.p_o, share) for share in grid],
        color="0",
        ls=(0, (4, 1.5)),
    )
    right.set(ylabel="weight of the rare pattern\nover that of the others", xscale="log")
    for ax in axes[0]:
        ax.set_xlabel("frequency of the rare pattern\nover that of the others")
        ax.set_xticks(
            sorted({*frequency.values(), 1.0}),
            labels=[f"{share:g}" for share in sorted({*frequency.values(), 1.0})],
        )
        ax.minorticks_off()
    entries = {NAMES[arm]: OF_ARM[arm] for arm in arms if (last["arm"] == arm).any()}
    entries |= {"c: network, step 2": early.without_line, "c: at the end": late.without_line}
    entries["c: closed form, step 2"] = SeriesStyle("0", dash=(0, (4, 1.5)))
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(selected)}", columns=3
    )
