"""Drawings of docs/method: one for each method, as SVG without a number of a run."""

import math
from collections.abc import Callable

from drawings import arrow, svg, text
from rarefeat.figures.style import FREQUENT, MASKED, RARE

GREY, GREEN = "#8A939B", "#009E73"
"""Colours of noise and of what a method leaves out, and of a second kind of feature."""


def box(x: float, y: float, width: float, words: str = "", colour: str = "currentColor") -> str:
    """Return a rounded box, 24 pixels high, with words in it."""
    frame = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="24" rx="4" fill="none"'
        f' stroke="{colour}"/>'
    )
    return frame + text(x + 8, y + 16, words, 11)


def cell(x: float, y: float, colour: str, filled: bool = True, size: float = 16) -> str:
    """Return a square, filled or empty."""
    fill = colour if filled else "none"
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" rx="2" fill="{fill}"'
        f' stroke="{colour}"/>'
    )


def curve(points: list[tuple[float, float]], colour: str, dashes: str = "") -> str:
    """Return a line through points."""
    path = " ".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return (
        f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"'
        f' stroke-dasharray="{dashes}"/>'
    )


def axes(x: float, y: float, width: float, height: float, horizontal: str, vertical: str) -> str:
    """Return two axes with their names."""
    lines = f'<path d="M{x:g} {y - height:g} V{y:g} H{x + width:g}" fill="none" stroke="{GREY}"/>'
    names = text(x + width - 6 * len(horizontal), y + 15, horizontal, 11)
    return lines + names + text(x - 2, y - height - 6, vertical, 11)


def draw_model() -> str:
    """Draw how two views of a sample become embeddings that are compared."""
    items = []
    for row, (tokens, name) in enumerate((((1, 0, 2, 1), "X"), ((0, 1, 1, 2), "Y"))):
        y = 26 + 62 * row
        items.append(text(1, y + 12, f"view {name}", 11))
        for i, kind in enumerate(tokens):
            colour = (GREY, FREQUENT, RARE)[kind]
            items.append(cell(52 + 22 * i, y, colour, kind > 0))
        items += [arrow(146, y + 8, 176, y + 8), box(180, y - 4, 76, "attention")]
        items += [arrow(260, y + 8, 290, y + 8), box(294, y - 4, 150, "neurons: |w·z| above b?")]
        items += [arrow(448, y + 8, 478, y + 8), box(482, y - 4, 118, f"embedding f({name})")]
    items += [text(52, 18, "4 tokens: features, noise", 11), arrow(610, 40, 650, 58)]
    items += [arrow(610, 90, 650, 72), text(656, 62, "similar for a pair,", 11)]
    items.append(text(656, 78, "not for negatives", 11))
    title = "Tokens of two views pass through attention and thresholded neurons; embeddings meet"
    return svg(780, 112, items, title)


def draw_reduced() -> str:
    """Draw the coordinates of a token: features, those that weights see, and the rest."""
    items = [text(1, 16, "direct: every coordinate of a token", 12.5, bold=True)]
    kinds = [FREQUENT] * 8 + [RARE] + ["currentColor"] * 9 + [GREY] * 34
    items += [cell(1 + 15 * i, 24, kind, kind != GREY, 12) for i, kind in enumerate(kinds)]
    items.append(text(1, 76, "reduced: the same distribution", 12.5, bold=True))
    items += [cell(1 + 15 * i, 84, kind, True, 12) for i, kind in enumerate(kinds[:18])]
    items += [cell(286 + 15 * i, 84, GREY, True, 12) for i in range(4)]
    items += [text(1, 52, "features: d", 11), text(136, 52, "seen by weights: q", 11)]
    items += [text(286, 52, "the rest: enters by inner products only", 11)]
    items.append(text(356, 94, "one Bartlett factor of a Wishart matrix", 11))
    title = "The reduced simulator keeps features and visible noise, and a factor for the rest"
    return svg(780, 104, items, title)


