"""The results, stated beside measured, and what is out of reach with its cost, in Markdown."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from rarefeat.run.command import run, stage
from rarefeat.run.metadata import write_page
from rarefeat.storage.files import read_table
from rarefeat.storage.markdown import row
from rarefeat.studies.exact_results.page import shown

HEAD = """\
# Exact results: stated beside measured

Rendered from `tables/exact_results.parquet` and `out_of_reach.parquet`. Measured: mean over seeds with its 95 % interval;
stated: the closed form or bound of the text, mean over seeds. What each quantity is: docs/reference/tables/exact_results.md."""


def number(value: float) -> str:
    """Four digits; empty where there is none."""
    return "" if value != value else f"{value:.4g}"


def lines(head: list[str], body: Iterable[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join([row(*head), row(*["---"] * len(head)), *(row(*cells) for cells in body)])


def page(results: pd.DataFrame, costs: pd.DataFrame) -> str:
    """A section for each result, and one for the costs."""
    parts = [HEAD]
    for result, table in shown(results).groupby("result", sort=False):
        body = (
            [
                item.setting, number(item.at), item.quantity,
                number(item.mean) + (f" [{number(item.ci_low)}, {number(item.ci_high)}]" if item.ci_low == item.ci_low else ""),
                number(item.stated), number(item.printed), str(item.n),
            ]
            for item in table.itertuples()
        )  # fmt: skip
        title = str(result).replace("_", " ").capitalize()
        parts += [f"## {title}", lines(["setting", "at", "quantity", "measured", "stated", "printed", "n"], body)]
    body = (
        [item.experiment, item.what, item.needs, f"{item.operations:.1e}", number(item.hours_cores), number(item.hours_gpu)]
        for item in costs.itertuples()
    )
    head = ["experiment", "what", "needs", "operations", "hours on two cores", "hours on one GPU"]
    parts += ["## What is out of reach here", lines(head, body)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs=2, type=Path, required=True, help="the summary and the costs")
    parser.add_argument("--output", required=True, help="Markdown file to write")
    args = parser.parse_args()
    text = page(*(read_table(path).to_pandas() for path in args.tables))
    write_page(args.output, text, args.job)


if __name__ == "__main__":
    run(main)
