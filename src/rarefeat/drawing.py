"""How every figure is written, apart from what it shows."""

import io
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from rarefeat.files import replacing
from rarefeat.metadata import made_from, png_with, sealed, text_of

mpl.use("agg")


def save(figure: Figure, outputs: list[Path], kind: str, tables: list[Path]) -> None:
    """Write a figure of a kind, drawn from tables, in the format of each suffix, with its origin in the file's own metadata.

    No date in the file: the same tables give the same bytes.
    """
    text = text_of(made_from(kind, {}, tables))
    for output in outputs:
        metadata = {"CreationDate": None, "Keywords": text} if output.suffix == ".pdf" else None
        image = io.BytesIO()
        figure.savefig(image, format=output.suffix[1:], dpi=200, bbox_inches="tight", metadata=metadata)
        content = png_with(image.getvalue(), text) if output.suffix == ".png" else sealed(image.getvalue())
        with replacing(output) as temporary:
            temporary.write_bytes(content)