def draw_margin() -> str:
    """Draw the growth of two features and the gate that decides for the rare one."""
    items = [axes(20, 130, 300, 100, "growth", "log of the projection")]
    items.append(curve([(20, 110), (200, 50), (320, 50)], FREQUENT))
    items.append(curve([(20, 118), (200, 96), (320, 82)], RARE))
    items.append(f'<path d="M200 30 V130" stroke="{GREY}" stroke-dasharray="3 3"/>')
    items += [text(326, 54, "frequent feature: saturates", 11), text(326, 86, "rare feature", 11)]
    items += [axes(520, 130, 240, 100, "cosine after growth", "probability to learn")]
    logistic = [(520 + 2.4 * i, 130 - 90 / (1 + math.exp(-(i - 50) / 9))) for i in range(0, 101, 2)]
    items.append(curve(logistic, RARE))
    items.append(f'<path d="M640 40 V130" stroke="{GREY}" stroke-dasharray="3 3"/>')
    items.append(text(647, 124, "gate", 11))
    title = "Frequent features grow faster and saturate; the best cosine then meets the gate"
    return svg(780, 150, items, title)


def draw_late_learning() -> str:
    """Draw three ways in which a cosine below the gate moves on."""
    items = []
    panels = ("leak above own growth", "kick alone: it settles below", "fresh pairs: random walk")
    for panel, title in enumerate(panels):
        x = 10 + 262 * panel
        items.append(axes(x, 122, 220, 82, "step", ""))
        items.append(text(x, 18, title, 12.5, bold=True))
        items.append(f'<path d="M{x} 62 H{x + 220}" stroke="{GREY}" stroke-dasharray="4 3"/>')
        items.append(text(x + 6, 56, "gate", 11))
        steps = range(0, 221, 5)
        heights = (
            [6 * math.exp(t / 88) for t in steps],
            [6 + 30 * (1 - math.exp(-t / 50)) for t in steps],
            [20 + 11 * math.sin(t / 9) + 9 * math.sin(t / 4 + 1) for t in steps],
        )[panel]
        items.append(curve([(x + t, 120 - h) for t, h in zip(steps, heights, strict=True)], RARE))
    title = "The cosine to the rare feature grows to the gate, settles below it, or wanders"
    return svg(780, 142, items, title)


def draw_image_methods() -> str:
    """Draw which network gives the softmax weights, which the gradient, and what is updated."""
    rows = (
        ("dense", "dense", "dense", "all weights"),
        ("eq. (5)", "masked", "dense", "all weights"),
        ("straight-through", "masked", "masked", "all weights, masked ones too"),
        ("self-damaging", "dense and masked", "dense and masked", "masked ones by the dense view"),
    )
    headings = ("method", "softmax weights from", "gradient through", "update of")
    columns = (1, 140, 310, 490)
    items = [text(x, 14, words, 11, True) for x, words in zip(columns, headings, strict=True)]
    for row, (name, first, second, update) in enumerate(rows):
        y = 22 + 31 * row
        items.append(text(1, y + 16, name, 12.5))
        for x, words in zip(columns[1:3], (first, second), strict=True):
            items.append(box(x, y, 130, words, MASKED if "masked" in words else "currentColor"))
        items += [arrow(448, y + 12, 482, y + 12), text(490, y + 16, update, 11)]
    title = "Dense, eq. (5), straight-through and self-damaging differ in the use of the mask"
    return svg(780, 150, items, title)


def draw_views() -> str:
    """Draw the coordinates of two views of one sample for four kinds of pairs."""
    kinds = {
        "noise of its own": "each view has its own noise",
        "identical views": "the same view twice",
        "random mask": "each coordinate in one view",
        "added colour": "one more signal in both views",
    }
    items = []
    for kind, (name, words) in enumerate(kinds.items()):
        x = 1 + 195 * kind
        items += [text(x, 16, name, 12.5, bold=True), text(x, 92, words, 11)]
        for view in range(2):
            y = 28 + 26 * view
            for i in range(8):
                masked = name == "random mask" and i // 2 % 2 == view
                colour = FREQUENT if i in (1, 4) else GREY
                items.append(cell(x + 19 * i, y, colour, i in (1, 4) and not masked))
                if not masked:
                    fresh = view and name in ("noise of its own", "added colour")
                    items.append(text(x + 19 * i + 4, y + 13, "~" if fresh else "=", 10))
                if name == "added colour":
                    mark = f'd="M{x + 19 * i} {y + 14} h16" stroke="{GREEN}" stroke-width="3"'
                    items.append(f"<path {mark}/>")
    items.append(text(1, 110, "filled: a feature; = and ~: two draws of the noise", 11))
    return svg(780, 116, items, "Two views share the signal and differ in noise, mask or colour")


