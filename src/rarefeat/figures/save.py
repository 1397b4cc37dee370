"""Writing of figures, with their origin in the metadata of the file."""

import json
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from rarefeat.run.job import Job
from rarefeat.run.metadata import build_origin
from rarefeat.storage.origin import KEY
from rarefeat.storage.sealed_files import BLANK, SEAL, atomic_write, seal

mpl.use("agg")


def freeze_layout(figure: Figure) -> bool:
    """Apply the layout of a figure once, for all formats; return whether it has one."""
    layout = figure.get_layout_engine()
    if layout:
        # Ticks are known once there is a layout, and the layout once the ticks are known: one pass
        # is not enough.
        layout.execute(figure)
        layout.execute(figure)
        figure.set_layout_engine("none")
    return bool(layout)


def save(figure: Figure, outputs: list[Path], job: Job, tables: list[Path]) -> None:
    """Write a figure in the format of each suffix, with its origin in the metadata of the file.

    It has the size at which it was drawn, so that type is as large in print as the style says. The
    file has no date: the same tables give the same bytes.

    Parameters
    ----------
    figure : Figure
        The figure.
    outputs : list of Path
        Files to write, PNG or PDF.
    job : Job
        Job of the figure.
    tables : list of Path
        Tables from which it was drawn.
    """
    origin, has_layout = build_origin(job, tables), freeze_layout(figure)
    for output in outputs:
        text = json.dumps({"name": output.stem, **origin})
        metadata = (
            {"CreationDate": None, "Keywords": text} if output.suffix == ".pdf" else {KEY: text}
        )
        with atomic_write(output) as temporary:
            # A layout leaves room for everything, so that the printed size is kept; a figure
            # without one is cut to its content.
            box = None if has_layout else "tight"
            figure.savefig(temporary, bbox_inches=box, metadata=metadata)
            # The seal follows the end of either format, where readers do not look.
            with open(temporary, "ab") as file:
                file.write(f"\n%{SEAL}: {BLANK}\n".encode())
            seal(temporary)
