"""The claims of the theory: W(0), the two stages, the end of training, pruning, and the phase."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.estimate import censored_exponent, estimate_from_interval, exponent
from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.theory import Theory, pruning_claims
from rarefeat.studies.theory.table_reader import (
    LEAST_REPLICAS,
    ClaimTableReader,
    by_seed_of,
    log2,
    range_of,
    slope,
    unchanged,
)

NO_LUCKY = "fewer than five replicas have a lucky neuron (Definition B.1)"
NO_LINEAR = "the logits leave chance before the first recorded step"
NO_T2 = "stage 2 ends in fewer than five replicas: no neuron grows d-fold in norm^2, eq. (61)"
NOBODY = "no neuron of M_j, or none with anything of the feature"
BY_HAND = "the rule `follow` sets the bias by hand: true or false by construction"
LAWS_OF_T1 = (
    ("33-d1", "T1_d1", lambda data, training: data.d1),
    ("33-log", "T1_d1", lambda data, training: np.log(data.d1 / data.d)),
    ("33-eta", "T1_eta", lambda data, training: training.eta),
    ("33-d", "T1_d", lambda data, training: data.d / np.log(np.log(data.d))),
)
AT_T1 = (
    ("3.1a-rate", "stage1_growth_over_closed_form", log2, NO_LINEAR),
    ("3.1b", "stage1_decay_outside", unchanged, NO_LINEAR),
    ("C.1-40", "growth_above_its_bound", unchanged, ""),
    ("C.1-40-norm", "features_over_initial_norm", unchanged, ""),
    ("C.1-41", "growth_below_its_bound", unchanged, ""),
    ("C.1-42", "outside_growth", unchanged, ""),
    ("C.1b", "lucky_above_threshold_at_T1", unchanged, NO_LUCKY),
    ("C.1b-proof", "lucky_above_the_proofs_at_T1", unchanged, NO_LUCKY),
    ("C.1c", "others_below_threshold_at_T1", unchanged, ""),
    ("C.1d", "few_strong_features_at_T1", unchanged, ""),
    ("C.1e", "outside_largest_at_T1", unchanged, ""),
)
LAWS_OF_T2 = (
    ("60-eta", "T1_eta", lambda data, training: training.eta),
    ("60-d", "T1_d", lambda data, training: data.d * np.log(data.d) / np.log(np.log(data.d))),
    ("60-eps", "T1_C", lambda data, training: data.C),
)
AT_T2 = (
    ("3.2a", "lucky_growth_at_T2", unchanged, NO_LUCKY),
    ("3.2b", "ordinary_over_lucky_at_T2", log2, NO_LUCKY),
    ("D.1a", "lucky_focus_at_T2", log2, NO_LUCKY),
    ("D.1-66", "lucky_above_bias", unchanged, NO_LUCKY),
    ("D.1-67", "others_below_bias", unchanged, NO_T2),
    ("D.1-68", "others_largest", unchanged, NO_T2),
    ("D.1-69", "features_near_bias", unchanged, NO_T2),
    ("D.1-70", "outside_largest_in_stage_two", unchanged, NO_T2),
)
AT_T = (
    ("E.1a", "lucky_focus_at_T", log2, NO_LUCKY),
    ("E.1b", "largest_norm", log2, ""),
    ("E.1d", "lucky_over_strongest_at_T", log2, NO_LUCKY),
    ("E.1e", "others_small_at_T", unchanged, ""),
    ("12-beta", "outside_largest_at_T", unchanged, ""),
)
OF_ENCODERS = (("E.1-94", "fires_with_its_features", unchanged), ("E.1-95", "fires_at_most", log2))
CURVES = (("E.1c", "strength_ratio", 2), ("12-alpha", "magnitude_ratio", 1))
REACHED = 0.5


def measure(tables: Mapping[str, pd.DataFrame], theory: Theory) -> Iterator[Measurement]:
    """Yield every claim in every regime that has tables."""
    reader = ClaimTableReader(tables, theory)
    for part in (start, stage_one, stage_two, convergence, pruning_claims.measure, phase):
        yield from part(reader)


def start(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield Lemmas B.2, over the sizes of the laws of T1, C.2 and D.2, about W(0)."""
    for claim, size, metric in (
        ("B.2a", "d1", "initial_norm_deviation"),
        ("B.2b", "d", "initial_feature_norm_deviation"),
    ):
        role = f"T1_{size}"
        studies, x = reader.law(role, lambda data, training, size=size: getattr(data, size))
        if len(x) > 2:
            curves = np.array([reader.values(name, metric) for name in studies])
            yield reader.row(claim, role, {size: (x.min(), x.max())}, exponent(x, curves))
    measured_draws = set()
    for name, study in reader.studies("stages").items():
        # A study that varies what comes after W(0) would show the same draws again.
        draws = study.draws, study.training.m, study.first_seed
        if draws not in measured_draws:
            measured_draws.add(draws)
            # W(0) does not depend on the point.
            point = reader.points(name)[0]
            for claim, metric in (("C.2", "strong_features_at_0"), ("D.2", "tiny_features_at_0")):
                values = reader.values(name, metric, **point)
                yield reader.row(claim, name, {"at": "W(0)"}, values)
    yield from fitted(reader, "B.2c", "lucky_probability")
    yield from fitted(reader, "B.2d", "largest_features")


