"""Lemma 3.2 and Theorem D.1: which neurons take off between T1 and T2."""

import numpy as np

from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.claims.evidence import exponent, named
from rarefeat.studies.theory.claims.evidence import Evidence

CORE, GROUP = "imbalance_and_pruning", "stage 2"
GROWTH = Claim(
    id="3.2a",
    group=GROUP,
    source=f"{CORE}, Lemma 3.2 (a), eq. (9)",
    statement="at T2 a lucky neuron has <w, M_j>^2 >= 2 (eps_j / eps_max) ||w(T1)||^2",
    quantity="share of lucky neurons with it",
    side="above",
    threshold=(0.95,),
    reason="all but one in twenty",
)
BOUNDED = Claim(
    id="3.2b",
    group=GROUP,
    source=f"{CORE}, Lemma 3.2 (b), eq. (10), Theorem D.1 (c)",
    statement="no ordinary neuron of a feature is more than a constant times as strong in it as its best lucky one",
    quantity="largest ratio over the features that have a lucky neuron",
    side="not above",
    threshold=(2.0,),
    reason="the constant read as 2",
)
FOCUS = Claim(
    id="D.1a",
    group=GROUP,
    source=f"{CORE}, Theorem D.1 (a), eq. (62)",
    statement="at T2 a lucky neuron has |<w, M_j>| >= Omega(eps_min / eps_max) ||w||",
    quantity="mean |<w, M_j>| / ||w|| of lucky neurons over the ratio",
    side="not below",
    threshold=(0.5,),
    reason="the constant read as a half",
)
BIAS = Claim(
    id="D.1b",
    group=GROUP,
    source=f"{CORE}, Theorem D.1 (b), eq. (63)",
    statement="at T2 every bias is at least polylog(d) / sqrt(d) ||w_i||",
    quantity="smallest b_i sqrt(d) / ||w_i||",
    side="above",
    threshold=(1.0,),
    reason="polylog(d) read as at least 1",
)
T2_WITH_ETA = Claim(
    id="60-eta",
    group=GROUP,
    source=f"{CORE}, eq. (60)",
    statement="T2 - T1 is proportional to 1 / eta",
    quantity="exponent of T2 - T1 in eta",
    side="within",
    threshold=(-1.5, -0.5),
    reason="-1, to a half: T2 is known to the recorded step",
)
T2_WITH_D = Claim(
    id="60-d",
    group=GROUP,
    source=f"{CORE}, eq. (60)",
    statement="T2 - T1 is proportional to d log d / loglog d",
    quantity="exponent of T2 - T1 in d log d / loglog d",
    side="within",
    threshold=(0.5, 1.5),
    reason="1, to a half: T2 is known to the recorded step",
)
T2_WITH_EPS = Claim(
    id="60-eps",
    group=GROUP,
    source=f"{CORE}, eq. (60)",
    statement="T2 - T1 is proportional to 1 / eps_max",
    quantity="exponent of T2 - T1 in C, the factor of every feature's frequency",
    side="within",
    threshold=(-1.5, -0.5),
    reason="-1, to a half: T2 is known to the recorded step",
)
T2_LAWS = (
    (T2_WITH_ETA, "eta", lambda data, training: training.eta),
    (T2_WITH_D, "d", lambda data, training: data.d * np.log(data.d) / np.log(np.log(data.d))),
    (T2_WITH_EPS, "C", lambda data, training: data.C),
)
QUANTITIES = (
    (GROWTH, "lucky_growth_at_T2"),
    (BOUNDED, "ordinary_over_lucky_at_T2"),
    (FOCUS, "lucky_focus_at_T2"),
)


def measure(evidence: Evidence) -> list[Measured]:
    """The stages at every point; the laws of T2 over the studies that vary one of d, eta and C."""
    rows = []
    for study in evidence.of_role("stages"):
        for eps_min, sigma in evidence.points(study):
            at, regime = {"eps_min": eps_min, "sigma": sigma}, named(study, eps_min, sigma)
            ended = np.isfinite(evidence.at(study, "T2", **at)).sum()
            for claim, metric in QUANTITIES:
                values = of_seeds(evidence.at(study, metric, **at))
                reason = "" if values.n >= 5 else (
                    "stage 2 does not end in this training: no neuron grows d-fold in norm^2, eq. (61)" if ended < 5
                    else "too few replicas have a lucky neuron (Definition B.1)"
                )  # fmt: skip
                rows.append(Measured(claim, regime, values, reason))
            values = of_seeds(evidence.at(study, "bias_at_T2", **at))
            reason = (
                ""
                if evidence.studies[study].training.bias.rule == "grow"
                else "the rule `follow` sets the bias by hand: true or false by construction"
            )
            rows.append(Measured(BIAS, regime, values, reason))
    for claim, varied, size in T2_LAWS:
        group = evidence.of_role(f"T1_{varied}")
        if len(group) > 2:
            durations = np.array([evidence.at(name, "T2") - evidence.at(name, "T1") for name in group])
            x = np.array([size(evidence.studies[name].data, evidence.studies[name].training) for name in group])
            rows.append(Measured(claim, ", ".join(group), of_seeds(exponent(x, durations))))
    return rows
