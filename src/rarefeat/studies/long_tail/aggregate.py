"""Every replica of a study of long-tailed images in one table, and its summary."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from rarefeat.chain.aggregate import column_bounds, paired_interval
from rarefeat.chain.tables import PAIRED
from rarefeat.config.images import ImageArm, ImageStudy
from rarefeat.core.statistics import student_interval
from rarefeat.images.evaluation import group_metrics
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.storage.schema import validate_sorted
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


def gathered(read: JobInputs, job: Job) -> pd.DataFrame:
    """The files of every cell and block of a study, with their keys."""
    study, parts = job.config_section(job.study, ImageStudy), []
    (folder,) = job.files
    for file in read.files(folder):
        (arm,) = file.cell.arms
        width = study.network_of(file.cell).width
        keys = {
            "dataset": job.study,
            "rho": file.cell["rho"],
            "split": file.cell["split"],
            "width": width,
            **arm.model_dump(),
        }
        parts.append(file.table().assign(**keys))
    return pd.concat(parts, ignore_index=True)


def longtail_classes(read: JobInputs, job: Job) -> pd.DataFrame:
    """Accuracies of every probe on every class."""
    return validate_sorted(LONGTAIL_CLASSES, gathered(read, job))


def longtail_trajectories(read: JobInputs, job: Job) -> pd.DataFrame:
    """The course of every training."""
    return validate_sorted(LONGTAIL_TRAJECTORIES, gathered(read, job))


def longtail(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Every replica."""
    classes, trajectories = (
        tables[f"{job.study}.longtail_{name}"] for name in ("classes", "trajectories")
    )
    return longtail_table(classes, trajectories, job.config_section(job.study, ImageStudy))


def longtail_summary(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Means over the replicas."""
    (replicas,) = tables.values()
    return summary_table(replicas)


def longtail_table(
    classes: pd.DataFrame, trajectories: pd.DataFrame, study: ImageStudy
) -> pd.DataFrame:
    """One row per replica, from the accuracies of its classes and the last record of its training."""
    rows = []
    ranks = trajectories[trajectories["metric"] == "effective_rank"].sort_values("epoch")
    ranks = ranks.groupby([*IMAGE_KEYS, "seed"])["value"].last()
    for key, replica in classes.groupby([*IMAGE_KEYS, "seed"]):
        found = dict.fromkeys(
            (f"{probe}_{metric}" for probe in PROBES for metric in GROUPS), np.nan
        )
        for probe, part in replica.groupby("probe"):
            part = part.sort_values("class")
            order = torch.tensor(part["rank"].to_numpy().argsort())
            metrics = group_metrics(torch.tensor(part["accuracy"].to_numpy()), order)
            found |= {f"{probe}_{metric}": metrics[metric] for metric in GROUPS}
        images = replica[replica["probe"] == "balanced"]["count"].sum()
        keys = dict(zip([*IMAGE_KEYS, "seed"], key, strict=True))
        of_all = {"images": images, "epochs": study.training.epochs, "effective_rank": ranks[key]}
        rows.append(keys | of_all | found)
    return validate_sorted(LONGTAIL, pd.DataFrame(rows))


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
                inside = column_bounds(VALUES[f"{probe}_{metric}"])
                mean, sd, low, high, n = student_interval(values.to_numpy(), inside=inside)
                other = (
                    dense[f"{probe}_{metric}"] if dense is not None and dense is not cell else None
                )
                rows.append(
                    (
                        *key,
                        probe,
                        metric,
                        mean,
                        sd,
                        low,
                        high,
                        n,
                        *paired_interval(values, other, inside),
                    )
                )
    columns = [*IMAGE_KEYS, "probe", "metric", "mean", "sd", "ci_low", "ci_high", "n", *PAIRED]
    return validate_sorted(LONGTAIL_SUMMARY, pd.DataFrame(rows, columns=columns))
