"""Tables of every replica of a study of long-tailed images, and their summary."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from rarefeat.images.evaluation import group_metrics
from rarefeat.stages.aggregate import column_bounds, paired_interval
from rarefeat.stages.tables import PAIRED
from rarefeat.statistics import student_interval
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
from rarefeat.workflow.config.images import ImageArm, ImageStudy
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

DENSE = tuple(ImageArm(arm="dense").model_dump().values())


def gathered(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return the files of every cell and block of a study in one table, with their keys."""
    study, tables = job.config_section(job.study, ImageStudy), []
    (folder,) = job.files
    for file in inputs.files(folder):
        (arm,) = file.cell.arms
        width = study.network_of(file.cell).width
        keys = {
            "dataset": job.study,
            "rho": file.cell["rho"],
            "split": file.cell["split"],
            "width": width,
            **arm.model_dump(),
        }
        tables.append(file.table().assign(**keys))
    return pd.concat(tables, ignore_index=True)


def longtail_classes(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return the accuracies of every probe on every class.

    Inputs are the files of the probes, config the study; the output is the table
    `longtail_classes`.
    """
    return validate_sorted(LONGTAIL_CLASSES, gathered(inputs, job))


def longtail_trajectories(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return the trajectory of every training.

    Inputs are the trajectories of the encoders, config the study; the output is the table
    `longtail_trajectories`.
    """
    return validate_sorted(LONGTAIL_TRAJECTORIES, gathered(inputs, job))


def longtail(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return a row per replica of a study.

    Inputs are the tables of its classes and trajectories, config the study; the output is
    `longtail`.
    """
    classes, trajectories = (
        tables[f"{job.study}.longtail_{name}"] for name in ("classes", "trajectories")
    )
    return longtail_table(classes, trajectories, job.config_section(job.study, ImageStudy))


def longtail_summary(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return means over the replicas of a study.

    The input is its table `longtail`; the output is `longtail_summary`.
    """
    (replicas,) = tables.values()
    return summary_table(replicas)


def longtail_table(
    classes: pd.DataFrame, trajectories: pd.DataFrame, study: ImageStudy
) -> pd.DataFrame:
    """Compute a row per replica from its accuracies by class and the end of its training."""
    rows = []
    ranks = trajectories[trajectories["metric"] == "effective_rank"].sort_values("epoch")
    ranks = ranks.groupby([*IMAGE_KEYS, "seed"])["value"].last()
    for key, replica in classes.groupby([*IMAGE_KEYS, "seed"]):
        values = dict.fromkeys(
            (f"{probe}_{metric}" for probe in PROBES for metric in GROUPS), np.nan
        )
        for probe, of_probe in replica.groupby("probe"):
            of_probe = of_probe.sort_values("class")
            order = torch.tensor(of_probe["rank"].to_numpy().argsort())
            metrics = group_metrics(torch.tensor(of_probe["accuracy"].to_numpy()), order)
            values |= {f"{probe}_{metric}": metrics[metric] for metric in GROUPS}
        images = replica[replica["probe"] == "balanced"]["count"].sum()
        keys = dict(zip([*IMAGE_KEYS, "seed"], key, strict=True))
        of_all = {"images": images, "epochs": study.training.epochs, "effective_rank": ranks[key]}
        rows.append(keys | of_all | values)
    return validate_sorted(LONGTAIL, pd.DataFrame(rows))


def summary_table(longtail: pd.DataFrame) -> pd.DataFrame:
    """Compute mean, spread and interval of every metric of every cell.

    Each is paired with `dense` at the same keys.
    """
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
