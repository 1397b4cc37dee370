"""What docs/studies/selection.md is filled in from."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from rarefeat.claims.claim import RANGES
from rarefeat.core.statistics import UNBOUNDED, student_interval
from rarefeat.studies.selection import model_diagnostics
from rarefeat.studies.selection.claims import LEAST
from rarefeat.studies.selection.critical_frequency import AMONG
from rarefeat.studies.selection.paired_changes import begins_first, changed, share_of

CHANGES = ("gain", "pure_minority_neurons", "balanced_mse", "largest_norm", "majority_alignment")
"""What an arm changes of dense at the same seed."""
REGIONS = ("share", "lambda", "decay", "C", "L", "tau", "d", "d1", "m", "sigma_0")


def row(
    values: Iterable[float], inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float, int]:
    """Mean, both ends of its 95 % interval, and n."""
    mean, _, low, high, n = student_interval(np.asarray(list(values), dtype=float), inside=inside)
    return mean, low, high, n


ROW = ["mean", "ci_low", "ci_high", "n"]


def scores_at_end(*tables: pd.DataFrame) -> pd.DataFrame:
    """AUC of every score at the last step of every point of the sweeps, from the running mean."""
    rows = []
    for table in tables:
        part = table[(table["source"] == "running") & (table["step"] == table["step"].max())]
        for key, found in part.groupby(["point", "eps_min", "score"], sort=False):
            rows.append((*key, *row(found["auc"], RANGES["share"])))
    return pd.DataFrame(rows, columns=["point", "eps_min", "score", *ROW])


def scores_over_regimes(*tables: pd.DataFrame) -> pd.DataFrame:
    """AUC of every score at the last step, by the bias's share: median and range over d, lambda and eps_min below 1.

    Regimes are means over their replicas with a pure neuron; those with fewer than LEAST of them are left out.
    """
    rows = []
    for table in tables:
        part = table[
            (table["source"] == "running")
            & (table["step"] == table["step"].max())
            & (table["eps_min"] < 1)
        ]
        found = (
            part.groupby(["point", "eps_min", "score"], sort=False)["auc"]
            .agg(["mean", "count"])
            .reset_index()
        )
        rows.append(
            found[found["count"] >= LEAST].assign(share=found["point"].map(share_of).astype(float))
        )
    found = pd.concat(rows).groupby(["score", "share"])["mean"]
    return (
        found.agg(["median", "min", "max", "count"])
        .rename(columns={"count": "regimes"})
        .reset_index()
    )


def steps(table: pd.DataFrame) -> pd.DataFrame:
    """Steps of what was done to the training; those of drawn regimes are many, and stand in the figure."""
    return table[~table["point"].str.startswith("regime=")].reset_index(drop=True)


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """What every arm changes of dense, at every point: CHANGES with intervals, and how many replicas diverged."""
    rows = []
    for (point, eps_min), part in table.groupby(["point", "eps_min"]):
        diverged = part[part["quantity"] == "diverged"].groupby("arm")["value"].sum()
        for arm, less in changed(part).items():
            found = (name for name in CHANGES if name in less)
            rows += [
                (point, eps_min, arm, name, *row(less[name]), int(diverged[arm])) for name in found
            ]
    return pd.DataFrame(rows, columns=["point", "eps_min", "arm", "quantity", *ROW, "diverged"])


def masks(table: pd.DataFrame) -> pd.DataFrame:
    """Of the masks that begin at T3, with and without a stop, and of the contrast branch: what they change."""
    found = changes(table)
    return found[begins_first(found["arm"])].reset_index(drop=True)


def helped(table: pd.DataFrame) -> pd.DataFrame:
    """Of what may help between T1 and T3, over all eps_min: what it costs, and how much there was to re-open or redraw."""
    found = changes(table)
    cost = found[found["quantity"] == "majority_alignment"].groupby(["point", "arm"])["mean"].mean()
    sums = table[table["quantity"].isin(["silent_share", "revivals", "diverged"])]
    wide = sums.pivot_table(
        index=["point", "arm"], columns="quantity", values="value", aggfunc="mean"
    )
    return wide.join(cost.rename("majority_change")).reset_index()


def law_constants(table: pd.DataFrame) -> pd.DataFrame:
    """The two constants of the law as they were fitted, of how many regimes and replicas."""
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
    """How far the law is off in the drawn regimes, all of them and the lower, middle and upper third of each parameter."""
    test = table[table["study"].str.contains("test")]
    rows = [("all", "", *of_regimes(test))]
    for name in REGIONS:
        if test[name].nunique() > 2:
            rank = test[name].rank(method="first") / len(test)
            thirds = {
                "lower": rank <= 1 / 3,
                "middle": (rank > 1 / 3) & (rank <= 2 / 3),
                "upper": rank > 2 / 3,
            }
            rows += [(name, third, *of_regimes(test[inside])) for third, inside in thirds.items()]
    columns = ["parameter", "third", "regimes", "no_step"]
    for quantity in ("error", "bias", "auc", "calibration"):
        columns += [quantity, f"{quantity}_low", f"{quantity}_high"]
    return pd.DataFrame(rows, columns=columns)


def of_regimes(part: pd.DataFrame) -> tuple:
    """Number of regimes, of them without a step among the eps_min, and error, bias, AUC and calibration with intervals."""
    off = (part["predicted"] - part["step"])[part["place"] == AMONG]
    missed = part["probability"] - part["learned"]
    rows = (
        row(off.abs(), RANGES["count"]),
        row(off),
        row(part["auc"].dropna(), RANGES["share"]),
        row(missed),
    )
    return (
        len(part),
        int((part["place"] != AMONG).sum()),
        *(number for found in rows for number in found[:3]),
    )


def law_beside_ridge(table: pd.DataFrame) -> pd.DataFrame:
    """Error of the law minus that of ridge on the nine coordinates: fitted on the law's own regimes, and on all others."""
    is_test = table["study"].str.contains("test")
    fit, test = table[~is_test], table[is_test & table["step"].notna()]
    others = [
        model_diagnostics.ridge(test.drop(index), test.loc[[index]])[0] for index in test.index
    ]
    error = (test["predicted"] - test["step"]).abs()
    rows = [
        (regimes, *row(error - np.abs(found - test["step"])))
        for regimes, found in (
            (int(fit["step"].notna().sum()), model_diagnostics.ridge(fit, test)),
            (len(test) - 1, np.array(others)),
        )
    ]
    return pd.DataFrame(rows, columns=["regimes", *ROW])


def acting(table: pd.DataFrame) -> pd.DataFrame:
    """Of masks that act from the first step on, or from T1: what they change of the largest cosine to the rare feature."""
    found = (
        (point, eps_min, arm, *row(less["max_alignment"]))
        for (point, eps_min), part in table.groupby(["point", "eps_min"])
        for arm, less in changed(part).items()
    )
    return pd.DataFrame(found, columns=["point", "eps_min", "arm", *ROW])


def digits_changes(table: pd.DataFrame) -> pd.DataFrame:
    """Accuracy on rare and on frequent digits less dense's at the same seed, by rule and rho."""
    wide = table.pivot(index=["rho", "group", "seed"], columns="rule", values="accuracy")
    return (
        wide.drop(columns="dense")
        .sub(wide["dense"], axis=0)
        .melt(var_name="rule", ignore_index=False)
        .reset_index()
    )


def digits(table: pd.DataFrame) -> pd.DataFrame:
    """The means of these with intervals."""
    parts = digits_changes(table).groupby(["rho", "group", "rule"])["value"]
    rows = [(rho, rule, group, *row(part)) for (rho, group, rule), part in parts]
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
