"""The style of all figures: sizes in print, type and palettes.

Series can be told apart in greyscale, and by the colour-blind.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl

COLUMN, NARROW, PAGE = 3.25, 4.3, 6.75
"""Width of a printed column, of what a telephone shows readably, and of a page (inches).

Figures are saved at their printed size.
"""
SEQUENTIAL = "viridis"
GREY = "0.55"
"""Colour of reference lines."""
RARE, FREQUENT, DENSE, MASKED = "#D55E00", "#7F7F7F", "#000000", "#0072B2"
"""Colour of a rare feature, of frequent ones, of a training without a mask, and of masked ones."""
# These are Okabe and Ito's colours without the yellow. Neighbours differ in lightness; marker and
# dash differ as well.
QUALITATIVE = (
    "#000000",
    "#D55E00",
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#7F7F7F",
)
# Paul Tol's muted scheme has more colours.
MANY = (
    "#332288",
    "#DDCC77",
    "#117733",
    "#88CCEE",
    "#882255",
    "#44AA99",
    "#CC6677",
    "#999933",
    "#AA4499",
    "#777777",
)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "*")
GLYPHS = dict(zip(MARKERS, "●■◆▲▼✚✖◀▶★", strict=True))
HOLLOW = dict(zip(MARKERS, "○□◇△▽✚✖◁▷☆", strict=True))
"""Filled and hollow marker as a character, by marker."""
DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (5, 1, 1, 1)),
    (0, (1, 1)),
    (0, (6, 1, 1, 1, 1, 1)),
    (0, (2, 1)),
    (0, (8, 2)),
    "-.",
)

RC = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "figure.labelsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.4,
    "figure.titlesize": 8,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlepad": 3,
    "axes.labelpad": 2,
    "axes.axisbelow": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.6,
    "lines.markeredgewidth": 0.8,
    "patch.linewidth": 0.6,
    "image.cmap": SEQUENTIAL,
    "pdf.fonttype": 42,
    "savefig.dpi": 220,
}


@dataclass(frozen=True)
class SeriesStyle:
    """Colour, marker and dash of one series."""

    colour: Any
    marker: str = ""
    dash: Any = "-"
    filled: bool = True

    @property
    def line(self) -> dict[str, Any]:
        """Options of a matplotlib line with markers."""
        face = self.colour if self.filled else "white"
        return {
            "color": self.colour,
            "marker": self.marker,
            "ls": self.dash,
            "mfc": face,
            "mec": self.colour,
        }

    @property
    def glyph(self) -> str:
        """Marker as a character."""
        return (GLYPHS if self.filled else HOLLOW)[self.marker]

    @property
    def without_line(self) -> "SeriesStyle":
        """This style with markers alone."""
        return replace(self, dash="none")

    def replace(self, **changes: Any) -> "SeriesStyle":
        """Return this style with some fields changed."""
        return replace(self, **changes)


STYLES = tuple(SeriesStyle(*look) for look in zip(QUALITATIVE, MARKERS, DASHES, strict=False))
# Masks are blue, and an oracle's light blue; orange is the rare feature's.
ARM_STYLES = {
    "dense": SeriesStyle(DENSE, "o"),
    "pruned_neuron": SeriesStyle(MASKED, "s", (0, (4, 1.5))),
    "pruned_weight": SeriesStyle("#E69F00", "^", (0, (1, 1))),
    "oracle_all": SeriesStyle("#56B4E9", "D", (0, (5, 1, 1, 1))),
    "oracle_gated": SeriesStyle("#CC79A7", "P", (0, (2, 1))),
    "initial": SeriesStyle(GREY, "v", (0, (1, 1))),
    "ideal": SeriesStyle(GREY, "P", (0, (6, 2))),
}
"""Style of an arm in all figures; any other has the next one of STYLES."""
ARM_STYLES |= {"pruned": ARM_STYLES["pruned_neuron"], "self_damaging": STYLES[4]}


def assign_styles(
    names: Iterable[str], assigned: dict[str, SeriesStyle] = ARM_STYLES
) -> dict[str, SeriesStyle]:
    """Return a style for each name: the assigned one, else the next of another colour."""
    names = list(dict.fromkeys(names))
    taken = {assigned[name].colour for name in names if name in assigned}
    free = iter(
        [style for style in STYLES if style.colour not in taken]
        + [style.replace(filled=False) for style in STYLES]
    )
    return {name: assigned[name] if name in assigned else next(free) for name in names}


def sequential_styles(levels: Iterable[Any]) -> dict[Any, SeriesStyle]:
    """Return styles of the levels of one quantity, dark to light in their order."""
    levels = list(levels)
    shades = mpl.colormaps[SEQUENTIAL](
        [0.6 * index / max(len(levels) - 1, 1) for index in range(len(levels))]
    )
    markers = [MARKERS[index % len(MARKERS)] for index in range(len(levels))]
    return {
        level: SeriesStyle(tuple(shade), marker)
        for level, shade, marker in zip(levels, shades, markers, strict=True)
    }


@contextlib.contextmanager
def project_style() -> Iterator[None]:
    """Draw in the style of this project's figures, whatever the user's own style is."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield
