"""Theorems 3.1 and E.1, Lemma E.1 and (K2): what training ends in."""

import numpy as np

from rarefeat.claims.claim import COUNT, SHARE, Measured
from rarefeat.studies.theory.claims.initialisation import fitted
from rarefeat.studies.theory.claims.reader import (
    BY_HAND,
    EXACT_CONSTANT,
    LEARNED_RANGE,
    NO_LUCKY,
    RANGE,
    Reader,
    declare,
    log2,
    point_of,
    slope,
)

GROUP = "stage 3"
MOST = "all but one in twenty"
LUCKY_FOCUS = declare(
    id="E.1a",
    group=GROUP,
    source="Theorem E.1 (a), eq. (87)",
    statement="a lucky neuron ends with |<w, M_j>| >= Omega(1) ||w||",
    quantity="log2 of the mean |<w, M_j>| / ||w|| of lucky neurons at T",
    test="non-inferiority",
    side="above",
    threshold=0.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.25,
    control="at W(0) it is some sqrt(2 log d / d1), -3.4",
)
NORM = declare(
    id="E.1b",
    group=GROUP,
    source="Theorem E.1 (b), eq. (88)",
    statement="every ||w_i|| stays O(1)",
    quantity="log2 of the largest ||w_i|| at T",
    test="non-inferiority",
    side="below",
    threshold=0.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.25,
    control="a training that diverges has norms of 10^3 and more",
)
STRENGTH = declare(
    id="E.1c",
    group=GROUP,
    source="Theorem E.1 (c), eq. (89)",
    statement="F_j, the sum of <w_i, M_j>^2 over i in M_j, is Theta((eps_j / eps_max)^2 tau log^3 d)",
    quantity="log2 of F_minority / F_majority over eps_min^2, at each eps_min",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=1.0,
    reason="Theta: a factor of two to either side; at eps_min = 1 the ratio is 1 by symmetry",
    primary="stages_theory: eps_min 0.7, sigma 0.05",
    tolerance=0.25,
    control="a feature that is not learned has a ratio near 0; one as strong as the others is 1 / eps_min^2 too strong",
)
STRENGTH_EXPONENT = declare(
    id="E.1c-exponent",
    group=GROUP,
    source="Theorem E.1 (c), eq. (89)",
    statement="where the feature is learned, F_j is proportional to (eps_j / eps_max)^2",
    quantity="exponent of F_minority / F_majority in eps_min, where nine of ten replicas have learned the feature",
    test="equivalence",
    side="around",
    threshold=2.0,
    margin=0.5,
    reason="2, to a quarter of it",
    primary=LEARNED_RANGE,
    tolerance=0.25,
    control="0 if saturation fixes a feature's strength; not fitted where the curve bends, as at a step",
)
MAGNITUDE = declare(
    id="12-alpha",
    group=GROUP,
    source="Theorem 3.1, eq. (12), (13)",
    statement="the strength alpha_ij of what a neuron learned is proportional to eps_j / eps_max, up to Xi_2",
    quantity="log2 of the largest |<w_i, M_minority>| over that of the majority features, over eps_min, at each eps_min",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=1.0,
    reason="a factor of two to either side; at eps_min = 1 the ratio is 1 by symmetry",
    primary="stages_theory: eps_min 0.7, sigma 0.05",
    tolerance=0.25,
    control="a feature that is not learned has a ratio near 0",
)
MAGNITUDE_EXPONENT = declare(
    id="12-alpha-exponent",
    group=GROUP,
    source="Theorem 3.1, eq. (13)",
    statement="where the feature is learned, alpha_ij is proportional to eps_j / eps_max",
    quantity="exponent of that ratio in eps_min, over the points where nine of ten replicas have learned the feature",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.25,
    reason="1, to a quarter",
    primary=LEARNED_RANGE,
    tolerance=0.25,
    control="0 if saturation fixes it; not fitted where the curve bends, as at a step",
)
LUCKY_STRONG = declare(
    id="E.1d",
    group=GROUP,
    source="Theorem E.1 (d), eq. (90)",
    statement="a lucky neuron of a feature is within a constant of the strongest of all neurons in M_j",
    quantity="log2 of the smallest |<w, M_j>| of a lucky neuron over the largest in M_j, at T",
    test="non-inferiority",
    side="above",
    threshold=0.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.25,
    control="3.2b at T2",
)
OTHERS = declare(
    id="E.1e",
    group=GROUP,
    source="Theorem E.1 (e), eq. (91), (13)",
    statement="a neuron that is not in M_j has |<w, M_j>| <= O(eps_j / (eps_max sqrt(d) Xi_2^5)) ||w||",
    quantity="share of the pairs (i, j) with it at T",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=f"{MOST}; the constant and Xi_2 read as 1, which is the weaker bound",
    tolerance=0.05,
    control="E.1a: a lucky neuron lies above",
    bounds=SHARE,
)
OUTSIDE = declare(
    id="12-beta",
    group=GROUP,
    source="Theorem 3.1, eq. (13), Theorem E.1 (f), eq. (92)",
    statement="every direction off the features holds o(1 / sqrt(d1)) of a neuron",
    quantity="sqrt(d1) times the largest |<w_i, M_j^perp>| / ||w_i|| over neurons and directions",
    test="superiority",
    side="below",
    threshold=0.5,
    reason="o(1) read as under a half",
    tolerance=0.1,
    control="at W(0) it is some sqrt(2 log(m d1)), 4.8 at m = 200",
    bounds=COUNT,
)
GROWN_BIAS = declare(
    id="93",
    group=GROUP,
    source="Theorem E.1 (g), eq. (93)",
    statement="at T every bias is at least polylog(d) / sqrt(d) ||w_i||",
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
WEAKER = declare(
    id="K2-magnitude",
    group=GROUP,
    source="(K2)",
    statement="minority features are learned with smaller magnitude",
    quantity="log2 of the largest |<w_i, M_minority>| over that of the majority features",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="smaller than the majority's",
    tolerance=0.25,
    control="at eps_min = 1 it is 0 by symmetry",
)
MIXING = declare(
    id="K2-mixing",
    group=GROUP,
    source="(K2)",
    statement="imbalance makes neurons mix features instead of staying pure",
    quantity="slope in eps_min of the share of pure neurons",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="more pure neurons with less imbalance",
    primary=RANGE,
    tolerance=0.1,
    control="the number of features is the same at every eps_min",
)
NUMBER = declare(
    id="K2-number",
    group=GROUP,
    source="(K2)",
    statement="imbalance leaves fewer neurons specialised in the minority feature",
    quantity="slope in eps_min of their number over m / d",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="more such neurons with less imbalance",
    primary=RANGE,
    tolerance=0.25,
    control="K2-mixing, over all features",
)
FIRES = declare(
    id="E.1-94",
    group=GROUP,
    source="Lemma E.1, eq. (94)",
    statement="a neuron fires only where a feature of its N_i is present",
    quantity="share of (neuron, sample) with h_i != 0 that have one",
    test="superiority",
    side="above",
    threshold=0.95,
    reason=f"with high probability: {MOST}",
    tolerance=0.05,
    control="the share of all samples with a feature of N_i, which is some |N_i| / 11",
    bounds=SHARE,
)
SELDOM = declare(
    id="E.1-95",
    group=GROUP,
    source="Lemma E.1, eq. (95)",
    statement="a neuron fires with a probability of O(loglog d / d)",
    quantity="log2 of the largest Pr(h_i != 0) over C loglog d / d",
    test="non-inferiority",
    side="below",
    threshold=0.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    tolerance=0.25,
    control="a neuron that always fires has 3.5",
)
EXCESS = declare(
    id="11",
    group=GROUP,
    source="Theorem 3.1, eq. (11)",
    statement="the training loss becomes o(1), beyond what the best encoder of this kind cannot avoid",
    quantity="InfoNCE on held-out batches less that of the best-scaled ideal encoder on the same, in nat",
    test="non-inferiority",
    side="below",
    threshold=0.0,
    margin=0.25,
    reason="o(1) of a loss that starts at log K = 4.9: a twentieth of it",
    primary="confirmation: eps_min 0.5, sigma 0.05",
    tolerance=0.1,
    control="f is odd, so that an empty sample has no similarity to anything and costs log K: the ideal encoder pays that, too",
)
MIXING_SIZE = declare(
    id="14",
    group=GROUP,
    source="Theorem 3.1, eq. (14)",
    statement="|N_i| grows with d no faster than the exponent 1 - ratio^2",
    quantity="fitted exponent less the bound, at T4",
    test="non-inferiority",
    side="below",
    threshold=0.0,
    margin=0.25,
    reason="O hides no power; a quarter for the logarithms over d = 9 to 16",
    primary="scaling: ratio 1, d1 = d^3, d 9 to 16",
    effect=0.0,
    seeds=0,
    tolerance=0.1,
    control="d itself has an exponent of 1; B.2d at W(0)",
)
SINGLE = declare(
    id="3.1-single",
    group=GROUP,
    source="Theorem 3.1, last line",
    statement="the share of neurons with N_i = {j} falls with d no faster than the exponent -1 / ratio^2",
    quantity="fitted exponent less the bound, at T4",
    test="non-inferiority",
    side="above",
    threshold=0.0,
    margin=0.25,
    reason="Omega hides no power; a quarter for the logarithms over d = 9 to 16",
    primary="scaling: ratio 1, d1 = d^3, d 9 to 16",
    effect=0.0,
    seeds=0,
    tolerance=0.1,
    control="B.2c at W(0)",
)
AT_POINTS = (
    (LUCKY_FOCUS, "lucky_focus_at_T", log2, NO_LUCKY),
    (NORM, "largest_norm", log2, ""),
    (LUCKY_STRONG, "lucky_over_strongest_at_T", log2, NO_LUCKY),
    (OTHERS, "others_small_at_T", np.asarray, ""),
    (OUTSIDE, "outside_largest_at_T", np.asarray, ""),
    (GROWN_BIAS, "bias_at_T", log2, ""),
)
OF_ENCODERS = ((FIRES, "fires_with_its_features", np.asarray), (SELDOM, "fires_at_most", log2))
CURVES = ((STRENGTH, STRENGTH_EXPONENT, "strength_ratio", 2), (MAGNITUDE, MAGNITUDE_EXPONENT, "magnitude_ratio", 1))
CLAIMS = (
    *(claim for claim, *_ in AT_POINTS), *(claim for claim, *_ in OF_ENCODERS), STRENGTH, STRENGTH_EXPONENT, MAGNITUDE,
    MAGNITUDE_EXPONENT, WEAKER, MIXING, NUMBER, EXCESS, MIXING_SIZE, SINGLE,
)  # fmt: skip
NOBODY = "no neuron of M_j, or none with anything of the feature"


def measure(reader: Reader) -> list[Measured]:
    """Every study of the stages, point by point, and over eps_min."""
    rows = []
    for name, study in reader.studies("stages").items():
        for eps_min, sigma in reader.points(name):
            at, said = {"eps_min": eps_min, "sigma": sigma}, point_of(eps_min, sigma)
            for claim, metric, units, few in AT_POINTS:
                untestable = BY_HAND if claim is GROWN_BIAS and study.training.bias.rule == "follow" else ""
                rows.append(reader.row(claim, name, said, units(reader.values(name, metric, **at)), few, untestable))
            if f"{name}_one_step" in reader.tables:
                for claim, metric, units in OF_ENCODERS:
                    rows.append(reader.row(claim, name, said, units(reader.values(name, metric, "one_step", **at))))
            if eps_min == 1:
                continue
            for claim, _, metric, power in CURVES:
                off = log2(reader.values(name, metric, **at) / eps_min**power)
                rows.append(reader.row(claim, name, said, off, NOBODY))
            rows.append(reader.row(WEAKER, name, said, log2(reader.values(name, "magnitude_ratio", **at))))
        neurons_per_feature = study.training.m / study.data.d
        for x, sigma, said in reader.ranges(name):
            rows.append(reader.row(MIXING, name, said, slope(x, reader.curves(name, "pure_share", x, sigma))))
            pure = reader.curves(name, "pure_minority_neurons", x, sigma) / neurons_per_feature
            rows.append(reader.row(NUMBER, name, said, slope(x, pure)))
            for _, claim, metric, _ in CURVES:
                rows.append(reader.power_law(claim, name, x, sigma, reader.curves(name, metric, x, sigma), NOBODY))
    for (eps_min, sigma), cell in reader.tables["confirmation_grid"].groupby(["eps_min", "sigma"]):
        excess = (cell["final_loss"] - cell["ideal_loss"]).to_numpy()
        rows.append(reader.row(EXCESS, "confirmation", point_of(eps_min, sigma), excess))
    return rows + fitted(reader, MIXING_SIZE, "learned_features") + fitted(reader, SINGLE, "single_minority_share")
