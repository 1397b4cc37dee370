"""Every replica of a study of long-tailed images in one table, and its summary."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from rarefeat.chain.aggregate import paired_interval, range_of
from rarefeat.chain.tables import PAIRED
from rarefeat.config.cells import path_of
from rarefeat.config.images import ImageArm, ImageStudy
from rarefeat.config.section import told
from rarefeat.core.statistics import student_interval
from rarefeat.images.evaluation import group_metrics
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.long_tail.tables import (
    GROUPS,
    IMAGE_KEYS,
    LONGTAIL,
    LONGTAIL_CLASSES,
    LONGTAIL_SUMMARY,
    LONGTAIL_TRAJECTORIES,
    PROBES,
    VALUES,
)

DENSE = tuple(ImageArm(arm="dense").model_dump().values())


def gathered(job: Job, study: ImageStudy, results: Path, kind: str) -> pd.DataFrame:
    """The files of every cell and block of a study, with their keys."""
    code = {stage: job.code[stage] for stage in ("images.pretrain", *(("images.probe",) if kind == "probes" else ()))}
    parts = []
    for cell in study.cells():
        (arm,) = cell.arms
        config = told(study.probed(cell) if kind == "probes" else study.pretrained(cell))
        width = study.network_of(cell).width
        keys = {"dataset": job.study, "rho": cell["rho"], "split": cell["split"], "width": width, **arm.model_dump()}
        for block in study.blocks():
            of_cell = {"study": job.study, "cell": cell.values, "seeds": block, "config": config, "code": code}
            table = read_table(results / path_of(kind, job.study, cell, block, "parquet"), of_cell)
            parts.append(table.to_pandas().assign(**keys))
    return pd.concat(parts, ignore_index=True)


def longtail_table(classes: pd.DataFrame, trajectories: pd.DataFrame, study: ImageStudy) -> pd.DataFrame:
    """One row per replica, from the accuracies of its classes and the last record of its training."""
    rows = []
    ranks = trajectories[trajectories["metric"] == "effective_rank"].sort_values("epoch")
    ranks = ranks.groupby([*IMAGE_KEYS, "seed"])["value"].last()
    for key, replica in classes.groupby([*IMAGE_KEYS, "seed"]):
        found = dict.fromkeys((f"{probe}_{metric}" for probe in PROBES for metric in GROUPS), np.nan)
        for probe, part in replica.groupby("probe"):
            part = part.sort_values("class")
            order = torch.tensor(part["rank"].to_numpy().argsort())
            metrics = group_metrics(torch.tensor(part["accuracy"].to_numpy()), order)
            found |= {f"{probe}_{metric}": metrics[metric] for metric in GROUPS}
        images = replica[replica["probe"] == "balanced"]["count"].sum()
        keys = dict(zip([*IMAGE_KEYS, "seed"], key, strict=True))
        of_all = {"images": images, "epochs": study.training.epochs, "effective_rank": ranks[key]}
        rows.append(keys | of_all | found)
    return ordered(LONGTAIL, pd.DataFrame(rows))


def summary_table(longtail: pd.DataFrame) -> pd.DataFrame:
    """Mean, spread, interval and paired difference to `dense` of every metric of every cell."""
    cells = {key: cell.set_index("seed") for key, cell in longtail.groupby(list(IMAGE_KEYS))}
    rows = []
    for key, cell in cells.items():
        dense = cells.get((*key[: -len(DENSE)], *DENSE))
        for probe in PROBES:
            for metric in GROUPS:
                values = cell[f"{probe}_{metric}"]
                if values.isna().all():
                    continue
                inside = range_of(VALUES[f"{probe}_{metric}"])
                mean, sd, low, high, n = student_interval(values.to_numpy(), inside=inside)
                other = dense[f"{probe}_{metric}"] if dense is not None and dense is not cell else None
                rows.append((*key, probe, metric, mean, sd, low, high, n, *paired_interval(values, other, inside)))
    columns = [*IMAGE_KEYS, "probe", "metric", "mean", "sd", "ci_low", "ci_high", "n", *PAIRED]
    return ordered(LONGTAIL_SUMMARY, pd.DataFrame(rows, columns=columns))


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--output", type=Path, nargs=4, required=True, help="replicas, classes, summary, trajectories")
    args = parser.parse_args()
    job: Job = args.job
    study = job.part(job.study, ImageStudy)
    classes = ordered(LONGTAIL_CLASSES, gathered(job, study, args.results, "probes"))
    trajectories = ordered(LONGTAIL_TRAJECTORIES, gathered(job, study, args.results, "trajectories"))
    longtail = longtail_table(classes, trajectories, study)
    for output, table in zip(args.output, (longtail, classes, summary_table(longtail), trajectories), strict=True):
        write_product(output, table, made_from(job))


if __name__ == "__main__":
    run(main)