def fitted(reader: ClaimTableReader, claim: str, quantity: str) -> Iterator[Measurement]:
    """Yield a claim about an exponent in d minus its bound, without its log factors."""
    table = reader.tables["scaling_exponents"]
    for row in table[(table["quantity"] == quantity) & (table["log_power"] == 0)].itertuples():
        power = {} if np.isnan(row.d1_power) else {"d1_power": row.d1_power}
        place = {"ratio": row.ratio, **power, "d": (row.d_low, row.d_high)}
        numbers = (number - row.bound for number in (row.exponent, row.ci_low, row.ci_high))
        yield measurement(claim, "scaling", place, estimate_from_interval(*numbers, row.n))


def stage_one(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield Lemmas 3.1 and C.1 and Theorem C.1: growth without a bias, T1, and what holds then."""
    for name in reader.studies("stages"):
        for x, sigma in reader.ranges(name):
            for claim, metric, few in (
                ("3.1a-linear", "stage1_growth_minority", NO_LINEAR),
                ("33-eps", "T1", ""),
            ):
                values = by_seed_of(exponent, x, reader.curves(name, metric, x, sigma))
                yield reader.row(claim, name, range_of(x, sigma), values, few)
        for point in reader.points(name):
            yield from reader.at_point(name, point, AT_T1)
    for claim, role, size in LAWS_OF_T1:
        studies, x = reader.law(role, size)
        if len(x) > 2:
            times = np.array([reader.values(name, "T1") for name in studies])
            yield reader.row(claim, role, {"values": len(x)}, exponent(x, times))


def stage_two(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield Lemmas 3.2 and D.1 and Theorem D.1: T2, and which neurons take off before it."""
    for name in reader.studies("stages"):
        for point in reader.points(name):
            ended = np.isfinite(reader.values(name, "T2", **point)).sum() >= LEAST_REPLICAS
            claims = ((*claim, few if ended else NO_T2) for *claim, few in AT_T2)
            yield from reader.at_point(name, point, claims)
    for claim, role, size in LAWS_OF_T2:
        studies, x = reader.law(role, size)
        if len(x) < 3:
            continue
        T1, T2 = (
            np.array([reader.values(name, metric) for name in studies]) for metric in ("T1", "T2")
        )
        horizon = np.array([[study.training.T] for study in studies.values()]) - T1
        # A replica without T1 has not begun stage 2, and says nothing about its duration.
        begun = np.isfinite(T1).all(0)
        estimate = censored_exponent(x, (T2 - T1)[:, begun], horizon[:, begun])
        missing = int((~np.isfinite(T2)).sum())
        remark = f"{missing} of {T2.size} replicas do not reach T2, and count as censored"
        most = "more than half of the replicas at one value do not reach T2"
        yield reader.row(
            claim, role, {"values": len(x)}, estimate,
            untestable=most if np.isnan(estimate.value) else "", remark=remark if missing else "",
        )  # fmt: skip


def convergence(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield Theorems 3.1 and E.1, Lemma E.1 and (K2): the end of training, and over eps_min."""
    for name, study in reader.studies("stages").items():
        for point in reader.points(name):
            values = partial(reader.values, name, **point)
            yield from reader.at_point(name, point, AT_T)
            by_hand = BY_HAND if study.training.bias.rule == "follow" else ""
            yield reader.row("93", name, point, log2(values("bias_at_T")), untestable=by_hand)
            if f"{name}_one_step" in reader.tables:
                small = values("others_small_at_T")
                for claim, metric, units in OF_ENCODERS:
                    firing = units(values(metric, "one_step"))
                    yield reader.row(claim, name, point, firing, premise=small)
            if point["eps_min"] == 1:
                continue
            for claim, metric, power in CURVES:
                off = log2(values(metric) / point["eps_min"] ** power)
                yield reader.row(claim, name, point, off, NOBODY)
            yield reader.row("K2-magnitude", name, point, log2(values("magnitude_ratio")))
        for x, sigma in reader.ranges(name):
            over = range_of(x, sigma)
            pure, minority = (
                reader.curves(name, metric, x, sigma)
                for metric in ("pure_share", "pure_minority_neurons")
            )
            yield reader.row("K2-mixing", name, over, slope(x, pure))
            per_feature = minority / (study.training.m / study.data.d)
            yield reader.row("K2-number", name, over, slope(x, per_feature))
            for claim, metric, _ in CURVES:
                curves = reader.curves(name, metric, x, sigma)
                yield reader.power_law(f"{claim}-exponent", name, x, sigma, curves, NOBODY)
    # The ideal encoder, which the grid trains as an arm, has the loss that is subtracted.
    grid = reader.tables["confirmation_grid"]
    trained = grid[grid["arm"] == "dense"]
    for (eps_min, sigma), cell in trained.groupby(["eps_min", "sigma"]):
        excess = cell["final_loss"] - cell["ideal_loss"]
        yield reader.row("11", "confirmation", {"eps_min": eps_min, "sigma": sigma}, excess)
    yield from fitted(reader, "14", "learned_features")
    yield from fitted(reader, "3.1-single", "single_minority_share")


def phase(reader: ClaimTableReader) -> Iterator[Measurement]:
    """Yield, beyond the paper, whether the imbalance is transient, and when a feature starts."""
    for name in reader.studies("phase", table="trajectories"):
        table = reader.tables[f"{name}_trajectories"]
        for (eps_min, sigma), point in table[table["eps_min"] != 1].groupby(["eps_min", "sigma"]):
            last = point["step"].max()
            place = {"eps_min": eps_min, "sigma": sigma, "step": last}
            at_last = point[point["step"] == last].pivot(
                index="seed", columns="metric", values="value"
            )
            gap = at_last["majority_alignment"] - at_last["max_alignment"]
            yield reader.row("lasting", name, place, gap)
            yield reader.row("equal", name, place, gap)
            ratio = first_step(point, "max_alignment") / first_step(point, "majority_alignment")
            missing = int(ratio.isna().sum())
            late = f"{missing} of {len(ratio)} replicas do not learn the feature within T"
            # A start that is not seen is later than T: the mean of the others would be too early.
            yield reader.row(
                "onset", name, place, np.log2(ratio * eps_min),
                untestable=late if 10 * missing > len(ratio) else "",
                remark=f"{late}, and are left out" if missing else "",
            )  # fmt: skip


def first_step(table: pd.DataFrame, metric: str) -> pd.Series:
    """Return the first recorded step at which a metric reaches 0.5, by seed; else NaN."""
    reached = table[(table["metric"] == metric) & (table["value"] >= REACHED)]
    steps = reached.groupby("seed")["step"].min()
    return steps.reindex(sorted(table["seed"].unique())).astype(float)