def draw_patches() -> str:
    """Draw an easy and a hard sample as rows of patches."""
    items = []
    samples = (
        ("easy sample", (1, 0, 1, 2, 0, 1, 2, 0), "common and subclass features of one class"),
        ("hard sample", (0, 3, 0, 2, 3, 4, 2, 0), "subclass features, and the other superclass"),
    )
    colours = (GREY, FREQUENT, GREEN, "currentColor", GREY)
    for row, (name, patches, words) in enumerate(samples):
        y = 12 + 34 * row
        items.append(text(1, y + 14, name, 12.5, bold=True))
        for i, kind in enumerate(patches):
            items.append(cell(110 + 24 * i, y, colours[kind], kind in (1, 2), 19))
            if kind in (3, 4):
                items.append(text(110 + 24 * i + 5, y + 14, "x" if kind == 3 else "!", 12))
        items.append(text(320, y + 14, words, 11))
    items += [cell(110, 84, FREQUENT), text(132, 97, "common", 11), cell(200, 84, GREEN)]
    items += [text(222, 97, "subclass", 11), text(300, 97, "x  distractor", 11)]
    items.append(text(400, 97, "!  louder noise", 11))
    return svg(780, 106, items, "Easy samples hold common features; hard ones hold distractors")


def draw_stairs() -> str:
    """Draw the best labels of scores with one and three sign changes of a parity."""
    rows = {"parity": "+-+-+-", "1 sign change": "+++---", "3 sign changes": "+-+---"}
    items = [text(1, 16, "relevant patterns", 11)]
    items += [text(135 + 40 * count, 16, str(count), 11) for count in range(6)]
    for row, (name, signs) in enumerate(rows.items()):
        y = 26 + 30 * row
        items.append(text(1, y + 14, name, 12.5, bold=row == 0))
        for count, (sign, label) in enumerate(zip(signs, rows["parity"], strict=True)):
            x = 130 + 40 * count
            items.append(cell(x, y, FREQUENT, filled=sign == "+", size=19))
            if sign != label:
                items.append(text(x + 6, y + 14, "x", 12))
    items.append(text(390, 40, "filled: label +1; empty: label -1", 11))
    items.append(text(390, 70, "x: a count that the score gets wrong", 11))
    return svg(780, 112, items, "A parity needs a sign change between any two counts of patterns")


def draw_loop() -> str:
    """Draw a check: a statement is run as it stands, next to its closed form."""
    items = [box(1, 40, 150, "statement of the text"), arrow(156, 46, 206, 26)]
    items += [arrow(156, 58, 206, 78), box(212, 12, 190, "run it as it is defined")]
    items += [box(212, 68, 190, "closed form, with our choices"), arrow(408, 26, 458, 46)]
    items += [arrow(408, 78, 458, 58), box(464, 40, 110, "equal?")]
    items.append(text(584, 48, "a test computes it a third way", 11))
    items.append(text(584, 64, "that does not use the closed form", 11))
    return svg(780, 100, items, "A statement is computed as defined and by its closed form")


METHOD_DRAWINGS: dict[str, Callable[[], str]] = {
    "method_model.svg": draw_model,
    "method_reduced.svg": draw_reduced,
    "method_selection.svg": draw_margin,
    "method_fate.svg": draw_late_learning,
    "method_images.svg": draw_image_methods,
    "method_augmentation.svg": draw_views,
    "method_fine_labels.svg": draw_patches,
    "method_two_layer.svg": draw_stairs,
    "method_exact_results.svg": draw_loop,
}
"""Functions that draw the methods, by file in docs/figures."""
