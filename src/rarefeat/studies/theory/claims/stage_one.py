"""Lemmas 3.1 and C.1, Theorem C.1: growth while the bias is zero, and what holds at T1."""

import numpy as np

from rarefeat.claims.claim import COUNT, SHARE, Measured
from rarefeat.claims.estimate import exponent
from rarefeat.studies.theory.claims.reader import EXACT_CONSTANT, NO_LUCKY, RANGE, Reader, declare, log2, point_of

GROUP = "stage 1"
TENTH = "the exponent, to a tenth"
MOST = "all but one in twenty"
NO_LINEAR = "the logits leave chance before the first recorded step"
LINEAR = declare(
    id="3.1a-linear",
    group=GROUP,
    source="Lemma 3.1 (a), eq. (7)",
    statement="a feature grows at a rate proportional to its frequency eps_j",
    quantity="exponent of (growth per step - 1 + eta lambda) of the minority feature in eps_min, while K p <= 1.1",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.1,
    reason=TENTH,
    primary=RANGE,
    tolerance=0.1,
    control="0 if every feature grew at one rate",
)
RATE = declare(
    id="3.1a-rate",
    group=GROUP,
    source="Lemma 3.1 (a), eq. (7)",
    statement="the rate is eta C_z loglog d / d, with C_z worked out for this law of the tokens (docs/model.md)",
    quantity="log2 of measured over predicted (growth per step - 1 + eta lambda) of the majority features, while K p <= 1.1",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.32,
    reason="a quarter, 2^0.32: the closed form leaves out features that overlap in a sample, 2/9 of those with one at d = 9",
    tolerance=0.1,
    control="eta lambda is added back, so that decay alone would give a ratio of 0",
)
OUTSIDE = declare(
    id="3.1b",
    group=GROUP,
    source="Lemma 3.1 (b), eq. (8)",
    statement="off the features a neuron only decays, by 1 - eta lambda a step",
    quantity="measured over predicted decay per step of the part of W outside span(M), while K p <= 1.1",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.1,
    reason="1, to a tenth",
    tolerance=0.1,
    control="0 without any decay",
)
UPPER = declare(
    id="C.1-40",
    group=GROUP,
    source="Lemma C.1 (a), eq. (40)",
    statement="up to T1 ||M M^T w||^2 grows by (1 + eps_max eta C_z loglog d / d)^2 a step at most, and O(1/d) of its start",
    quantity="largest log of (||M M^T w(t)||^2 / ||M M^T w(0)||^2 - 1/d) over (1 + ...)^(2t), over neurons and t <= T1",
    test="non-inferiority",
    side="below",
    threshold=0.0,
    margin=0.22,
    reason="the constant of O(1/d) read as 1; a quarter, log 1.25, as the closed form leaves out overlapping features",
    tolerance=0.1,
    control="the lower bound beside it: a band that anything passes would say nothing",
)
UPPER_NORM = declare(
    id="C.1-40-norm",
    group=GROUP,
    source="Lemma C.1 (a), after eq. (40)",
    statement="up to T1 ||M M^T w_i(t)||^2 <= O(||w_i(0)||^2)",
    quantity="largest ratio over neurons and t <= T1",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.2,
    control="at the start the ratio is d / d1 = 0.018",
    bounds=COUNT,
)
LOWER = declare(
    id="C.1-41",
    group=GROUP,
    source="Lemma C.1 (b), eq. (41)",
    statement="up to T1 ||M M^T w||^2 grows by (1 - eta lambda + eps_min eta C_z loglog d / d)^2 a step at least, less O(1/d)",
    quantity="smallest log of (||M M^T w(t)||^2 / ||M M^T w(0)||^2 + 1/d) over (1 - ...)^(2t), over neurons and t <= T1",
    test="non-inferiority",
    side="above",
    threshold=0.0,
    margin=0.22,
    reason="the constant of O(1/d) read as 1; a quarter, log 1.25, as the closed form leaves out overlapping features",
    tolerance=0.1,
    control="the upper bound beside it",
)
KEPT_OUT = declare(
    id="C.1-42",
    group=GROUP,
    source="Lemma C.1 (c), eq. (42)",
    statement="up to T1 the part of a neuron off the features does not grow by more than a factor 1 + O(1 / poly(d))",
    quantity="largest ||M^perp M^perp^T w(t)||^2 over that at the start, over neurons and t <= T1",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1 / 9,
    reason="1 / poly(d) read as 1 / d at d = 9",
    tolerance=0.1,
    control="inside the features the same ratio is some d1 / d by then",
    bounds=COUNT,
)
T1_WITH_EPS = declare(
    id="33-eps",
    group=GROUP,
    source="eq. (33), (34)",
    statement="T1 does not depend on the frequency of the minority feature",
    quantity="exponent of T1 in eps_min",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.1,
    reason="0, to a tenth",
    primary=RANGE,
    tolerance=0.1,
    control="the exponent in eta, which is -1",
)
ABOVE = declare(
    id="C.1b",
    group=GROUP,
    source="Theorem C.1 (b), eq. (36)",
    statement="at T1 every lucky neuron has |<w, M_j>| >= sqrt(1 + gamma) sqrt(2 log d / d) ||w||",
    quantity="share of lucky neurons with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=MOST,
    tolerance=0.05,
    control="C.1c: a neuron outside M_j lies below",
    bounds=SHARE,
)
ABOVE_PROOF = declare(
    id="C.1b-proof",
    group=GROUP,
    source="Theorem C.1 (b), proof, eq. (46), (47)",
    statement="at T1 every lucky neuron has |<w, M_j>| >= sqrt(1 + gamma) sqrt(log d / d) ||w||, where the proof ends",
    quantity="share of lucky neurons with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=MOST,
    tolerance=0.05,
    control="C.1c: a neuron outside M_j lies below",
    bounds=SHARE,
)
UNDER = declare(
    id="C.1c",
    group=GROUP,
    source="Theorem C.1 (c), eq. (37)",
    statement="at T1 a neuron that is not in M_j has |<w, M_j>| <= sqrt(1 - gamma) sqrt(2 log d / d) ||w||",
    quantity="share of the pairs (i, j) with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=MOST,
    tolerance=0.05,
    control="C.1b: a lucky neuron lies above",
    bounds=SHARE,
)
FEW = declare(
    id="C.1d",
    group=GROUP,
    source="Theorem C.1 (d), eq. (38), Lemma C.2",
    statement="at T1 a neuron has |<w, M_j>| >= log^(1/4) d / sqrt(d) ||w|| for at most O(d / 2^sqrt(log d)) features",
    quantity="share of neurons with it, the constant read as 1",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=MOST,
    tolerance=0.05,
    control="C.2 at W(0)",
    bounds=SHARE,
)
SPREAD_OUT = declare(
    id="C.1e",
    group=GROUP,
    source="Theorem C.1 (e), eq. (39)",
    statement="at T1 no neuron has more than O(sqrt(log d / d1)) of its norm in a single direction off the features",
    quantity="largest |<w, M_j^perp>| / ||w|| over sqrt(log d / d1)",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.2,
    control="a neuron of one such direction has sqrt(d1 / log d), 15 at d = 9",
    bounds=COUNT,
)


