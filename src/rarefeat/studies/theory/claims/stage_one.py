"""Lemma 3.1 and Theorem C.1: growth while the bias is zero, and what holds at T1."""

import numpy as np

from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.claims.evidence import exponent, named
from rarefeat.studies.theory.claims.evidence import Evidence

CORE, GROUP = "imbalance_and_pruning", "stage 1"
LINEAR = Claim(
    id="3.1a-linear",
    group=GROUP,
    source=f"{CORE}, Lemma 3.1 (a), eq. (7)",
    statement="a feature grows at a rate proportional to its frequency eps_j",
    quantity="exponent of (growth per step - 1 + eta lambda) of the minority feature in eps_min",
    side="within",
    threshold=(0.9, 1.1),
    reason="1, to a tenth",
)
RATE = Claim(
    id="3.1a-rate",
    group=GROUP,
    source=f"{CORE}, Lemma 3.1 (a), eq. (7)",
    statement="the rate is eta C_z loglog d / d, with C_z worked out for this law of the tokens (docs/model.md)",
    quantity="measured over predicted (growth per step - 1 + eta lambda) of the majority features",
    side="within",
    threshold=(0.8, 1.25),
    reason="to a quarter, as the closed form leaves out overlapping features",
)
OUTSIDE = Claim(
    id="3.1b",
    group=GROUP,
    source=f"{CORE}, Lemma 3.1 (b), eq. (8)",
    statement="off the features a neuron only decays, by 1 - eta lambda a step",
    quantity="measured over predicted decay of the part of W outside span(M)",
    side="within",
    threshold=(0.9, 1.1),
    reason="1, to a tenth",
)
T1_WITH_D1 = Claim(
    id="33-d1",
    group=GROUP,
    source=f"{CORE}, eq. (33)",
    statement="T1 is proportional to d1",
    quantity="exponent of T1 in d1",
    side="within",
    threshold=(0.8, 1.2),
    reason="1, to a fifth",
)
T1_WITH_LOG_D1 = Claim(
    id="33-log",
    group=GROUP,
    source="wen_li_feature_decoupling, T1 = Theta(d log d1 / (eta loglog d))",
    statement="T1 is proportional to log d1",
    quantity="exponent of T1 in log d1",
    side="within",
    threshold=(0.5, 1.5),
    reason="1, to a half: constants beside the logarithm are not small here",
)
T1_WITH_ETA = Claim(
    id="33-eta",
    group=GROUP,
    source=f"{CORE}, eq. (33)",
    statement="T1 is proportional to 1 / eta",
    quantity="exponent of T1 in eta",
    side="within",
    threshold=(-1.1, -0.9),
    reason="-1, to a tenth",
)
T1_WITH_D = Claim(
    id="33-d",
    group=GROUP,
    source="wen_li_feature_decoupling, T1 = Theta(d log d1 / (eta loglog d))",
    statement="T1 grows with d / loglog d (eq. (33) of the core paper has log d / loglog d)",
    quantity="exponent of T1 in d / loglog d",
    side="within",
    threshold=(0.5, 1.5),
    reason="1, to a half",
)
T1_WITH_EPS = Claim(
    id="33-eps",
    group=GROUP,
    source=f"{CORE}, eq. (33)",
    statement="T1 does not depend on the frequency of the minority feature",
    quantity="exponent of T1 in eps_min",
    side="within",
    threshold=(-0.1, 0.1),
    reason="0, to a tenth",
)
ABOVE = Claim(
    id="C.1b",
    group=GROUP,
    source=f"{CORE}, Theorem C.1 (b), eq. (36)",
    statement="at T1 every lucky neuron has |<w, M_j>| >= sqrt(1 + gamma) sqrt(2 log d / d) ||w||",
    quantity="share of lucky neurons with it",
    side="above",
    threshold=(0.95,),
    reason="all but one in twenty",
)
UNDER = Claim(
    id="C.1c",
    group=GROUP,
    source=f"{CORE}, Theorem C.1 (c), eq. (37)",
    statement="at T1 a neuron that is not in M_j has |<w, M_j>| <= sqrt(1 - gamma) sqrt(2 log d / d) ||w||",
    quantity="share of the pairs (i, j) with it",
    side="above",
    threshold=(0.95,),
    reason="all but one in twenty",
)
FEW = Claim(
    id="C.1d",
    group=GROUP,
    source=f"{CORE}, Theorem C.1 (d), eq. (38)",
    statement="at T1 a neuron has |<w, M_j>| >= log^(1/4) d / sqrt(d) ||w|| for at most d / (2 sqrt(log d)) features",
    quantity="share of neurons with it",
    side="above",
    threshold=(0.95,),
    reason="all but one in twenty",
)
SPREAD_OUT = Claim(
    id="C.1e",
    group=GROUP,
    source=f"{CORE}, Theorem C.1 (e), eq. (39)",
    statement="at T1 no neuron has more than O(sqrt(log d / d1)) of its norm in a single direction off the features",
    quantity="largest |<w, M_j^perp>| / ||w|| over sqrt(log d / d1)",
    side="not above",
    threshold=(2.0,),
    reason="the constant read as 2",
)
T1_LAWS = (
    (T1_WITH_D1, "d1", lambda data, training: data.d1),
    (T1_WITH_LOG_D1, "d1", lambda data, training: np.log(data.d1)),
    (T1_WITH_ETA, "eta", lambda data, training: training.eta),
    (T1_WITH_D, "d", lambda data, training: data.d / np.log(np.log(data.d))),
)


