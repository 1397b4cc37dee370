"""The claims of one part of a theory: a row for each, in words, with the interval that decides and what it must lie in."""

import textwrap
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from rarefeat.claims.tables import VERDICTS
from rarefeat.figures.panels import finish_figure, panels
from rarefeat.figures.style import STYLES, SeriesStyle
from rarefeat.run.job import Job

SHOWN = VERDICTS[:3]
VERDICT_STYLES = {
    "supported": STYLES[2].replace(marker="o"),
    "contradicted": STYLES[1].replace(marker="X"),
    "undecided": SeriesStyle("0.45", "D"),
}
URGENT = ("contradicted", "undecided", "diverged", "not testable", "supported")
"""Verdicts in the order in which a figure has place for their claims."""
MAX_CLAIMS = 10
"""Rows of a figure."""
HEIGHT, LINE = 0.52, 0.11
"""Of a row without its quantity, and of a line of that, in inches."""
WIDTH = 42
"""Of a line of a quantity, in characters."""
MIN_SHADE_FRACTION = 0.01
"""What is required is a line where it is a smaller share of the axis: a shade so narrow is not seen."""
AXIS_REACH = 1.5
"""Marks further out than this multiple of what most regimes span stand at the edge, as an arrow."""


def group(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The claims of a part: the declared regime large with the interval that decides, the others small.

    What is required is shaded, lighter where an effect is smaller than the smallest of interest. Each row has an axis of its
    own, that of its quantity. Regimes that are not tested or have diverged are counted, not drawn.
    """
    (table,), name = tables.values(), job.config_section("group", str)
    return draw(table[table["group"] == name], name)


def chosen(rows: pd.DataFrame) -> list[str]:
    """The claims that a figure shows, in the order of the table: at most MOST, those that are not supported first."""
    verdicts = rows[rows["primary"]].set_index("claim_id")["verdict"]
    urgent = sorted(
        dict.fromkeys(rows["claim_id"]),
        key=lambda claim: URGENT.index(verdicts.get(claim, VERDICTS[-1])),
    )
    return [claim for claim in dict.fromkeys(rows["claim_id"]) if claim in urgent[:MAX_CLAIMS]]


def draw(rows: pd.DataFrame, name: str) -> Figure:
    """The figure of the rows of one part; of primary rows alone where the others are only counted, in columns *_elsewhere."""
    claims = chosen(rows)
    if not claims:
        figure, _ = panels(height=1.0)
        figure.clear()
        figure.text(0.5, 0.5, f"{name}: no claim is measured", ha="center")
        return figure
    quantities = rows.drop_duplicates("claim_id").set_index("claim_id")["quantity"]
    height = 0.75 + sum(
        HEIGHT + LINE * len(textwrap.wrap(quantities[claim], WIDTH)) for claim in claims
    )
    figure, axes = panels(len(claims), 3, height, width_ratios=[2.8, 2.2, 1.4])
    for line, claim in zip(axes, claims, strict=True):
        row(*line, rows[rows["claim_id"] == claim])
    seen = rows[rows["verdict"].isin(SHOWN)]
    entries = {
        name: Line2D([], [], **mark(name), ms=6) for name in SHOWN if name in set(seen["verdict"])
    }
    entries |= {
        "declared regime, interval that decides": Line2D(
            [], [], color="0.3", lw=1.4, marker="o", mfc="none", ms=6
        )
    }
    if (~seen["primary"]).any():
        entries |= {"another regime": Line2D([], [], ls="none", marker="o", ms=3, color="0.3")}
    entries |= {"required": Rectangle((0, 0), 1, 1, color="0.86")}
    if (rows["least"] > 0).any():
        entries |= {"too small to matter": Rectangle((0, 0), 1, 1, color="0.95")}
    left = rows["claim_id"].nunique() - len(claims)
    return finish_figure(
        figure,
        (),
        entries,
        f"{left} more {'claim is' if left == 1 else 'claims are'} on the page" if left else "",
    )


def mark(verdict: str) -> dict:
    """How a regime with a verdict is drawn."""
    look = VERDICT_STYLES[verdict]
    return {"color": look.colour, "marker": look.marker, "ls": "none", "mew": 0.5, "mec": "white"}


def row(left: Axes, ax: Axes, right: Axes, part: pd.DataFrame) -> None:
    """One claim: what it says, its regimes, and what became of it."""
    first, seen = part.iloc[0], part[part["verdict"].isin(SHOWN)]
    required = first["required_low"], first["required_high"]
    matters = required[0] + first["least"], required[1] - first["least"]
    low, high = limits(seen, *required, *matters)
    for ends, colour in ((required, "0.95"), (matters, "0.86")):
        left_end, right_end = np.clip(ends, low, high)
        if right_end - left_end > MIN_SHADE_FRACTION * (high - low):
            ax.axvspan(left_end, right_end, color=colour, lw=0)
        elif ends[0] <= ends[1]:
            ax.axvline((left_end + right_end) / 2, color=colour, lw=3, zorder=0.5)
    for verdict in SHOWN:
        some = seen[(seen["verdict"] == verdict) & ~seen["primary"]]
        for marker, places in arrows(some["estimate"], low, high, VERDICT_STYLES[verdict].marker):
            ax.plot(
                places,
                np.zeros(len(places)),
                **mark(verdict) | {"marker": marker},
                ms=4,
                alpha=0.75,
            )
    for entry in seen[seen["primary"]].itertuples():
        ends = np.clip([entry.decided_low, entry.decided_high], low, high)
        ax.plot(ends, [0.45, 0.45], color=VERDICT_STYLES[entry.verdict].colour, lw=1.4)
        ax.plot(np.clip(entry.estimate, low, high), 0.45, **mark(entry.verdict), ms=7)
    for verdict in part.loc[part["primary"] & ~part["verdict"].isin(SHOWN), "verdict"]:
        ax.text(
            (low + high) / 2,
            0.45,
            verdict,
            ha="center",
            va="center",
            fontsize=7,
            style="italic",
            color="0.3",
        )
    ax.set(xlim=(low, high), ylim=(-0.5, 0.95), yticks=[])
    ax.set_xlabel(textwrap.fill(first["quantity"], WIDTH), labelpad=1, fontsize=7)
    ax.locator_params(axis="x", nbins=4)
    ax.ticklabel_format(axis="x", useOffset=False)
    ax.tick_params(length=2, pad=1)
    ax.spines[["left", "top", "right"]].set_visible(False)
    for beside, text, x, side in (
        (left, worded(f"{first['claim_id']}: {first['statement']}", 50, 4), 1, "right"),
        (right, verdict_of(part), 0, "left"),
    ):
        beside.axis("off")
        beside.text(
            x,
            0.3,
            text,
            transform=beside.transAxes,
            ha=side,
            va="center",
            fontsize=7,
            in_layout=False,
        )


def worded(text: str, width: int, lines: int) -> str:
    """A text in lines."""
    return textwrap.fill(text, width, max_lines=lines, placeholder=" ...")


def verdict_of(part: pd.DataFrame) -> str:
    """What became of a claim where it was declared, and how many of its other regimes say what."""
    primary = part[part["primary"]].iloc[0] if part["primary"].any() else None
    said = f"{primary['verdict']}, $n$ = {primary['n']}" if primary is not None else VERDICTS[-1]
    if "supported_elsewhere" in part:
        counts = {verdict: int(part[f"{verdict}_elsewhere"].iloc[0]) for verdict in SHOWN}
    else:
        counts = part.loc[~part["primary"], "verdict"].value_counts().to_dict()
    others = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts.get(verdict)]
    return (
        said
        + "\n"
        + (worded("elsewhere " + ", ".join(others), 24, 3) if others else "no other regime")
    )


def limits(seen: pd.DataFrame, *ends: float) -> tuple[float, float]:
    """Ends of a row's scale: the finite ends of what is required, the primary interval, and what most regimes span."""
    values = [
        *seen["estimate"].quantile([0.1, 0.5, 0.9]),
        *seen.loc[seen["primary"], ["decided_low", "decided_high"]].to_numpy().ravel(),
    ]
    values = [value for value in [*values, *ends] if np.isfinite(value)]
    left, right = (min(values), max(values)) if values else (0.0, 1.0)
    # A spread of rounding is none: its scale would be labelled 1e-9 + 1.
    spread = right - left if right - left > 1e-6 * max(abs(left), abs(right)) else 0.0
    pad = 0.5 * (AXIS_REACH - 1) * spread or 0.5 * abs(left) or 0.5
    return left - pad, right + pad


def arrows(values: pd.Series, low: float, high: float, marker: str) -> list[tuple[str, np.ndarray]]:
    """Marks with their places; those beyond the scale at its ends."""
    values = values.to_numpy()
    below, above = values < low, values > high
    return [
        (marker, values[~below & ~above]),
        ("<", np.full(below.sum(), low)),
        (">", np.full(above.sum(), high)),
    ]
