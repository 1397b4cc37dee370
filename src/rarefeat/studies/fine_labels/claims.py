"""The claims of the study, written before its full run: what is measured, where, and what it must be.

Thresholds and margins are argued from the statements.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from rarefeat.claims.claim import CORRELATION, COUNT, SHARE, Claim, Measured, Regime
from rarefeat.claims.estimate import exponent, of_seeds
from rarefeat.core.statistics import ANYWHERE
from rarefeat.run.job import Job
from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import COARSE, DIGITS, DIRECT, SCALAR, FineLabels, Labels, fine
from rarefeat.studies.fine_labels.metrics import RIDGE

PAPER = "hong_fine_grained_labels"
SEEDS = 20
DIRECT_SEEDS = 12
"""Counts that are 0 in every replica are tested by their sign, p = 2^-n: 12 replicas pass Holm's strictest step."""
EFFECT = {SEEDS: 1.25, DIRECT_SEEDS: 1.7}
"""Standard deviations beyond the edge that so many replicas find with a power of 0.9 at Holm's strictest step."""
GRID, NOISE = "k x s_dag", "noise"


def claim(
    id: str,
    group: str,
    source: str,
    statement: str,
    quantity: str,
    required: tuple[str, str, float, float],
    reason: str,
    primary: str,
    control: str,
    *,
    study: str = SCALAR,
    seeds: int = SEEDS,
    bounds: tuple[float, float] = ANYWHERE,
) -> Claim:
    """A claim of this paper.

    Args:
        required: test, side, threshold and margin.
        primary: point of the study.
    """
    test, side, threshold, margin = required
    return Claim(
        id=id, group=group, paper=PAPER, source=source, statement=statement, quantity=quantity, test=test, side=side,
        threshold=threshold, margin=margin, reason=reason, primary=f"{study}: {primary}", control=control, seeds=seeds,
        effect=EFFECT[seeds], tolerance=0.05, bounds=bounds,
    )  # fmt: skip


