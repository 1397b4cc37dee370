"""Stage 3 of the study of fine labels: the rows of every cell and block in one table each, and means over seeds."""

from pathlib import Path

import pandas as pd

from rarefeat.config.cells import path_of
from rarefeat.config.section import told
from rarefeat.core.statistics import ANYWHERE, student_interval
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.fine_labels.config import FineLabels
from rarefeat.studies.fine_labels.tables import CROSSING, CROSSING_HEADS, ERRORS, HEADS, SIMULATORS, SUMMARY, TRAJECTORIES

SCHEMAS = {
    "errors": ERRORS, "trajectories": TRAJECTORIES, "heads": HEADS, "simulators": SIMULATORS, "crossing": CROSSING,
    "crossing_heads": CROSSING_HEADS,
}  # fmt: skip


def collected(kind: str, job: Job, results: Path) -> pd.DataFrame:
    """The rows of one kind of every cell and block of the job's study, read only where they are what they must be."""
    study, parts = job.part("fine_labels", FineLabels).studies()[job.study], []
    for at in study.cells():
        expected = {"study": job.study, "cell": at.values, "config": told(study.measured(at)), "code": came_through(job)}
        for block in study.blocks():
            path = results / path_of(kind, job.study, at, block, "parquet")
            parts.append(read_table(path, expected | {"seeds": block}).to_pandas())
    return ordered(SCHEMAS[kind], pd.concat(parts, ignore_index=True))


def came_through(job: Job) -> dict[str, str]:
    """The code of the stages before the job's own."""
    return {name: digest for name, digest in job.code.items() if name != job.stage}


def summary(errors: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds with their intervals."""
    keys = ["k", "labels", "s_dag", "metric"]
    rows = [
        (*key, *student_interval(part["value"].to_numpy(), inside=(0, 1) if "error" in key[-1] else ANYWHERE))
        for key, part in errors.groupby(keys)
    ]
    return ordered(SUMMARY, pd.DataFrame(rows, columns=[*keys, "mean", "sd", "ci_low", "ci_high", "n"]))


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    for kind in (*SCHEMAS, "summary"):
        parser.add_argument(f"--{kind}", help="Parquet file to write")
    args = parser.parse_args()
    found = {kind: collected(kind, args.job, args.results) for kind in SCHEMAS if getattr(args, kind)}
    if args.summary:
        found["summary"] = summary(found["errors"])
    for kind, table in found.items():
        write_product(getattr(args, kind), table, made_from(args.job))


if __name__ == "__main__":
    run(main)