def measure(evidence: Evidence) -> list[Measured]:
    """Stage 1 at every point; the law of T1 over the studies that vary one of d, d1 and eta."""
    rows = []
    for study in evidence.of_role("stages"):
        points = evidence.points(study)
        for sigma in sorted({sigma for _, sigma in points}):
            x = np.array([eps_min for eps_min, at in points if at == sigma])
            if len(x) > 2:
                curves = [evidence.at(study, "stage1_growth_minority", eps_min=eps_min, sigma=sigma) for eps_min in x]
                regime = f"{study}: eps_min {x[0]:g} to {x[-1]:g}, sigma {sigma:g}"
                rows.append(Measured(LINEAR, regime, of_seeds(exponent(x, np.array(curves)))))
                times = [evidence.at(study, "T1", eps_min=eps_min, sigma=sigma) for eps_min in x]
                rows.append(Measured(T1_WITH_EPS, regime, of_seeds(exponent(x, np.array(times)))))
        for eps_min, sigma in points:
            at = {"eps_min": eps_min, "sigma": sigma}
            for claim, metric in ((RATE, "stage1_growth_over_closed_form"), (OUTSIDE, "stage1_decay_outside"),
                                  (UNDER, "others_below_threshold_at_T1"), (FEW, "few_strong_features_at_T1"),
                                  (SPREAD_OUT, "outside_largest_at_T1")):  # fmt: skip
                rows.append(Measured(claim, named(study, eps_min, sigma), of_seeds(evidence.at(study, metric, **at))))
            values = of_seeds(evidence.at(study, "lucky_above_threshold_at_T1", **at))
            reason = "too few replicas have a lucky neuron (Definition B.1)" if values.n < 5 else ""
            rows.append(Measured(ABOVE, named(study, eps_min, sigma), values, reason))
    for claim, varied, size in T1_LAWS:
        group = evidence.of_role(f"T1_{varied}")
        if len(group) < 3:
            continue
        x = np.array([size(evidence.studies[name].data, evidence.studies[name].training) for name in group], dtype=float)
        curves = np.array([evidence.at(name, "T1") for name in group])
        rows.append(Measured(claim, ", ".join(group), of_seeds(exponent(x, curves))))
    return rows
