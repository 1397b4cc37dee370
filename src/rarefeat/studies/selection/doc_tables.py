"""Published tables of the study of selection, for docs/studies/selection.md."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from rarefeat.claims.claim import RANGES
from rarefeat.statistics import UNBOUNDED, student_interval
from rarefeat.studies.selection import model_diagnostics
from rarefeat.studies.selection.claims import MIN_REPLICAS
from rarefeat.studies.selection.critical_frequency import AMONG
from rarefeat.studies.selection.paired_changes import begins_first, changes_from_dense, share_of

CHANGES = ("gain", "pure_minority_neurons", "balanced_mse", "largest_norm", "majority_alignment")
"""Quantities whose change from dense at the same seed is published."""
PARAMETERS = ("share", "lambda", "decay", "C", "L", "tau", "d", "d1", "m", "sigma_0")
"""Parameters of drawn regimes by whose thirds errors are published."""
ROW = ["mean", "ci_low", "ci_high", "n"]


def mean_row(
    values: Iterable[float], inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float, int]:
    """Return mean, both ends of its 95 % interval, and n."""
    mean, _, low, high, n = student_interval(np.asarray(list(values), dtype=float), inside=inside)
    return mean, low, high, n


def scores_at_end(*tables: pd.DataFrame) -> pd.DataFrame:
    """Return the AUC of every score at the last step of every point, from the running mean."""
    rows = []
    for table in tables:
        last = table[(table["source"] == "running") & (table["step"] == table["step"].max())]
        for key, group in last.groupby(["point", "eps_min", "score"], sort=False):
            rows.append((*key, *mean_row(group["auc"], RANGES["share"])))
    return pd.DataFrame(rows, columns=["point", "eps_min", "score", *ROW])


def scores_over_regimes(*tables: pd.DataFrame) -> pd.DataFrame:
    """Return median and range of the AUC of every score at the last step over regimes, by bias
    scale.

    Regimes are those of d, lambda and eps_min below 1. The value of a regime is the mean over its
    replicas with a pure neuron; regimes with fewer than MIN_REPLICAS of them are left out.
    """
    rows = []
    for table in tables:
        last = table[
            (table["source"] == "running")
            & (table["step"] == table["step"].max())
            & (table["eps_min"] < 1)
        ]
        means = (
            last.groupby(["point", "eps_min", "score"], sort=False)["auc"]
            .agg(["mean", "count"])
            .reset_index()
        )
        means = means[means["count"] >= MIN_REPLICAS]
        rows.append(means.assign(share=means["point"].map(share_of).astype(float)))
    return (
        pd.concat(rows)
        .groupby(["score", "share"])["mean"]
        .agg(["median", "min", "max", "count"])
        .rename(columns={"count": "regimes"})
        .reset_index()
    )


def steps(table: pd.DataFrame) -> pd.DataFrame:
    """Return the critical frequencies of interventions, without those of drawn regimes."""
    return table[~table["point"].str.startswith("regime=")].reset_index(drop=True)


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the changes of CHANGES from dense by every arm, at every point, with intervals and the
    number of replicas that diverged.
    """
    rows = []
    for (point, eps_min), group in table.groupby(["point", "eps_min"]):
        diverged = group[group["quantity"] == "diverged"].groupby("arm")["value"].sum()
        for arm, change in changes_from_dense(group).items():
            rows += [
                (point, eps_min, arm, name, *mean_row(change[name]), int(diverged[arm]))
                for name in CHANGES
                if name in change
            ]
    return pd.DataFrame(rows, columns=["point", "eps_min", "arm", "quantity", *ROW, "diverged"])


