"""Theorem 3.2 with its lemmas, and what it takes for granted: that magnitude pruning removes the neurons of the minority."""

from functools import partial

import numpy as np
import pandas as pd
import torch

from rarefeat.chain.tables import ARM
from rarefeat.claims.claim import COUNT, SHARE, Measured
from rarefeat.claims.estimate import exponent
from rarefeat.config.model import Arm, Data
from rarefeat.core.divergence import diverged
from rarefeat.core.theory import attended_count, pruning_time
from rarefeat.studies.theory.claims.reader import (
    EXACT_CONSTANT,
    LEARNED_RANGE,
    NO_MINORITY,
    POINT,
    Reader,
    declare,
    log2,
    point_of,
)

GROUP = "pruning"
declare = partial(declare, group=GROUP)
ORACLES = ("oracle_all", "oracle_gated", "oracle_partial")
AT_T5 = "T5_ratio=0.7: eps_min 0.7, sigma 0.05, oracle_gated"
ALGORITHM_1 = "pruning: eps_min 0.5, sigma 0.05, alpha 0.1 from step 0, unmasked"
# One step of trained encoders.
FASTER = declare(
    id="3.2-a",
    source="Theorem 3.2 (a), eq. (15)",
    statement="masking neurons of the minority feature makes them grow faster along it in the next step",
    quantity="relative growth with the mask less that without, in units of eta",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="faster",
    tolerance=0.05,
    control="3.2-b: the others on the same batches",
)
ELSEWHERE = declare(
    id="3.2-b",
    source="Theorem 3.2 (b), eq. (15), (16)",
    statement="along other features the mask changes growth by a factor of order eps / d less",
    quantity="gain along majority features over the gain along the minority one",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=1 / 9,
    reason="1 / d at d = 9, with eps <= 1",
    tolerance=0.05,
    control="1 if the mask spoke to every neuron",
)
ENOUGH = declare(
    id="3.2-a-net",
    source="Theorem 3.2 (a), (c)",
    statement="with the mask the minority's neurons grow along it, weight decay included",
    quantity="relative growth in one step with the mask, in units of eta",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="growing",
    tolerance=0.05,
    control="without the mask it is 0 at convergence",
)
LOGIT = declare(
    id="F.2",
    source="Lemma F.2, eq. (181)",
    statement="the mask lowers the positive logit of samples that contain the minority feature",
    quantity="mean change of the positive logit",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="lower",
    tolerance=0.05,
    control="F.2-others: samples without the feature",
)
LEAK = declare(
    id="F.2-others",
    source="F.3, the distribution D_2",
    statement="the mask does not change the positive logit of the other samples",
    quantity="change on the other samples over the change on those with the feature",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.05,
    reason="none, to a twentieth",
    tolerance=0.05,
    control="1 if the feature did not matter",
)
POSITIVE = declare(
    id="F.1a",
    source="Lemma F.1 (a), eq. (178)",
    statement="the pruned neurons add to the similarity of positive pairs",
    quantity="mean of sum over P of h_i(X) h_i(Y)",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="positive",
    tolerance=0.05,
    control="F.1b: negative pairs",
)
NEGATIVE = declare(
    id="F.1b",
    source="Lemma F.1 (b), eq. (179)",
    statement="and nothing on average to that of negative pairs",
    quantity="their mean over negative pairs over that over positive ones",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.05,
    reason="none, to a twentieth",
    tolerance=0.05,
    control="1 if positives were nothing special",
)
FIXED = declare(
    id="F.1c",
    source="Lemma F.1 (c), eq. (180), and eq. (184)",
    statement="the negatives do not pull on the pruned neurons: their logits are held fixed, although they grow with h_i",
    quantity="pull of the negatives over that of the positives",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.05,
    reason="none, to a twentieth",
    tolerance=0.05,
    control="1 where positives and negatives balance, as without a mask",
)


def scaling(identity: str, source: str, statement: str, quantity: str, power: float, primary: str, **more):
    """A claim about how one step's effect scales: an exponent, to a quarter."""
    return declare(
        id=identity, source=source, statement=statement, quantity=quantity, test="equivalence", side="around", threshold=power,
        margin=0.25, reason=f"{power:g}, to a quarter", primary=primary, tolerance=0.25, **more,
    )  # fmt: skip


