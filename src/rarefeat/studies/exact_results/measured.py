"""What the results have in common: their rows, and the command line that writes them."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from rarefeat.config.cells import Cell
from rarefeat.config.section import Section
from rarefeat.run.command import stage
from rarefeat.run.job import Job
from rarefeat.storage.files import write_table
from rarefeat.storage.origin import KEY

Of = TypeVar("Of", bound=Section)


class Row(NamedTuple):
    """A number beside what is stated of it."""

    seed: int
    at: float
    """A place on the axis of its quantity: a loop, a rank, a step; 0 where there is none."""
    quantity: str
    value: float | Tensor
    stated: float | Tensor = float("nan")
    """What the text has for this replica: a closed form, or a bound."""


def table(rows: list[Row], cell: Cell) -> pd.DataFrame:
    """Rows of one cell, which is their `setting`, as a table."""
    found = pd.DataFrame(rows, columns=list(Row._fields)).astype(
        {"seed": "int64", "at": "float64", "quantity": "str", "value": "float64", "stated": "float64"}
    )
    found.insert(0, "setting", cell.path)
    return found


def measured(description: str | None, kind: type[Of], rows: Callable[[Of, Cell, str, list[int]], list[Row]]) -> None:
    """The command line of a result.

    Args:
        kind: what of the config it is told. rows: what is measured for it, a cell, the name that keys its draws, and seeds; the
            rows of a seed depend on no other.
    """
    parser = stage(description)
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()
    # One thread, so that the bytes are the same on every machine of a kind; parallelism is over jobs.
    torch.set_num_threads(1)
    job: Job = args.job
    found = table(rows(job.part("parameters", kind), job.at, job.study, job.seed_list), job.at)
    write_table(args.output, pa.Table.from_pandas(found, preserve_index=False), {KEY: job.text})
