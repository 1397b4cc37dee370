"""Figure of the study of late learning."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

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
    """Draw the fraction of learned replicas by step, at the last step, and by the border.

    Inputs: `fate_shares`, `fate_points`. The caption is in `declaration.py`.
    """
    shares, points = tables["fate_shares"], tables["fate_points"]
    plain = shares[
        (shares["latents"] == "plain")
        & (shares["sigma"] > 0)
        & shares["study"].isin(["reuse", "rarest", "leak"])
    ]
    at_decay = plain["lambda"] == (
        LATE if (plain["lambda"] == LATE).any() else plain["lambda"].min()
    )
    figure, _ = panels(height=6.0)
    figure.clear()
    axes = [subfigure.subplots() for subfigure in figure.subfigures(2, 3).flat]
    a, b, c, d, e, f = axes

    reuse = plain[(plain["study"] == "reuse") & at_decay]
    order = [*sorted(set(reuse["N"]) - {0}), 0]
    plot_histories(a, reuse, reuse["N"].map(pairs), [pairs(N) for N in order], "training pairs")

    controls = shares[shares["study"].isin(["untied", "noiseless"]) & (shares["N"] > 0)]
    of_control = controls["latents"].where(controls["sigma"] > 0, "noiseless").map(CONTROLS)
    same = reuse[reuse["N"].isin(controls["N"])]
    both = pd.concat([same, controls]), pd.concat([same["latents"].map(CONTROLS), of_control])
    plot_histories(b, *both, list(CONTROLS.values()), "the feature in the pairs", columns=2)

    fresh, strong = (
        plain[at_decay & (plain["N"] == 0)],
        plain[(plain["lambda"] == plain["lambda"].max()) & (plain["N"] > 0)],
    )
    strong = strong[strong["N"] == (8192 if (strong["N"] == 8192).any() else strong["N"].min())]
    for ax, rows, label in ((c, fresh, "fresh pairs"), (d, strong, "strong decay")):
        frequencies = sorted(set(rows["eps_min"]))
        plot_histories(ax, rows, rows["eps_min"], frequencies, f"frequency, {label}")

    ends = points[
        (points["latents"] == "plain")
        & (points["sigma"] > 0)
        & points["study"].isin(["reuse", "rarest", "leak"])
    ]
    plot_last_step(e, ends[ends["N"] == 0])
    plot_border(f, points[points["at_once"] < points["n"]])
    for ax in (a, d):
        ax.set_ylabel(LEARNED_LABEL)
    add_panel_letters(axes)
    figure.supxlabel(f"fractions with exact 95 % intervals, {n_of(*shares['n'])}", fontsize=7.5)
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