SIGN = "an exponent of 0: an effect that does not know the parameter"
GAIN_ALPHA = scaling(
    "15-alpha", "Theorem 3.2 (a), eq. (15)", "the gain of one step is proportional to the pruning ratio alpha",
    "exponent of the gain in the number of pruned neurons, a quarter, a half and all of them", 1.0, POINT, control=SIGN,
)  # fmt: skip
GAIN_EPS = scaling(
    "15-eps", "Theorem 3.2 (a), eq. (15)", "the gain of one step is proportional to eps_min^2",
    "exponent of the gain in eps_min, where nine of ten replicas learn the feature", 2.0, LEARNED_RANGE, control=SIGN,
)  # fmt: skip
GAIN_D = scaling(
    "15-d", "Theorem 3.2 (a), eq. (15)", "the gain of one step is proportional to loglog d / d",
    "exponent of the gain in d / loglog d", -1.0, "T1_d", effect=1.25, seeds=24, control=SIGN,
)  # fmt: skip
OTHER_EPS = scaling(
    "16-eps", "Theorem 3.2 (b), eq. (16)", "along other features the gain is proportional to eps_min^3 at most",
    "exponent in eps_min of the absolute gain along majority features, where it is learned", 3.0, LEARNED_RANGE, control=SIGN,
)  # fmt: skip
LOGIT_ALPHA = scaling(
    "181-alpha", "Lemma F.2, eq. (181)", "the drop of the positive logit is proportional to alpha m",
    "exponent in the number of pruned neurons of the drop over all samples", 1.0, POINT, control=SIGN,
)  # fmt: skip
LOGIT_EPS = scaling(
    "181-eps", "Lemma F.2, eq. (181)", "the drop of the positive logit is proportional to eps_min",
    "exponent in eps_min of the drop over all samples, where it is learned", 1.0, LEARNED_RANGE, control=SIGN,
)  # fmt: skip
LOGIT_D = scaling(
    "181-d", "Lemma F.2, eq. (181)", "the drop of the positive logit is proportional to loglog d / d",
    "exponent in d / loglog d of the drop over all samples", -1.0, "T1_d", effect=1.25, seeds=24, control=SIGN,
)  # fmt: skip
# What magnitude pruning takes for granted.
SMALLER = declare(
    id="3.2-implicit",
    source="Theorem 3.2, Remark 1",
    statement="the neurons of the minority feature are smaller than the others, so that magnitude pruning takes them first",
    quantity="probability that a neuron pure in it is smaller than another one, at T (AUC)",
    test="superiority",
    side="above",
    threshold=0.5,
    reason="more often than by chance",
    tolerance=0.1,
    control="0.5 at eps_min = 1 by symmetry",
    bounds=SHARE,
)
AMONG = declare(
    id="3.2-rank",
    source="Theorem 3.2, Remark 1",
    statement="of as many of the smallest neurons as are aligned with the minority feature, most are these",
    quantity="their share less chance, k / m",
    test="superiority",
    side="above",
    threshold=0.5,
    reason="most of them, beyond chance",
    tolerance=0.1,
    control="0 for a random mask",
)
# Algorithm 1.
GAIN = declare(
    id="A1-gain",
    source="Algorithm 1, section 3.3.2, (K3)",
    statement="magnitude pruning raises alignment with the minority feature, and not that with the majority",
    quantity="change of max_alignment less change of majority_alignment, to dense, seed by seed",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="higher",
    primary=ALGORITHM_1,
    tolerance=0.02,
    control="A1-control: a random mask, and one on the largest neurons",
)
CONTROL = declare(
    id="A1-control",
    source="Algorithm 1, section 3.3.2, (K3)",
    statement="and does so because the smallest neurons are pruned",
    quantity="A1-gain's quantity less the same under a random mask of the same size, seed by seed",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="higher",
    primary=ALGORITHM_1,
    tolerance=0.02,
    control="the same less a mask on the largest neurons, in the table of trajectories",
)
# The assumed set, to the end.
NUMBER = declare(
    id="3.2-c",
    source="Theorem 3.2 (c)",
    statement="with the assumed set masked, Omega(m / d) neurons end with N_i = {j*}, whatever the ratio",
    quantity="neurons with absolute cosine > 0.9 to the minority feature at T5, over m / d",
    test="non-inferiority",
    side="above",
    threshold=1.0,
    margin=0.5,
    reason=EXACT_CONSTANT,
    primary=AT_T5,
    effect=1.25,
    seeds=24,
    tolerance=0.25,
    control="dense at the same step and seeds",
    bounds=COUNT,
)
MORE = declare(
    id="3.2-c-more",
    source="Theorem 3.2, Remark 3",
    statement="the mask drives more neurons to specialise in the minority feature",
    quantity="their number at T5 less that of dense, over m / d, seed by seed",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="more",
    primary=AT_T5,
    effect=1.25,
    seeds=24,
    tolerance=0.25,
    control="the arm oracle_all, which nothing stops: its gain is a runaway where it diverges",
)
STRENGTH = declare(
    id="18-alpha",
    source="Theorem 3.2 (c), eq. (18), F.4, Remark 3",
    statement="at T5 the strength of the minority feature does not depend on eps_min / eps_max",
    quantity="exponent in eps_min of the largest |<w_i, M_minority>| over that of the majority features",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.25,
    reason="0, to a quarter; without pruning it is 1 (eq. 13)",
    primary="T5: oracle_gated",
    effect=1.25,
    seeds=24,
    tolerance=0.25,
    control="dense: 12-alpha-exponent",
)
SAME = declare(
    id="K3-equal",
    source="(K3), Theorem 3.2, Remark 3",
    statement="at T5 the coefficient of the minority feature is of the same order as that of majority features",
    quantity="log2 of the largest |<w_i, M_minority>| over that of the majority features",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=1.0,
    reason="the same order: a factor of two to either side",
    primary=AT_T5,
    effect=1.25,
    seeds=24,
    tolerance=0.25,
    control="dense at the same step; a runaway exceeds it",
)
OTHERS = declare(
    id="18-others",
    source="Theorem 3.2 (c), eq. (18)",
    statement="at T5 the pruned neurons hold o((1 + 1/d) / sqrt(d)) of every other feature",
    quantity="largest sqrt(d) |<w_i, M_j>| / ||w_i|| of the minority's neurons",
    test="superiority",
    side="below",
    threshold=0.5,
    reason="o(1) read as under a half",
    primary=AT_T5,
    effect=1.25,
    seeds=24,
    tolerance=0.1,
    control="dense: E.1e",
    bounds=COUNT,
)
OUTSIDE = declare(
    id="18-beta",
    source="Theorem 3.2 (c), eq. (18)",
    statement="at T5 the pruned neurons hold o(1 / sqrt(d1)) of every direction off the features",
    quantity="sqrt(d1) times the largest |<w_i, M_j^perp>| / ||w_i|| over these neurons and directions",
    test="superiority",
    side="below",
    threshold=0.5,
    reason="o(1) read as under a half",
    primary=AT_T5,
    effect=1.25,
    seeds=24,
    tolerance=0.1,
    control="dense: 12-beta",
    bounds=COUNT,
)
ONE_STEP = (
    (FASTER, "growth_minority_gain"),
    (ELSEWHERE, "gain_ratio"),
    (ENOUGH, "growth_minority_masked"),
    (LOGIT, "logit_with_minority"),
    (LEAK, "logit_leak"),
    (POSITIVE, "similarity_positive"),
    (NEGATIVE, "similarity_negative"),
    (FIXED, "negative_share"),
    (GAIN_ALPHA, "gain_in_alpha"),
    (LOGIT_ALPHA, "logit_in_alpha"),
)
PER_ETA = (FASTER, ENOUGH)
SIZES = ((SMALLER, "minority_smaller_auc"), (AMONG, "minority_among_smallest"))
IN_EPS = ((GAIN_EPS, "growth_minority_gain"), (OTHER_EPS, "growth_majority_gain"), (LOGIT_EPS, "logit_drop"))
IN_D = ((GAIN_D, "growth_minority_gain"), (LOGIT_D, "logit_drop"))
T5_ROWS = ((OTHERS, "pruned_other_features"), (OUTSIDE, "pruned_outside"))
CLAIMS = (
    *(claim for claim, _ in (*ONE_STEP, *SIZES, *IN_EPS, *IN_D, *T5_ROWS)), GAIN, CONTROL, NUMBER, MORE, STRENGTH, SAME,
)  # fmt: skip


