"""Figure of the study of late learning."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

from rarefeat.figures.labels import EPS, STEP, n_of
from rarefeat.figures.panels import ESTIMATED, add_legend, add_panel_letters, panels, plot_lines
from rarefeat.figures.style import GREY, MARKERS, QUALITATIVE, SeriesStyle, assign_styles
from rarefeat.run.job import Job
from rarefeat.studies.fate.learning_times import clopper_pearson

LEARNED_LABEL = "fraction of replicas\nthat have learned it"
FRESH = "fresh"
CONTROLS = {
    "plain": "as drawn",
    "antithetic": "sign flipped too",
    "apart": "by itself",
    "noiseless": "no noise",
}
BORDER = r"$k\,/\,\beta(\lambda - A)$"
DRAWS = {
    "plain": "pairs as drawn",
    "replacement": "visited with replacement",
    "new_signs": "sign new at each visit",
    "new_tokens": "tokens new at each visit",
    "planted_ties": "fresh pairs with ties of sign",
    "without_random_5": "5 random pairs without it",
    "without_top_5": "5 top pairs without it",
    "without_random_15": "15 random pairs without it",
    "without_top_15": "15 top pairs without it",
}
"""Labels of ways of drawing, in the order of the figure."""
LATE = 0.02
"""Weight decay at which most features are learned late; that of the panels with a single decay."""


def pairs(N: int) -> str:
    """Return a number of training pairs as text."""
    return f"{N:,}" if N else FRESH


def plot_histories(
    ax: Axes, table: pd.DataFrame, series: pd.Series, order: list[Any], title: str, columns: int = 3
) -> None:
    """Plot fractions against step, one line for each series.

    Parameters
    ----------
    ax : Axes
        Panel.
    table : DataFrame
        Rows of `fate_shares`.
    series : Series
        Series of each row.
    order : list
        Series in the order of the legend; those without rows are left out.
    title : str
        Title of the legend.
    columns : int
        Columns of the legend.
    """
    styles = assign_styles((str(name) for name in order if name in set(series)), {})
    table = table.assign(series=series.astype(str), mean=table["learned_share"])[
        ["series", "step", "mean", "ci_low", "ci_high"]
    ]
    plot_lines(ax, table, "step", "learned", styles, bounds=(0, 1), band=True)
    ax.set(
        xscale="log",
        xlim=(min(100, table["step"].max() / 10), None),
        ylim=(-0.03, 1.03),
        xlabel=STEP,
    )
    ax.xaxis.set_minor_formatter(NullFormatter())
    legend(ax, styles, title, columns)


def legend(ax: Axes, styles: Mapping[str, SeriesStyle], title: str, columns: int) -> None:
    """Draw the legend of a panel below it.

    Parameters
    ----------
    ax : Axes
        Panel.
    styles : mapping
        Style of each series.
    title : str
        Title of the legend.
    columns : int
        Columns of the legend.
    """
    add_legend(ax.figure, styles, title, columns, columnspacing=1, handlelength=1.8)


def fate_over_time(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the fraction of learned replicas by step, a line for each number of training pairs.

    Inputs: `fate_shares`. The caption is in `declaration.py`.
    """
    shares = select_decay(tables["fate_shares"])
    shares = shares[shares["study"] == "reuse"]
    order = [*sorted(set(shares["N"]) - {0}), *([0] if (shares["N"] == 0).any() else [])]
    figure, ((ax,),) = panels(height=2.6)
    ends = []
    for N, colour in zip(order, QUALITATIVE, strict=False):
        line = shares[shares["N"] == N].sort_values("step")
        ax.fill_between(
            line["step"], line["ci_low"], line["ci_high"], step="post", color=colour, alpha=0.12
        )
        ax.step(line["step"], line["learned_share"], where="post", color=colour)
        ends.append((line["learned_share"].iloc[-1], f"{pairs(N)} pairs", colour))
    last = shares["step"].max()
    height = -1.0
    for share, text, colour in sorted(ends, key=lambda end: end[0]):
        height = max(share, height + 0.075)
        ax.text(last * 1.04, height, text, color=colour, va="center", fontsize=7.5)
    ax.set(
        xscale="log",
        xlim=(min(100, last / 10), last),
        ylim=(-0.03, 1.03),
        xlabel=STEP,
        ylabel="runs that have learned it",
        title=summarise_reuse(shares),
    )
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    figure.supxlabel(f"with exact 95 % intervals, {n_of(*shares['n'])}", fontsize=7.5)
    return figure


