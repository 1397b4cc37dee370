"""Figures of the study of late learning."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

from rarefeat.figures.labels import STEP, n_of
from rarefeat.figures.panels import add_legend, label_ends, panels, plot_lines
from rarefeat.figures.style import GREY, NARROW, STYLES, assign_styles
from rarefeat.studies.fate.learning_times import largest_normal, share_interval, share_learned

PAIRS = 8192
"""Number of reused pairs of the figure of decays."""
PUSHED = {
    "neuron": "fresh pairs, a push for each neuron",
    "feature": "fresh pairs, a push for each feature",
    "": "reused pairs, their own push",
}
"""What pushes, in the order of the legend of the figure of the push."""
REUSED = "fresh", "reused", "reuse", "rarest"
"""Studies of pairs as drawn on the axis of the push."""
DOSES = 0.1, 10
"""Range of pushes of the figure, in units of the threshold."""
LATE = 0.02
"""Weight decay at which most features are learned late."""


def as_drawn(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of pairs as drawn, with noise, of the grids of the figures."""
    plain = (table["latents"] == "plain") & (table["sigma"] > 0)
    return table[plain & table["study"].isin(["reuse", "rarest", "leak"])]


def fate_over_time(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw the fraction of learned replicas by step, a line for each number of training pairs.

    Fresh pairs and the fewest have bands; the others are grey lines with one name.
    """
    shares = as_drawn(tables["fate_shares"])
    decay = LATE if (shares["lambda"] == LATE).any() else shares["lambda"].min()
    shares = shares[(shares["lambda"] == decay) & (shares["study"] == "reuse")]
    reused = sorted(set(shares["N"]) - {0})
    shown = dict(zip([*reused[:2][::-1], 0], (STYLES[0], STYLES[2], STYLES[4]), strict=False))
    figure, ((ax,),) = panels(height=2.6, width=NARROW)
    ends, others = {}, " and\n".join(f"{N:,}" for N in reused[2:])
    for N, line in shares.sort_values("step").groupby("N"):
        if N not in shown:
            ax.step(line["step"], line["learned_share"], where="post", color=GREY, ls=":")
            ends.setdefault(f"{others} pairs", (line["learned_share"].iloc[-1], "0.4"))
            continue
        look = shown[N]
        # Before the first run learns it, the intervals of all lines are one, and not drawn.
        some = line[line["learned"] > 0]
        ax.fill_between(
            some["step"], some["ci_low"], some["ci_high"],
            step="post", color=look.colour, alpha=0.2, lw=0,
        )  # fmt: skip
        ax.step(line["step"], line["learned_share"], where="post", color=look.colour, ls=look.dash)
        ends[f"{N:,} pairs" if N else "fresh pairs"] = line["learned_share"].iloc[-1], look.colour
    last = shares["step"].max()
    ax.set(
        xscale="log",
        xlim=(min(100, last / 10), last),
        ylim=(-0.03, 1.03),
        xlabel=f"{STEP}\nexact 95 % intervals from the first run on, {n_of(*shares['n'])}",
        ylabel="runs that have learned it",
        title="Runs that have learned the rare feature, by training pairs",
    )
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    label_ends(ax, ends, least=0.12)
    return figure


def fate_conditions(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw who learned the feature by the last step, by frequency, from fresh and reused pairs."""
    plain = as_drawn(add_shares(tables["fate_points"]))
    N = PAIRS if PAIRS in set(plain["N"]) else plain["N"].max()
    names = {0: "fresh pairs", N: f"{N:,} reused pairs"}
    plain = plain.assign(series=plain["N"].map(names)).dropna(subset="series")
    styles = dict(zip(names.values(), (STYLES[4].replace(filled=False), STYLES[0]), strict=False))
    decays = sorted(set(plain["lambda"]))
    figure, axes = panels(1, len(decays), 2.4, NARROW, sharex=True, sharey=True)
    for ax, decay in zip(axes[0], decays, strict=True):
        plot_lines(
            ax, plain[plain["lambda"] == decay], "eps_min", "share_learned", styles, bounds=(0, 1)
        )
        ax.set(ylim=(-0.04, 1.04), xlabel="relative frequency", title=f"decay {decay:g}")
    axes[0, 0].yaxis.set_major_formatter(PercentFormatter(1))
    axes[0, 0].set_ylabel("runs that have learned it")
    figure.suptitle("Who has learned the rare feature by the last step, at each weight decay")
    add_legend(figure, styles, f"exact 95 % intervals, {n_of(*plain['n'])}")
    return figure


def fate_push(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw the fraction of learned replicas against the push over its threshold."""
    points = add_shares(tables["fate_points"].fillna({"push": ""}))
    points = points[(points["push"] != "") | points["study"].isin(REUSED)]
    own = points["push_size"].where(points["N"] == 0, points["kick_size"])
    points = points.assign(dose=own / points["threshold"])
    figure, ((ax,),) = panels(height=3, width=NARROW)
    for row in points[points["study"] == "fresh"].itertuples():
        ax.axhspan(row.ci_low, row.ci_high, color=GREY, alpha=0.2, lw=0, zorder=0)
        ax.axhline(row.mean, color=GREY, lw=0.7, zorder=0)
        ax.text(0.98 * DOSES[1], row.mean, "fresh pairs, no push", ha="right", va="bottom")
    for (kind, label), style in zip(PUSHED.items(), assign_styles(PUSHED).values(), strict=True):
        rows = points[(points["push"] == kind) & points["dose"].between(*DOSES)]
        bars = np.abs(rows[["ci_low", "ci_high"]].sub(rows["mean"], axis=0)).T
        ax.errorbar(
            rows["dose"], rows["mean"], bars.to_numpy(), ls="none", lw=0.8, color=style.colour,
            marker=style.marker, markersize=4, label=label,
        )  # fmt: skip
    doses = np.geomspace(*DOSES, 200)
    for row in points[["neurons", "features"]].head(1).itertuples():
        for m, name, line, side, y in (
            (row.neurons, "neurons", "-", "right", 0.85),
            (row.features, "features", "--", "left", 0.6),
        ):
            shares = share_learned(doses, largest_normal(row.neurons), m)
            ax.plot(doses, shares, color="0.3", lw=1, ls=line)
            x = doses[np.searchsorted(shares, y)]
            ax.text(x, y, f"  theorem,  \n  {m} {name}  ", ha=side, va="center", color="0.3")
    ax.set(
        xscale="log",
        xlim=DOSES,
        ylim=(-0.03, 1.03),
        xlabel="push, as a multiple of the theorem's for half of the runs",
        ylabel="runs that have learned it",
        title="Runs that learn the rare feature, by the push on a neuron",
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    handles, labels = ax.get_legend_handles_labels()
    note = f"exact 95 % intervals, {n_of(*points['n'])}"
    add_legend(figure, dict(zip(labels, handles, strict=True)), note, columns=1)
    return figure


def add_shares(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with the share of runs that learned by the last step, and its interval."""
    learned = points["at_once"] + points["late"]
    ends = [share_interval(*row) for row in zip(learned, points["n"], strict=True)]
    low, high = zip(*ends, strict=True) if ends else ((), ())
    return points.assign(mean=learned / points["n"], ci_low=low, ci_high=high)
