"""Figures of claims: a row for each claim of a group, in words.

Each row has the interval that decides and the region that it must lie in.
"""

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
"""Verdicts of regimes that are drawn; the others are counted."""
VERDICT_STYLES = {
    "supported": STYLES[2].replace(marker="o"),
    "contradicted": STYLES[1].replace(marker="X"),
    "undecided": SeriesStyle("0.45", "D"),
}
URGENT = ("contradicted", "undecided", "diverged", "not testable", "supported")
"""Verdicts in the order in which their claims get a row."""
MAX_CLAIMS = 10
"""Rows of a figure."""
HEIGHT, LINE = 0.52, 0.11
"""Height of a row without its quantity, and of a line of that (inches)."""
WIDTH = 42
"""Length of a line of a quantity (characters)."""
MIN_SHADE_FRACTION = 0.01
"""A region that is a smaller fraction of the axis is a line, as so narrow a shade is invisible."""
AXIS_REACH = 1.5
"""Markers further out than this multiple of the span of most regimes are arrows at the edge."""


def group(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the claims of a group.

    The declared regime is large with the interval that decides, the others are small. The required
    region is shaded, lighter where an effect is smaller than the smallest of interest. Each row has
    an axis of its own, that of its quantity. Regimes that are not tested or have diverged are
    counted, not drawn.

    Parameters
    ----------
    tables : mapping
        The table of claims of the paper.
    job : Job
        Config: `group`.
    """
    (table,), name = tables.values(), job.config_section("group", str)
    return draw(table[table["group"] == name], name)


def select_claims(rows: pd.DataFrame) -> list[str]:
    """Return the claims that a figure shows, at most MAX_CLAIMS, in the order of the table.

    Those that are not supported come first.
    """
    verdicts = rows[rows["primary"]].set_index("claim_id")["verdict"]
    urgent = sorted(
        dict.fromkeys(rows["claim_id"]),
        key=lambda claim: URGENT.index(verdicts.get(claim, VERDICTS[-1])),
    )
    return [claim for claim in dict.fromkeys(rows["claim_id"]) if claim in urgent[:MAX_CLAIMS]]


def draw(rows: pd.DataFrame, name: str) -> Figure:
    """Draw the claims of a group from their rows.

    Parameters
    ----------
    rows : DataFrame
        Rows of the table of claims; or primary rows alone, with the verdicts of other regimes
        counted in columns *_elsewhere.
    name : str
        Name of the group.
    """
    claims = select_claims(rows)
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
        draw_row(*line, rows[rows["claim_id"] == claim])
    tested = rows[rows["verdict"].isin(SHOWN)]
    entries = {
        verdict: Line2D([], [], **marker_options(verdict), ms=6)
        for verdict in SHOWN
        if verdict in set(tested["verdict"])
    }
    entries |= {
        "declared regime, interval that decides": Line2D(
            [], [], color="0.3", lw=1.4, marker="o", mfc="none", ms=6
        )
    }
    if (~tested["primary"]).any():
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


def marker_options(verdict: str) -> dict:
    """Return the options of the marker of a regime with a verdict."""
    style = VERDICT_STYLES[verdict]
    return {"color": style.colour, "marker": style.marker, "ls": "none", "mew": 0.5, "mec": "white"}


def draw_row(left: Axes, ax: Axes, right: Axes, rows: pd.DataFrame) -> None:
    """Draw one claim: its statement, its regimes, and its verdict.

    Parameters
    ----------
    left, ax, right : Axes
        Axes of statement, regimes and verdict.
    rows : DataFrame
        Rows of the claim.
    """
    first, tested = rows.iloc[0], rows[rows["verdict"].isin(SHOWN)]
    required = first["required_low"], first["required_high"]
    matters = required[0] + first["least"], required[1] - first["least"]
    low, high = axis_limits(tested, *required, *matters)
    for ends, colour in ((required, "0.95"), (matters, "0.86")):
        left_end, right_end = np.clip(ends, low, high)
        if right_end - left_end > MIN_SHADE_FRACTION * (high - low):
            ax.axvspan(left_end, right_end, color=colour, lw=0)
        elif ends[0] <= ends[1]:
            ax.axvline((left_end + right_end) / 2, color=colour, lw=3, zorder=0.5)
    for verdict in SHOWN:
        others = tested[(tested["verdict"] == verdict) & ~tested["primary"]]
        marker = VERDICT_STYLES[verdict].marker
        for shape, positions in clip_markers(others["estimate"], low, high, marker):
            ax.plot(
                positions,
                np.zeros(len(positions)),
                **marker_options(verdict) | {"marker": shape},
                ms=4,
                alpha=0.75,
            )
    for entry in tested[tested["primary"]].itertuples():
        ends = np.clip([entry.decided_low, entry.decided_high], low, high)
        ax.plot(ends, [0.45, 0.45], color=VERDICT_STYLES[entry.verdict].colour, lw=1.4)
        ax.plot(np.clip(entry.estimate, low, high), 0.45, **marker_options(entry.verdict), ms=7)
    for verdict in rows.loc[rows["primary"] & ~rows["verdict"].isin(SHOWN), "verdict"]:
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
    for text_axes, text, x, side in (
        (left, wrap_text(f"{first['claim_id']}: {first['statement']}", 50, 4), 1, "right"),
        (right, format_verdict(rows), 0, "left"),
    ):
        text_axes.axis("off")
        text_axes.text(
            x,
            0.3,
            text,
            transform=text_axes.transAxes,
            ha=side,
            va="center",
            fontsize=7,
            in_layout=False,
        )


def wrap_text(text: str, width: int, max_lines: int) -> str:
    """Wrap a text into lines.

    Parameters
    ----------
    text : str
        The text.
    width : int
        Length of a line (characters).
    max_lines : int
        Largest number of lines; the text is cut after them.
    """
    return textwrap.fill(text, width, max_lines=max_lines, placeholder=" ...")


def format_verdict(rows: pd.DataFrame) -> str:
    """Format the verdict of a claim's declared regime, and count those of its other regimes."""
    primary = rows[rows["primary"]].iloc[0] if rows["primary"].any() else None
    text = f"{primary['verdict']}, $n$ = {primary['n']}" if primary is not None else VERDICTS[-1]
    if "supported_elsewhere" in rows:
        counts = {verdict: int(rows[f"{verdict}_elsewhere"].iloc[0]) for verdict in SHOWN}
    else:
        counts = rows.loc[~rows["primary"], "verdict"].value_counts().to_dict()
    others = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts.get(verdict)]
    elsewhere = wrap_text("elsewhere " + ", ".join(others), 24, 3) if others else "no other regime"
    return text + "\n" + elsewhere


