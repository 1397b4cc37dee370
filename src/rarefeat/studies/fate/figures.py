"""Figures of the study of late learning."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.artist import setp
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import n_of
from rarefeat.figures.panels import panels, plot_effects, plot_lines, title_with_key, titled
from rarefeat.figures.style import NARROW, STYLES
from rarefeat.statistics import exact_bounds
from rarefeat.studies.fate.learning_times import largest_normal, share_learned

PAIRS = 8192
"""Number of reused pairs of the figure of decays."""
DOSES = 0.22, 8
"""Range of pushes of the figure, in units of the threshold; its lower end stands for none."""
PUSHED = {
    "neuron": ("fresh pairs,\na push for each neuron", STYLES[0], 0.94, (1.1, 0.87), "right"),
    "feature": ("fresh pairs, a push\nfor each feature", STYLES[1], 1.06, (2.1, 0.48), "left"),
    "": ("reused pairs,\ntheir own push:\n{}", STYLES[2], 1.0, (3.1, 0.74), "left"),
    "out": (
        "{} reused,\npush taken out", STYLES[2].replace(filled=False), 1.0, (0.2, 0.7), "left",
    ),
    "noise": (
        "fresh, push\ntaken out, too", STYLES[0].replace(filled=False), 1.06, (0.25, 0.08), "left",
    ),
}  # fmt: skip
"""What pushes: name, style, how far its marks stand aside, and where its name stands."""
EARLY = 500
"""Step after which learning is late."""
EARLY_AND_LATE = STYLES[4].replace(filled=False), STYLES[0]
LATE = 0.02
"""Weight decay at which most features are learned late."""


def as_drawn(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of pairs as drawn, with noise, of the grids of the figures."""
    plain = (table["latents"] == "plain") & (table["sigma"] > 0)
    return table[plain & table["study"].isin(["reuse", "rarest", "leak"])]


