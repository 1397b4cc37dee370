"""A page to play with: the law for a rare feature computed in the browser, beside what the laboratory measured. It asks no network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from rarefeat.config.study import Study
from rarefeat.report.published_tables import PublishedTables
from rarefeat.run.job import Job
from rarefeat.storage.markdown import records, select_rows, single_row
from rarefeat.studies.imbalance.doc_tables import fates

PAGE = Path(__file__).with_suffix(".html")
SIGMA = 0.05
"""Noise at which the page computes and shows."""
CONSTANTS = {"kappa": 0.81, "gamma": 2.5}
"""Of the law, of a page without a table that has them."""
COURSE = ["step", "learned_share", "ci_low", "ci_high"]
"""Of a point on the page, at each step."""


def page(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """The page of a run: its own fates beside the law."""
    (grid,) = tables.values()
    study = job.config_section("confirmation", Study)
    return fill_template(regimes(confirmation_shares(study, fates(grid))), study, CONSTANTS)


def confirmation_shares(study: Study, found: pd.DataFrame) -> pd.DataFrame:
    """The shares at its last step that learned the rare feature, in the columns of `fate_shares`."""
    found = select_rows(found, fate="learned").rename(columns={"share": "learned_share"})
    found = select_rows(
        found, sigma=SIGMA if SIGMA in set(found["sigma"]) else found["sigma"].iloc[0]
    )
    training = study.training
    at = {
        "share": training.bias.share,
        "lambda": training.lambda_,
        "N": study.data.N,
        "step": training.T,
    }
    return found.assign(study="confirmation", **at)


def regimes(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Where replicas were trained, and of each study and frequency there the shares that had learned the rare feature by a step."""
    made = []
    for at, part in found.groupby(["share", "lambda", "N"]):
        points = [
            {
                "eps": eps_min,
                "n": int(own["n"].max()),
                "course": own[COURSE].round(4).to_numpy().tolist(),
            }
            for (eps_min, _), own in part.sort_values("step").groupby(["eps_min", "study"])
        ]
        made.append(
            dict(zip(("share", "lambda", "N"), map(float, at), strict=True)) | {"points": points}
        )
    return made


def page_from_published(tables: PublishedTables, study: Study) -> str:
    """The page of the published tables."""
    found = confirmation_shares(study, tables["confirmation_fates"])
    if "fate_shares" in tables:
        found = pd.concat([found, select_rows(tables["fate_shares"], sigma=SIGMA, latents="plain")])
    made = regimes(found)
    if "selection_law_constants" not in tables:
        return fill_template(made, study, CONSTANTS)
    at = {"lambda": study.training.lambda_, "N": study.data.N}
    for row in records(select_rows(tables["selection_steps"], study="help", arm="dense")):
        at["share"] = float(row["point"].removeprefix("share="))
        known = next((one for one in made if {key: one[key] for key in at} == at), None)
        if known is None:
            made.append(known := {**at, "points": []})
        known["step"] = [row["step"], row["ci_low"], row["ci_high"]]
    error = f"{single_row(tables['selection_law_errors'], parameter='all')['error']:.3f}"
    return fill_template(made, study, single_row(tables["selection_law_constants"]), error)


def fill_template(
    found: list[dict], study: Study, constants: Mapping[str, float], error: str | None = None
) -> str:
    """The page with its data."""
    data, training = study.data, study.training
    config = {key: getattr(data, key) for key in ("d", "d1", "L", "C")} | {
        key: getattr(training, key) for key in ("m", "K", "tau", "eta", "sigma_0")
    }
    config["nsr"] = SIGMA**2 * data.d1
    law = {key: constants[key] for key in CONSTANTS}
    steps = sorted(
        {int(step) for at in found for point in at["points"] for step, *_ in point["course"]}
        | {training.T}
    )
    told = {
        "config": config,
        **law,
        "error": error,
        "T": training.T,
        "N": data.N,
        "steps": steps,
        "regimes": found,
    }
    return PAGE.read_text(encoding="utf-8").replace(
        "/*DATA*/null", json.dumps(told).replace("<", "\\u003c")
    )
