"""The figure of the fate over time."""

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

LEARNED = "share of replicas that\nhave learned it"
FRESH = "fresh"
CONTROLS = {
    "plain": "as drawn",
    "antithetic": "sign flipped too",
    "apart": "by itself",
    "noiseless": "no noise",
}
BORDER = r"$k\,/\,\beta(\lambda - A)$"
LATE = 0.02
"""The decay of the panels that have one: at it features come late."""


def pairs(N: int) -> str:
    """A number of training pairs, for people."""
    return f"{N:,}" if N else FRESH


def courses(
    ax: Axes, table: pd.DataFrame, series: pd.Series, order: list[Any], title: str, columns: int = 3
) -> None:
    """Shares over steps, a line for each series."""
    of = assign_styles((str(name) for name in order if name in set(series)), {})
    table = table.assign(series=series.astype(str), mean=table["learned_share"])[
        ["series", "step", "mean", "ci_low", "ci_high"]
    ]
    plot_lines(ax, table, "step", "learned", of, inside=(0, 1), band=True)
    ax.set(
        xscale="log",
        xlim=(min(100, table["step"].max() / 10), None),
        ylim=(-0.03, 1.03),
        xlabel=STEP,
    )
    ax.xaxis.set_minor_formatter(NullFormatter())
    legend(ax, of, title, columns)


def legend(ax: Axes, of: Mapping[str, SeriesStyle], title: str, columns: int) -> None:
    """A key below a panel."""
    add_legend(ax.figure, of, title, columns, columnspacing=1, handlelength=1.8)


def fate_over_time(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Shares with exact intervals against step; at the end; and against the border between late and never."""
    shares, points = tables["fate_shares"], tables["fate_points"]
    plain = shares[
        (shares["latents"] == "plain")
        & (shares["sigma"] > 0)
        & shares["study"].isin(["reuse", "rarest", "leak"])
    ]
    least = plain["lambda"] == (LATE if (plain["lambda"] == LATE).any() else plain["lambda"].min())
    figure, _ = panels(height=6.0)
    figure.clear()
    axes = [part.subplots() for part in figure.subfigures(2, 3).flat]
    a, b, c, d, e, f = axes

    reuse = plain[(plain["study"] == "reuse") & least]
    order = [*sorted(set(reuse["N"]) - {0}), 0]
    courses(a, reuse, reuse["N"].map(pairs), [pairs(N) for N in order], "training pairs")

    controls = shares[shares["study"].isin(["untied", "noiseless"]) & (shares["N"] > 0)]
    of_control = controls["latents"].where(controls["sigma"] > 0, "noiseless").map(CONTROLS)
    same = reuse[reuse["N"].isin(controls["N"])]
    both = pd.concat([same, controls]), pd.concat([same["latents"].map(CONTROLS), of_control])
    courses(b, *both, list(CONTROLS.values()), "the feature in the pairs", columns=2)

    fresh, strong = (
        plain[least & (plain["N"] == 0)],
        plain[(plain["lambda"] == plain["lambda"].max()) & (plain["N"] > 0)],
    )
    strong = strong[strong["N"] == (8192 if (strong["N"] == 8192).any() else strong["N"].min())]
    for ax, part, what in ((c, fresh, "fresh pairs"), (d, strong, "strong decay")):
        courses(ax, part, part["eps_min"], sorted(set(part["eps_min"])), f"frequency, {what}")

    ends = points[
        (points["latents"] == "plain")
        & (points["sigma"] > 0)
        & points["study"].isin(["reuse", "rarest", "leak"])
    ]
    at_end(e, ends[ends["N"] == 0])
    border(f, points[points["at_once"] < points["n"]])
    for ax in (a, d):
        ax.set_ylabel(LEARNED)
    add_panel_letters(axes)
    figure.supxlabel(f"shares with exact 95 % intervals, {n_of(*shares['n'])}", fontsize=7.5)
    return figure


def at_end(ax: Axes, points: pd.DataFrame) -> None:
    """Shares at the last step over frequency, a line for each decay."""
    learned = points["at_once"] + points["late"]
    ends = [clopper_pearson(*row) for row in zip(learned, points["n"], strict=True)]
    table = points.assign(
        mean=learned / points["n"],
        ci_low=[low for low, _ in ends],
        ci_high=[high for _, high in ends],
    )
    of = assign_styles(map(str, sorted(set(table["lambda"]))), {})
    table = table.assign(series=table["lambda"].astype(str))
    plot_lines(
        ax, table[["series", "eps_min", *ESTIMATED]], "eps_min", "learned", of, inside=(0, 1)
    )
    ax.set(ylim=(-0.03, 1.03), xlabel=EPS)
    legend(ax, of, "decay, fresh pairs", columns=2)


def border(ax: Axes, points: pd.DataFrame) -> None:
    """Of those that did not learn at once, the share that did late, over the border; what is infinite stands at the right."""
    share = points["late"] / (points["n"] - points["at_once"])
    finite = points["border"].replace(np.inf, np.nan)
    beyond = 2 * max(finite.max(), 1.0)
    of = {
        "that come back": SeriesStyle(QUALITATIVE[2], MARKERS[0], "none"),
        FRESH: SeriesStyle(QUALITATIVE[1], MARKERS[3], "none"),
    }
    for (name, look), there in zip(of.items(), (points["N"] > 0, points["N"] == 0), strict=True):
        ax.plot(finite[there].fillna(beyond), share[there], **look.line, label=name)
    ax.axvline(1, color=GREY, lw=0.7)
    ax.set(xscale="log", ylim=(-0.03, 1.03), xlabel=BORDER)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("share that learns late")
    legend(ax, of, "training pairs", columns=1)
