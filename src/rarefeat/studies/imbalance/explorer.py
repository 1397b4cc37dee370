"""A page that shows what was measured, by what was set; it needs no network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.statistics import fraction_interval
from rarefeat.studies.imbalance.doc_tables import EXPLORED, count_learned
from rarefeat.workflow.config.study import Study

PAGE = Path(__file__).with_suffix(".html")
REGIME = ["share", "lambda", "N", "delay"]
"""What a point of the page is measured at, beside its frequency; N is 0 for fresh pairs."""


def page(tables: Mapping[str, pd.DataFrame], confirmation: Study) -> str:
    """Return the page of a run: what its study has measured."""
    counts = study_counts(count_learned(*tables.values()), {EXPLORED[0]: confirmation})
    return fill_template(group_by_regime(counts), confirmation)


def study_counts(counts: pd.DataFrame, studies: Mapping[str, Study]) -> pd.DataFrame:
    """Add the regimes of the studies to their counts of runs that have learned the feature."""
    tables = []
    for name, rows in counts.groupby("study"):
        training, data = studies[str(name)].training, studies[str(name)].data
        values = training.bias.share, training.lambda_, data.N, 0
        tables.append(rows.assign(**dict(zip(REGIME, values, strict=True))))
    return pd.concat(tables)


def group_by_regime(counts: pd.DataFrame) -> list[dict[str, Any]]:
    """Group counts of runs that have learned the feature by regime."""
    regimes = []
    for key, rows in counts.groupby(REGIME):
        points = []
        for (eps_min, _), curve in rows.sort_values("step").groupby(["eps_min", "study"]):
            course = []
            for step, learned, n in curve[["step", "learned", "n"]].to_numpy(dtype=int).tolist():
                interval = fraction_interval(np.repeat([1, 0], [learned, n - learned]))
                course.append([step, *(round(value, 3) for value in (learned / n, *interval))])
            points.append({"eps": eps_min, "n": n, "course": course})
        # Where two studies have measured a frequency, the larger one comes first.
        points.sort(key=lambda point: -point["n"])
        regimes.append(dict(zip(REGIME, map(float, key), strict=True)) | {"points": points})
    return regimes


def fill_template(
    regimes: list[dict], study: Study, runs: list[dict] | None = None, error: float | None = None
) -> str:
    """Return the page with its data."""
    curves = [point["course"] for regime in regimes for point in regime["points"]]
    training = study.training
    begin = {"eps": 0.5, "share": training.bias.share, "lambda": training.lambda_}
    content = {
        "begin": begin | {"N": study.data.N, "delay": 0, "T": training.T},
        "features": study.data.d,
        "learned": HALF_LEARNED,
        "T": training.T,
        "steps": sorted({int(step) for curve in curves for step, *_ in curve}),
        "regimes": regimes,
        "runs": runs or [],
        "error": error,
    }
    data = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return PAGE.read_text(encoding="utf-8").replace("/*DATA*/null", data)
