"""Measurements for the claims on selection and on the critical frequency."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.selection import critical_frequency
from rarefeat.studies.selection.changes import MIN_REPLICAS, POINT, changes_from_dense
from rarefeat.studies.selection.config import DIGITS, Selection
from rarefeat.studies.selection.critical_frequency import (
    AMONG,
    estimate_critical_frequency,
    learned_matrix,
)

NO_NEURON = "fewer than five replicas have a neuron pure in the rare feature"
BEYOND = "the critical frequency of one of both lies beyond all eps_min"
SAME = "the same replicas learn the feature as in dense training, at every eps_min"
TEST = "law_test"
SCORE_CLAIMS = {
    "S-rate": ("effective_rate", "running", ""),
    "S-batch": ("effective_rate", "batch", ""),
    "S-norm": ("norm", "running", ""),
    "S-rate-firing": ("effective_rate", "running", "firing_rate"),
    "S-random": ("random", "running", ""),
    "S-no-bias": ("effective_rate", "running", ""),
}
"""Score, source of its moments, and score whose AUC is subtracted, by claim."""
MASK_CLAIMS = {
    "I-rate": "gain",
    "I-rate-random": "gain_over_random",
    "I-number": "pure_minority_neurons",
    "I-stop": "largest_norm",
    "I-mse": "balanced_mse",
    "I-locked": "gain",
    "I-nearest": "max_alignment",
    "I-contrast": "pure_minority_neurons",
}
"""Quantity whose change from dense is measured, by claim."""
HELP_CLAIMS = {
    "dense-threshold=rate": "H-rate",
    "dense-delay=200": "H-later",
    "dense-reopened": "H-reopened",
    "dense-revived": "H-revived",
}
"""Claim by the arm that it is about; H-oracle is about masks."""


def measure(tables: Mapping[str, pd.DataFrame], selection: Selection) -> Iterator[Measurement]:
    """Measure every claim in every regime of the tables."""
    for name in selection.studies_with_role("scores"):
        yield from score_measurements(name, tables[f"{name}_selection_scores"])
    for name in selection.studies_with_role("interventions"):
        yield from mask_measurements(name, tables[f"{name}_selection"])
    for name in selection.studies_with_role("help"):
        yield from help_measurements(name, tables[f"{name}_selection"])
    if "selection_law" in tables:
        yield from model_measurements(tables["selection_law"], tables["selection_fate"])
    yield from digit_measurements(tables[DIGITS])


def axes_of(point: str) -> dict[str, float]:
    """Return the values on the axes of a point of a table, `share=0.2, lambda=0.05`."""
    return {
        axis: float(value)
        for axis, _, value in (item.partition("=") for item in point.split(", ") if item)
    }


def score_measurements(study: str, table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure AUCs halfway and at the last step; a replica without a pure neuron has none."""
    recorded = sorted(table["step"].unique())
    rows = table[table["step"].isin([recorded[len(recorded) // 2], recorded[-1]])]
    keys = ["step", *POINT, "source"]
    wide = rows.pivot(index=[*keys, "seed"], columns="score", values="auc")
    for (step, point, eps_min, source), group in wide.groupby(level=keys):
        axes = axes_of(point)
        regime = {**axes, "eps_min": eps_min, "step": step, "source": source}
        for claim, (score, claim_source, subtracted) in SCORE_CLAIMS.items():
            if source == claim_source and applies_at(claim, axes, eps_min):
                of_score = group[score] - (group[subtracted] if subtracted else 0.0)
                values = of_score.to_numpy()
                n, every = int(np.isfinite(values).sum()), len(values)
                some = f"{every - n} of {every} replicas have no such neuron" if n < every else ""
                few = NO_NEURON if n < MIN_REPLICAS else ""
                yield measurement(claim, study, regime, values, untestable=few, remark=some)


def applies_at(claim: str, axes: Mapping[str, float], eps_min: float) -> bool:
    """Return whether a claim on scores is about a point.

    S-random is about every point, S-no-bias about a bias scale of 0 and unequal frequencies, and
    the others about all other points with unequal ones.
    """
    if claim == "S-random":
        return True
    return eps_min < 1 and (axes.get("share") == 0) == (claim == "S-no-bias")


def mask_measurements(study: str, table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the changes from dense at the same seed, by every mask at every point."""
    runaways = table[table["quantity"] == "diverged"].groupby([*POINT, "arm"])["value"].sum()
    for (point, eps_min), group in changes_from_dense(table).groupby(level=POINT):
        diverged = runaways[point, eps_min]
        by_arm = group.droplevel(POINT).groupby(level="arm")
        changes = {arm: rows.droplevel("arm") for arm, rows in by_arm}
        for arm, change in changes.items():
            random = arm.replace(arm.split("-")[0], "random", 1)
            if random in changes and random != arm:
                change = change.assign(gain_over_random=change["gain"] - changes[random]["gain"])
            regime = {**axes_of(point), "eps_min": eps_min, "arm": arm}
            lost = int(diverged[arm] + diverged["dense"])
            for claim, quantity in MASK_CLAIMS.items():
                if quantity in change and is_about(claim, arm):
                    yield measurement(claim, study, regime, change[quantity], diverged=lost)


def is_about(claim: str, arm: str) -> bool:
    """Return whether a claim on masks is about an arm."""
    is_oracle, is_contrast = arm.startswith("oracle"), "masked_keys" in arm
    if claim == "I-nearest" or arm.startswith("oracle_nearest"):
        return claim == "I-nearest" and arm.startswith("oracle_nearest")
    if claim == "I-locked":
        return is_oracle and not is_contrast
    if claim == "I-contrast":
        return is_contrast
    if claim == "I-stop":
        return "stop" in arm.split("-")
    return not is_oracle and not is_contrast


def claim_on_help(arm: str) -> str:
    """Return the claim on the critical frequency that an arm is a regime of."""
    default = "H-rate" if "rate" in arm else "H-later"
    return HELP_CLAIMS.get(arm, default if arm.startswith("dense") else "H-oracle")


def help_measurements(study: str, table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure shifts of the critical frequency, and the cost to the frequent features."""
    for point, group in table.groupby("point"):
        learned = {arm: learned_matrix(rows) for arm, rows in group.groupby("arm")}
        estimates = {arm: estimate_critical_frequency(rows) for arm, rows in learned.items()}
        by_quantity = dict(iter(group.set_index(["arm", "seed"]).groupby("quantity")["value"]))
        alignment = by_quantity["majority_alignment"].groupby(level=["arm", "seed"]).mean()
        silent = by_quantity["silent_share"].loc["dense"].groupby(level="seed").max()
        dense = estimates.pop("dense")
        for arm, estimate in estimates.items():
            both = estimate.place == dense.place == AMONG
            regime = {**axes_of(point), "arm": arm}
            fields = {"diverged": int(by_quantity["diverged"].loc[arm].sum()), "premise": silent}
            yield measurement(
                claim_on_help(arm),
                study,
                regime,
                estimate.pseudo - dense.pseudo if both else [],
                untestable="" if both else BEYOND,
                remark=SAME if learned[arm].equals(learned["dense"]) else "",
                **fields,
            )
            yield measurement(
                "H-cost", study, regime, alignment[arm] - alignment["dense"], **fields
            )


def model_measurements(table: pd.DataFrame, outcomes: pd.DataFrame) -> Iterator[Measurement]:
    """Measure errors of the critical-frequency model in the regimes of test and fit."""
    fitted = table[table["study"] != TEST]
    for name, group in table.groupby("study"):
        error = np.abs(group["predicted"] - group["step"]).to_numpy()
        step = group["step"].to_numpy()
        beyond = int((group["place"] != AMONG).sum())
        remark = f"{beyond} of {len(group)} regimes have no critical frequency among the eps_min"
        if group["diverged"].any():
            remark += f"; diverged in {int(group['diverged'].sum())} replicas"
        replicas = outcomes[outcomes["study"] == name]
        values_of = {
            "L-error": error,
            "L-error-constant": error - np.abs(critical_frequency.constant(fitted, group) - step),
            "L-ridge": error - np.abs(critical_frequency.ridge(fitted, group) - step),
            "L-residual": critical_frequency.explained(group),
            "L-auc-within": critical_frequency.auc_within(replicas),
            "L-slope": critical_frequency.calibration_slope(replicas),
            "L-loss": critical_frequency.excess_loss(replicas),
        }
        regime = {"over": "drawn regimes" if name == TEST else "the regimes of the fit"}
        for claim, values in values_of.items():
            yield measurement(claim, name, regime, values, remark=remark)


def digit_measurements(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure every rule at every rho against the random mask, on the rare digits."""
    tail = table[table["group"] == "tail"].pivot(
        index=["rho", "seed"], columns="rule", values="accuracy"
    )
    if "random" not in tail:
        return
    for rho, group in tail.groupby(level="rho"):
        for rule in group.columns.drop(["random", "dense"]):
            claim = "D-norm" if rule in ("norm", "largest") else "D-rate"
            # A control that ruins the training would make a gain of any rule that does not.
            points = 100 * group[[rule, "random"]].sub(group["dense"], axis=0).mean()
            remark = (
                f"against dense {rule} changes this accuracy by {points[rule]:+.1f} points, random"
                f" by {points['random']:+.1f}"
            )
            regime = {"rho": rho, "rule": rule}
            yield measurement(claim, DIGITS, regime, group[rule] - group["random"], remark=remark)
