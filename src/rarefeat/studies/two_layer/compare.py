"""Means over seeds beside the printed numbers, and printed cosines beside closed forms."""

import math
from collections.abc import Mapping

import pandas as pd
from scipy.special import stdtrit

from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.config import Setting, TwoLayer
from rarefeat.studies.two_layer.paper_values import PRINTED, Printed

KEYS = ["setting", "arm", "step", "quantity"]


def bounds_of(quantity: str) -> tuple[float, float]:
    """Return the range of a quantity, by whether it is a share, a cosine or cannot be negative."""
    if "accuracy" in quantity or quantity.endswith("_share") or quantity == "median_cosine":
        return 0.0, 1.0
    if quantity in ("cosine", "least_coverage"):
        return -1.0, 1.0
    positive = quantity.endswith("norm") or quantity in ("hinge_loss", "sigma")
    return 0.0 if positive else -math.inf, math.inf


def two_layer_summary(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return mean and interval over seeds of all but curves, with the printed values at the end."""
    rows = tables["two_layer"]
    last = rows[rows["quantity"] == "test_accuracy"].groupby("setting")["step"].max()
    over_seeds = rows[rows["quantity"] != "curve"].groupby(KEYS)["value"]
    table = over_seeds.agg(mean="mean", error="sem", n="count").reset_index()
    printed = pd.DataFrame(PRINTED)[["setting", "arm", "quantity", "printed"]]
    table = table.merge(printed, on=["setting", "arm", "quantity"], how="left")
    half = table["error"] * stdtrit((table["n"] - 1).clip(lower=1), 0.975)
    # What of an interval lies outside of the quantity's range is left out.
    least, most = map(list, zip(*map(bounds_of, table["quantity"]), strict=True))
    return table.drop(columns="error").assign(
        ci_low=(table["mean"] - half).clip(lower=least),
        ci_high=(table["mean"] + half).clip(upper=most),
        printed=table["printed"].where(table["step"] == table["setting"].map(last)),
    )


def forms_of(item: Printed, setting: Setting, residue: float) -> dict[str, float]:
    """Return what closed forms give for a printed cosine of random features, or of One Step.

    For One Step on a parity, that is the residue of the initial weight that explains it, the cosine
    with another residue, and that of weights which step 1 erases, for balanced classes (A.20).
    """
    problem, d, m = setting.problem, setting.problem.d, setting.m
    if item.column == "RF":
        at_d, at_100 = theory.initial_cosine(d, m), theory.initial_cosine(100, m)
        return {"closed_form": at_d, "closed_form_at_100": at_100}
    if item.column != "One Step" or problem.labels != "parity":
        return {}
    gamma = (1 - problem.p_o) / 2
    erased = theory.step_one_cosine(setting.n, problem.D, problem.k, gamma, 0.5, problem.p_o)
    return {
        "residue": theory.residue_of(item.printed, d, m),
        "residue_at_100": theory.residue_of(item.printed, 100, m),
        "with_residue_of_parity": theory.one_step_residue_cosine(d, m, residue),
        "erased": erased if problem.negatives == 0.5 else math.nan,
    }


def two_layer_closed_forms(emergence: TwoLayer) -> pd.DataFrame:
    """Return the printed cosines of random features and of One Step with their closed forms."""
    settings, parity = emergence.by_name, emergence.by_name.get("parity")
    cosines = [item for item in PRINTED if item.quantity == "cosine" and item.setting in settings]
    of_one_step = [
        item.printed for item in cosines if item[:4] == ("A.1", "", "parity", "One Step")
    ]
    residue = theory.residue_of(*of_one_step, parity.problem.d, parity.m) if parity else math.nan
    rows = [
        (item.table, item.row, item.column, item.printed, name, value)
        for item in cosines
        for name, value in forms_of(item, settings[item.setting], residue).items()
    ]
    columns = ["table", "row", "column", "printed", "quantity", "value"]
    keys = ["table", "row", "column", "quantity"]
    return pd.DataFrame(rows, columns=columns).sort_values(keys, ignore_index=True)