def measure(reader: Reader) -> list[Measured]:
    """One step of trained encoders, sizes of neurons, the assumed set to T5, and Algorithm 1 with its controls."""
    return [*one_step(reader), *in_d(reader), *at_T5(reader), *algorithm_1(reader)]


def one_step(reader: Reader) -> list[Measured]:
    """The mask's work in one step, at every point of the stages, and how it scales with alpha and eps_min."""
    rows = []
    for name, study in reader.studies("stages", table="one_step").items():
        for eps_min, sigma in reader.points(name):
            at, said = {"eps_min": eps_min, "sigma": sigma}, point_of(eps_min, sigma)
            for claim, metric in ONE_STEP:
                values = reader.values(name, metric, "one_step", **at) / (study.training.eta if claim in PER_ETA else 1)
                rows.append(reader.row(claim, name, said, values, NO_MINORITY))
            for claim, metric in SIZES:
                if eps_min < 1:
                    rows.append(reader.row(claim, name, said, reader.values(name, metric, **at), NO_MINORITY))
        for x, sigma, _ in reader.ranges(name):
            for claim, metric in IN_EPS:
                values = [reader.by_seed(name, metric, "one_step", eps_min=eps_min, sigma=sigma) for eps_min in x]
                curves = pd.concat(values, axis=1).to_numpy().T
                rows.append(reader.power_law(claim, name, x, sigma, np.abs(curves), NO_MINORITY))
    return rows