def axis_limits(tested: pd.DataFrame, *ends: float) -> tuple[float, float]:
    """Return the limits of a row's axis.

    They span the finite ends of the required region, the primary interval, and most regimes.

    Parameters
    ----------
    tested : DataFrame
        Rows of the claim with a verdict of SHOWN.
    *ends : float
        Ends of the regions that are shaded; infinite where open.
    """
    values = [
        *tested["estimate"].quantile([0.1, 0.5, 0.9]),
        *tested.loc[tested["primary"], ["decided_low", "decided_high"]].to_numpy().ravel(),
    ]
    values = [value for value in [*values, *ends] if np.isfinite(value)]
    left, right = (min(values), max(values)) if values else (0.0, 1.0)
    # A spread that is a rounding error would label the axis 1e-9 + 1.
    spread = right - left if right - left > 1e-6 * max(abs(left), abs(right)) else 0.0
    pad = 0.5 * (AXIS_REACH - 1) * spread or 0.5 * abs(left) or 0.5
    return left - pad, right + pad


def clip_markers(
    values: pd.Series, low: float, high: float, marker: str
) -> list[tuple[str, np.ndarray]]:
    """Return markers with their positions; values beyond the axis are arrows at its ends.

    Parameters
    ----------
    values : Series
        Estimates.
    low, high : float
        Limits of the axis.
    marker : str
        Marker within them.
    """
    values = values.to_numpy()
    below, above = values < low, values > high
    return [
        (marker, values[~below & ~above]),
        ("<", np.full(below.sum(), low)),
        (">", np.full(above.sum(), high)),
    ]
