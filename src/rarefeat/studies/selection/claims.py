"""Measurements for the claims on selection and on the critical frequency."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.selection import model_diagnostics
from rarefeat.studies.selection.config import DIGITS, Selection
from rarefeat.studies.selection.critical_frequency import (
    AMONG,
    estimate_critical_frequency,
    learned_matrix,
)
from rarefeat.studies.selection.paired_changes import changes_from_dense
from rarefeat.workflow.run.job import Job

MIN_REPLICAS = 5
"""Replicas with a neuron to find that an AUC needs at least."""
NO_NEURON = "fewer than five replicas have a neuron pure in the rare feature"
BEYOND = "the critical frequency of one of both lies beyond all eps_min"
SAME = "the same replicas learn the feature as in dense training, at every eps_min"
NEW, MASKS, TEST = "scores_new", "interventions", "law_test"
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


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim in every regime of the tables.

    Inputs: the tables of `declaration.claim_inputs`. Config: `selection`.
    """
    section = job.config_section("selection", Selection)
    rows: list[Measurement] = []
    for name in section.studies_with_role("scores"):
        rows += score_measurements(name, tables[f"{name}_selection_scores"])
    for name in section.studies_with_role("interventions"):
        rows += mask_measurements(name, tables[f"{name}_selection"])
    for name in section.studies_with_role("help"):
        rows += help_measurements(name, tables[f"{name}_selection"])
    if "selection_law" in tables:
        rows += model_measurements(tables["selection_law"], tables["selection_fate"])
    return [*rows, *digit_measurements(tables[DIGITS])]


def score_measurements(study: str, table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure AUCs at the last step and halfway, at every point.

    A replica without a pure neuron has no AUC.
    """
    recorded = sorted(table["step"].unique())
    for step in sorted({recorded[len(recorded) // 2], recorded[-1]}):
        wide = table[table["step"] == step].pivot(
            index=["point", "eps_min", "source", "seed"], columns="score", values="auc"
        )
        for (point, eps_min, source), group in wide.groupby(level=["point", "eps_min", "source"]):
            axes = axes_of(point)
            for claim, (score, claim_source, subtracted) in SCORE_CLAIMS.items():
                if source != claim_source or not applies_at(claim, axes, eps_min):
                    continue
                values = (
                    group[score] - group[subtracted] if subtracted else group[score]
                ).to_numpy()
                n = int(np.isfinite(values).sum())
                remark = ""
                if n < len(values):
                    missing = f"{len(values) - n} of {len(values)}"
                    remark = f"{missing} replicas have no such neuron"
                yield measurement(
                    claim,
                    study,
                    {**axes, "eps_min": eps_min, "step": step, "source": source},
                    values,
                    untestable=NO_NEURON if n < MIN_REPLICAS else "",
                    remark=remark,
                )


def axes_of(point: str) -> dict[str, float]:
    """Return the values on the axes of a point of a table, `share=0.2, lambda=0.05`."""
    return {
        axis: float(value)
        for axis, _, value in (item.partition("=") for item in point.split(", ") if item)
    }


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
    for (point, eps_min), group in table.groupby(["point", "eps_min"]):
        diverged = group[group["quantity"] == "diverged"].groupby("arm")["value"].sum()
        changes = changes_from_dense(group)
        for arm, change in changes.items():
            random = arm.replace(arm.split("-")[0], "random", 1)
            if random in changes and random != arm:
                change = change.assign(gain_over_random=change["gain"] - changes[random]["gain"])
            regime = {**axes_of(point), "eps_min": eps_min, "arm": arm}
            count = int(diverged[arm] + diverged["dense"])
            for claim, quantity in MASK_CLAIMS.items():
                if quantity in change and is_about(claim, arm):
                    yield measurement(claim, study, regime, change[quantity], diverged=count)


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


def help_measurements(study: str, table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure how far every arm shifts the critical frequency, and its cost, at every point.

    The cost is the change of the alignment of the frequent features.
    """
    for point, group in table.groupby("point"):
        learned = {arm: learned_matrix(rows) for arm, rows in group.groupby("arm")}
        estimates = {
            arm: estimate_critical_frequency(matrix.index.to_numpy(), matrix.to_numpy())
            for arm, matrix in learned.items()
        }
        alignment = group[group["quantity"] == "majority_alignment"]
        alignment = alignment.groupby(["arm", "seed"])["value"].mean()
        dense = estimates["dense"]
        silent = group[(group["arm"] == "dense") & (group["quantity"] == "silent_share")]
        silent = silent.groupby("seed")["value"].max()
        for arm in [arm for arm in estimates if arm != "dense"]:
            default = "H-rate" if "rate" in arm else "H-later"
            claim = HELP_CLAIMS.get(arm, default if arm.startswith("dense") else "H-oracle")
            estimate = estimates[arm]
            both = estimate.place == dense.place == AMONG
            diverged = group[(group["arm"] == arm) & (group["quantity"] == "diverged")]
            regime, count = {**axes_of(point), "arm": arm}, int(diverged["value"].sum())
            yield measurement(
                claim,
                study,
                regime,
                estimate.pseudo - dense.pseudo if both else [],
                untestable="" if both else BEYOND,
                diverged=count,
                remark=SAME if learned[arm].equals(learned["dense"]) else "",
                premise=silent,
            )
            cost = alignment[arm] - alignment["dense"]
            yield measurement("H-cost", study, regime, cost, diverged=count, premise=silent)


def model_measurements(table: pd.DataFrame, outcomes: pd.DataFrame) -> Iterator[Measurement]:
    """Measure errors of the critical-frequency model in the regimes of test and fit."""
    fitted = table[table["study"] != TEST]
    constant = fitted["step"].mean()
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
            "L-error-constant": error - np.abs(constant - step),
            "L-ridge": error - np.abs(model_diagnostics.ridge(fitted, group) - step),
            "L-residual": model_diagnostics.explained(group),
            "L-auc-within": model_diagnostics.auc_within(replicas),
            "L-slope": model_diagnostics.calibration_slope(replicas),
            "L-loss": model_diagnostics.excess_loss(replicas),
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
