"""Figures of studies and of claims that are drawn from the published tables, where these hold what the figure needs."""

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
    "fate_over_time": {"fate_shares": "fate_shares", "fate_points": "fate_points"},
    "fine_labels_crossing": {"fine_labels_crossing": "fine_labels_crossing"},
    "fine_labels_digits_granularity": {"fine_labels_digits_errors": "fine_labels_digits"},
    "low_rank_attention": {"low_rank_attention": "exact_results"},
    "selection_digits": {"selection_digits": "selection_digits"},
    "selection_interventions": {"interventions_selection": "selection_masks"},
    "selection_steps": {"selection_steps": "selection_steps"},
    "two_layer_printed": {"two_layer_summary": "two_layer_printed"},
}
"""By figure, the published table that stands for each of its tables: of means with their intervals, for one of replicas."""
EXTRA_CONFIGS = {"cifar100_labels_granularity": Path("config/cifar100_labels.yaml")}
"""Figures of a study that only a config beside the main one has."""


def iter_figures(tables: PublishedTables) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Every such figure whose tables are there, by name, with what draws it."""
    project = load()
    for name, given in STUDY_FIGURES.items():
        of = load(DEFAULT, EXTRA_CONFIGS[name]) if name in EXTRA_CONFIGS else project
        if name in of.figures and all(table in tables for table in given.values()):
            yield (
                name,
                functools.partial(
                    draw_study_figure,
                    of,
                    name,
                    {to: of_result(tables[table], to) for to, table in given.items()},
                ),
            )
    for paper in project.papers:
        if f"verdicts_{paper}" in tables:
            rows = claims_from_verdicts(project, tables[f"verdicts_{paper}"])
            for group, part in rows.groupby("group", sort=False):
                if (part["verdict"] != SHOWN[0]).any():
                    yield page_of(group), functools.partial(draw, part, group)


def of_result(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of one result, of a published table that has several."""
    return table[table["result"] == name] if "result" in table else table


def draw_study_figure(project: Project, name: str, tables: dict[str, pd.DataFrame]) -> Figure:
    """A figure of a study from published tables."""
    job = project.figure_job(name)
    return load_function(job.stage)(tables, job)


def standard_error_from_interval(row: Any, kind: str) -> float:
    """The standard error behind a published interval; of pairs of 0 or 1, that of the number of seeds that differ."""
    freedom = max(row.n - 1, 1)
    if kind != PAIRED or not math.isfinite(row.estimate):
        return max(abs(row.ci_low - row.estimate), abs(row.ci_high - row.estimate)) / stdtrit(
            freedom, 0.975
        )
    total = round(row.estimate * row.n)
    differing = range(
        abs(total), row.n + 1, 2
    )  # so many seeds differ, of which half of the rest go each way
    errors = [
        math.sqrt(max(count - total**2 / row.n, 0) / (row.n * freedom)) for count in differing
    ]

    def off(error: float) -> float:
        found = confidence_bounds(Estimate(total / row.n, error, freedom, row.n), 0.025, kind)
        return abs(found[0] - row.ci_low) + abs(found[1] - row.ci_high)

    return min(errors, key=off)


def claims_from_verdicts(project: Project, published: pd.DataFrame) -> pd.DataFrame:
    """What a figure of claims reads, from their published verdicts and their declarations.

    The interval that decides follows from the standard errors, and they from the published intervals. Where the verdict does
    not, the claim was declared otherwise when it was published: it is left out.
    """
    claims = {
        claim.id: claim for known in project.claim_sets.values() for claim in known.claims.values()
    }
    published = published[published["claim_id"].isin(list(claims))].reset_index(drop=True)
    declared = [claims[name] for name in published["claim_id"]]
    rows = published.assign(
        paper="", primary=True, role="regime", remark="", diverged=0, freedom=np.maximum(published["n"] - 1, 1),
        error=[standard_error_from_interval(row, claim.kind) for row, claim in zip(published.itertuples(), declared, strict=True)],
        testable=published["verdict"].isin(SHOWN), quantity=[claim.quantity for claim in declared],
        kind=[claim.kind for claim in declared], least=[claim.least for claim in declared],
    )  # fmt: skip
    rows[["required_low", "required_high"]] = [claim.region for claim in declared]
    rows[["lowest", "highest"]] = [claim.bounds for claim in declared]
    found = verdicts(rows.drop(columns=["ci_low", "ci_high", "verdict"]))
    same = (found["verdict"] == published["verdict"]) | ~rows["testable"]
    return rows.assign(decided_low=found["decided_low"], decided_high=found["decided_high"])[same]
