"""Drawings of docs/ that hold no number of a run, as SVG in the colours of the page."""

import html
import math

from rarefeat.figures.style import FREQUENT, RARE


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


def arrow(x1: float, y1: float, x2: float, y2: float, colour: str = "currentColor") -> str:
    """Return an arrow between two points, as SVG."""
    angle = math.atan2(y2 - y1, x2 - x1)
    wings = (
        f"M{x2 - 7 * math.cos(angle + side):.1f} {y2 - 7 * math.sin(angle + side):.1f}"
        f" L{x2:.1f} {y2:.1f}"
        for side in (-0.45, 0.45)
    )
    return (
        f'<path d="M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f} {" ".join(wings)}" fill="none"'
        f' stroke="{colour}" stroke-width="1.6"/>'
    )


# Features that each of six samples holds, of features 0 to 4; 4 is the rare one.
SAMPLES = ((0, 2), (1, 3), (0, 1), (2, 3), (1, 4), (0, 3))
RARE_FEATURE = 4


def colour(feature: int) -> str:
    """Return the colour of a feature."""
    return RARE if feature == RARE_FEATURE else FREQUENT


def draw_samples(x: float) -> list[str]:
    """Draw six samples as rows of features, the rare one in its own colour."""
    items = [text(x, 18, "1. Samples hold a few features", bold=True)]
    for row, features in enumerate(SAMPLES):
        for feature in range(5):
            fill = colour(feature) if feature in features else "none"
            items.append(
                f'<rect x="{x + 24 * feature:g}" y="{34 + 22 * row}" width="20" height="17" rx="3"'
                f' fill="{fill}" stroke="{colour(feature)}"/>'
            )
    items.append(text(x + 126, 50, "each row is a sample", 11))
    items.append(text(x + 126, 138, "one feature is rare", 11))
    return items


def draw_neurons(x: float) -> list[str]:
    """Draw neurons as arrows from one point: towards frequent features, and short ones between."""
    items = [text(x, 18, "2. Neurons turn towards features", bold=True)]
    origin_x, origin_y = x + 22.0, 148.0
    for feature in range(5):
        angle = -math.pi * (0.02 + 0.115 * feature)
        cos, sin = math.cos(angle), math.sin(angle)
        items.append(
            f'<circle cx="{origin_x + 112 * cos:.1f}" cy="{origin_y + 112 * sin:.1f}" r="6"'
            f' fill="{colour(feature)}"/>'
        )
        if feature != RARE_FEATURE:
            tip = origin_x + 98 * cos, origin_y + 98 * sin
            items.append(arrow(origin_x, origin_y, *tip, FREQUENT))
    angle = -math.pi * 0.42
    tip = origin_x + 30 * math.cos(angle), origin_y + 30 * math.sin(angle)
    items.append(arrow(origin_x, origin_y, *tip, RARE))
    items.append(text(x + 132, 48, "those of frequent ones", 11))
    items.append(text(x + 132, 63, "grow first", 11))
    return items


def draw_gate(x: float) -> list[str]:
    """Draw two activations against step, and the threshold that rises past the smaller one."""
    items = [text(x, 18, "3. The bias closes a gate", bold=True)]
    left, bottom = x + 4, 150
    items.append(
        f'<path d="M{left:g} 40 V{bottom} H{left + 200:g}" fill="none" stroke="currentColor"/>'
    )
    curves = {
        FREQUENT: f"M{left:g} 146 C{left + 50:g} 144 {left + 70:g} 60 {left + 196:g} 48",
        RARE: f"M{left:g} 147 C{left + 60:g} 146 {left + 90:g} 136 {left + 196:g} 140",
    }
    for stroke, path in curves.items():
        items.append(f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="2"/>')
    items.append(
        f'<path d="M{left + 70:g} 149 C{left + 100:g} 149 {left + 110:g} 104 {left + 196:g} 100"'
        ' fill="none" stroke="currentColor" stroke-dasharray="4 3"/>'
    )
    items.append(text(left + 118, 96, "threshold", 11))
    items.append(text(left + 138, 166, "training step", 11))
    items.append(text(left + 6, 48, "activation", 11))
    return items


def pipeline() -> str:
    """Draw what happens to a rare feature in three pictures."""
    items = [*draw_samples(1), *draw_neurons(280), *draw_gate(560)]
    title = (
        "Samples hold a few features, one of them rarely; neurons turn towards the frequent ones;"
        " the bias rises, and what a neuron has of the rare feature stays below it"
    )
    return svg(780, 176, items, title)
