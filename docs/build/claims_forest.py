"""A forest of claims on one axis: how far each number is from the range that it must lie in."""

import html
import math
from collections.abc import Mapping

import pandas as pd

from claim_records import anchor
from formatting import interval
from published_claims import published_claims
from rarefeat.claims.verdict import WORDS
from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import load

COLOURS = {"supported": "#0072B2", "open": "transparent", "contradicted": "#D55E00"}
"""Colours of claims by what is shown of them."""
TESTED = ("supported", "contradicted", "undecided", "too few seeds")
"""Verdicts of claims with a number."""
FARTHEST = 100.0
"""End of the axis, in distances that are decided."""
WIDTH, LEFT, RIGHT = 460, 10, 450
"""Picture, and ends of the axis (pixels)."""
DOT = (RIGHT - LEFT) / 66
"""Width of a dot (pixels): eleven are as wide as the unit of the axis, so each lies on its side."""


def svg(width: float, height: float, items: list[str], title: str) -> str:
    """Return an SVG picture; its text has the colour of the surrounding text."""
    body = "\n".join(items)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
        f' width="{width:g}" color="#1f2933" fill="currentColor"'
        ' font-family="system-ui, sans-serif" font-size="12.5" role="img"'
        f' aria-label="{html.escape(title)}">\n{body}\n</svg>\n'
    )


def text(
    x: float, y: float, words: str, anchor: str = "start", bold: bool = False, colour: str = ""
) -> str:
    """Return words at a place, as SVG."""
    looks = ' font-weight="600"' * bold + f' fill="{colour}"' * bool(colour)
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{looks}>{html.escape(words)}</text>'


def claim_mark(row: Mapping, shape: str, place: str) -> str:
    """Return the mark of a claim, as SVG: it leads to the claim's row, and has a tooltip."""
    verdict = WORDS.get(row["verdict"], row["verdict"])
    words = f"{row['statement']} ({row['source']}): {verdict} {interval(row, 'estimate', 2)}"
    return (
        f'<a href="#{anchor(row["claim_id"])}"><{shape} {place} fill="{COLOURS[row["shown"]]}">'
        f"<title>{html.escape(words)}</title></{shape}></a>"
    )


def shown_claims(tables: PublishedTables) -> pd.DataFrame:
    """Return every claim of the papers with what is shown of it."""
    rows = published_claims(tables, load())
    rows = rows[rows["primary"] & ~rows["check"]]
    return rows.assign(shown=rows["verdict"].where(rows["verdict"].isin(list(COLOURS)), "open"))


def bound_distance(row: pd.Series) -> float:
    """Return the distance from the nearest bound over the distance that the seeds would decide.

    It is above 0 inside of the allowed range. At 1 and at -1 the corrected interval ends at the
    bound: beyond them the claim is supported, or contradicted. An effect of interest moves the
    bound of a contradiction.
    """
    shift = row["least"] if row["verdict"] == "contradicted" else 0.0
    distances = []
    for inside, (toward, away) in (
        (row["estimate"] - row["required_low"] - shift, ("decided_high", "decided_low")),
        (row["required_high"] - shift - row["estimate"], ("decided_low", "decided_high")),
    ):
        unit = abs(row[toward if inside < 0 else away] - row["estimate"])
        if math.isfinite(inside):
            distances.append(inside / unit if unit else math.copysign(math.inf, inside))
    return min(distances, default=math.nan)


def place(distance: float) -> float:
    """Return the place of a distance on the axis (pixels): linear to 1, logarithmic beyond."""
    size = min(abs(distance), FARTHEST)
    scaled = size if size < 1 else 1 + math.log10(size)
    half = (RIGHT - LEFT) / 2
    return (LEFT + RIGHT) / 2 + math.copysign(half * scaled / (1 + math.log10(FARTHEST)), distance)


def claims_forest(tables: PublishedTables) -> str:
    """Draw the number of every tested claim as a dot on one axis, as SVG."""
    rows = shown_claims(tables)
    total, rows = len(rows), rows[rows["verdict"].isin(TESTED)]
    distances = [bound_distance(row) for _, row in rows.iterrows()]
    rows = rows.assign(distance=distances).dropna(subset="distance").sort_values("distance")
    columns = (rows["distance"].map(place) - place(0)) / DOT
    columns = columns.map(lambda x: math.copysign(int(abs(x)) + 0.5, x))
    levels = columns.groupby(columns).cumcount()
    top, low, high = 78.0, place(-1), place(1)
    bottom = top + DOT * (levels.max() + 2)
    title = "How far each estimate is from the range that its claim allows"
    axis = "distance to the edge of the range / distance that the runs can decide"
    items = [
        text(WIDTH / 2, 14, title, "middle", True),
        text(WIDTH / 2, 30, f"the {len(rows)} tested of all {total} claims", "middle"),
        f'<rect x="{low:.1f}" y="{top - 36:g}" width="{high - low:.1f}"'
        f' height="{bottom - top + 36:g}" fill="#888" fill-opacity="0.2"/>',
        f'<path d="M{LEFT} {bottom:g} H{RIGHT} M{place(0):g} {top:g} V{bottom:g}" stroke="#777"/>',
    ]
    for verdict, x in zip(COLOURS, (high + RIGHT, low + high, LEFT + low), strict=True):
        count = (rows["shown"] == verdict).sum()
        items.append(text(x / 2, 58, f"{count} {verdict}", "middle", True))
    for (_, row), column, level in zip(rows.iterrows(), columns, levels, strict=True):
        x, y = place(0) + DOT * column, bottom - DOT * (level + 0.6)
        circle = f'cx="{x:.1f}" cy="{y:.1f}" r="{0.45 * DOT:.1f}" stroke="#777"'
        items.append(claim_mark(row, "circle", circle))
    for value in (-100, -10, -1, 0, 1, 10, 100):
        words = f"{abs(value)}" + "+" * (abs(value) == FARTHEST)
        end = {-FARTHEST: "start", FARTHEST: "end"}.get(value, "middle")
        items.append(text(place(value), bottom + 14, words, end))
    items += [
        text(LEFT, bottom + 30, "\N{LEFTWARDS ARROW} outside"),
        text(WIDTH / 2, bottom + 30, "grey part: linear; the rest: logarithmic", "middle"),
        text(RIGHT, bottom + 30, "inside \N{RIGHTWARDS ARROW}", "end"),
        text(WIDTH / 2, bottom + 48, axis, "middle"),
    ]
    return svg(WIDTH, bottom + 54, items, title)
