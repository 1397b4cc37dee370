"""The claims about pruning: Theorem 3.2 with its lemmas, and Algorithm 1.

The theorem assumes that magnitude pruning removes the neurons of the minority feature.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.estimate import exponent
from rarefeat.claims.measurements import Measurement
from rarefeat.model.theory import attended_count, pruning_time
from rarefeat.model.thresholds import DIVERGED_LOSS_RATIO, HALF_LEARNED
from rarefeat.stages.tables import ARM
from rarefeat.studies.theory.table_reader import ClaimTableReader, log2
from rarefeat.workflow.config.model import Arm, Data, Training

NO_MINORITY = "fewer than five replicas have a neuron of the minority feature"
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
AT_T5 = (("18-others", "pruned_other_features"), ("18-beta", "pruned_outside"))
POINT_AND_ARM = ["eps_min", "sigma", *ARM]
CONTROLS = {"A1-gain": "A1-control", "A1-learned": "A1-learned-control"}


def measure(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield one step, also over d, the assumed mask to T5, and Algorithm 1."""
    for part in (one_step, in_dimension, until_T5, algorithm_1):
        yield from part(reader)


def one_step(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield the effect of the mask in one step at every point, and how it scales with eps_min."""
    for name, study in reader.studies("stages", table="one_step").items():
        for point in reader.points(name):
            for claim, metric in ONE_STEP:
                unit = study.training.eta if claim in PER_ETA else 1
                values = reader.values(name, metric, "one_step", **point) / unit
                yield reader.row(claim, name, point, values, NO_MINORITY)
            for claim, metric in SIZES if point["eps_min"] < 1 else ():
                values = reader.values(name, metric, **point)
                yield reader.row(claim, name, point, values, NO_MINORITY)
        for x, sigma in reader.ranges(name):
            for claim, metric in IN_EPS:
                curves = reader.curves(name, metric, x, sigma, "one_step").abs()
                yield reader.power_law(claim, name, x, sigma, curves, NO_MINORITY)


def in_dimension(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield one step's effect over the sizes of the law of T1, at equal frequencies."""
    studies = reader.studies("T1_d", table="one_step")
    if len(studies) < 3:
        return
    x = np.array([study.data.d / np.log(np.log(study.data.d)) for study in studies.values()])
    for claim, metric in IN_D:
        curves = pd.concat([reader.values(name, metric, "one_step") for name in studies], axis=1)
        values = exponent(x, np.abs(curves.to_numpy().T))
        yield reader.row(claim, "T1_d", {"values": len(x)}, values, NO_MINORITY)


def until_T5(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield each oracle's mask from T4 on, at the end of T5's training, compared with dense."""
    cells = [
        (name, study, point)
        for name, study in reader.studies("T5").items()
        for point in reader.points(name)
    ]
    for oracle in ORACLES:
        ratios, magnitudes, premises, n_lost = [], [], [], 0
        for name, study, point in cells:
            values = partial(reader.values, name, **point)
            masked, dense = (values("pure_minority_neurons", arm=arm) for arm in (oracle, "dense"))
            if masked.empty:
                continue
            T, T5 = study.training.T, end_of_pruning(study.data, study.training, **point)
            late = f"the training ends at {T}, before T5 = {T5:.0f}" if T < T5 else ""
            lost = int(values("diverged", arm=oracle).sum())
            magnitude = values("magnitude_ratio", arm=oracle)
            learned = values("learned", arm="dense")
            row = partial(
                reader.row, study=name, place={**point, "arm": oracle}, untestable=late,
                diverged=lost, premise=learned,
            )  # fmt: skip
            for claim, metric in AT_T5:
                yield row(claim, values=values(metric, arm=oracle), few=NO_MINORITY)
            per_feature = study.training.m / study.data.d
            yield row("3.2-c", values=masked / per_feature)
            yield row("3.2-c-more", values=(masked - dense) / per_feature)
            yield row("K3-equal", values=log2(magnitude))
            if not late:
                ratios.append(point["eps_min"])
                magnitudes.append(magnitude)
                premises.append(learned)
                n_lost += lost
        if len(ratios) > 2:
            slopes = exponent(np.array(ratios), np.array(magnitudes))
            premise = pd.concat(premises, axis=1).min(axis=1)
            place = {"arm": oracle}
            yield reader.row("18-alpha", "T5", place, slopes, diverged=n_lost, premise=premise)


def end_of_pruning(data: Data, training: Training, eps_min: float, sigma: float) -> float:
    """Return T5 in steps, with C_z of docs/method/model.md and one feature's share as alpha."""
    scale, eta = training.logit_scale(data.d1), training.eta
    C_z = data.C * attended_count(data.L, sigma**2 * data.d1, scale) ** 2
    return data.d**1.99 / eta + pruning_time(data.d, eta, C_z, 1 / data.d, eps_min)


def at_end(trajectories: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a metric at the last step, by point and arm, with a column for each seed."""
    rows = trajectories[trajectories["metric"] == metric]
    last = rows[rows["step"] == rows["step"].max()]
    return last.pivot(index=POINT_AND_ARM, columns="seed", values="value")


def minus_dense(values: pd.DataFrame) -> pd.DataFrame:
    """Return values of every masked arm minus those of dense at the same point and seed."""
    dense = values.xs("dense", level="arm").droplevel([key for key in ARM if key != "arm"])
    masked = values[values.index.get_level_values("arm") != "dense"]
    return masked - dense.reindex(masked.index.droplevel(list(ARM))).to_numpy()


def pruned_minority(trajectories: pd.DataFrame) -> pd.DataFrame:
    """Return the share of pruned neurons that are the minority's, over steps with a mask."""
    rows = trajectories[trajectories["metric"] == "mask_minority_overlap"].dropna(subset="value")
    means = rows.groupby([*POINT_AND_ARM, "seed"], dropna=False)["value"].mean()
    return means.unstack("seed")


def count_diverged(trajectories: pd.DataFrame, K: int) -> pd.Series:
    """Count the replicas that diverged at any recorded step, by point and arm."""
    keys = [*POINT_AND_ARM, "seed"]
    loss = trajectories[trajectories["metric"].isin(["loss", "weight_norm"])]
    wide = loss.pivot(index=[*keys, "step"], columns="metric", values="value")
    # The definition is that of model/divergence.py.
    sound = (wide["loss"] <= DIVERGED_LOSS_RATIO * np.log(K)) & np.isfinite(wide["weight_norm"])
    return (~sound).groupby(keys).any().groupby(POINT_AND_ARM).sum()


def algorithm_1(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield the gain by magnitude pruning, also over that of a random mask of the same size."""
    for name, study in reader.studies("pruning", table="trajectories").items():
        table = reader.tables[f"{name}_trajectories"]
        best = at_end(table, "max_alignment")
        learned = minus_dense((best >= HALF_LEARNED).astype(float))
        leads = minus_dense(best - at_end(table, "majority_alignment"))
        overlaps, diverged = pruned_minority(table), count_diverged(table, study.training.K)
        for key in leads.index:
            eps_min, sigma, arm, *settings = key
            if arm not in ("pruned_neuron", "pruned_weight"):
                continue
            masked = Arm(**dict(zip(ARM, key[2:], strict=True)))
            place = {"eps_min": eps_min, "sigma": sigma, "mask": (masked.alpha, masked.onset)}
            place |= {"update": masked.pruned_update}
            place |= {"by": "weight"} if arm == "pruned_weight" else {}
            row = partial(reader.row, study=name, place=place, premise=overlaps.loc[key])
            random = (eps_min, sigma, "random_neuron", *settings)
            for claim, changes in (("A1-gain", leads), ("A1-learned", learned)):
                yield row(claim, values=changes.loc[key], diverged=int(diverged[key]))
                if random in leads.index:
                    both = int(diverged[key] + diverged[random])
                    beyond = changes.loc[key] - changes.loc[random]
                    yield row(CONTROLS[claim], values=beyond, diverged=both)
