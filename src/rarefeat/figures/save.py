"""Drawing and writing of figures, with their origin in the metadata of the file."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from rarefeat.figures.style import GREY, RC, project_style
from rarefeat.workflow.files.origin import KEY
from rarefeat.workflow.files.sealed_files import BLANK, SEAL, atomic_write, seal
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs, call
from rarefeat.workflow.run.metadata import build_origin

mpl.use("agg")


def draw(function: Callable, tables: JobInputs, job: Job, outputs: list[Path]) -> None:
    """Draw a figure in the project's style, with a note if its run is smaller, and write it."""
    with project_style():
        figure = call(function, tables, job)
        title, note = figure.get_suptitle(), job.size_note
        if note and title:
            figure.suptitle(f"{title}\n({note})")
        elif note:
            figure.suptitle(note, x=0.995, ha="right", style="italic", color=GREY)
        save(figure, outputs, job, tables.table_paths)


def freeze_layout(figure: Figure) -> bool:
    """Apply the layout of a figure once, for all formats; return whether it has one."""
    layout = figure.get_layout_engine()
    if layout:
        # The width of a text depends on the resolution.
        figure.set_dpi(RC["savefig.dpi"])
        # Ticks are known once there is a layout, and the layout once the ticks are known: one pass
        # is not enough.
        layout.execute(figure)
        layout.execute(figure)
        figure.set_layout_engine("none")
    return bool(layout)


def png_bytes(figure: Figure, metadata: Mapping[str, str], **options: Any) -> bytes:
    """Return a figure as PNG of at most 256 colours, a third as large as one of all colours."""
    rendered, small, info = io.BytesIO(), io.BytesIO(), PngInfo()
    figure.savefig(rendered, format="png", **options)
    for key, text in metadata.items():
        info.add_text(key, text)
    picture = Image.open(rendered)
    picture.convert("RGB").quantize(dither=Image.Dither.NONE).save(
        small, "png", optimize=True, pnginfo=info, dpi=picture.info["dpi"]
    )
    return small.getvalue()


def save(figure: Figure, outputs: list[Path], job: Job, tables: list[Path]) -> None:
    """Write a figure in the format of each suffix, with its origin in the metadata of the file.

    It has the size at which it was drawn, so that type is as large in print as the style says. The
    file has no date: the same tables give the same bytes.
    """
    origin, has_layout = build_origin(job, tables), freeze_layout(figure)
    # A layout leaves room for everything, so that the printed size is kept; a figure without one
    # is cut to its content.
    options = {"bbox_inches": None if has_layout else "tight"}
    for output in outputs:
        text = json.dumps({"name": output.stem, **origin})
        with atomic_write(output) as temporary:
            if output.suffix == ".png":
                temporary.write_bytes(png_bytes(figure, {KEY: text}, **options))
            else:
                metadata = {"CreationDate": None, "Keywords": text}
                figure.savefig(temporary, format="pdf", metadata=metadata, **options)
            # The seal follows the end of either format, where readers do not look.
            with open(temporary, "ab") as file:
                file.write(f"\n%{SEAL}: {BLANK}\n".encode())
            seal(temporary)
