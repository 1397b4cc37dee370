"""Lemmas 3.2 and D.1, Theorem D.1: which neurons take off between T1 and T2."""

import numpy as np

from rarefeat.claims.claim import COUNT, SHARE, Measured
from rarefeat.claims.estimate import censored_exponent
from rarefeat.studies.theory.claims.reader import BY_HAND, EXACT_CONSTANT, NO_LUCKY, NO_T2, Reader, declare, log2, point_of

GROUP = "stage 2"
MOST = "all but one in twenty"
GROWTH = declare(
    id="3.2a",
    group=GROUP,
    source="Lemma 3.2 (a), eq. (9)",
    statement="at T2 a lucky neuron has <w, M_j>^2 >= 2 (eps_j / eps_max) ||w(T1)||^2",
    quantity="share of lucky neurons with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=MOST,
    tolerance=0.05,
    control="T2 needs one neuron that has grown, not a lucky one",
    bounds=SHARE,
)
BOUNDED = declare(
    id="3.2b",
    group=GROUP,
    source="Lemma 3.2 (b), eq. (10), Theorem D.1 (c)",
    statement="no ordinary neuron of a feature is more than a constant times as strong in it as its best lucky one",
    quantity="log2 of the largest ratio over the features that have a lucky neuron",
    test="non-inferiority",
    side="below",
    threshold=0.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.25,
    control="a lucky neuron is ordinary, too, so that the ratio is 1 at least",
)
FOCUS = declare(
    id="D.1a",
    group=GROUP,
    source="Theorem D.1 (a), eq. (62)",
    statement="at T2 a lucky neuron has |<w, M_j>| >= Omega(eps_min / eps_max) ||w||",
    quantity="log2 of mean |<w, M_j>| / ||w|| of lucky neurons over the ratio",
    test="non-inferiority",
    side="above",
    threshold=0.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.25,
    control="at W(0) it is some sqrt(2 log d / d1), -3.4",
)
BIAS = declare(
    id="D.1b",
    group=GROUP,
    source="Theorem D.1 (b), eq. (63)",
    statement="at T2 every bias is at least polylog(d) / sqrt(d) ||w_i||",
    quantity="log2 of the smallest b_i sqrt(d) / ||w_i||",
    test="non-inferiority",
    side="above",
    threshold=0.0,
    margin=1.0,
    reason=f"polylog(d) read as 1, the weakest reading; {EXACT_CONSTANT}",
    primary="stages_growing_bias: eps_min 0.9, sigma 0.05",
    tolerance=0.25,
    control="under the rule `follow` it is true or false by construction, and not tested",
)
ACTIVE = declare(
    id="D.1-66",
    group=GROUP,
    source="Lemma D.1 (a), eq. (66)",
    statement="in stage 2 a lucky neuron has |<w, M_j>| >= sqrt(1 + gamma) b",
    quantity="share of lucky neurons and recorded steps with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=MOST,
    tolerance=0.05,
    control="D.1-67: the others lie below",
    bounds=SHARE,
)
INACTIVE = declare(
    id="D.1-67",
    group=GROUP,
    source="Lemma D.1 (b), eq. (67)",
    statement="in stage 2 a neuron that is not in M_j has |<w, M_j>| <= sqrt(1 - gamma) b",
    quantity="share of these pairs and recorded steps with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=MOST,
    tolerance=0.05,
    control="D.1-66: a lucky neuron lies above",
    bounds=SHARE,
)
OTHERS = declare(
    id="D.1-68",
    group=GROUP,
    source="Lemma D.1 (b), eq. (68)",
    statement="in stage 2 a neuron that is not in M_j has |<w, M_j>| <= O~(||w|| / sqrt(d))",
    quantity="largest |<w, M_j>| sqrt(d) / (||w|| log d)",
    test="superiority",
    side="below",
    threshold=1.0,
    reason="O~ read as one logarithm, the constant as 1: a pure neuron has 1.4 at d = 9, and nothing could break a bound of 2",
    tolerance=0.2,
    control="a neuron pure in a feature whose M_j it is not in has 1.4",
    bounds=COUNT,
)
NEAR = declare(
    id="D.1-69",
    group=GROUP,
    source="Lemma D.1 (c), eq. (69)",
    statement="in stage 2 a neuron has <w, M_j>^2 >= b^2 / sqrt(log d) for O(d / 2^sqrt(log d)) features at most",
    quantity="number of these features over d / 2^sqrt(log d), at the neuron and step with most of them",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.25,
    control="all d features would be 2.8 times the bound at d = 9",
    bounds=COUNT,
)
SPREAD_OUT = declare(
    id="D.1-70",
    group=GROUP,
    source="Lemma D.1 (d), eq. (70)",
    statement="in stage 2 no neuron has more than O~(1 / sqrt(d1)) of its norm in a single direction off the features",
    quantity="largest |<w, M_j^perp>| sqrt(d1) / (||w|| log d1)",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason=f"O~ read as one logarithm; {EXACT_CONSTANT}",
    tolerance=0.2,
    control="a neuron of one such direction has sqrt(d1) / log d1 = 3.6",
    bounds=COUNT,
)
NORM = declare(
    id="D.1-71",
    group=GROUP,
    source="Lemma D.1 (e), eq. (71)",
    statement="in stage 2 every ||w_i||^2 <= d b_i^2 / log d",
    quantity="log2 of the largest ||w||^2 log d / (d b^2)",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="no constant is open",
    primary="stages_growing_bias: eps_min 0.9, sigma 0.05",
    tolerance=0.25,
    control="under the rule `follow` it holds exactly for a share of 0.71 or more, and is not tested",
)