def fate_over_time(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw the fraction of learned replicas early and at last, a row for each number of pairs."""
    shares = as_drawn(tables["fate_shares"])
    decay = LATE if (shares["lambda"] == LATE).any() else shares["lambda"].min()
    shares = shares[(shares["lambda"] == decay) & (shares["study"] == "reuse")].sort_values("step")
    last = shares["step"].max()
    looks = dict(zip(sorted({min(EARLY, last), last}), EARLY_AND_LATE, strict=False))
    styles = {f"by step {step:,}": look for step, look in looks.items()}
    # A published table has the steps at which a share changes.
    rows = pd.concat(
        shares[shares["step"] <= step].groupby("N").last().assign(series=name)
        for step, name in zip(looks, styles, strict=True)
    ).reset_index()
    fewest_first = sorted(set(rows["N"]), key=lambda N: N or np.inf)
    places = {N: f"{N:,} pairs" if N else "fresh pairs" for N in fewest_first}
    rows = rows.assign(place=rows["N"].map(places), mean=rows["learned_share"])
    figure, ((ax,),) = panels(height=2.4, width=NARROW)
    plot_effects(ax, rows, styles, list(places.values()))
    ax.set(xlim=(-0.04, 1.04), xlabel="runs that have learned it", ylabel="")
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    return titled(
        figure,
        "Runs that have learned the rare feature, by pairs that are reused",
        f"exact 95 % intervals, {n_of(*rows['n'])}",
    )


def fate_conditions(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw the share of runs that learned, by frequency, from fresh and from reused pairs."""
    plain = as_drawn(add_shares(tables["fate_points"]))
    N = PAIRS if PAIRS in set(plain["N"]) else plain["N"].max()
    names = {0: "fresh pairs", N: f"{N:,} reused pairs"}
    plain = plain.assign(series=plain["N"].map(names)).dropna(subset="series")
    styles = dict(zip(names.values(), (STYLES[4], STYLES[0]), strict=False))
    decays = sorted(set(plain["lambda"]))
    figure, axes = panels(1, len(decays), 2.3, NARROW, sharex=True, sharey=True)
    for ax, decay in zip(axes[0], decays, strict=True):
        plot_lines(
            ax, plain[plain["lambda"] == decay], "eps_min", "share_learned", styles, bounds=(0, 1)
        )
        # Fresh pairs are seen behind reused ones where the two are alike.
        setp(ax.lines[:1], markersize=6)
        setp(ax.collections[:1], lw=3.5, alpha=0.35)
        ax.set(ylim=(-0.04, 1.04), xlabel="relative frequency", title=f"decay {decay:g}")
        ax.set_xticks([0.1, 0.3, 0.5])
    axes[0, 0].set_yticks([0, 0.5, 1])
    axes[0, 0].yaxis.set_major_formatter(PercentFormatter(1))
    axes[0, 0].set_ylabel("runs that have learned it")
    end = f"by step {plain['T'].max():,}, by weight decay"
    title_with_key(figure, f"Runs that have learned the rare feature {end}", styles)
    figure.supxlabel(f"exact 95 % intervals, {n_of(*plain['n'])}")
    return figure


def fate_push(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw the fraction of learned replicas against the push over its threshold."""
    points = add_shares(tables["fate_points"].fillna({"push": ""}))
    points = points[(points["lambda"] == LATE) & (points["threshold"] > 0)]
    size = points["push_size"].where(points["N"] == 0, points["kick_size"])
    points = points.assign(dose=size / points["threshold"])
    # A small run has no study of pushes.
    names = ("fresh", "reused") if "reused" in set(points["study"]) else ("reuse", "reuse")
    fresh, reused = (points["study"] == name for name in names)
    none = points[fresh & (points["N"] == 0)].assign(push="neuron", dose=DOSES[0])
    out = points[points["push"] == "none"]
    out = out.assign(push=np.where(out["N"] > 0, "out", "noise"), dose=DOSES[0])
    drawn = points["push"].isin(["neuron", "feature"]) | (reused & (points["N"] > 0))
    points = pd.concat([none, out, points[drawn]])
    figure, ((ax,),) = panels(height=2.9, width=NARROW)
    doses = np.geomspace(*DOSES, 200)
    for row in points[["neurons", "features"]].head(1).itertuples():
        limit = largest_normal(row.neurons)
        shares = [share_learned(doses, limit, count) for count in (row.neurons, row.features)]
        ax.fill_between(doses, *shares, color="0.85", lw=0, zorder=0)
    ax.text(1.35, 0.12, "band: the theorem", color="0.35")
    for kind, (name, style, aside, place, side) in PUSHED.items():
        rows = points[points["push"] == kind]
        if rows.empty:
            continue
        bars = np.abs(rows[["ci_low", "ci_high"]].sub(rows["mean"], axis=0)).T.to_numpy()
        look = style.without_line.line | {"elinewidth": 0.8, "clip_on": False}
        ax.errorbar(rows["dose"] * aside, rows["mean"], bars, **look)
        pairs = (f"{N:,}" for N in rows.sort_values("dose")["N"])
        label = f"{style.glyph} {name.format(' and '.join(pairs))}"
        ax.text(*place, label, color=style.colour, ha=side, va="center")
    ax.set(xscale="log", xlim=(0.85 * DOSES[0], DOSES[1]), ylim=(-0.03, 1.03))
    ax.set(xlabel="push on a neuron, as a multiple of the theorem's threshold")
    ax.set(ylabel="runs that have learned it")
    # "no push" is not on the logarithmic axis.
    ax.text(0.38, -0.03, "//", ha="center", va="center", bbox={"color": "white", "pad": 1})
    ax.set_xticks([DOSES[0], 0.5, 1, 2, 5], ["no push", "0.5", "1", "2", "5"])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    note = f"exact 95 % intervals, {n_of(*points['n'])}; equal pushes stand side by side"
    return titled(figure, "Runs that learn the rare feature, by the push on a neuron", note)


def add_shares(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with the share of runs that learned by the last step, and its interval."""
    learned = points["at_once"] + points["late"]
    ends = [exact_bounds(*row, 0.025) for row in zip(learned, points["n"], strict=True)]
    low, high = zip(*ends, strict=True) if ends else ((), ())
    return points.assign(mean=learned / points["n"], ci_low=low, ci_high=high)
