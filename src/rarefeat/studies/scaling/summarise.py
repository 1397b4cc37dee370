"""Fitted exponents in d against the bounds of Theorem 3.1, in Markdown."""

from pathlib import Path

import numpy as np
import pandas as pd

from rarefeat.run.command import run, stage
from rarefeat.run.metadata import write_page
from rarefeat.storage.files import read_table
from rarefeat.storage.markdown import interval, pipe_table


def exponent_rows(exponents: pd.DataFrame) -> pd.DataFrame:
    """The scaling study: fitted exponents in d against the bounds."""
    rows = []
    for row in exponents.itertuples():
        rows.append(
            {
                "quantity": row.quantity,
                "eps_min / eps_max": f"{row.ratio:g}",
                "d1": "" if np.isnan(row.d1_power) else f"d^{row.d1_power:g}",
                "d": f"{row.d_low} ... {row.d_high}",
                "divided by": "(log d)^-1/2" if row.log_power else "",
                "exponent": interval(row.exponent, row.ci_low, row.ci_high),
                "bound": f"{row.bound_side} {row.bound:.3f}",
                "": "consistent" if row.consistent else "contradicts",
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs=1, type=Path, required=True, help="the table scaling_exponents")
    parser.add_argument("--output", required=True, help="Markdown file to write")
    args = parser.parse_args()
    exponents = read_table(args.tables[0]).to_pandas()
    lines = ["# Exponents in d, against the bounds of Theorem 3.1", "", *pipe_table(exponent_rows(exponents))]
    write_page(args.output, "\n".join(lines) + "\n", args.job)


if __name__ == "__main__":
    run(main)