def in_d(reader: Reader) -> list[Measured]:
    """One step's effect over the sizes of the law of T1, at equal frequencies."""
    studies = reader.studies("T1_d", table="one_step")
    if len(studies) < 3:
        return []
    x = np.array([study.data.d / np.log(np.log(study.data.d)) for study in studies.values()])
    rows = []
    for claim, metric in IN_D:
        curves = pd.concat([reader.by_seed(name, metric, "one_step") for name in studies], axis=1).to_numpy().T
        rows.append(reader.row(claim, "T1_d", f"{len(x)} values", exponent(x, np.abs(curves)), NO_MINORITY))
    return rows


def at_T5(reader: Reader) -> list[Measured]:
    """Each oracle's mask from T4 on, at the end of T5's training, with dense beside it; ratios out of reach have a reason.

    alpha of the formula for T5 is 1/d, the share of one feature's neurons.
    """
    rows = []
    for oracle in ORACLES:
        ratios, magnitudes = [], []
        for name, study in reader.studies("T5").items():
            data, training = study.data, study.training
            for eps_min, sigma in reader.points(name):
                at = {"eps_min": eps_min, "sigma": sigma}
                masked, dense = (reader.values(name, "pure_minority_neurons", **at, arm=arm) for arm in (oracle, "dense"))
                if not len(masked):
                    continue
                T5 = end_of_pruning(data, training.eta, eps_min, sigma)
                late = f"the training ends at {training.T}, before T5 = {T5:.0f}" if training.T < T5 else ""
                lost = int(reader.values(name, "diverged", **at, arm=oracle).sum())
                said = f"{point_of(eps_min, sigma)}, {oracle}"
                magnitude = reader.values(name, "magnitude_ratio", **at, arm=oracle)
                row = partial(reader.row, study=name, point=said, untestable=late, diverged=lost)
                for claim, metric in T5_ROWS:
                    rows.append(row(claim, values=reader.values(name, metric, **at, arm=oracle), few=NO_MINORITY))
                per_feature = training.m / data.d
                rows.append(row(NUMBER, values=masked / per_feature))
                rows.append(row(MORE, values=(masked - dense) / per_feature))
                rows.append(row(SAME, values=log2(magnitude)))
                if not late:
                    ratios.append(eps_min)
                    magnitudes.append((magnitude, lost))
        if len(ratios) > 2:
            curves = np.array([values for values, _ in magnitudes])
            lost = sum(number for _, number in magnitudes)
            rows.append(reader.row(STRENGTH, "T5", oracle, exponent(np.array(ratios), curves), diverged=lost))
    return rows


def end_of_pruning(data: Data, eta: float, eps_min: float, sigma: float) -> float:
    """T5 in steps, with C_z of docs/method/model.md."""
    C_z = data.C * attended_count(data.L, sigma**2 * data.d1) ** 2
    return data.d**1.99 / eta + pruning_time(data.d, eta, C_z, 1 / data.d, eps_min)


def gains(trajectories: pd.DataFrame) -> pd.DataFrame:
    """Minority gain less majority gain at the last step: a row per point and masked arm, a column per seed."""
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


def lost(trajectories: pd.DataFrame, K: int) -> pd.Series:
    """Replicas whose training diverged, at any recorded step, by point and arm."""
    keys = ["eps_min", "sigma", *ARM]
    loss = trajectories[trajectories["metric"].isin(["loss", "weight_norm"])]
    wide = loss.pivot(index=[*keys, "seed", "step"], columns="metric", values="value")
    values = torch.tensor(wide["loss"].to_numpy()), torch.tensor(wide["weight_norm"].to_numpy())
    wide["diverged"] = diverged(values[0], K, values[1]).numpy()
    return wide["diverged"].groupby([*keys, "seed"]).any().groupby(keys).sum()


def algorithm_1(reader: Reader) -> list[Measured]:
    """Magnitude pruning, and a random mask of the same size beside it."""
    rows = []
    for name, study in reader.studies("pruning", table="trajectories").items():
        table = reader.tables[f"{name}_trajectories"]
        found, gone = gains(table), lost(table, study.training.K)
        for key, values in found.iterrows():
            eps_min, sigma, arm = key[:3]
            masked = Arm(**dict(zip(ARM, key[2:], strict=True)))
            if arm not in ("pruned_neuron", "pruned_weight"):
                continue
            update = masked.pruned_update
            said = f"{point_of(eps_min, sigma)}, alpha {masked.alpha:g} from step {masked.onset}, {update}"
            said += ", by weight" if arm == "pruned_weight" else ""
            rows.append(reader.row(GAIN, name, said, values.to_numpy(), diverged=int(gone[key])))
            other = (eps_min, sigma, "random_neuron", *key[3:])
            if other in found.index:
                both = int(gone[key] + gone[other])
                rows.append(reader.row(CONTROL, name, said, (values - found.loc[other]).to_numpy(), diverged=both))
    return rows
