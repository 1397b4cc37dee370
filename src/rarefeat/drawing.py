"""How every figure is written, apart from what it shows."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from rarefeat.files import replacing

mpl.use("agg")


def save(figure: Figure, outputs: list[Path]) -> None:
    """Write a figure in the format of each suffix; no date in the file: the same tables give the same bytes."""
    for output in outputs:
        metadata = {"CreationDate": None} if output.suffix == ".pdf" else None
        with replacing(output) as temporary:
            figure.savefig(temporary, dpi=200, bbox_inches="tight", metadata=metadata)
