"""What is measured for the claims beyond the papers."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.run.job import Job
from rarefeat.studies.selection import model_diagnostics
from rarefeat.studies.selection.config import DIGITS, Selection
from rarefeat.studies.selection.critical_frequency import (
    AMONG,
    estimate_critical_frequency,
    learned_matrix,
)
from rarefeat.studies.selection.paired_changes import changed

LEAST = 5
NO_NEURON = "fewer than five replicas have a neuron pure in the rare feature"
BEYOND = "the step of one of both lies beyond all eps_min"
SAME = "the same replicas learn the feature as in dense training, at every eps_min"
NEW, MASKS, TEST = "scores_new", "interventions", "law_test"
OF_SCORES = {
    "S-rate": ("effective_rate", "running", ""),
    "S-batch": ("effective_rate", "batch", ""),
    "S-norm": ("norm", "running", ""),
    "S-rate-firing": ("effective_rate", "running", "firing_rate"),
    "S-random": ("random", "running", ""),
    "S-symmetry": ("effective_rate", "running", ""),
    "S-no-bias": ("effective_rate", "running", ""),
}
"""Each with its score, where that is read from, and the score that it is less of."""
OF_MASKS = {
    "I-rate": "gain",
    "I-rate-random": "gain_over_random",
    "I-number": "pure_minority_neurons",
    "I-stop": "largest_norm",
    "I-mse": "balanced_mse",
    "I-locked": "gain",
    "I-nearest": "max_alignment",
    "I-contrast": "pure_minority_neurons",
}
OF_ARMS = {
    "dense-threshold=rate": "H-rate",
    "dense-delay=200": "H-later",
    "dense-reopened": "H-reopened",
    "dense-revived": "H-revived",
}
"""What moves the step; no mask does, H-oracle."""


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Every claim in every regime that there is."""
    section = job.config_section("selection", Selection)
    rows: list[Measurement] = []
    for name in section.studies_with_role("scores"):
        rows += selection(name, tables[f"{name}_selection_scores"])
    for name in section.studies_with_role("interventions"):
        rows += interventions(name, tables[f"{name}_selection"])
    for name in section.studies_with_role("help"):
        rows += helped(name, tables[f"{name}_selection"])
    if "selection_law" in tables:
        rows += the_law(tables["selection_law"], tables["selection_fate"])
    return [*rows, *images(tables[DIGITS])]


