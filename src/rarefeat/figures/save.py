"""How every figure is written, apart from what it shows."""

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
    """Place what is drawn once, for all formats alike; False for a figure without a layout, which stays as it is."""
    layout = figure.get_layout_engine()
    if layout:
        # Ticks are known once there is a layout, and the layout once the ticks are known: the first pass is not the last.
        layout.execute(figure)
        layout.execute(figure)
        figure.set_layout_engine("none")
    return bool(layout)


def save(figure: Figure, outputs: list[Path], job: Job, tables: list[Path]) -> None:
    """Write a figure, drawn from tables, in the format of each suffix, with its origin in the file's own metadata.

    At the size that it was drawn at, so that type is as large in print as the style says. No date in the file: the same tables
    give the same bytes.
    """
    origin, placed = build_origin(job, tables), freeze_layout(figure)
    for output in outputs:
        text = json.dumps({"name": output.stem, **origin})
        metadata = (
            {"CreationDate": None, "Keywords": text} if output.suffix == ".pdf" else {KEY: text}
        )
        with atomic_write(output) as temporary:
            # A layout that leaves place for all that is drawn keeps the printed size; any other is cut to what is there.
            figure.savefig(temporary, bbox_inches=None if placed else "tight", metadata=metadata)
            # After the end of either format, where readers do not look.
            with open(temporary, "ab") as file:
                file.write(f"\n%{SEAL}: {BLANK}\n".encode())
            seal(temporary)
