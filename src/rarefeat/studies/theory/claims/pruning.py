"""Theorem 3.2 with its lemmas, and its assumption about magnitude pruning.

It assumes that magnitude pruning removes the neurons of the minority.
"""

from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.estimate import exponent
from rarefeat.claims.measurements import Measurement
from rarefeat.model.theory import attended_count, pruning_time
from rarefeat.model.thresholds import DIVERGED_LOSS_RATIO
from rarefeat.stages.tables import ARM
from rarefeat.studies.theory.claims.table_reader import NO_MINORITY, ClaimTableReader, log2
from rarefeat.workflow.config.model import Arm, Data, Training

ORACLES = ("oracle_all", "oracle_gated", "oracle_partial")
ONE_STEP = (
    ("3.2-a", "growth_minority_gain"),
    ("3.2-b", "gain_ratio"),
    ("3.2-a-net", "growth_minority_masked"),
    ("F.2", "logit_with_minority"),
    ("F.2-others", "logit_leak"),
    ("F.1a", "similarity_positive"),
    ("F.1b", "similarity_negative"),
    ("F.1c", "negative_share"),
    ("15-alpha", "gain_in_alpha"),
    ("181-alpha", "logit_in_alpha"),
)
PER_ETA = ("3.2-a", "3.2-a-net")
SIZES = (("3.2-implicit", "minority_smaller_auc"), ("3.2-rank", "minority_among_smallest"))
IN_EPS = (
    ("15-eps", "growth_minority_gain"),
    ("16-eps", "growth_majority_gain"),
    ("181-eps", "logit_drop"),
)
IN_D = (("15-d", "growth_minority_gain"), ("181-d", "logit_drop"))
T5_ROWS = (("18-others", "pruned_other_features"), ("18-beta", "pruned_outside"))


def measure(reader: ClaimTableReader) -> list[Measurement]:
    """Measure one step, sizes of neurons, the assumed set to T5, and Algorithm 1."""
    return [
        *one_step(reader),
        *dimension_measurements(reader),
        *measurements_at_T5(reader),
        *algorithm_1(reader),
    ]


def one_step(reader: ClaimTableReader) -> list[Measurement]:
    """Measure the effect of the mask in one step, and how it scales with alpha and eps_min.

    It is measured at every point of the stages.
    """
    rows = []
    for name, study in reader.studies("stages", table="one_step").items():
        for eps_min, sigma in reader.points(name):
            point = {"eps_min": eps_min, "sigma": sigma}
            for claim, metric in ONE_STEP:
                values = reader.values(name, metric, "one_step", **point) / (
                    study.training.eta if claim in PER_ETA else 1
                )
                rows.append(reader.row(claim, name, point, values, NO_MINORITY))
            for claim, metric in SIZES:
                if eps_min < 1:
                    rows.append(
                        reader.row(
                            claim, name, point, reader.values(name, metric, **point), NO_MINORITY
                        )
                    )
        for x, sigma in reader.ranges(name):
            for claim, metric in IN_EPS:
                curves = reader.curves(name, metric, x, sigma, "one_step").abs()
                rows.append(reader.power_law(claim, name, x, sigma, curves, NO_MINORITY))
    return rows


def dimension_measurements(reader: ClaimTableReader) -> list[Measurement]:
    """Measure one step's effect over the sizes of the law of T1, at equal frequencies."""
    studies = reader.studies("T1_d", table="one_step")
    if len(studies) < 3:
        return []
    x = np.array([study.data.d / np.log(np.log(study.data.d)) for study in studies.values()])
    rows = []
    for claim, metric in IN_D:
        curves = (
            pd.concat([reader.values(name, metric, "one_step") for name in studies], axis=1)
            .to_numpy()
            .T
        )
        rows.append(
            reader.row(claim, "T1_d", {"values": len(x)}, exponent(x, np.abs(curves)), NO_MINORITY)
        )
    return rows