def masks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the changes by masks that begin at T3, with or without a stop or masked keys."""
    rows = changes(table)
    return rows[begins_first(rows["arm"])].reset_index(drop=True)


def helped(table: pd.DataFrame) -> pd.DataFrame:
    """Return costs of the interventions between T1 and T3, and their silent neurons.

    Means over all eps_min: the change of the alignment of frequent features, the fraction of
    silent neurons, and the number of neurons that were re-initialised.
    """
    rows = changes(table)
    cost = rows[rows["quantity"] == "majority_alignment"].groupby(["point", "arm"])["mean"].mean()
    quantities = table[table["quantity"].isin(["silent_share", "revivals", "diverged"])]
    wide = quantities.pivot_table(
        index=["point", "arm"], columns="quantity", values="value", aggfunc="mean"
    )
    return wide.join(cost.rename("majority_change")).reset_index()


def law_constants(table: pd.DataFrame) -> pd.DataFrame:
    """Return the fitted constants of the model, with numbers of regimes and replicas."""
    fit = table[table["study"].str.contains("fit")]
    centre, steepness = table[["centre", "steepness"]].iloc[0]
    return pd.DataFrame(
        {
            "kappa": [np.exp(centre)],
            "gamma": steepness,
            "regimes": len(fit),
            "replicas": fit["n"].sum(),
        }
    )


def law_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return errors of the model in the drawn regimes of the test, all of them and each third of
    each parameter.
    """
    test = table[table["study"].str.contains("test")]
    rows = [("all", "", *error_row(test))]
    for name in PARAMETERS:
        if test[name].nunique() > 2:
            rank = test[name].rank(method="first") / len(test)
            thirds = {
                "lower": rank <= 1 / 3,
                "middle": (rank > 1 / 3) & (rank <= 2 / 3),
                "upper": rank > 2 / 3,
            }
            rows += [(name, third, *error_row(test[chosen])) for third, chosen in thirds.items()]
    columns = ["parameter", "third", "regimes", "no_step"]
    for quantity in ("error", "bias", "auc", "calibration"):
        columns += [quantity, f"{quantity}_low", f"{quantity}_high"]
    return pd.DataFrame(rows, columns=columns)


def error_row(regimes: pd.DataFrame) -> tuple:
    """Return numbers of regimes, and error, bias, AUC and calibration with their intervals.

    The second number is that of the regimes without a critical frequency among the eps_min.
    """
    error = (regimes["predicted"] - regimes["step"])[regimes["place"] == AMONG]
    rows = (
        mean_row(error.abs(), RANGES["count"]),
        mean_row(error),
        mean_row(regimes["auc"].dropna(), RANGES["share"]),
        mean_row(regimes["probability"] - regimes["learned"]),
    )
    return (
        len(regimes),
        int((regimes["place"] != AMONG).sum()),
        *(number for row in rows for number in row[:3]),
    )


def law_beside_ridge(table: pd.DataFrame) -> pd.DataFrame:
    """Return the error of the model minus that of ridge regression on the nine coordinates.

    The regression is fitted on the regimes that the model was fitted on, and on all other regimes
    of the test.
    """
    is_test = table["study"].str.contains("test")
    fit, test = table[~is_test], table[is_test & table["step"].notna()]
    others = [
        model_diagnostics.ridge(test.drop(index), test.loc[[index]])[0] for index in test.index
    ]
    error = (test["predicted"] - test["step"]).abs()
    rows = [
        (regimes, *mean_row(error - np.abs(baseline - test["step"])))
        for regimes, baseline in (
            (int(fit["step"].notna().sum()), model_diagnostics.ridge(fit, test)),
            (len(test) - 1, np.array(others)),
        )
    ]
    return pd.DataFrame(rows, columns=["regimes", *ROW])


def acting(table: pd.DataFrame) -> pd.DataFrame:
    """Return the change of the largest cosine to the rare feature by masks that act early.

    They act from the first step on, or from T1.
    """
    rows = (
        (point, eps_min, arm, *mean_row(change["max_alignment"]))
        for (point, eps_min), group in table.groupby(["point", "eps_min"])
        for arm, change in changes_from_dense(group).items()
    )
    return pd.DataFrame(rows, columns=["point", "eps_min", "arm", *ROW])


def digits_changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the change of the accuracy on digits from dense at the same seed.

    A row for each rule, rho, seed and group, rare or frequent digits.
    """
    wide = table.pivot(index=["rho", "group", "seed"], columns="rule", values="accuracy")
    return (
        wide.drop(columns="dense")
        .sub(wide["dense"], axis=0)
        .melt(var_name="rule", ignore_index=False)
        .reset_index()
    )


def digits(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means of `digits_changes` over seeds with their intervals."""
    groups = digits_changes(table).groupby(["rho", "group", "rule"])["value"]
    rows = [(rho, rule, group, *mean_row(values)) for (rho, group, rule), values in groups]
    return pd.DataFrame(rows, columns=["rho", "rule", "group", *ROW])


TABLES = {
    "selection_scores_at_end": (("scores_new_selection_scores",), scores_at_end),
    "selection_scores_over_regimes": (
        ("scores_9_selection_scores", "scores_16_selection_scores"),
        scores_over_regimes,
    ),
    "selection_steps": (("selection_steps",), steps),
    "selection_masks": (("interventions_selection",), masks),
    "selection_help": (("help_selection",), helped),
    "selection_law_constants": (("selection_law",), law_constants),
    "selection_law_errors": (("selection_law",), law_errors),
    "selection_law_beside_ridge": (("selection_law",), law_beside_ridge),
    "selection_acting": (("acting_selection",), acting),
    "selection_digits": (("selection_digits",), digits),
}
