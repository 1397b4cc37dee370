"""One look for all figures: sizes in print, type, and palettes that are told apart in greyscale and by the colour-blind."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl

from rarefeat.core.arms import ARMS

COLUMN, PAGE = 3.25, 6.75
"""Width of a printed column and of a page, in inches. Figures are saved at the size that they are printed at."""
SEQUENTIAL = "viridis"
GREY = "0.55"
"""Lines of reference."""
# Okabe and Ito's colours without the yellow, neighbours apart in lightness; marker and dash tell them apart without any colour.
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
# Paul Tol's muted scheme, for more classes than that.
MANY = (
    "#332288", "#DDCC77", "#117733", "#88CCEE", "#882255", "#44AA99", "#CC6677", "#999933", "#AA4499", "#777777",
)  # fmt: skip
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "*")
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
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.4,
    "figure.titlesize": 7.5,
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
    """How one series is drawn."""

    colour: Any
    marker: str = ""
    dash: Any = "-"
    filled: bool = True

    @property
    def line(self) -> dict[str, Any]:
        """Options of a line with marks."""
        face = self.colour if self.filled else "white"
        return {
            "color": self.colour,
            "marker": self.marker,
            "ls": self.dash,
            "mfc": face,
            "mec": self.colour,
        }

    @property
    def without_line(self) -> "SeriesStyle":
        """The same look without the line."""
        return replace(self, dash="none")

    def replace(self, **changes: Any) -> "SeriesStyle":
        """The same look but for some of it."""
        return replace(self, **changes)


STYLES = tuple(SeriesStyle(*parts) for parts in zip(QUALITATIVE, MARKERS, DASHES, strict=False))
# An arm has one look in all figures; what is no arm of training is grey.
ARM_STYLES = {name: SeriesStyle(*arm.style) for name, arm in ARMS.items() if arm.style}
ARM_STYLES |= {"pruned": ARM_STYLES["pruned_neuron"], "self_damaging": STYLES[4]}


def assign_styles(
    names: Iterable[str], known: dict[str, SeriesStyle] = ARM_STYLES
) -> dict[str, SeriesStyle]:
    """A look for each name: its own where it has one, else the next that none of them has."""
    names = list(dict.fromkeys(names))
    taken = [known[name] for name in names if name in known]
    free = iter(
        [look for look in STYLES if look not in taken]
        + [look.replace(filled=False) for look in STYLES]
    )
    return {name: known[name] if name in known else next(free) for name in names}


def sequential_styles(levels: Iterable[Any]) -> dict[Any, SeriesStyle]:
    """Looks of the levels of one quantity, dark to light in their order, so that it survives greyscale."""
    levels = list(levels)
    shades = mpl.colormaps[SEQUENTIAL](
        [0.85 * index / max(len(levels) - 1, 1) for index in range(len(levels))]
    )
    markers = [MARKERS[index % len(MARKERS)] for index in range(len(levels))]
    return {
        level: SeriesStyle(tuple(shade), marker)
        for level, shade, marker in zip(levels, shades, markers, strict=True)
    }


@contextlib.contextmanager
def project_style() -> Iterator[None]:
    """Draw in the style of this project's figures, whatever the reader's own is."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield
