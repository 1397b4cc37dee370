"""A forest of claims on one axis: how far each number is from the range that it must lie in."""

import html
import math
import textwrap

import pandas as pd

from formatting import interval
from published_claims import published_claims
from rarefeat.claims.page import anchor
from rarefeat.claims.verdict import WORDS
from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import load

COLOURS = {
    "supported": "#0072B2",
    "contradicted": "#D55E00",
    "undecided": "#C8C8C8",
    "too few seeds": "#E6E6E6",
    "premise not met": "#CC79A7",
    "diverged": "#5C2A6B",
    "not testable": "none",
    "not yet run": "none",
}
"""Colours of verdicts; all but the last differ in greyscale."""
LISTED = ("contradicted", "undecided")
"""Verdicts whose claims have a row each; those of others share one row."""
FARTHEST = 100.0
"""End of the axis, in distances that are decided."""
WIDTH, LEFT, RIGHT, LINE, DOT = 460, 10, 450, 13, 5.6
"""Picture, ends of the axis, height of a line of text, and width of a small dot (pixels)."""


def svg(width: float, height: float, items: list[str], title: str) -> str:
    """Return an SVG picture; its text has the colour of the surrounding text."""
    body = "\n".join(items)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
        f' width="{width:g}" color="#1f2933" fill="currentColor"'
        ' font-family="system-ui, sans-serif" font-size="12.5" role="img"'
        f' aria-label="{html.escape(title)}">\n{body}\n</svg>\n'
    )


def text(x: float, y: float, words: str, size: float = 12.5, bold: bool = False) -> str:
    """Return words at a place, as SVG."""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{weight}>{html.escape(words)}</text>'


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


def mark(row: pd.Series, y: float, radius: float = 3.6) -> str:
    """Return the dot of a claim, with a link to its row and a tooltip."""
    verdict = WORDS.get(row["verdict"], row["verdict"])
    words = f"{row['statement']} ({row['source']}): {verdict} {interval(row, 'estimate', 2)}"
    return (
        f'<a href="#{anchor(row["claim_id"])}"><circle cx="{place(row["distance"]):.1f}"'
        f' cy="{y:.1f}" r="{radius:g}" fill="{COLOURS[row["verdict"]]}" stroke="#555">'
        f"<title>{html.escape(words)}</title></circle></a>"
    )


def draw_rows(rows: pd.DataFrame, y: float) -> tuple[list[str], float]:
    """Draw each claim's statement above its dot, the farthest outside of its range first; return
    where it ends.
    """
    items = []
    for _, row in rows.sort_values("distance").iterrows():
        lines = textwrap.wrap(row["statement"][0].upper() + row["statement"][1:], 74)
        if len(lines) > 2:
            lines = [lines[0], textwrap.shorten(" ".join(lines[1:]), 72, placeholder=" ...")]
        items += [text(0, y + 4 + LINE * i, line, 11) for i, line in enumerate(lines)]
        y += LINE * len(lines)
        items.append(mark(row, y - 1))
        y += LINE
    return items, y


def draw_swarm(rows: pd.DataFrame, y: float) -> tuple[list[str], float]:
    """Draw the dots of all claims in one row, side by side where they would hide each other."""
    items, taken = [], {}
    for _, row in rows.sort_values("distance").iterrows():
        column = round(place(row["distance"]) / DOT)
        taken[column] = taken.get(column, -1) + 1
        items.append(mark(row, y + DOT * taken[column], DOT / 2))
    return items, y + DOT * max(taken.values(), default=0) + 14


def draw_axis(top: float, bottom: float) -> list[str]:
    """Draw the axis, above and below, with the band in which no claim is decided."""
    low, high = place(-1), place(1)
    items = [
        f'<rect x="{low:.1f}" y="{top:g}" width="{high - low:.1f}" height="{bottom - top:g}"'
        ' fill="#888" fill-opacity="0.3" stroke="none"/>',
        f'<path d="M{place(0):g} {top:g} V{bottom:g}" stroke="#777" stroke-dasharray="3 3"/>',
    ]
    for value in (-100, -10, -1, 0, 1, 10, 100):
        x = place(value)
        words = f"{abs(value)}" if abs(value) < FARTHEST else f"{FARTHEST:g}+"
        end = "start" if value == -FARTHEST else "end" if value == FARTHEST else "middle"
        items += [
            f'<text x="{x:.1f}" y="{y:g}" font-size="11" text-anchor="{end}">{words}</text>'
            for y in (top - 5, bottom + 13)
        ]
    return items


def claims_forest(tables: PublishedTables) -> str:
    """Draw every tested claim of the papers on one axis, contradicted ones first, as SVG."""
    rows = published_claims(tables, load())
    rows = rows[rows["primary"] & ~rows["check"]]
    rows = rows[rows["verdict"].isin([*LISTED, "too few seeds", "supported"])]
    distances = [bound_distance(row) for _, row in rows.iterrows()]
    rows = rows.assign(distance=distances).dropna(subset="distance")
    top, items = 52.0, []
    y = top + 8
    for verdict in (*LISTED, "too few seeds", "supported"):
        group = rows[rows["verdict"] == verdict]
        items.append(text(0, y + 4, f"{len(group)} {WORDS.get(verdict, verdict)}", 12, bold=True))
        marks, y = draw_rows(group, y + 22) if verdict in LISTED else draw_swarm(group, y)
        items += marks
        y += 10
    heading = [
        text(0, 14, "How far each number is from the range that its claim allows", 13, bold=True),
        text(LEFT, 30, "\N{LEFTWARDS ARROW} outside", 11),
        text(RIGHT - 48, 30, "inside \N{RIGHTWARDS ARROW}", 11),
    ]
    label = "Distance of every tested claim from the range that it allows, contradicted ones first"
    return svg(WIDTH, y + 8, [*heading, *draw_axis(top, y - 8), *items], label)