def law(identity: str, source: str, statement: str, quantity: str, value: float, margin: float, role: str, reason: str):
    """A claim about an exponent of T1, over the studies of one role."""
    return declare(
        id=identity, group=GROUP, source=source, statement=statement, quantity=quantity, test="equivalence", side="around",
        threshold=value, margin=margin, reason=reason, primary=role, effect=1.25, seeds=24, tolerance=margin,
        control="the exponents of T1 in the other parameters",
    )  # fmt: skip


PARENT = "wen_li_feature_decoupling, T1 = Theta(d log d1 / (eta loglog d))"
T1_WITH_D1 = law("33-d1", "eq. (33)", "T1 is proportional to d1", "exponent of T1 in d1", 1.0, 0.25, "T1_d1", "1, to a quarter")
T1_WITH_LOG_D1 = law(
    "33-log", PARENT, "T1 is proportional to log d1, as it is in closed form, log(d1 / d) / (2 rate)",
    "exponent of T1 in log(d1 / d)", 1.0, 0.25, "T1_d1", "1, to a quarter",
)  # fmt: skip
T1_WITH_ETA = law(
    "33-eta", "eq. (33)", "T1 is proportional to 1 / eta", "exponent of T1 in eta", -1.0, 0.1, "T1_eta", "-1, to a tenth"
)
T1_WITH_D = law(
    "33-d", PARENT, "at d1 / d fixed T1 grows with d / loglog d", "exponent of T1 in d / loglog d", 1.0, 0.25, "T1_d",
    "1, to a quarter; eq. (33) of the core paper has d log d / loglog d at d1 / d fixed",
)  # fmt: skip
LAWS = (
    (T1_WITH_D1, lambda data, training: data.d1),
    (T1_WITH_LOG_D1, lambda data, training: np.log(data.d1 / data.d)),
    (T1_WITH_ETA, lambda data, training: training.eta),
    (T1_WITH_D, lambda data, training: data.d / np.log(np.log(data.d))),
)
AT_POINTS = (
    (RATE, "stage1_growth_over_closed_form", log2, NO_LINEAR),
    (OUTSIDE, "stage1_decay_outside", np.asarray, NO_LINEAR),
    (UPPER, "growth_above_its_bound", np.asarray, ""),
    (UPPER_NORM, "features_over_initial_norm", np.asarray, ""),
    (LOWER, "growth_below_its_bound", np.asarray, ""),
    (KEPT_OUT, "outside_growth", np.asarray, ""),
    (ABOVE, "lucky_above_threshold_at_T1", np.asarray, NO_LUCKY),
    (ABOVE_PROOF, "lucky_above_the_proofs_at_T1", np.asarray, NO_LUCKY),
    (UNDER, "others_below_threshold_at_T1", np.asarray, ""),
    (FEW, "few_strong_features_at_T1", np.asarray, ""),
    (SPREAD_OUT, "outside_largest_at_T1", np.asarray, ""),
)
CLAIMS = (LINEAR, T1_WITH_EPS, *(claim for claim, *_ in AT_POINTS), *(claim for claim, _ in LAWS))


def measure(reader: Reader) -> list[Measured]:
    """Stage 1 at every point; the laws of T1 over the studies that vary one of d, d1 and eta."""
    rows = []
    for name in reader.studies("stages"):
        for x, sigma, said in reader.ranges(name):
            curves = reader.curves(name, "stage1_growth_minority", x, sigma)
            rows.append(reader.row(LINEAR, name, said, exponent(x, curves), NO_LINEAR))
            rows.append(reader.row(T1_WITH_EPS, name, said, exponent(x, reader.curves(name, "T1", x, sigma))))
        for eps_min, sigma in reader.points(name):
            for claim, metric, units, few in AT_POINTS:
                values = units(reader.values(name, metric, eps_min=eps_min, sigma=sigma))
                rows.append(reader.row(claim, name, point_of(eps_min, sigma), values, few))
    for claim, size in LAWS:
        studies = reader.studies(claim.primary)
        x = np.array([size(study.data, study.training) for study in studies.values()], dtype=float)
        if len(x) > 2:
            times = np.array([reader.values(name, "T1") for name in studies])
            rows.append(reader.row(claim, claim.primary, f"{len(x)} values", exponent(x, times)))
    return rows
