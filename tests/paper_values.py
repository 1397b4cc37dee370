"""What every figure is held to at the size that it is printed at."""

import io
import itertools
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from rarefeat.figures.save import freeze_layout
from rarefeat.figures.style import COLUMN, NARROW, PAGE, project_style

SMALLEST = 7
"""Type in points."""
MOST_SERIES = 7
"""Of a panel."""
NONE = ("None", "")
LOOK = ("color", "marker", "linestyle", "markerfacecolor")
"""What tells one series from another."""


def texts(figure: Figure) -> list[str]:
    """Everything that is written in a figure."""
    return [
        text.get_text()
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip()
    ]


def check(
    draw: Callable[[], Figure],
    seeds: int | None = None,
    twice: bool = False,
    most: int = MOST_SERIES,
) -> Figure:
    """The figure; AssertionError where it could not be printed.

    seeds: their number in its tables, which it has to say. twice: whether to draw it twice, for the
    same bytes.
            most: series in one panel.
    """
    with project_style():
        figure = draw()
        if twice:
            assert pdf(figure) == pdf(draw())
        freeze_layout(figure)
        figure.canvas.draw()
        renderer = figure.canvas.get_renderer()
        width, height = figure.get_size_inches()
        assert width in (COLUMN, NARROW, PAGE)

        small = [
            text
            for text in figure.findobj(Text)
            if text.get_text().strip() and text.get_fontsize() < SMALLEST
        ]
        assert not small, small

        for ax in figure.axes:
            assert len(series := series_of(ax)) <= most, series

        whole = figure.get_tightbbox(renderer)
        assert whole.x0 >= -0.02, f"cut off on the left: {whole.x0:.2f} in"
        assert whole.y0 >= -0.02, f"cut off below: {whole.y0:.2f} in"
        assert whole.x1 <= width + 0.02, f"cut off on the right: {whole.x1:.2f} in"
        assert whole.y1 <= height + 0.02, f"cut off above: {whole.y1:.2f} in"

        axes = [
            ax
            for ax in figure.findobj(lambda artist: hasattr(artist, "get_xlabel"))
            if ax.get_visible()
        ]
        boxes = [ax.get_tightbbox(renderer) for ax in axes]
        for (one, a), (other, b) in itertools.combinations(zip(axes, boxes, strict=True), 2):
            assert overlap(a, b) <= 2, (
                f"panels overlap: {one.get_ylabel()!r} {one.get_xlabel()!r}",
                other.get_ylabel(),
            )
        for key in figure.findobj(lambda artist: type(artist).__name__ == "Legend"):
            for ax in axes:
                assert overlap(key.get_window_extent(renderer), ax.get_tightbbox(renderer)) <= 2, (
                    "a key covers a panel"
                )
        for ax in axes:
            for axis in (ax.xaxis, ax.yaxis):
                labels = [
                    tick.label1
                    for tick in axis._update_ticks()
                    if tick.label1.get_visible() and tick.label1.get_text()
                ]
                extents = [label.get_window_extent(renderer) for label in labels]
                for a, b in itertools.pairwise(extents):
                    assert overlap(a, b) <= 0, (
                        f"labels of ticks overlap: {[label.get_text() for label in labels]}"
                    )

    if seeds is not None:
        assert any(f"= {seeds} seed" in text for text in texts(figure)), texts(figure)
    return figure


def series_of(ax: Axes) -> set[tuple]:
    """The looks of all marks and of lines of more than two points.

    Intervals and straight references are no series.
    """
    drawn = [
        line
        for line in ax.lines
        if (line.get_marker() not in NONE and len(line.get_xdata()))
        or (line.get_linestyle() not in NONE and len(line.get_xdata()) > 2)
    ]
    return {tuple(str(getattr(line, f"get_{part}")()) for part in LOOK) for line in drawn}


def pdf(figure: Figure) -> bytes:
    """What is written of it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    return buffer.getvalue()


def overlap(a, b) -> float:
    """How far two boxes reach into each other, in pixels; 0 where they do not."""
    return max(0.0, min(min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)))
