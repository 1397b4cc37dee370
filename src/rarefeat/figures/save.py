"""How every figure is written, apart from what it shows."""

import json
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from
from rarefeat.storage.files import BLANK, SEAL, replacing, seal
from rarefeat.storage.origin import KEY

mpl.use("agg")


def save(figure: Figure, outputs: list[Path], job: Job, tables: list[Path]) -> None:
    """Write a figure, drawn from tables, in the format of each suffix, with its origin in the file's own metadata.

    No date in the file: the same tables give the same bytes.
    """
    text = json.dumps(made_from(job, tables))
    for output in outputs:
        metadata = {"CreationDate": None, "Keywords": text} if output.suffix == ".pdf" else {KEY: text}
        with replacing(output) as temporary:
            figure.savefig(temporary, dpi=200, bbox_inches="tight", metadata=metadata)
            # After the end of either format, where readers do not look.
            with open(temporary, "ab") as file:
                file.write(f"\n%{SEAL}: {BLANK}\n".encode())
            seal(temporary)
