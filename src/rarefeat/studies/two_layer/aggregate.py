"""The numbers and pictures of every setting in one table each; their summary beside what is printed, and the closed forms."""

from pathlib import Path

import pandas as pd

from rarefeat.config.cells import path_of
from rarefeat.config.section import told
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.two_layer.compare import closed_forms, summary
from rarefeat.studies.two_layer.config import Emergence
from rarefeat.studies.two_layer.tables import TWO_LAYER, TWO_LAYER_CLOSED_FORMS, TWO_LAYER_PICTURES, TWO_LAYER_SUMMARY


def gathered(kind: str, job: Job, study: Emergence, results: Path) -> pd.DataFrame:
    """The probes or pictures of every setting and block."""
    parts = []
    code = {name: digest for name, digest in job.code.items() if name != job.stage}
    for cell in study.cells():
        config = {"setting": told(study.settings[cell["setting"]]), "pictured": study.first_seed}
        for block in study.blocks():
            expected = {"study": job.study, "cell": cell.values, "seeds": block, "config": config, "code": code}
            parts.append(read_table(results / path_of(kind, job.study, cell, block, "parquet"), expected).to_pandas())
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--output", type=Path, nargs=4, required=True, help="numbers, pictures, summary, closed forms")
    args = parser.parse_args()
    job: Job = args.job
    study = job.part(job.study, Emergence)
    numbers = ordered(TWO_LAYER, gathered("probes", job, study, args.results))
    pictures = ordered(TWO_LAYER_PICTURES, gathered("pictures", job, study, args.results))
    beside = ordered(TWO_LAYER_SUMMARY, summary(numbers)), ordered(TWO_LAYER_CLOSED_FORMS, closed_forms(study))
    for path, table in zip(args.output, (numbers, pictures, *beside), strict=True):
        write_product(path, table, made_from(job))


if __name__ == "__main__":
    run(main)
