"""Stage 4 of the image studies: every replica in one table, its summary, and Table 2 beside the paper's."""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from rarefeat.aggregate import PAIRED, paired_interval
from rarefeat.command import run, section
from rarefeat.core.statistics import student_interval
from rarefeat.files import read_table, replacing
from rarefeat.images.evaluation import group_metrics
from rarefeat.images.published import TABLE_2
from rarefeat.images.sections import ImageArm, ImageStudy
from rarefeat.metadata import made_from, write_product
from rarefeat.pages import row
from rarefeat.tables import GROUPS, IMAGE_KEYS, PROBES, ordered

DENSE = tuple(ImageArm(arm="dense").model_dump().values())


def gathered(studies: dict[str, ImageStudy], folder: Path, kind: str) -> pd.DataFrame:
    """The files of every cell and block of every study, with their keys."""
    parts = [
        read_table(folder / name / kind / f"rho={rho:g}" / split / arm.label / f"seeds={block}.parquet")
        .to_pandas()
        .assign(dataset=name, rho=float(rho), split=split, **arm.model_dump())
        for name, study in studies.items()
        for rho, split, arm in study.cells()
        for block in study.blocks()
    ]
    return pd.concat(parts, ignore_index=True)


def longtail_table(classes: pd.DataFrame, studies: dict[str, ImageStudy]) -> pd.DataFrame:
    """One row per replica, from the accuracies of its classes."""
    rows = []
    for key, replica in classes.groupby([*IMAGE_KEYS, "seed"]):
        found = dict.fromkeys((f"{probe}_{metric}" for probe in PROBES for metric in GROUPS), np.nan)
        for probe, part in replica.groupby("probe"):
            part = part.sort_values("class")
            order = torch.tensor(part["rank"].to_numpy().argsort())
            metrics = group_metrics(torch.tensor(part["accuracy"].to_numpy()), order)
            found |= {f"{probe}_{metric}": metrics[metric] for metric in GROUPS}
        images = replica[replica["probe"] == "balanced"]["count"].sum()
        keys = dict(zip([*IMAGE_KEYS, "seed"], key, strict=True))
        rows.append(keys | {"images": images, "epochs": studies[key[0]].training.epochs} | found)
    return ordered("longtail", pd.DataFrame(rows))


def summary_table(longtail: pd.DataFrame) -> pd.DataFrame:
    """Mean, spread, interval and paired difference to `dense` of every metric of every cell."""
    cells = {key: cell.set_index("seed") for key, cell in longtail.groupby(list(IMAGE_KEYS))}
    rows = []
    for key, cell in cells.items():
        dense = cells.get((*key[:3], *DENSE))
        for probe in PROBES:
            for metric in GROUPS:
                values = cell[f"{probe}_{metric}"]
                if values.isna().all():
                    continue
                mean, sd, low, high, n = student_interval(values.to_numpy())
                other = dense[f"{probe}_{metric}"] if dense is not None and dense is not cell else None
                rows.append((*key, probe, metric, mean, sd, low, high, n, *paired_interval(values, other)))
    columns = [*IMAGE_KEYS, "probe", "metric", "mean", "sd", "ci_low", "ci_high", "n", *PAIRED]
    return ordered("longtail_summary", pd.DataFrame(rows, columns=columns))


def page(longtail: pd.DataFrame, summary: pd.DataFrame, studies: dict[str, ImageStudy]) -> str:
    """Table 2: accuracy and Delta_20 of the balanced linear probe, in per cent, beside the paper's where it has them."""
    lines = [
        "# Table 2: long-tailed images",
        "",
        "Rendered from `results/tables/longtail_summary.parquet`. Linear probe on the balanced training images: mean over",
        "seeds with its 95 % interval, in per cent; the gain is the paired difference to `dense`. The paper's numbers are as",
        "printed. What each arm is: docs/images.md.",
        "",
        row("data", "rho", "pretraining", "arm", "accuracy", "gain", "Delta_20", "change", "n", "epochs", "images"),
        row(*["---"] * 4, *["---:"] * 7),
    ]
    chosen = summary[summary["probe"] == "balanced"].set_index([*IMAGE_KEYS, "metric"])
    cells_of = dict(iter(longtail.groupby(list(IMAGE_KEYS))))
    for name, study in studies.items():
        for rho, split, arm in study.cells():
            key = (name, float(rho), split, *arm.model_dump().values())
            replicas = cells_of[key]
            cells = []
            for metric in ("accuracy", "delta_20"):
                found = chosen.loc[(*key, metric)]
                cells += [percent(found["mean"], found["ci_low"], found["ci_high"])]
                cells += [percent(*(found[column] for column in PAIRED), sign="+") if arm.arm != "dense" else ""]
            counts = str(len(replicas)), str(study.training.epochs), f"{replicas['images'].mean():.0f}"
            lines.append(row(name, f"{rho:g}", split.replace("_", "-"), arm.label, *cells, *counts))
            if arm == study.arms[-1] and (published := TABLE_2.get((study.table2, float(rho)))):
                for label, index in (("paper, without pruning", 0), ("paper, with pruning", 1)):
                    values = published[index], "", published[index + 2], ""
                    lines.append(row(study.table2, f"{rho:g}", "long-tailed", label, *values, "", "", ""))
    return "\n".join(lines) + "\n"


def percent(value: float, low: float, high: float, sign: str = "") -> str:
    """A share with its interval, in per cent."""
    if value != value:
        return ""
    text = f"{100 * value:{sign}.1f}"
    return text if low != low else f"{text} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=section(dict[str, ImageStudy]), required=True, help="the section `images`, as JSON")
    parser.add_argument("--folder", type=Path, required=True, help="folder of the studies' files")
    parser.add_argument(
        "--output", nargs=5, required=True, help="replicas, classes, summary, trajectories; Table 2 as Markdown"
    )
    args = parser.parse_args()
    studies: dict[str, ImageStudy] = args.studies
    classes = ordered("longtail_classes", gathered(studies, args.folder, "probes"))
    longtail = longtail_table(classes, studies)
    summary = summary_table(longtail)
    trajectories = ordered("longtail_trajectories", gathered(studies, args.folder, "trajectories"))
    found = made_from("images", studies)
    for output, table in zip(args.output, (longtail, classes, summary, trajectories), strict=False):
        write_product(output, table, found)
    with replacing(args.output[-1]) as temporary:
        temporary.write_text(page(longtail, summary, studies))


if __name__ == "__main__":
    run(main)
