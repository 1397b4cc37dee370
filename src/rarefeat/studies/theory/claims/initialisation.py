"""Lemma B.2: what the neurons are before training."""

from rarefeat.claims.claim import Claim, Measured, of_fit, of_seeds
from rarefeat.studies.theory.claims.evidence import Evidence

CORE, GROUP = "imbalance_and_pruning", "initialisation"
NORM = Claim(
    id="B.2a",
    group=GROUP,
    source=f"{CORE}, Lemma B.2 (a), eq. (29)",
    statement="every ||w_i(0)||^2 is sigma_0^2 d1 up to a factor 1 +- O~(1/sqrt(d1))",
    quantity="largest deviation from 1, times sqrt(d1) / log d1",
    side="below",
    threshold=(1.0,),
    reason="O~ read as one logarithm",
)
FEATURE_NORM = Claim(
    id="B.2b",
    group=GROUP,
    source=f"{CORE}, Lemma B.2 (b), eq. (30)",
    statement="every ||M M^T w_i(0)||^2 is sigma_0^2 d up to a factor 1 +- O~(1/sqrt(d))",
    quantity="largest deviation from 1, times sqrt(d) / log d",
    side="below",
    threshold=(1.0,),
    reason="O~ read as one logarithm",
)
LUCKY = Claim(
    id="B.2c",
    group=GROUP,
    source=f"{CORE}, Lemma B.2 (c), eq. (31), (32)",
    statement="the share of lucky neurons falls with d no faster than the exponent -(1 + gamma) / ratio^2",
    quantity="fitted exponent less the bound",
    side="not below",
    threshold=(0.0,),
    reason="a bound from below; logarithms are left out, as in eq. (239)",
)
ORDINARY = Claim(
    id="B.2d",
    group=GROUP,
    source=f"{CORE}, Lemma B.2 (d)",
    statement="|N_i| grows with d no faster than the exponent 1 - ratio^2 (1 - gamma)",
    quantity="fitted exponent less the bound",
    side="not above",
    threshold=(0.0,),
    reason="a bound from above",
)


def measure(evidence: Evidence) -> list[Measured]:
    """(a), (b) for every W(0) of the studies of the stages; (c), (d) from the exponents of the scaling study."""
    rows, seen = [], set()
    for study in evidence.of_role("stages"):
        # A study that varies what comes after W(0) would show the same draws again.
        drawn = evidence.studies[study].draws, evidence.studies[study].training.m
        if drawn not in seen:
            seen.add(drawn)
            eps_min, sigma = evidence.points(study)[0]
            for claim, metric in ((NORM, "initial_norm_deviation"), (FEATURE_NORM, "initial_feature_norm_deviation")):
                values = evidence.at(study, metric, eps_min=eps_min, sigma=sigma)
                rows.append(Measured(claim, f"{study}", of_seeds(values)))
    for claim, quantity in ((LUCKY, "lucky_probability"), (ORDINARY, "ordinary_features")):
        rows += exponents(evidence, claim, quantity)
    return rows


def exponents(evidence: Evidence, claim: Claim, quantity: str) -> list[Measured]:
    """A claim about an exponent in d, by ratio and range of d, from the table scaling_exponents; without its log factors."""
    table = evidence.exponents
    rows = []
    for row in table[(table["quantity"] == quantity) & (table["log_power"] == 0)].itertuples():
        power = "" if row.d1_power != row.d1_power else f", d1 = d^{row.d1_power:g}"
        regime = f"scaling: ratio {row.ratio:g}, d {row.d_low} to {row.d_high}{power}"
        fit = of_fit(row.exponent - row.bound, row.ci_low - row.bound, row.ci_high - row.bound, row.n)
        rows.append(Measured(claim, regime, fit))
    return rows
