"""Figures of studies and of claims that published tables suffice for."""

import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import stdtrit

from rarefeat.claims.declarations import page_of
from rarefeat.claims.estimate import Estimate
from rarefeat.claims.figure import SHOWN, draw
from rarefeat.claims.verdict import PAIRED, confidence_bounds, verdicts
from rarefeat.project import DEFAULT, Project, load
from rarefeat.report.published_tables import PublishedTables
from rarefeat.run.cli_helpers import load_function

STUDY_FIGURES = {
    "cifar100_labels_granularity": {"cifar100_labels_errors": "cifar100_labels"},
    "fate_over_time": {"fate_shares": "fate_shares"},
    "fate_conditions": {"fate_shares": "fate_shares", "fate_points": "fate_points"},
    "fine_labels_crossing": {"fine_labels_crossing": "fine_labels_crossing"},
    "fine_labels_digits_granularity": {"fine_labels_digits_errors": "fine_labels_digits"},
    "low_rank_attention": {"low_rank_attention": "exact_results"},
    "selection_digits": {"selection_digits": "selection_digits"},
    "selection_interventions": {"interventions_selection": "selection_masks"},
    "selection_steps": {"selection_steps": "selection_steps"},
    "two_layer_printed": {"two_layer_summary": "two_layer_printed"},
}
"""Published table in place of each table of a figure, by figure.

It holds means with their intervals in place of replicas.
"""
EXTRA_CONFIGS = {"cifar100_labels_granularity": Path("config/cifar100_labels.yaml")}
"""Config of figures whose study is not in the main config."""


def iter_figures(tables: PublishedTables) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield the name of each figure whose tables are published, and the function that draws it."""
    project = load()
    for name, sources in STUDY_FIGURES.items():
        owner = load(DEFAULT, EXTRA_CONFIGS[name]) if name in EXTRA_CONFIGS else project
        if name in owner.figures and all(table in tables for table in sources.values()):
            substitutes = {
                result: rows_of_result(tables[table], result) for result, table in sources.items()
            }
            yield name, functools.partial(draw_study_figure, owner, name, substitutes)
    for paper in project.papers:
        if f"verdicts_{paper}" in tables:
            rows = claims_from_verdicts(project, tables[f"verdicts_{paper}"])
            for group, members in rows.groupby("group", sort=False):
                if (members["verdict"] != SHOWN[0]).any():
                    yield page_of(group), functools.partial(draw, members, group)


def rows_of_result(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of one result of a published table, which may have several."""
    return table[table["result"] == name] if "result" in table else table


def draw_study_figure(project: Project, name: str, tables: dict[str, pd.DataFrame]) -> Figure:
    """Draw a figure of a study from published tables.

    Parameters
    ----------
    project : Project
        Config with the figure.
    name : str
        Name of the figure.
    tables : dict of str to DataFrame
        Published table in place of each of its tables.
    """
    job = project.figure_job(name)
    return load_function(job.stage)(tables, job)


def standard_error_from_interval(row: Any, kind: str) -> float:
    """Recover the standard error from a published 95 % interval.

    For Student intervals it is the larger half-width divided by the t quantile. For PAIRED the
    interval is exact: the number of seeds that differ is the one that reproduces it best.
    """
    freedom = max(row.n - 1, 1)
    if kind != PAIRED or not math.isfinite(row.estimate):
        return max(abs(row.ci_low - row.estimate), abs(row.ci_high - row.estimate)) / stdtrit(
            freedom, 0.975
        )
    total = round(row.estimate * row.n)
    # Beyond the seeds that make up the total, as many differ in one direction as in the other.
    differing = range(abs(total), row.n + 1, 2)
    errors = [
        math.sqrt(max(count - total**2 / row.n, 0) / (row.n * freedom)) for count in differing
    ]

    def mismatch(error: float) -> float:
        estimate = Estimate(total / row.n, error, freedom, row.n)
        low, high = confidence_bounds(estimate, 0.025, kind)
        return abs(low - row.ci_low) + abs(high - row.ci_high)

    return min(errors, key=mismatch)


def claims_from_verdicts(project: Project, published: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a figure of claims needs, from published verdicts and declarations.

    The interval that decides follows from the standard errors, and these from the published
    intervals. A claim whose verdict does not follow was declared otherwise when it was published,
    and is left out.
    """
    claims = {
        claim.id: claim
        for claim_set in project.claim_sets.values()
        for claim in claim_set.claims.values()
    }
    published = published[published["claim_id"].isin(list(claims))].reset_index(drop=True)
    declarations = [claims[name] for name in published["claim_id"]]
    rows = published.assign(
        paper="",
        primary=True,
        role="regime",
        remark="",
        diverged=0,
        freedom=np.maximum(published["n"] - 1, 1),
        error=[
            standard_error_from_interval(row, claim.kind)
            for row, claim in zip(published.itertuples(), declarations, strict=True)
        ],
        testable=published["verdict"].isin(SHOWN),
        quantity=[claim.quantity for claim in declarations],
        kind=[claim.kind for claim in declarations],
        least=[claim.least for claim in declarations],
    )
    rows[["required_low", "required_high"]] = [claim.region for claim in declarations]
    rows[["lowest", "highest"]] = [claim.bounds for claim in declarations]
    judged = verdicts(rows.drop(columns=["ci_low", "ci_high", "verdict"]))
    same = (judged["verdict"] == published["verdict"]) | ~rows["testable"]
    return rows.assign(decided_low=judged["decided_low"], decided_high=judged["decided_high"])[same]