GROWTH, ERRORS, INVARIANCE, LABELS = "detector growth", "easy and hard errors", "detectors at rest", "other labels"
IMAGES = "label granularity on images"
FIRST_COARSE = claim(
    "4-first-coarse",
    GROWTH,
    "Theorem D.1, points 1 and 2, at t = 0",
    "with coarse labels subclass detectors start to grow 1/k times as fast as common ones",
    "log(k * first_ratio), coarse",
    ("equivalence", "around", 0.0, 0.05),
    "exact in expectation; a batch of 512 leaves some 0.03 a seed; 5 per cent tells 1/k from 1/(k + 1) up to k = 19",
    "k=8",
    "samples with a wrong balance of subclasses miss it (tests)",
)
FIRST_FINE = claim(
    "4-first-fine",
    GROWTH,
    "Lemma G.2 at t = 0, with every logit 1/2k",
    "with fine labels subclass detectors start to grow 2 - 1/k times as fast as common ones",
    "log(first_ratio / (2 - 1/k)), fine",
    ("equivalence", "around", 0.0, 0.05),
    "exact in expectation; 5 per cent tells it from 1, which eq. (12) has, and from 2",
    "k=4",
    "coarse labels have 1/k on the same samples",
)
ORDER_COARSE = claim(
    "4-order-coarse",
    GROWTH,
    "Lemmas E.2-E.5: A_(+,c) / A_+ = Theta(1/k)",
    "with coarse labels the ratio of the displacements stays of order 1/k to the end",
    "exponent of the final ratio in k, coarse",
    ("equivalence", "around", -1.0, 0.25),
    "Theta leaves a constant and no exponent; a quarter is half of what would make it 1/sqrt(k)",
    "k=2..16",
    "fine labels: the exponent is that of a ratio of order 1, near 0",
)
ORDER_AT_ALL_TIMES = claim(
    "4-bound-coarse",
    GROWTH,
    "Lemmas E.2-E.5, for all t",
    "at no time do subclass detectors get beyond that order",
    "log(k * largest_ratio), coarse",
    ("non-inferiority", "below", 0.0, 0.693),
    "the constant of Theta is open: a factor of 2 is granted",
    "k=8",
    "fine labels: log of k times a ratio of order 1 is near log k",
)
LOGARITHMIC = claim(
    "4-log-growth",
    GROWTH,
    "Lemma E.4: A(t) = log(C (t - T11) + t0) + E(t)",
    "with coarse labels common detectors grow as log t in the end",
    "log(late_over_early_growth), coarse: A(T) - A(T/4) over A(T/4) - A(T/16)",
    ("equivalence", "around", 0.0, 0.405),
    "0 for a logarithm; log 2 for sqrt(t), log 4 for t, and far below 0 for growth that ends: half-way to a square root, 1.5",
    "k=8",
    "the closed form coarse_growth, which is logarithmic, has it; its first steps, which are linear, do not",
)
BIAS = tuple(
    claim(
        f"4-bias-{name}",
        GROWTH,
        "Lemma E.7, eq. (18)",
        f"bias over displacement of {name.replace('-', ' ')} detectors is 1/kappa_b",
        f"log(kappa_b * bias_over_{column}), {labels}",
        ("equivalence", "around", 0.0, 0.05),
        "exact where a detector only ever grows along its feature; patch noise adds in squares",
        "k=8",
        "fine common detectors, whose updates change sign",
    )
    for name, column, labels in (
        ("coarse-common", "common", "coarse"),
        ("coarse-subclass", "subclass", "coarse"),
        ("fine-subclass", "subclass", "fine"),
    )
)
BIAS_FINE_COMMON = claim(
    "4-bias-fine-common",
    GROWTH,
    "eq. (18) with eq. (177)",
    "but not of fine common detectors, which other subclasses' samples push back",
    "log(kappa_b * bias_over_common), fine",
    ("superiority", "above", 0.05, 0.0),
    "a sum of absolute values is at least the absolute value of the sum; more than the margin granted to the others",
    "k=8",
    "coarse common detectors, which nothing pushes back",
)
EASY = tuple(
    claim(
        f"5-easy-{labels}",
        ERRORS,
        source,
        f"{labels} labels: the error on easy samples is o(1)",
        f"easy_error, {labels}",
        ("superiority", "below", 0.01, 0.0),
        "o(1) has no number: one per cent, a fiftieth of chance",
        "k=8",
        "hard samples with coarse labels",
        bounds=SHARE,
    )
    for labels, source in (("coarse", "Theorem 5.1, eq. (4)"), ("fine", "Theorem 5.2, eq. (6)"))
)
HARD_COARSE = claim(
    "5-hard-coarse",
    ERRORS,
    "Theorem 5.1, eq. (5)",
    "coarse labels: the error on hard samples is Omega(1)",
    "hard_error, coarse",
    ("superiority", "above", 0.5, 0.0),
    "the theorem wants k far above s*: there the distractor wins more often than it loses; chance is 1/2",
    "k=16",
    "the same network on easy samples; fine labels on the same hard samples",
    bounds=SHARE,
)
HARD_FINE = claim(
    "5-hard-fine",
    ERRORS,
    "Theorem 5.2, eq. (6)",
    "fine labels: the error on hard samples is o(1), but for those without any patch of their subclass",
    "hard_error - fine_floor, fine",
    ("non-inferiority", "below", 0.0, 0.01),
    "the floor is 0 only for large s*; beyond it one per cent, as for easy samples",
    "k=8",
    "coarse labels on the same samples; a subclass without a detector is seen in smallest_detectors",
)
SUBCLASS_FINE = claim(
    "G3-easy-subclass",
    ERRORS,
    "Theorem G.3, point 1",
    "fine labels: the subclass of an easy sample is told, too",
    "easy_subclass_error, fine",
    ("superiority", "below", 0.05, 0.0),
    "o(1) over 2k classes, where chance is 1 - 1/2k: a twentieth",
    "k=8",
    "classes at random within a superclass have chance",
    bounds=SHARE,
)
CLOSED_FORM = claim(
    "5-closed-form",
    ERRORS,
    "Appendix B.1 with Theorem E.1: the law of (n_sub, n_dag)",
    "the error on hard samples is the probability that the distractor wins, given the replica's own detectors",
    "hard_error - predicted_hard_error, coarse",
    ("equivalence", "around", 0.0, 0.02),
    "what zeta* adds is at most of the order of ties; 1600 samples leave 0.012 a seed",
    "k=4",
    "independent n_sub and n_dag are seen to be a wrong law (tests)",
)
R_ORDERS = claim(
    "5-R-coarse",
    ERRORS,
    "this study: R = k s_dag (E alpha_dag - 1/kappa_b) / (s* (1 - 1/kappa_b))",
    "R orders the error of coarse labels on hard samples, over k and s_dag",
    "Spearman correlation of hard_error with R over the grid, coarse",
    ("superiority", "above", 0.9, 0.0),
    "an order that one number gives; k and s_dag differ beyond R in the spread of the numbers of patches",
    GRID,
    "k alone, or s_dag alone, orders it less",
    bounds=CORRELATION,
)
R_FINE = claim(
    "5-R-fine",
    ERRORS,
    "Theorem 5.2 for all s_dag iota_dag = o(1)",
    "fine labels do not care about R",
    "largest hard_error - fine_floor over the grid, fine",
    ("non-inferiority", "below", 0.0, 0.03),
    "three times the margin of a single point, as the largest over the grid is",
    GRID,
    "coarse labels over the same grid",
)
FINE_TUNING = claim(
    "G4-fine-tuning",
    GROWTH,
    "Remark to Theorem G.3, eq. (234) and (235)",
    "fine-tuning on the superclasses lowers no detector",
    "smallest_change over the detectors of a class' own features, in units of their mean displacement",
    ("non-inferiority", "above", 0.0, 0.001),
    "the update cannot be negative where the other superclass is silent; a thousandth for patch noise",
    "k=8",
    "going on with fine labels lowers common detectors",
)
INVARIANCES = (
    claim(
        "F1-noise",
        INVARIANCE,
        "Theorems F.1 and G.1",
        "no neuron is ever active on a noise patch",
        "on_noise, activations in a whole training of the direct simulator",
        ("non-inferiority", "below", 0.0, 0.5),
        "a count that must be 0",
        "k=2, fine",
        "sigma_zeta times ten",
        study=DIRECT,
        seeds=DIRECT_SEEDS,
        bounds=COUNT,
    ),
    claim(
        "F1-rest",
        INVARIANCE,
        "Theorems F.1 and G.1",
        "neurons outside every S(v) never move",
        "moved_outside, neurons in the direct simulator",
        ("non-inferiority", "below", 0.0, 0.5),
        "a count that must be 0",
        "k=2, fine",
        "the detectors, which move",
        study=DIRECT,
        seeds=DIRECT_SEEDS,
        bounds=COUNT,
    ),
    claim(
        "F1-off-diagonal",
        INVARIANCE,
        "Theorems F.1 and G.1, point 3",
        "no response to another class' feature outgrows its start",
        "off_diagonal_growth in units of -b(0), direct simulator",
        ("non-inferiority", "below", 0.0, 0.01),
        "at most 0 but for patch noise: a hundredth of the threshold",
        "k=2, fine",
        "the class' own features",
        study=DIRECT,
        seeds=DIRECT_SEEDS,
    ),
)
OTHER_LABELS = tuple(
    claim(
        f"7-{name}",
        LABELS,
        "Section 7 and Figure 5 (Q9)",
        statement,
        f"error of a linear head on hard samples (ridge {RIDGE:g}, no hard samples in its training), {labels} less fine",
        ("superiority", "above", 0.05, 0.0),
        "five per cent more than the labels of the truth; the head is the same for all, as not all have a maximum rule",
        "k=8",
        "subclasses split at random in two, which stay consistent",
    )
    for name, labels, statement in (
        ("sample", "one class a sample", "one class a sample hurts"),
        ("random", "k random classes", "classes at random within a superclass hurt"),
        ("misaligned", "k misaligned classes", "classes across the superclasses hurt"),
    )
)
LINEAR = claim(
    "B2-linear",
    ERRORS,
    "Appendix B.2, remark 3",
    "a linear model on patches fails on easy samples where the noise of the patches adds up; the network does not",
    "error of the best ridge on summed patches less that of the network, where the summed noise is as large as the signal",
    ("superiority", "above", 0.1, 0.0),
    "the noise of the sum is as large as its signal there: an error of order 1, a fifth of chance",
    NOISE,
    "the same head where patches are few",
)
LESS_BASELINE = (
    "(error after pretraining with {} less that with the superclasses) / its mean, both fine-tuned on the superclasses"
)


