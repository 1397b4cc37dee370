"""Tables of every replica of a study of long-tailed images, their summary, and claims on Table 2.

Of it the claims are that pruning raises accuracy, more so with rho, and lowers Delta_20.
"""

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.images.evaluation import group_metrics
from rarefeat.stages.aggregate import paired_interval
from rarefeat.stages.tables import PAIRED
from rarefeat.statistics import student_interval
from rarefeat.studies.long_tail import (
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
Tables = Mapping[str, pd.DataFrame]


KEYS = list(ImageArm.model_fields)


def gathered(inputs: JobInputs, job: Job, study: ImageStudy) -> pd.DataFrame:
    """Return the files of every cell and block of a study in one table, with their keys."""
    (folder,) = job.files
    tables = []
    for file in inputs.files(folder):
        (arm,), width = file.cell.arms, study.network_of(file.cell).width
        place = {"rho": file.cell["rho"], "split": file.cell["split"], "width": width}
        tables.append(file.table().assign(dataset=job.study, **place, **arm.model_dump()))
    return pd.concat(tables, ignore_index=True)


def longtail_classes(inputs: JobInputs, job: Job, study: ImageStudy) -> pd.DataFrame:
    """Return the accuracies of every probe on every class, from the files of the probes."""
    return validate_sorted(LONGTAIL_CLASSES.schema, gathered(inputs, job, study))


def longtail_trajectories(inputs: JobInputs, job: Job, study: ImageStudy) -> pd.DataFrame:
    """Return the trajectory of every training."""
    return validate_sorted(LONGTAIL_TRAJECTORIES.schema, gathered(inputs, job, study))


def longtail(tables: Tables, study: ImageStudy) -> pd.DataFrame:
    """Return a row per replica, from its accuracies by class and the end of its training."""
    classes, trajectories = tables.values()
    keys, rows = [*IMAGE_KEYS, "seed"], []
    ranks = trajectories[trajectories["metric"] == "effective_rank"].sort_values("epoch")
    ranks = ranks.groupby(keys)["value"].last()
    for key, replica in classes.groupby(keys):
        row = dict(zip(keys, key, strict=True)) | dict.fromkeys(VALUES, math.nan)
        row |= {
            "images": replica.loc[replica["probe"] == "balanced", "count"].sum(),
            "epochs": study.training.epochs,
            "effective_rank": ranks[key],
        }
        for probe, of_probe in replica.groupby("probe"):
            of_probe = of_probe.sort_values("class")
            order = torch.tensor(of_probe["rank"].to_numpy().argsort())
            metrics = group_metrics(torch.tensor(of_probe["accuracy"].to_numpy()), order)
            row |= {f"{probe}_{metric}": metrics[metric] for metric in GROUPS}
        rows.append(row)
    return validate_sorted(LONGTAIL.schema, pd.DataFrame(rows))


def longtail_summary(tables: Tables) -> pd.DataFrame:
    """Return the estimate of every metric of every cell, paired with `dense` at the same keys."""
    (replicas,) = tables.values()
    cells = {key: cell.set_index("seed") for key, cell in replicas.groupby(list(IMAGE_KEYS))}
    rows = []
    for (key, cell), probe, metric in itertools.product(cells.items(), PROBES, GROUPS):
        name, dense = f"{probe}_{metric}", cells.get((*key[: -len(DENSE)], *DENSE), cell)
        if cell[name].notna().any():
            place = dict(zip(IMAGE_KEYS, key, strict=True)) | {"probe": probe, "metric": metric}
            beside = None if dense is cell else dense[name]
            rows.append(place | estimate(cell[name], beside, range_of(name)))
    return validate_sorted(LONGTAIL_SUMMARY.schema, pd.DataFrame(rows))


def range_of(name: str) -> tuple[float, float]:
    """Return the range of a column of VALUES."""
    return VALUES[name].bounds["ge"], VALUES[name].bounds["le"]


def estimate(
    values: pd.Series, dense: pd.Series | None, inside: tuple[float, float]
) -> dict[str, float]:
    """Return mean, spread, interval and n of values by seed, and their difference to dense."""
    names = ("mean", "sd", "ci_low", "ci_high", "n", *PAIRED)
    found = student_interval(values.to_numpy(), inside=inside)
    return dict(zip(names, (*found, *paired_interval(values, dense, inside)), strict=True))


def measure(tables: Mapping[str, pd.DataFrame]) -> Iterator[Measurement]:
    """Measure every masked arm of every image study, paired with dense by seed.

    A random mask is a control, of which the claims say nothing.
    """
    (table,) = tables.values()
    table = table[(table["split"] == "long_tailed") & (table["threshold"] != "random")]
    masked = table[table["alpha"] > 0].groupby(["dataset", "width", *KEYS])
    for (dataset, width, *key), rows in masked:
        of_study = table[table["dataset"] == dataset]
        dense = of_study[(of_study["width"] == width) & (of_study["arm"] == "dense")]
        place = {"arm": ImageArm(**dict(zip(KEYS, key, strict=True))).label}
        if of_study["width"].nunique() > 1:
            place["width"] = width
        gains, wider = (
            differences(rows, dense, f"balanced_{metric}") for metric in ("accuracy", "delta_20")
        )
        for rho in gains.columns:
            yield measurement("T2-accuracy", dataset, {"rho": rho, **place}, gains[rho])
            yield measurement("T2-delta", dataset, {"rho": rho, **place}, wider[rho])
        ratios = gains.columns
        if len(ratios) == 1:
            alone, why = {"rho_alone": ratios[0], **place}, "a slope needs two ratios"
            yield measurement("T2-rho", dataset, alone, [], untestable=why)
            continue
        x = np.log10(ratios.to_numpy(dtype=float))
        x = x - x.mean()
        over = {"rho": (ratios.min(), ratios.max()), **place}
        yield measurement("T2-rho", dataset, over, gains.to_numpy() @ x / (x @ x))


def differences(arm: pd.DataFrame, dense: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the differences of an arm to dense, a row by seed, a column by rho."""
    wide = [rows.pivot(index="seed", columns="rho", values=metric) for rows in (arm, dense)]
    return wide[0] - wide[1]