def law(identity: str, statement: str, quantity: str, value: float, role: str):
    """A claim about an exponent of T2 - T1, over the studies of one role."""
    return declare(
        id=identity, group=GROUP, source="eq. (60), (61)", statement=statement, quantity=quantity, test="equivalence",
        side="around", threshold=value, margin=0.25, reason=f"{value:g}, to a quarter: Theta leaves no power open",
        primary=role, effect=1.25, seeds=24, tolerance=0.25, control="the exponents of T1, where eps_max and eta enter alike",
    )  # fmt: skip


T2_WITH_ETA = law("60-eta", "T2 - T1 is proportional to 1 / eta", "exponent of T2 - T1 in eta", -1.0, "T1_eta")
T2_WITH_D = law(
    "60-d", "T2 - T1 is proportional to d log d / loglog d", "exponent of T2 - T1 in d log d / loglog d", 1.0, "T1_d"
)
T2_WITH_EPS = law(
    "60-eps", "T2 - T1 is proportional to 1 / eps_max", "exponent of T2 - T1 in C, the factor of every frequency", -1.0, "T1_C"
)
LAWS = (
    (T2_WITH_ETA, lambda data, training: training.eta),
    (T2_WITH_D, lambda data, training: data.d * np.log(data.d) / np.log(np.log(data.d))),
    (T2_WITH_EPS, lambda data, training: data.C),
)
AT_POINTS = (
    (GROWTH, "lucky_growth_at_T2", np.asarray, NO_LUCKY),
    (BOUNDED, "ordinary_over_lucky_at_T2", log2, NO_LUCKY),
    (FOCUS, "lucky_focus_at_T2", log2, NO_LUCKY),
    (BIAS, "bias_at_T2", log2, ""),
    (ACTIVE, "lucky_above_bias", np.asarray, NO_LUCKY),
    (INACTIVE, "others_below_bias", np.asarray, ""),
    (OTHERS, "others_largest", np.asarray, ""),
    (NEAR, "features_near_bias", np.asarray, ""),
    (SPREAD_OUT, "outside_largest_in_stage_two", np.asarray, ""),
    (NORM, "norm_over_bias", log2, ""),
)
CLAIMS = (*(claim for claim, *_ in AT_POINTS), *(claim for claim, _ in LAWS))
OF_THE_RULE = (BIAS, NORM)


def measure(reader: Reader) -> list[Measured]:
    """Stage 2 at every point; the laws of T2 over the studies that vary one of d, eta and C."""
    rows = []
    for name, study in reader.studies("stages").items():
        for eps_min, sigma in reader.points(name):
            ended = np.isfinite(reader.values(name, "T2", eps_min=eps_min, sigma=sigma)).sum()
            for claim, metric, units, few in AT_POINTS:
                values = units(reader.values(name, metric, eps_min=eps_min, sigma=sigma))
                untestable = BY_HAND if claim in OF_THE_RULE and study.training.bias.rule == "follow" else ""
                reason = NO_T2 if ended < 5 else few or NO_T2
                rows.append(reader.row(claim, name, point_of(eps_min, sigma), values, reason, untestable))
    for claim, size in LAWS:
        studies = reader.studies(claim.primary)
        x = np.array([size(study.data, study.training) for study in studies.values()], dtype=float)
        if len(x) < 3:
            continue
        T1, T2 = (np.array([reader.values(name, metric) for name in studies]) for metric in ("T1", "T2"))
        horizon = np.array([[study.training.T] for study in studies.values()]) - T1
        # A replica without T1 has not begun stage 2, and is watched for nothing.
        begun = np.isfinite(T1).all(0)
        estimate = censored_exponent(x, (T2 - T1)[:, begun], horizon[:, begun])
        missing = int((~np.isfinite(T2)).sum())
        remark = f"{missing} of {T2.size} replicas do not reach T2, and count as censored" if missing else ""
        most = "more than half of the replicas at one value do not reach T2" if np.isnan(estimate.value) else ""
        rows.append(reader.row(claim, claim.primary, f"{len(x)} values", estimate, "", most, remark=remark))
    return rows
