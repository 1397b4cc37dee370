"""The verdicts of one paper's claims, from what every kind of study has measured."""

from pathlib import Path

import pandas as pd

from rarefeat.claims.tables import CHANGES, CLAIMS
from rarefeat.claims.verdict import changes, verdicts
from rarefeat.run.command import run, stage
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import checked


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument(
        "--tables", nargs="+", type=Path, required=True, help="tables of measured claims, one for each kind of study"
    )
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write: claims_..., or sensitivity_...")
    args = parser.parse_args()
    measured = pd.concat([read_table(path).to_pandas() for path in args.tables], ignore_index=True)
    varied = args.output.name.startswith("sensitivity_")
    table = checked(CHANGES, changes(measured)) if varied else checked(CLAIMS, verdicts(measured))
    write_product(args.output, table, made_from(args.job, args.tables))


if __name__ == "__main__":
    run(main)
