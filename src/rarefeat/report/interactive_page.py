"""An interactive page: the critical-frequency model computed in the browser, next to measurements.

It needs no network.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from rarefeat.chain.critical_frequency import NORMAL_95, VALIDATED_RANGES, TrainingPoint
from rarefeat.config.study import Study
from rarefeat.core.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.report.published_tables import PublishedTables
from rarefeat.run.job import Job
from rarefeat.storage.markdown import records, select_rows, single_row
from rarefeat.studies.imbalance.doc_tables import fates

PAGE = Path(__file__).with_suffix(".html")
SIGMA = 0.05
"""Noise of the page."""
CONSTANTS = {"kappa": 0.81, "gamma": 2.5}
"""Constants of the model, for a page without a table of them."""
CURVE = ["step", "learned_share", "ci_low", "ci_high"]
"""Columns of the curve of a point."""


def page(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """Return the page of a run: the learning outcomes of its study, and the model.

    Parameters
    ----------
    tables : mapping
        The grid table of the study `confirmation`.
    job : Job
        Config: `confirmation`, the study.
    """
    (grid,) = tables.values()
    study = job.config_section("confirmation", Study)
    shares = confirmation_shares(study, fates(grid))
    return fill_template(regimes(shares), study, CONSTANTS, PURE_COSINE)


def confirmation_shares(study: Study, outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return the fractions that learned the rare feature by the last step of a study.

    Parameters
    ----------
    study : Study
        The study.
    outcomes : DataFrame
        Its fractions of each learning outcome (`fates`).

    Returns
    -------
    DataFrame
        Fractions at the noise SIGMA, or the first one, in the columns of `fate_shares`.
    """
    rows = select_rows(outcomes, fate="learned").rename(columns={"share": "learned_share"})
    rows = select_rows(rows, sigma=SIGMA if SIGMA in set(rows["sigma"]) else rows["sigma"].iloc[0])
    training = study.training
    settings = {
        "share": training.bias.share,
        "lambda": training.lambda_,
        "N": study.data.N,
        "step": training.T,
    }
    return rows.assign(study="confirmation", **settings)


def regimes(shares: pd.DataFrame) -> list[dict[str, Any]]:
    """Group the fractions of replicas that learned the rare feature by regime.

    Parameters
    ----------
    shares : DataFrame
        Fractions by step, in the columns of `fate_shares`.

    Returns
    -------
    list of dict
        Share of the bias, lambda and N of each regime, and under `points` a curve for each study
        and frequency.
    """
    groups = []
    for key, rows in shares.groupby(["share", "lambda", "N"]):
        points = [
            {
                "eps": eps_min,
                "n": int(curve["n"].max()),
                "course": curve[CURVE].round(4).to_numpy().tolist(),
            }
            for (eps_min, _), curve in rows.sort_values("step").groupby(["eps_min", "study"])
        ]
        groups.append(
            dict(zip(("share", "lambda", "N"), map(float, key), strict=True)) | {"points": points}
        )
    return groups


def page_from_published(tables: PublishedTables, study: Study) -> str:
    """Return the page of the published tables; `study` is the study `confirmation`."""
    shares = confirmation_shares(study, tables["confirmation_fates"])
    late = PURE_COSINE
    if "fate_shares" in tables:
        late = PURE_COSINE if "half" in tables["fate_points"] else HALF_LEARNED
        others = select_rows(tables["fate_shares"], sigma=SIGMA, latents="plain")
        shares = pd.concat([shares, others])
    groups = regimes(shares)
    if "selection_law_constants" not in tables:
        return fill_template(groups, study, CONSTANTS, late)
    key = {"lambda": study.training.lambda_, "N": study.data.N}
    for row in records(select_rows(tables["selection_steps"], study="help", arm="dense")):
        key["share"] = float(row["point"].removeprefix("share="))
        regime = next((item for item in groups if {name: item[name] for name in key} == key), None)
        if regime is None:
            groups.append(regime := {**key, "points": []})
        regime["step"] = [row["step"], row["ci_low"], row["ci_high"]]
    error = single_row(tables["selection_law_errors"], parameter="all")["error"]
    return fill_template(groups, study, single_row(tables["selection_law_constants"]), late, error)


def fill_template(
    groups: list[dict],
    study: Study,
    constants: Mapping[str, float],
    late: float,
    error: float | None = None,
) -> str:
    """Return the page with its data.

    Parameters
    ----------
    groups : list of dict
        Result of `regimes`.
    study : Study
        Study whose hyper-parameters are those of the page.
    constants : mapping
        Constants of the model.
    late : float
        Cosine from which late learning is counted in `groups`.
    error : float, optional
        Mean absolute error of the model.
    """
    data, training = study.data, study.training
    config = {key: getattr(data, key) for key in ("d", "d1", "L", "C")} | {
        key: getattr(training, key) for key in ("m", "K", "tau", "eta", "sigma_0")
    }
    config["nsr"] = SIGMA**2 * data.d1
    curves = [point["course"] for regime in groups for point in regime["points"]]
    steps = sorted({int(step) for curve in curves for step, *_ in curve} | {training.T})
    rate = TrainingPoint(data, training, SIGMA, 1.0).growth_rate
    tested = {"share": VALIDATED_RANGES["share"]}
    tested["lambda"] = [decay * rate for decay in VALIDATED_RANGES["decay"]]
    places = ["where the sliders begin"], ["in the law and in the steps measured beside it"]
    places[late == HALF_LEARNED].append("in late learning")
    pure, half = (" and ".join(names) for names in places)
    content = {
        "config": config,
        "tested": tested,
        "half": NORMAL_95 * error if error else None,
        "threshold": f"Learned is a cosine above {PURE_COSINE:g} {pure}, and of at least"
        f" {HALF_LEARNED:g} {half}.",
        **{key: constants[key] for key in CONSTANTS},
        "error": f"{error:.3f}" if error else None,
        "T": training.T,
        "N": data.N,
        "steps": steps,
        "regimes": groups,
    }
    return PAGE.read_text(encoding="utf-8").replace(
        "/*DATA*/null", json.dumps(content).replace("<", "\\u003c")
    )