def selection(name: str, table: pd.DataFrame) -> Iterator[Measurement]:
    """AUCs at the last step and halfway, at every point; a replica without a pure neuron has none."""
    steps = sorted(table["step"].unique())
    for step in sorted({steps[len(steps) // 2], steps[-1]}):
        part = table[table["step"] == step]
        wide = part.pivot(
            index=["point", "eps_min", "source", "seed"], columns="score", values="auc"
        )
        for (point, eps_min, source), found in wide.groupby(level=["point", "eps_min", "source"]):
            place = axes_of(point)
            for claim, (score, read_from, less) in OF_SCORES.items():
                if source != read_from or not at_point(claim, place, eps_min):
                    continue
                values = (found[score] - found[less] if less else found[score]).to_numpy()
                kept = int(np.isfinite(values).sum())
                where = {**place, "eps_min": eps_min, "step": step, "source": source}
                remark = (
                    f"{len(values) - kept} of {len(values)} replicas have no such neuron"
                    if kept < len(values)
                    else ""
                )
                yield measurement(
                    claim,
                    name,
                    where,
                    values,
                    untestable=NO_NEURON if kept < LEAST else "",
                    remark=remark,
                )


def axes_of(point: str) -> dict[str, float]:
    """Where a point of a table lies: `share=0.2, lambda=0.05`."""
    return {
        axis: float(at)
        for axis, _, at in (item.partition("=") for item in point.split(", ") if item)
    }


def at_point(claim: str, place: Mapping[str, float], eps_min: float) -> bool:
    """Whether a claim on scores speaks of a point: of one without a bias, of equal frequencies, or of all others."""
    if claim == "S-random":
        return True
    if eps_min == 1 or claim == "S-symmetry":
        return eps_min == 1 and claim == "S-symmetry"
    return (place.get("share") == 0) == (claim == "S-no-bias")


def interventions(name: str, table: pd.DataFrame) -> Iterator[Measurement]:
    """Every mask at every point, less dense at the same seed."""
    for (point, eps_min), part in table.groupby(["point", "eps_min"]):
        lost = part[part["quantity"] == "diverged"].groupby("arm")["value"].sum()
        changes = changed(part)
        for arm, less in changes.items():
            random = arm.replace(arm.split("-")[0], "random", 1)
            if random in changes and random != arm:
                less = less.assign(gain_over_random=less["gain"] - changes[random]["gain"])
            for claim, quantity in OF_MASKS.items():
                if quantity in less and belongs(claim, arm):
                    where = {**axes_of(point), "eps_min": eps_min, "arm": arm}
                    yield measurement(
                        claim, name, where, less[quantity], diverged=int(lost[arm] + lost["dense"])
                    )


def belongs(claim: str, arm: str) -> bool:
    """Whether an arm is one that a claim speaks of."""
    oracle, contrast, stop = (
        arm.startswith("oracle"),
        "masked_keys" in arm,
        "stop" in arm.split("-"),
    )
    if claim == "I-nearest" or arm.startswith("oracle_nearest"):
        return claim == "I-nearest" and arm.startswith("oracle_nearest")
    if claim == "I-locked":
        return oracle and not contrast
    if claim == "I-contrast":
        return contrast
    if claim == "I-stop":
        return stop
    return not oracle and not contrast


def helped(name: str, table: pd.DataFrame) -> Iterator[Measurement]:
    """How far every arm moves the step, and what it costs the frequent features, at every point."""
    for point, part in table.groupby("point"):
        who = learned(part)
        steps = {
            arm: estimate_critical_frequency(wide.index.to_numpy(), wide.to_numpy())
            for arm, wide in who.items()
        }
        cost = (
            part[part["quantity"] == "majority_alignment"].groupby(["arm", "seed"])["value"].mean()
        )
        for arm in [arm for arm in steps if arm != "dense"]:
            other = "H-rate" if "rate" in arm else "H-later"
            claim = OF_ARMS.get(arm, other if arm.startswith("dense") else "H-oracle")
            both = steps[arm].place == steps["dense"].place == AMONG
            shift = steps[arm].pseudo - steps["dense"].pseudo if both else []
            found = part[(part["arm"] == arm) & (part["quantity"] == "diverged")]
            where, lost = {**axes_of(point), "arm": arm}, int(found["value"].sum())
            remark = SAME if who[arm].equals(who["dense"]) else ""
            yield measurement(
                claim,
                name,
                where,
                shift,
                untestable="" if both else BEYOND,
                diverged=lost,
                remark=remark,
            )
            yield measurement("H-cost", name, where, cost[arm] - cost["dense"], diverged=lost)


def learned(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Who has learned, eps_min by seed, by arm."""
    return {arm: learned_matrix(part) for arm, part in table.groupby("arm")}


def the_law(table: pd.DataFrame, fate: pd.DataFrame) -> Iterator[Measurement]:
    """The law on the drawn regimes that it was not fitted on, and on those that it was."""
    fitted = table[table["study"] != TEST]
    constant = fitted["step"].mean()
    for name, part in table.groupby("study"):
        error = np.abs(part["predicted"] - part["step"]).to_numpy()
        step = part["step"].to_numpy()
        beyond = f"{int((part['place'] != AMONG).sum())} of {len(part)} regimes have no step among the eps_min"
        lost = (
            f"; diverged in {int(part['diverged'].sum())} replicas"
            if part["diverged"].any()
            else ""
        )
        own = fate[fate["study"] == name]
        found: dict[str, Any] = {
            "L-error": error,
            "L-error-constant": error - np.abs(constant - step),
            "L-ridge": error - np.abs(model_diagnostics.ridge(fitted, part) - step),
            "L-residual": model_diagnostics.explained(part),
            "L-auc-within": model_diagnostics.auc_within(own),
            "L-slope": model_diagnostics.calibration_slope(own),
            "L-loss": model_diagnostics.excess_loss(own),
        }
        for claim, values in found.items():
            said = "drawn regimes" if name == TEST else "the regimes of the fit"
            yield measurement(claim, name, {"over": said}, values, remark=beyond + lost)


def images(table: pd.DataFrame) -> Iterator[Measurement]:
    """Every rule at every rho against the random mask, on the rare digits."""
    tail = table[table["group"] == "tail"].pivot(
        index=["rho", "seed"], columns="rule", values="accuracy"
    )
    if "random" not in tail:
        return
    for rho, part in tail.groupby(level="rho"):
        for rule in part.columns.drop(["random", "dense"]):
            claim = "D-norm" if rule in ("norm", "largest") else "D-rate"
            # A control that ruins the training makes a gain of any rule that does not.
            points = 100 * part[[rule, "random"]].sub(part["dense"], axis=0).mean()
            remark = f"against dense {rule} changes this accuracy by {points[rule]:+.1f} points, random by {points['random']:+.1f}"
            yield measurement(
                claim,
                DIGITS,
                {"rho": rho, "rule": rule},
                part[rule] - part["random"],
                remark=remark,
            )