def measurements_at_T5(reader: ClaimTableReader) -> list[Measurement]:
    """Measure each oracle's mask from T4 on, at the end of T5's training, compared with dense.

    Ratios out of reach have a reason. alpha of the formula for T5 is 1/d, the share of one
    feature's neurons.
    """
    rows = []
    for oracle in ORACLES:
        ratios, magnitudes, premises = [], [], []
        for name, study in reader.studies("T5").items():
            data, training = study.data, study.training
            for eps_min, sigma in reader.points(name):
                point = {"eps_min": eps_min, "sigma": sigma}
                masked, dense = (
                    reader.values(name, "pure_minority_neurons", **point, arm=arm)
                    for arm in (oracle, "dense")
                )
                if not len(masked):
                    continue
                T5 = end_of_pruning(data, training, eps_min, sigma)
                late = (
                    f"the training ends at {training.T}, before T5 = {T5:.0f}"
                    if training.T < T5
                    else ""
                )
                lost = int(reader.values(name, "diverged", **point, arm=oracle).sum())
                magnitude = reader.values(name, "magnitude_ratio", **point, arm=oracle)
                learned = reader.values(name, "learned", **point, arm="dense")
                row = partial(
                    reader.row,
                    study=name,
                    place={**point, "arm": oracle},
                    untestable=late,
                    diverged=lost,
                    premise=learned,
                )
                for claim, metric in T5_ROWS:
                    rows.append(
                        row(
                            claim,
                            values=reader.values(name, metric, **point, arm=oracle),
                            few=NO_MINORITY,
                        )
                    )
                per_feature = training.m / data.d
                rows.append(row("3.2-c", values=masked / per_feature))
                rows.append(row("3.2-c-more", values=(masked - dense) / per_feature))
                rows.append(row("K3-equal", values=log2(magnitude)))
                if not late:
                    ratios.append(eps_min)
                    magnitudes.append((magnitude, lost))
                    premises.append(learned)
        if len(ratios) > 2:
            curves = np.array([values for values, _ in magnitudes])
            lost = sum(number for _, number in magnitudes)
            rows.append(
                reader.row(
                    "18-alpha",
                    "T5",
                    {"arm": oracle},
                    exponent(np.array(ratios), curves),
                    diverged=lost,
                    premise=pd.concat(premises, axis=1).min(axis=1),
                )
            )
    return rows


def end_of_pruning(data: Data, training: Training, eps_min: float, sigma: float) -> float:
    """Compute T5 in steps, with C_z of docs/method/model.md."""
    scale, eta = training.logit_scale(data.d1), training.eta
    C_z = data.C * attended_count(data.L, sigma**2 * data.d1, scale) ** 2
    return data.d**1.99 / eta + pruning_time(data.d, eta, C_z, 1 / data.d, eps_min)


def gains(trajectories: pd.DataFrame) -> pd.DataFrame:
    """Compute the minority gain less the majority gain at the last step.

    The result has a row per point and masked arm, and a column per seed.
    """
    last = trajectories[trajectories["step"] == trajectories["step"].max()]
    keys = ["eps_min", "sigma", *ARM]
    wide = {
        metric: last[last["metric"] == metric].pivot(index=keys, columns="seed", values="value")
        for metric in ("max_alignment", "majority_alignment")
    }
    lead = wide["max_alignment"] - wide["majority_alignment"]
    dense = lead.xs("dense", level="arm").droplevel([key for key in ARM if key != "arm"])
    masked = lead[lead.index.get_level_values("arm") != "dense"]
    return masked - dense.reindex(masked.index.droplevel(list(ARM))).to_numpy()


def pruned_minority(trajectories: pd.DataFrame) -> pd.DataFrame:
    """Compute the share of pruned neurons that are the minority feature's, over recorded steps.

    The result has a row per point and arm, and a column per seed; steps without a mask are left
    out.
    """
    rows = trajectories[trajectories["metric"] == "mask_minority_overlap"].dropna(subset="value")
    means = rows.groupby(["eps_min", "sigma", *ARM, "seed"], dropna=False)["value"].mean()
    return means.unstack("seed")


def lost(trajectories: pd.DataFrame, K: int) -> pd.Series:
    """Count the replicas that diverged at any recorded step, by point and arm."""
    keys = ["eps_min", "sigma", *ARM]
    loss = trajectories[trajectories["metric"].isin(["loss", "weight_norm"])]
    wide = loss.pivot(index=[*keys, "seed", "step"], columns="metric", values="value")
    # The definition is that of model/divergence.py.
    wide["diverged"] = ~(
        (wide["loss"] <= DIVERGED_LOSS_RATIO * np.log(K)) & np.isfinite(wide["weight_norm"])
    )
    return wide["diverged"].groupby([*keys, "seed"]).any().groupby(keys).sum()


def algorithm_1(reader: ClaimTableReader) -> list[Measurement]:
    """Measure magnitude pruning, and compare it with a random mask of the same size."""
    rows = []
    for name, study in reader.studies("pruning", table="trajectories").items():
        table = reader.tables[f"{name}_trajectories"]
        leads, diverged = gains(table), lost(table, study.training.K)
        overlaps = pruned_minority(table)
        for key, values in leads.iterrows():
            eps_min, sigma, arm = key[:3]
            masked = Arm(**dict(zip(ARM, key[2:], strict=True)))
            if arm not in ("pruned_neuron", "pruned_weight"):
                continue
            place = {
                "eps_min": eps_min,
                "sigma": sigma,
                "mask": (masked.alpha, masked.onset),
                "update": masked.pruned_update,
            }
            place |= {"by": "weight"} if arm == "pruned_weight" else {}
            overlap = overlaps.loc[key]
            rows.append(
                reader.row(
                    "A1-gain", name, place, values, diverged=int(diverged[key]), premise=overlap
                )
            )
            other = (eps_min, sigma, "random_neuron", *key[3:])
            if other in leads.index:
                both = int(diverged[key] + diverged[other])
                beyond = values - leads.loc[other]
                rows.append(
                    reader.row("A1-control", name, place, beyond, diverged=both, premise=overlap)
                )
    return rows