def of_images(
    id: str, statement: str, quantity: str, required: tuple[str, str, float, float], reason: str, primary: str, control: str
) -> Claim:
    """A claim about the sweep on the digits, whose first coarse task is the primary one."""
    source = "Table 2" if "epoch" in primary else "Section 6.2, Figure 5 and Table 1"
    return claim(id, IMAGES, source, statement, quantity, required, reason, f"parity, {primary}", control, study=DIGITS)


MANUAL = of_images(
    "6-manual",
    "pretraining on the classes of a manual hierarchy is better than on the superclasses",
    LESS_BASELINE.format("the hierarchy's classes"),
    ("superiority", "below", 0.0, 0.0),
    "the paper has 9 per cent less; any improvement that is shown counts",
    "manual",
    "as many random classes; twice as much training, which the baseline has, too",
)
SAMPLE = of_images(
    "6-sample",
    "one class an image is worse than the superclasses: the U shape",
    LESS_BASELINE.format("one class an image"),
    ("superiority", "above", 0.0, 0.0),
    "the paper has a quarter more; any harm that is shown counts",
    "sample",
    "classes of the hierarchy, which are fine, too",
)
RANDOM = of_images(
    "6-random",
    "random classes within a superclass are worse than the superclasses",
    LESS_BASELINE.format("random classes"),
    ("superiority", "above", 0.0, 0.0),
    "the paper has a quarter more at two classes a superclass; any harm that is shown counts",
    "random-2",
    "clusters, which are as many and know the images",
)
CLUSTERS = of_images(
    "6-clusters",
    "a few clusters within each superclass are better than the superclasses",
    LESS_BASELINE.format("k-means clusters within a superclass"),
    ("superiority", "below", 0.0, 0.0),
    "the paper has 2 per cent less at two clusters a superclass; any improvement that is shown counts",
    "clusters-2",
    "random classes, which are as many",
)
ALIGNED = of_images(
    "6-manual-clusters",
    "the hierarchy's classes are better than as many clusters within the superclasses",
    "(error with the hierarchy's classes less that with as many clusters) / the baseline's mean",
    ("superiority", "below", 0.0, 0.0),
    "Figure 5: the manual hierarchy outperforms every other one",
    "manual, clusters-5",
    "as many classes, so that the number alone is none",
)
WHOLE = of_images(
    "6-whole",
    "clusters of all images are worse than as many within the superclasses",
    "(error with clusters of all images less that with as many within the superclasses) / the baseline's mean",
    ("superiority", "above", 0.0, 0.0),
    "Figure 5: labels must align with the superclasses",
    "whole-10, clusters-5",
    "as many classes of the same features",
)
REBALANCED = of_images(
    "6-rebalanced",
    "rebalancing the clusters does not improve them",
    "(error with rebalanced clusters less that with the nearest number of plain ones) / the baseline's mean",
    ("non-inferiority", "above", 0.0, 0.05),
    "no meaningful improvement (A.1.1): a twentieth, half of what the hierarchy gains in the paper",
    "rebalanced-15",
    "the features and the baseline are the same",
)
LATE = of_images(
    "6-late",
    "a checkpoint half-way of pretraining is worse than the last one",
    "(error from an early checkpoint of the hierarchy's pretraining less that from the last) / the baseline's mean",
    ("superiority", "above", 0.0, 0.0),
    "Table 2: 50 of 90 epochs are worse at every G; any loss that is shown counts",
    "manual, epoch 20",
    "fine-tuning is as long from either",
)
CLAIMS = [
    FIRST_COARSE, FIRST_FINE, ORDER_COARSE, ORDER_AT_ALL_TIMES, LOGARITHMIC, *BIAS, BIAS_FINE_COMMON, *EASY, HARD_COARSE,
    HARD_FINE, SUBCLASS_FINE, CLOSED_FORM, R_ORDERS, R_FINE, FINE_TUNING, *INVARIANCES, *OTHER_LABELS, LINEAR,
    MANUAL, SAMPLE, RANDOM, CLUSTERS, ALIGNED, WHOLE, REBALANCED, LATE,
]  # fmt: skip


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every claim in every regime that the tables have."""
    section = job.part("fine_labels", FineLabels)
    rows = [
        *of_each_k(tables["fine_labels_errors"], section),
        *over_k(tables["fine_labels_errors"], section),
        *of_other_labels(tables["fine_labels_heads"], section),
        *of_noise(tables["fine_labels_errors"], tables["fine_labels_heads"]),
        *of_simulators(tables["fine_labels_simulators"]),
    ]
    return rows + [row for name in section.sweeps for row in of_sweep(tables[f"{name}_errors"], name)]


def row(item: Claim, point: str, values: pd.Series | np.ndarray, study: str = SCALAR) -> Measured:
    """A claim at a point of a study, from values by seed."""
    return Measured(item, Regime(study, point), of_seeds(np.asarray(values, dtype=float)))


def of_metric(errors: pd.DataFrame, metric: str, labels: Labels, k: int | None = None) -> pd.DataFrame:
    """Values of a metric by (k, s_dag), a column per seed; at one k alone where given."""
    of_k = errors["k"] if k is None else k
    chosen = errors[(errors["metric"] == metric) & (errors["labels"] == labels.label) & (errors["k"] == of_k)]
    return chosen.pivot(index=["k", "s_dag"], columns="seed", values="value")


def of_each_k(errors: pd.DataFrame, section: FineLabels) -> Iterator[Measured]:
    """What is claimed at every k."""
    kappa_b, primary = section.learner.kappa_b, section.hierarchy.s_dag
    floor = theory.fine_floor(section.hierarchy.P, section.hierarchy.s_star)
    for k in section.k:
        point = f"k={k}"

        def coarse(metric: str, k: int = k) -> pd.Series:
            return of_metric(errors, metric, COARSE, k).loc[k, primary]

        def with_fine(metric: str, k: int = k) -> pd.Series:
            return of_metric(errors, metric, fine(k), k).loc[k, primary]

        yield row(FIRST_COARSE, point, log(k * coarse("first_ratio")))
        yield row(FIRST_FINE, point, log(with_fine("first_ratio") / theory.first_step_ratio(k, "fine")))
        yield row(ORDER_AT_ALL_TIMES, point, log(k * coarse("largest_ratio")))
        yield row(LOGARITHMIC, point, log(coarse("late_over_early_growth")))
        biases = (coarse("bias_over_common"), coarse("bias_over_subclass"), with_fine("bias_over_subclass"))
        for item, values in zip(BIAS, biases, strict=True):
            yield row(item, point, log(kappa_b * values))
        yield row(BIAS_FINE_COMMON, point, log(kappa_b * with_fine("bias_over_common")))
        for item, values in zip(EASY, (coarse("easy_error"), with_fine("easy_error")), strict=True):
            yield row(item, point, values)
        yield row(HARD_COARSE, point, coarse("hard_error"))
        yield row(HARD_FINE, point, with_fine("hard_error") - floor)
        yield row(SUBCLASS_FINE, point, with_fine("easy_subclass_error"))
        yield row(CLOSED_FORM, point, coarse("hard_error") - coarse("predicted_hard_error"))
        yield row(FINE_TUNING, point, with_fine("tuning_smallest_change"))


def over_k(errors: pd.DataFrame, section: FineLabels) -> Iterator[Measured]:
    """What is claimed across k, or across k and s_dag."""
    floor = theory.fine_floor(section.hierarchy.P, section.hierarchy.s_star)
    k = np.array(sorted(section.k))
    if len(k) > 1:
        ratios = of_metric(errors, "ratio", COARSE).loc[[(value, section.hierarchy.s_dag) for value in k]]
        yield row(ORDER_COARSE, f"k={k[0]}..{k[-1]}", exponent(k, ratios.to_numpy()))
    hard, R = (of_metric(errors, metric, COARSE) for metric in ("hard_error", "R"))
    if len(hard) > 1:
        yield row(R_ORDERS, GRID, [spearmanr(R[seed], hard[seed]).statistic for seed in hard])
    every = pd.concat([of_metric(errors, "hard_error", fine(value), value) for value in section.k])
    yield row(R_FINE, GRID, (every - floor).max())


def of_other_labels(heads: pd.DataFrame, section: FineLabels) -> Iterator[Measured]:
    """Linear heads on other labels than the true ones, at the primary k."""
    k = section.hierarchy.k
    chosen = heads[
        (heads["k"] == k) & (heads["features"] == "detectors") & (heads["penalty"] == RIDGE) & (heads["hard_share"] == 0)
    ]
    found = chosen.pivot(index="labels", columns="seed", values="hard")
    others = (Labels(kind="sample"), Labels(kind="random", ids=k), Labels(kind="misaligned", ids=k))
    for item, labels in zip(OTHER_LABELS, others, strict=True):
        if {labels.label, fine(k).label} <= set(found.index):
            yield row(item, f"k={k}", found.loc[labels.label] - found.loc[fine(k).label])


def of_noise(errors: pd.DataFrame, heads: pd.DataFrame) -> Iterator[Measured]:
    """The linear model on summed patches."""
    linear = heads[heads["features"] == "patch sums"].groupby("seed")["easy"].min()
    network = errors[errors["metric"] == "error_in_noise"].set_index("seed")["value"]
    if len(linear):
        yield row(LINEAR, NOISE, linear - network)


def of_simulators(simulators: pd.DataFrame) -> Iterator[Measured]:
    """What the direct simulator shows."""
    metrics = ("on_noise", "moved_outside", "off_diagonal_growth")
    for item, metric in zip(INVARIANCES, metrics, strict=True):
        for (k, labels), part in simulators[simulators["metric"] == metric].groupby(["k", "labels"]):
            yield row(item, f"k={k}, {'coarse' if labels == COARSE.label else 'fine'}", part["value"], DIRECT)


def of_sweep(errors: pd.DataFrame, study: str) -> Iterator[Measured]:
    """A granularity sweep on images, every coarse task and kind of labels."""
    tuned = errors[errors["readout"] == "finetuned"]
    last = tuned["epoch"].max()
    for task, part in tuned.groupby("superclass"):
        final = part[part["epoch"] == last]
        found = final.pivot(index="labels", columns="seed", values="error")
        G = final.groupby("labels")["classes"].mean()
        scale = found.loc["coarse"].mean()

        def relative(one: pd.Series, other: pd.Series, scale: float = scale) -> pd.Series:
            return (one - other) / scale

        def of_kind(kind: str, G: pd.Series = G) -> pd.Series:
            return G[G.index.str.partition("-").get_level_values(0) == kind]

        for item, kind in ((MANUAL, "manual"), (SAMPLE, "sample"), (RANDOM, "random"), (CLUSTERS, "clusters")):
            for labels in of_kind(kind).index:
                yield row(item, f"{task}, {labels}", relative(found.loc[labels], found.loc["coarse"]), study)
        for item, kind in ((ALIGNED, "manual"), (WHOLE, "whole")):
            for labels, number in of_kind(kind).items():
                for clusters in of_kind("clusters").index[of_kind("clusters") == number]:
                    yield row(item, f"{task}, {labels}, {clusters}", relative(found.loc[labels], found.loc[clusters]), study)
        for labels, number in of_kind("rebalanced").items():
            if len(of_kind("clusters")):
                nearest = np.log(of_kind("clusters") / number).abs().idxmin()
                yield row(REBALANCED, f"{task}, {labels}", relative(found.loc[labels], found.loc[nearest]), study)
        for (labels, epoch), early in part[part["epoch"] < last].groupby(["labels", "epoch"]):
            if labels in of_kind("manual").index:
                values = relative(early.set_index("seed")["error"], found.loc[labels])
                yield row(LATE, f"{task}, {labels}, epoch {epoch}", values, study)


def log(values: pd.Series) -> pd.Series:
    """Logarithms; NaN where there is none."""
    return np.log(values.where(values > 0))