def summarise_reuse(shares: pd.DataFrame) -> str:
    """Say in one line which samples are shown to be learned from by more runs than fresh pairs."""
    ends = shares.sort_values("step").groupby("N").tail(1).set_index("N")
    if 0 not in ends.index:
        return "Runs that have learned the rare feature"
    fresh = ends.loc[0]
    more = [N for N in ends.index if N and ends.loc[N, "ci_low"] > fresh["ci_high"]]
    fewer = [N for N in ends.index if N and ends.loc[N, "ci_high"] < fresh["ci_low"]]
    if more and not fewer:
        return f"More runs learn it from up to {max(more):,} reused pairs than from fresh ones"
    if fewer and not more:
        return f"Fewer runs learn it from up to {max(fewer):,} reused pairs than from fresh ones"
    return "Runs that have learned the rare feature, by reuse"


def select_decay(shares: pd.DataFrame) -> pd.DataFrame:
    """Select pairs as drawn, with noise, of the grids, at the decay of the other figures."""
    plain = shares[
        (shares["latents"] == "plain")
        & (shares["sigma"] > 0)
        & shares["study"].isin(["reuse", "rarest", "leak"])
    ]
    decay = LATE if (plain["lambda"] == LATE).any() else plain["lambda"].min()
    return plain[plain["lambda"] == decay]


