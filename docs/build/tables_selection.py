"""Published tables of the study of selection, from which docs/studies/selection.md is filled in."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from rarefeat.claims.claim import RANGES
from rarefeat.statistics import UNBOUNDED, student_interval
from rarefeat.studies.experiment import means_of
from rarefeat.studies.selection.changes import (
    MIN_REPLICAS,
    POINT,
    changes,
    digits_changes,
    masks,
    share_of,
)
from rarefeat.studies.selection.critical_frequency import AMONG, constant, coordinates, ridge

PARAMETERS = ("share", "lambda", "decay", "C", "L", "tau", "d", "d1", "m", "sigma_0")
"""Parameters of drawn regimes by whose thirds errors are published."""
ROW = ["mean", "ci_low", "ci_high", "n"]


def mean_row(
    values: Iterable[float], inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float, int]:
    """Return mean, both ends of its 95 % interval, and n."""
    mean, _, low, high, n = student_interval(np.asarray(list(values), dtype=float), inside=inside)
    return mean, low, high, n


def last_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Return the scores at the last step, from the running mean."""
    return table[(table["source"] == "running") & (table["step"] == table["step"].max())]


def scores_at_end(table: pd.DataFrame) -> pd.DataFrame:
    """Return the AUC of every score at the last step of every point."""
    last = last_scores(table)
    return means_of(last, [*POINT, "score"], "auc", lambda _: RANGES["share"]).drop(columns="sd")


def scores_over_regimes(*tables: pd.DataFrame) -> pd.DataFrame:
    """Return median and range over regimes with enough pure neurons of each score's AUC."""
    groups = pd.concat(
        last_scores(table)[lambda last: last["eps_min"] < 1]
        .groupby([*POINT, "score"], sort=False)["auc"]
        .agg(["mean", "count"])
        .reset_index()
        for table in tables
    )
    means = groups[groups["count"] >= MIN_REPLICAS]
    return (
        means.assign(share=means["point"].map(share_of).astype(float))
        .groupby(["score", "share"])["mean"]
        .agg(["median", "min", "max", "count"])
        .rename(columns={"count": "regimes"})
        .reset_index()
    )


def steps(table: pd.DataFrame) -> pd.DataFrame:
    """Return the critical frequencies of interventions, without those of drawn regimes."""
    return table[~table["point"].str.startswith("regime=")].reset_index(drop=True)


def helped(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over eps_min of cost, silent neurons and revivals of what helps from T1 on."""
    cost = changes(table, ["majority_alignment"]).groupby(["point", "arm"])["mean"].mean()
    quantities = table[table["quantity"].isin(["silent_share", "revivals", "diverged"])]
    wide = quantities.pivot_table(
        index=["point", "arm"], columns="quantity", values="value", aggfunc="mean"
    )
    return wide.join(cost.rename("majority_change")).reset_index()


def acting(table: pd.DataFrame) -> pd.DataFrame:
    """Return the change of the largest cosine by masks from the first step on, or from T1."""
    return changes(table, ["max_alignment"])[[*POINT, "arm", *ROW]]


def law_constants(table: pd.DataFrame) -> pd.DataFrame:
    """Return the fitted constants of the model, with numbers of regimes and replicas."""
    fit = table[table["study"].str.contains("fit")]
    centre, steepness = table[["centre", "steepness"]].iloc[0]
    row = {"kappa": np.exp(centre), "gamma": steepness, "regimes": len(fit)}
    return pd.DataFrame([row | {"replicas": fit["n"].sum()}])


def law_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return errors of the model in all drawn regimes of the test, and by third of a parameter."""
    test = table[table["study"].str.contains("test")]
    rows = [("all", "", *error_row(test))]
    for name in PARAMETERS:
        if test[name].nunique() > 2:
            rank = test[name].rank(method="first") / len(test)
            thirds = np.select([rank <= 1 / 3, rank <= 2 / 3], ["lower", "middle"], "upper")
            rows += [
                (name, third, *error_row(test[thirds == third]))
                for third in ("lower", "middle", "upper")
            ]
    columns = ["parameter", "third", "regimes", "no_step"]
    for quantity in ("error", "bias", "auc", "calibration"):
        columns += [quantity, f"{quantity}_low", f"{quantity}_high"]
    return pd.DataFrame(rows, columns=columns)


def error_row(regimes: pd.DataFrame) -> tuple:
    """Return the row of some regimes: their number, how many have no critical frequency among the
    eps_min, and error, bias, AUC and calibration with intervals.
    """
    among = regimes["place"] == AMONG
    error = (regimes["predicted"] - regimes["step"])[among]
    rows = (
        mean_row(error.abs(), RANGES["count"]),
        mean_row(error),
        mean_row(regimes["auc"].dropna(), RANGES["share"]),
        mean_row(regimes["probability"] - regimes["learned"]),
    )
    return len(regimes), int((~among).sum()), *(number for row in rows for number in row[:3])


def law_baselines(table: pd.DataFrame) -> pd.DataFrame:
    """Return the model's error minus each baseline's, fitted as it was and on the other tests."""
    is_test, has_step = table["study"].str.contains("test"), table["step"].notna()
    fit, test = table[~is_test & has_step], table[is_test & has_step]
    error, rows = (test["predicted"] - test["step"]).abs(), []
    for name, predict in BASELINES.items():
        others = [predict(test.drop(index), test.loc[[index]])[0] for index in test.index]
        for regimes, found in ((len(fit), predict(fit, test)), (len(test) - 1, others)):
            change = error - np.abs(found - test["step"])
            rows.append((name, regimes, *mean_row(change)))
    return pd.DataFrame(rows, columns=["baseline", "regimes", *ROW])


def gaussian_process(fit: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Predict critical frequencies by a Gaussian process of the largest marginal likelihood."""
    fit = fit[fit["step"].notna()]
    kernel = ConstantKernel() * RBF(3.0) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    model.fit(coordinates(fit, fit), fit["step"])
    return np.clip(model.predict(coordinates(test, fit)), 0.0, 1.0)


BASELINES = {"constant": constant, "ridge": ridge, "Gaussian process": gaussian_process}
"""Predictions from regimes alone, without the model."""


def digits(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means of `digits_changes` over seeds with their intervals."""
    means = means_of(digits_changes(table), ["rho", "group", "rule"])
    return means[["rho", "rule", "group", *ROW]]


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
    "selection_law_regimes": (
        ("selection_law",),
        lambda table: table.drop(columns=["centre", "steepness"]),
    ),
    "selection_law_errors": (("selection_law",), law_errors),
    "selection_law_baselines": (("selection_law",), law_baselines),
    "selection_acting": (("acting_selection",), acting),
    "selection_digits": (("selection_digits",), digits),
}
