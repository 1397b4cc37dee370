"""The interactive page: what was measured, the law where it was tested, and recorded runs."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from formatting import records, select_rows, single_row
from rarefeat.model.logistic_fit import LogisticFit
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.stages.critical_frequency import (
    GRID,
    NORMAL_95,
    TrainingPoint,
    crossing,
    draw_initial_projections,
    explain_out_of_range,
    learned_fractions,
)
from rarefeat.statistics import fraction_interval
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.published import PublishedTables
from tables_imbalance import EXPLORED

PAGE = Path(__file__).with_name("explorer.html")
REGIME = ["share", "lambda", "N", "delay"]
"""What a point of the page is measured at, beside its frequency; N is 0 for fresh pairs."""
SIGMA = 0.05
"""Noise of the page."""
LATE = ["reuse", "leak", "shares", "rarest"]
"""Studies of late learning that differ in their frequencies and in REGIME alone."""
REPLICAS = 200
"""Initial weights that the law is averaged over."""


def predict_shares(
    study: Study, share: float, lambda_: float, fit: LogisticFit
) -> dict[str, Any] | None:
    """Predict the shares of runs that learn the feature, or return None outside of the tested."""
    bias = study.training.bias.model_copy(update={"share": share})
    training = study.training.model_copy(update={"bias": bias, "lambda_": lambda_})
    point = TrainingPoint(study.data, training, SIGMA, 1.0)
    if explain_out_of_range(point):
        return None
    initial = draw_initial_projections("selection/law", point, list(range(REPLICAS)))
    shares = learned_fractions(point, fit, initial)
    curve = np.stack([GRID, shares], axis=1)[::3].round(3).tolist()
    # To four digits, so that the page is the same on every processor.
    return {"curve": curve, "half": round(crossing(shares, 0.5), 4)}


def page_from_published(tables: PublishedTables, studies: Mapping[str, Study]) -> str:
    """Return the page of the published tables."""
    study = studies[EXPLORED[0]]
    late = select_rows(tables["fate_shares"], sigma=SIGMA, study=LATE).assign(delay=0)
    counts = pd.concat([study_counts(tables["learned_by_step"], studies), late])
    regimes = group_by_regime(counts)
    by_key = {tuple(regime[name] for name in REGIME): regime for regime in regimes}
    rest = study.training.lambda_, float(study.data.N)
    for row in records(select_rows(tables["selection_steps"], study="help")):
        arm, _, delay = row["arm"].partition("-delay=")
        if arm == "dense":
            key = float(row["point"].removeprefix("share=")), *rest, float(delay or 0)
            if key not in by_key:
                by_key[key] = dict(zip(REGIME, key, strict=True)) | {"points": []}
            by_key[key]["half"] = [round(row[name], 3) for name in ("step", "ci_low", "ci_high")]
            by_key[key]["n"] = row["n"]
    constants = single_row(tables["selection_law_constants"])
    fit = LogisticFit(math.log(constants["kappa"]), constants["gamma"])
    for (share, lambda_, N, delay), regime in by_key.items():
        if N == study.data.N and not delay:
            regime["law"] = predict_shares(study, share, lambda_, fit)
    error = single_row(tables["selection_law_errors"], parameter="all")["error"]
    runs = recorded_runs(tables["recorded_runs"], tables["recorded_neurons"])
    return fill_template(list(by_key.values()), study, runs, NORMAL_95 * error)


def recorded_runs(runs: pd.DataFrame, neurons: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the recorded runs with the place of every neuron, in percent of the circle."""
    angle = np.deg2rad(neurons["angle"])
    places = pd.DataFrame(
        {
            "x": neurons["cosine"] * np.sin(angle),
            "y": neurons["cosine"] * np.cos(angle),
            "rare": neurons["rare"],
        }
    )
    places = (100 * places).round().astype(int)
    recorded = []
    for row in records(runs.rename(columns={"eps_min": "eps"})):
        steps = neurons[neurons["run"] == row["run"]].groupby("step").groups
        frames = [places.loc[index].to_numpy().ravel().tolist() for index in steps.values()]
        recorded.append(row | {"steps": [int(step) for step in steps], "frames": frames})
    return recorded


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


def fill_template(regimes: list[dict], study: Study, runs: list[dict], error: float) -> str:
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
        "runs": runs,
        "error": error,
    }
    data = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return PAGE.read_text(encoding="utf-8").replace("/*DATA*/null", data)
