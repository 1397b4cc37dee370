"""Summaries over seeds with the printed numbers and the closed forms."""

import math
from collections.abc import Mapping

import pandas as pd
from scipy.special import stdtrit

from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.config import Emergence
from rarefeat.studies.two_layer.paper_values import PRINTED, PaperTable
from rarefeat.studies.two_layer.tables import TWO_LAYER_CLOSED_FORMS, TWO_LAYER_SUMMARY
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job

KEYS = ["setting", "arm", "step", "quantity"]


def over_seeds(rows: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Average `value` over seeds for each value of some columns.

    The 95 % interval is Student's. Its part outside the quantity's range is left out.
    """
    groups = rows.groupby(columns)["value"]
    means = pd.DataFrame({"mean": groups.mean(), "n": groups.count()})
    half = groups.sem() * stdtrit((means["n"] - 1).clip(lower=1), 0.975)
    means = means.assign(low=means["mean"] - half, high=means["mean"] + half).reset_index()
    least, most = zip(*map(bounds_of, means["quantity"]), strict=True) if len(means) else ((), ())
    # What of an interval lies outside of the quantity's range is left out.
    return means.assign(
        low=means["low"].clip(lower=list(least)), high=means["high"].clip(upper=list(most))
    )


def bounds_of(quantity: str) -> tuple[float, float]:
    """Return the range of a quantity, by whether it is a share, a cosine or cannot be negative."""
    if (
        "accuracy" in quantity
        or quantity.endswith("_share")
        or quantity in ("curve", "median_cosine")
    ):
        return 0.0, 1.0
    if quantity in ("cosine", "least_coverage"):
        return -1.0, 1.0
    return (
        0.0 if quantity.endswith("norm") or quantity in ("hinge_loss", "sigma") else -math.inf
    ), math.inf


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Average everything but the curves over seeds, with the printed values.

    Accuracies are shares, the printed ones too.
    """
    means = over_seeds(rows[rows["quantity"] != "curve"], KEYS)
    last = rows[rows["quantity"] == "test_accuracy"].groupby("setting")["step"].max()
    printed = pd.DataFrame(
        [
            (p.setting, p.arm, last[p.setting], p.quantity, p.share)
            for p in PRINTED
            if p.setting in last
        ],
        columns=[*KEYS, "printed"],
    )
    return means.merge(printed, on=KEYS, how="left").rename(
        columns={"low": "ci_low", "high": "ci_high"}
    )


def compared(means: pd.DataFrame) -> pd.DataFrame:
    """Return Tables A.1-A.5 with the summary, one row per printed number, for the settings of the
    summary.

    Accuracies are shares.
    """
    printed = pd.DataFrame(
        [{**number._asdict(), "arm": number.arm, "printed": number.share} for number in PRINTED]
    )
    # What a table prints it prints of the end.
    at_end = means[means["step"] == means.groupby("setting")["step"].transform("max")].drop(
        columns=["printed"]
    )
    keys = ["setting", "arm", "quantity"]
    return (
        printed[printed["setting"].isin(means["setting"])]
        .drop(columns="value")
        .merge(at_end, on=keys, how="left")
    )


def _printed_cosines(column: str, section: Emergence) -> list[PaperTable]:
    """Return the printed cosines of a column, for the settings of the section."""
    return [
        number
        for number in PRINTED
        if (number.column, number.quantity) == (column, "cosine")
        and number.setting in section.settings
    ]


def initial_cosines(section: Emergence) -> pd.DataFrame:
    """Return the printed cosines of random features with the closed form (theory.initial_cosine) at
    the row's d and at d = 100.
    """
    rows = []
    for number in _printed_cosines("RF", section):
        setting = section.settings[number.setting]
        rows.append(
            {
                "table": number.table,
                "row": number.row,
                "d": setting.problem.d,
                "m": setting.m,
                "printed": number.value,
            }
            | {"closed_form": theory.initial_cosine(setting.problem.d, setting.m)}
            | {"closed_form_at_100": theory.initial_cosine(100, setting.m)}
        )
    return pd.DataFrame(rows)


def residues(section: Emergence) -> pd.DataFrame:
    """Return the printed One Step cosines with the residue of the initial weight that explains
    each, for parities.

    With them is the cosine that Table A.1's residue would give (theory.one_step_residue_cosine).
    `residue_at_100` is the residue if the row had d = 100, and `erased` the cosine of weights that
    step 1 erases, as Theorem A.20 has it, with balanced classes.
    """
    numbers = [
        number
        for number in _printed_cosines("One Step", section)
        if section.settings[number.setting].problem.labels == "parity"
    ]
    rows, residue = [], math.nan
    for number in (number for number in numbers if number.table == "A.1"):
        setting = section.settings[number.setting]
        residue = theory.residue_of(number.value, setting.problem.d, setting.m)
    for number in numbers:
        setting = section.settings[number.setting]
        d, problem = setting.problem.d, setting.problem
        gamma = (1 - problem.p_o) / 2
        rows.append(
            {
                "table": number.table,
                "row": number.row,
                "d": d,
                "m": setting.m,
                "printed": number.value,
            }
            | {"residue": theory.residue_of(number.value, d, setting.m)}
            | {"residue_at_100": theory.residue_of(number.value, 100, setting.m)}
            | {"with_residue_of_parity": theory.one_step_residue_cosine(d, setting.m, residue)}
            | {
                "erased": theory.step_one_cosine(
                    setting.n, problem.D, problem.k, gamma, 0.5, problem.p_o
                )
            }
            | ({"erased": math.nan} if problem.negatives != 0.5 else {})
        )
    return pd.DataFrame(rows)


def closed_forms(section: Emergence) -> pd.DataFrame:
    """Return `initial_cosines` and `residues`, a row for each number.

    Columns table, row, column, printed, quantity, value.
    """
    melted = [
        cosines.assign(column=column).melt(
            ["table", "row", "column", "printed"], names, "quantity", "value"
        )
        for column, names, cosines in (
            ("RF", ["closed_form", "closed_form_at_100"], initial_cosines(section)),
            (
                "One Step",
                ["residue", "residue_at_100", "with_residue_of_parity", "erased"],
                residues(section),
            ),
        )
        if len(cosines)
    ]
    columns = ["table", "row", "column", "printed", "quantity", "value"]
    return (
        pd.concat(melted, ignore_index=True)[columns] if melted else pd.DataFrame(columns=columns)
    )


def two_layer_summary(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the summary of all settings, with the printed values."""
    return validate_sorted(TWO_LAYER_SUMMARY, summary(tables["two_layer"]))


def two_layer_closed_forms(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the values of closed forms for the settings of the section."""
    return validate_sorted(
        TWO_LAYER_CLOSED_FORMS, closed_forms(job.config_section("emergence", Emergence))
    )
