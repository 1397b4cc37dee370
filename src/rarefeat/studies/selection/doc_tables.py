"""Published tables of the study of selection, for docs/studies/selection.md.

Claims and figures read the changes from the dense training at the same seed, too.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from rarefeat.claims.claim import RANGES
from rarefeat.statistics import UNBOUNDED, student_interval
from rarefeat.studies.experiment import means_by, means_of
from rarefeat.studies.selection import critical_frequency
from rarefeat.studies.selection.critical_frequency import AMONG

POINT = ["point", "eps_min"]
CHANGES = ("gain", "pure_minority_neurons", "balanced_mse", "largest_norm", "majority_alignment")
"""Quantities whose change from dense at the same seed is published."""
PARAMETERS = ("share", "lambda", "decay", "C", "L", "tau", "d", "d1", "m", "sigma_0")
"""Parameters of drawn regimes by whose thirds errors are published."""
MIN_REPLICAS = 5
"""Replicas with a neuron to find that an AUC needs at least."""
ROW = ["mean", "ci_low", "ci_high", "n"]


def changes_from_dense(table: pd.DataFrame) -> pd.DataFrame:
    """Return quantities of every arm minus those of dense, by point, eps_min, arm and seed.

    `gain` is the alignment of the rare feature minus that of the frequent ones; `largest_norm` is a
    difference of log2.
    """
    wide = table.pivot(index=[*POINT, "arm", "seed"], columns="quantity", values="value")
    wide["gain"] = wide["max_alignment"] - wide["majority_alignment"]
    wide["largest_norm"] = np.log2(wide["largest_norm"])
    others = wide.drop("dense", level="arm")
    dense = wide.xs("dense", level="arm")
    return others - dense.loc[others.index.droplevel("arm")].to_numpy()


def begins_first(arms: pd.Series) -> pd.Series:
    """Return whether an arm is a mask from T3 on, the first onset above 0, also with a stop."""
    onsets = arms.str.extract(r"onset=(\d+)")[0].dropna().astype(int)
    first = onsets[onsets > 0].min() if (onsets > 0).any() else 0
    others = arms.str.contains("alpha=|schedule=|source=|renewed=")
    return arms.str.endswith(f"onset={first}") & ~others


def share_of(point: str) -> str:
    """Return the bias scale of a point as text; empty where it is not varied."""
    return next((text.split("=")[1] for text in point.split(", ") if text.startswith("share=")), "")


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


def changes(table: pd.DataFrame, names: Iterable[str] = CHANGES) -> pd.DataFrame:
    """Return mean changes from dense by arm and point, with the number of diverged replicas."""
    wide = changes_from_dense(table).reset_index()
    means = means_by(wide, [*POINT, "arm"], [name for name in names if name in wide])
    diverged = table[table["quantity"] == "diverged"].groupby([*POINT, "arm"])["value"].sum()
    return means.join(diverged.astype(int).rename("diverged"), on=[*POINT, "arm"])


def masks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the changes by masks that begin at T3, with or without a stop or masked keys."""
    rows = changes(table)
    return rows[begins_first(rows["arm"])].reset_index(drop=True)


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
    for name, predict in critical_frequency.BASELINES.items():
        others = [predict(test.drop(index), test.loc[[index]])[0] for index in test.index]
        for regimes, found in ((len(fit), predict(fit, test)), (len(test) - 1, others)):
            change = error - np.abs(found - test["step"])
            rows.append((name, regimes, *mean_row(change)))
    return pd.DataFrame(rows, columns=["baseline", "regimes", *ROW])


def digits_changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the change of the accuracy from dense by each rule, rho, group of digits and seed."""
    wide = table.pivot(index=["rho", "group", "seed"], columns="rule", values="accuracy")
    rows = wide.drop(columns="dense").sub(wide["dense"], axis=0)
    return rows.melt(var_name="rule", ignore_index=False).reset_index()


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