def fate_conditions(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw learned replicas by control, frequency and decay, and by the border.

    Inputs: `fate_shares`, `fate_points`. The caption is in `declaration.py`.
    """
    shares, points = tables["fate_shares"], tables["fate_points"]
    at_decay = select_decay(shares)
    plain = shares[
        (shares["latents"] == "plain")
        & (shares["sigma"] > 0)
        & shares["study"].isin(["reuse", "rarest", "leak"])
    ]
    figure, _ = panels(height=6.0)
    figure.clear()
    axes = [subfigure.subplots() for subfigure in figure.subfigures(2, 3).flat]
    a, b, c, d, e, empty = axes
    empty.set_axis_off()

    reuse = at_decay[at_decay["study"] == "reuse"]
    controls = shares[shares["study"].isin(["untied", "noiseless"]) & (shares["N"] > 0)]
    of_control = controls["latents"].where(controls["sigma"] > 0, "noiseless").map(CONTROLS)
    same = reuse[reuse["N"].isin(controls["N"])]
    both = pd.concat([same, controls]), pd.concat([same["latents"].map(CONTROLS), of_control])
    plot_histories(a, *both, list(CONTROLS.values()), "the feature in the pairs", columns=2)

    fresh = at_decay[at_decay["N"] == 0]
    strong = plain[(plain["lambda"] == plain["lambda"].max()) & (plain["N"] > 0)]
    strong = strong[strong["N"] == (8192 if (strong["N"] == 8192).any() else strong["N"].min())]
    for ax, rows, label in ((b, fresh, "fresh pairs"), (c, strong, "strong decay")):
        frequencies = sorted(set(rows["eps_min"]))
        plot_histories(ax, rows, rows["eps_min"], frequencies, f"frequency, {label}")

    ends = points[
        (points["latents"] == "plain")
        & (points["sigma"] > 0)
        & points["study"].isin(["reuse", "rarest", "leak"])
    ]
    plot_last_step(d, ends[ends["N"] == 0])
    plot_border(e, points[points["at_once"] < points["n"]])
    for ax in (a, d):
        ax.set_ylabel(LEARNED_LABEL)
    add_panel_letters([a, b, c, d, e])
    figure.supxlabel(f"fractions with exact 95 % intervals, {n_of(*shares['n'])}", fontsize=7.5)
    return figure


def fate_draws(table: pd.DataFrame) -> Figure:
    """Draw the fraction of learned replicas by what comes back of a sample, from `fate_mechanism`.

    A row for each way of drawing, a mark for each number of training pairs.
    """
    ways = [name for name in DRAWS if name in set(table["latents"])]
    numbers = sorted(set(table["N"]) - {0})
    figure, ((ax,),) = panels(height=0.32 * len(ways) + 0.9)
    fresh = table[table["N"] == 0]
    for i, N in enumerate(numbers):
        rows = table[table["N"] == N].set_index("latents")
        shown = [name for name in ways if name in rows.index]
        share = rows.loc[shown, "learned"] / rows.loc[shown, "n"]
        ax.errorbar(
            share,
            [ways.index(name) + 0.2 * (i - (len(numbers) - 1) / 2) for name in shown],
            xerr=[share - rows.loc[shown, "ci_low"], rows.loc[shown, "ci_high"] - share],
            fmt=MARKERS[i],
            color=QUALITATIVE[i],
            label=f"{N:,} pairs",
        )
    for row in fresh.itertuples():
        ax.axvspan(row.ci_low, row.ci_high, color=GREY, alpha=0.2, lw=0)
        ax.axvline(row.learned / row.n, color=GREY, lw=0.7, label="fresh pairs")
    ax.set(
        yticks=range(len(ways)),
        yticklabels=[DRAWS[name] for name in ways],
        xlim=(-0.02, 1.02),
        ylim=(len(ways) - 0.5, -0.5),
        xlabel=f"runs that learn it by step {table['T'].max():,}, exact 95 % intervals,"
        f" {n_of(*table['n'])}",
    )
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    handles, labels = ax.get_legend_handles_labels()
    add_legend(figure, dict(zip(labels, handles, strict=True)))
    return figure


def plot_last_step(ax: Axes, points: pd.DataFrame) -> None:
    """Plot fractions at the last step against frequency, one line for each decay."""
    learned = points["at_once"] + points["late"]
    ends = [clopper_pearson(*row) for row in zip(learned, points["n"], strict=True)]
    table = points.assign(
        mean=learned / points["n"],
        ci_low=[low for low, _ in ends],
        ci_high=[high for _, high in ends],
    )
    styles = assign_styles(map(str, sorted(set(table["lambda"]))), {})
    table = table.assign(series=table["lambda"].astype(str))
    plot_lines(
        ax, table[["series", "eps_min", *ESTIMATED]], "eps_min", "learned", styles, bounds=(0, 1)
    )
    ax.set(ylim=(-0.03, 1.03), xlabel=EPS)
    legend(ax, styles, "decay, fresh pairs", columns=2)


def plot_border(ax: Axes, points: pd.DataFrame) -> None:
    """Plot the fraction of replicas that learn late against the border.

    Replicas that learned at once are left out; an infinite border is drawn at the right.
    """
    fraction = points["late"] / (points["n"] - points["at_once"])
    finite = points["border"].replace(np.inf, np.nan)
    rightmost = 2 * max(finite.max(), 1.0)
    styles = {
        "that come back": SeriesStyle(QUALITATIVE[2], MARKERS[0], "none"),
        FRESH: SeriesStyle(QUALITATIVE[1], MARKERS[3], "none"),
    }
    groups = (points["N"] > 0, points["N"] == 0)
    for (name, style), rows in zip(styles.items(), groups, strict=True):
        ax.plot(finite[rows].fillna(rightmost), fraction[rows], **style.line, label=name)
    ax.axvline(1, color=GREY, lw=0.7)
    ax.set(xscale="log", ylim=(-0.03, 1.03), xlabel=BORDER)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("fraction that learns late")
    legend(ax, styles, "training pairs", columns=1)
