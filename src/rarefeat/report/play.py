"""A page to play with: the law for a rare feature computed in the browser, beside what the laboratory measured. It asks no network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from rarefeat.config.study import Study
from rarefeat.report.published import Published
from rarefeat.run.job import Job
from rarefeat.storage.markdown import each, one, rows
from rarefeat.studies.imbalance.page import fates

PAGE = Path(__file__).with_suffix(".html")
SIGMA = 0.05
"""Noise at which the page computes and shows."""
CONSTANTS = {"kappa": 0.81, "gamma": 2.5}
"""Of the law, of a page without a table that has them."""


def page(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """The page of a run: its own fates beside the law."""
    (grid,) = tables.values()
    return filled([regime(job.part("confirmation", Study), fates(grid))], job.part("confirmation", Study), CONSTANTS)


def regime(study: Study, found: pd.DataFrame) -> dict[str, Any]:
    """Where replicas were trained, and of each frequency the share that learned the rare feature."""
    found = rows(found, fate="learned")
    sigma = SIGMA if SIGMA in set(found["sigma"]) else found["sigma"].iloc[0]
    points = [
        {"eps": row["eps_min"], "learned": row["share"], "low": row["ci_low"], "high": row["ci_high"], "n": row["n"]}
        for row in each(rows(found, sigma=sigma))
    ]
    training = study.training
    return {"share": training.bias.share, "lambda": training.lambda_, "T": training.T, "points": points}


def of_published(tables: Published, study: Study) -> str:
    """The page of the published tables."""
    found = [regime(study, tables["confirmation_fates"])]
    if "selection_law_constants" not in tables:
        return filled(found, study, CONSTANTS)
    for row in each(rows(tables["selection_steps"], study="help", arm="dense")):
        share, step = float(row["point"].removeprefix("share=")), [row["step"], row["ci_low"], row["ci_high"]]
        if share == found[0]["share"]:
            found[0]["step"] = step
        else:
            found.append({**found[0], "share": share, "step": step, "points": []})
    error = f"{one(tables['selection_law_errors'], parameter='all')['error']:.3f}"
    return filled(found, study, one(tables["selection_law_constants"]), error)


def filled(regimes: list[dict], study: Study, constants: Mapping[str, float], error: str | None = None) -> str:
    """The page with its data."""
    data, training = study.data, study.training
    config = {key: getattr(data, key) for key in ("d", "d1", "L", "C")} | {
        key: getattr(training, key) for key in ("m", "K", "tau", "eta", "sigma_0")
    }
    config["nsr"] = SIGMA**2 * data.d1
    law = {key: constants[key] for key in CONSTANTS}
    told = {"config": config, **law, "error": error, "regimes": regimes}
    return PAGE.read_text(encoding="utf-8").replace("/*DATA*/null", json.dumps(told).replace("<", "\\u003c"))
