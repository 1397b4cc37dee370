"""The figure of the fate over time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import EPS, STEP, n_of
from rarefeat.figures.panels import ESTIMATED, handle, letter, lines, panels
from rarefeat.figures.style import DASHES, GREY, MARKERS, QUALITATIVE, Look
from rarefeat.run.job import Job
from rarefeat.studies.fate.times import exact_interval

LEARNED = "share of replicas that\nhave learned it"
FRESH = "fresh"
CONTROLS = {"plain": "as drawn", "antithetic": "sign flipped too", "apart": "by itself", "noiseless": "no noise"}
BORDER = r"$k\,/\,\beta(\lambda - A)$"
LATE = 0.02
"""The decay of the panels that have one: at it features come late."""


def looks(names: list[Any]) -> dict[str, Look]:
    """A look for each of some series, in order."""
    return {str(name): Look(QUALITATIVE[i], MARKERS[i], DASHES[i]) for i, name in enumerate(names)}


def pairs(N: int) -> str:
    """A number of training pairs, for people."""
    return f"{N:,}" if N else FRESH


def courses(ax: Axes, table: pd.DataFrame, series: pd.Series, order: list[Any], title: str, beside: bool = False) -> None:
    """Shares over steps, a line for each series; with the legend `beside` the data where they leave no room for it."""
    there = [name for name in order if name in set(series)]
    of = looks(there)
    table = table.assign(series=series.astype(str), mean=table["learned_share"])[
        ["series", "step", "mean", "ci_low", "ci_high"]
    ]
    lines(ax, table, "step", "learned", of, inside=(0, 1), band=True)
    ax.set(xscale="log", xlim=(100, 15 * table["step"].max() if beside else None), ylim=(-0.03, 1.03), xlabel=STEP)
    if there:
        ax.legend(
            [handle(look) for look in of.values()],
            of,
            title=title,
            loc="center right" if beside else "upper left",
            handlelength=1.8,
        )


def fate_over_time(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Shares with exact intervals against step; at the end; and against the border between late and never."""
    shares, points = tables["fate_shares"], tables["fate_points"]
    plain = shares[(shares["latents"] == "plain") & (shares["sigma"] > 0) & shares["study"].isin(["reuse", "rarest", "leak"])]
    least = plain["lambda"] == (LATE if (plain["lambda"] == LATE).any() else plain["lambda"].min())
    figure, axes = panels(2, 3, 4.6)
    (a, b, c), (d, e, f) = axes

    reuse = plain[(plain["study"] == "reuse") & least]
    order = [*sorted(set(reuse["N"]) - {0}), 0]
    courses(a, reuse, reuse["N"].map(pairs), [pairs(N) for N in order], "training pairs")

    controls = shares[shares["study"].isin(["untied", "noiseless"]) & (shares["N"] > 0)]
    of_control = controls["latents"].where(controls["sigma"] > 0, "noiseless").map(CONTROLS)
    same = reuse[reuse["N"].isin(controls["N"])]
    both = pd.concat([same, controls]), pd.concat([same["latents"].map(CONTROLS), of_control])
    courses(b, *both, list(CONTROLS.values()), "the feature\nin the pairs")

    fresh, strong = plain[least & (plain["N"] == 0)], plain[(plain["lambda"] == plain["lambda"].max()) & (plain["N"] > 0)]
    strong = strong[strong["N"] == (8192 if (strong["N"] == 8192).any() else strong["N"].min())]
    for ax, part, what in ((c, fresh, "fresh pairs"), (d, strong, "strong decay")):
        courses(ax, part, part["eps_min"], sorted(set(part["eps_min"])), f"frequency,\n{what}", beside=True)

    ends = points[(points["latents"] == "plain") & (points["sigma"] > 0) & points["study"].isin(["reuse", "rarest", "leak"])]
    at_end(e, ends[ends["N"] == 0])
    border(f, points[points["at_once"] < points["n"]])
    for ax in (a, d):
        ax.set_ylabel(LEARNED)
    letter(axes.flat)
    figure.supxlabel(f"shares with exact 95 % intervals, {n_of(*shares['n'])}", fontsize=7.5)
    return figure


def at_end(ax: Axes, points: pd.DataFrame) -> None:
    """Shares at the last step over frequency, a line for each decay."""
    learned = points["at_once"] + points["late"]
    ends = [exact_interval(*row) for row in zip(learned, points["n"], strict=True)]
    table = points.assign(mean=learned / points["n"], ci_low=[low for low, _ in ends], ci_high=[high for _, high in ends])
    of = looks(sorted(set(table["lambda"])))
    table = table.assign(series=table["lambda"].astype(str))
    lines(ax, table[["series", "eps_min", *ESTIMATED]], "eps_min", "learned", of, inside=(0, 1))
    low, high = ax.get_xlim()
    ax.set(xlim=(low, high + 0.7 * (high - low)), ylim=(-0.03, 1.03), xlabel=EPS)
    if of:
        ax.legend([handle(look) for look in of.values()], of, title="decay,\nfresh pairs", loc="center right", handlelength=1.8)


def border(ax: Axes, points: pd.DataFrame) -> None:
    """Of those that did not learn at once, the share that did late, over the border; what is infinite stands at the right."""
    share = points["late"] / (points["n"] - points["at_once"])
    finite = points["border"].replace(np.inf, np.nan)
    beyond = 2 * max(finite.max(), 1.0)
    for fresh, look in ((False, Look(QUALITATIVE[2], MARKERS[0])), (True, Look(QUALITATIVE[1], MARKERS[3]))):
        there = (points["N"] == 0) == fresh
        at = finite[there].fillna(beyond)
        ax.plot(at, share[there], **look.line | {"ls": "none"}, label=FRESH if fresh else "a sample that comes back")
    ax.axvline(1, color=GREY, lw=0.7)
    ax.set(xscale="log", ylim=(-0.03, 1.35), yticks=np.linspace(0, 1, 6), xlabel=BORDER)
    ax.set_ylabel("share that learns late")
    ax.legend(loc="upper left", handlelength=1)
