"""Lemmas B.2, C.2 and D.2: what the neurons are before training."""

import numpy as np

from rarefeat.claims.claim import COUNT, Claim, Measured, Regime
from rarefeat.claims.estimate import exponent, of_fit
from rarefeat.studies.theory.claims.reader import EXACT_CONSTANT, PRIMARY, Reader, declare

GROUP = "initialisation"
ROOT = "O~ hides logarithms: over the range measured log d1 and log d add at most a quarter to the exponent"
NORM = declare(
    id="B.2a",
    group=GROUP,
    source="Lemma B.2 (a), eq. (29)",
    statement="every ||w_i(0)||^2 is sigma_0^2 d1 up to a factor 1 +- O~(1/sqrt(d1))",
    quantity="exponent in d1 of the largest deviation from 1",
    test="non-inferiority",
    side="below",
    threshold=-0.5,
    margin=0.25,
    reason=ROOT,
    primary="T1_d1",
    effect=1.25,
    seeds=24,
    tolerance=0.1,
    control="an exponent of 0 is what a law without concentration would show",
)
FEATURE_NORM = declare(
    id="B.2b",
    group=GROUP,
    source="Lemma B.2 (b), eq. (30)",
    statement="every ||M M^T w_i(0)||^2 is sigma_0^2 d up to a factor 1 +- O~(1/sqrt(d))",
    quantity="exponent in d of the largest deviation from 1",
    test="non-inferiority",
    side="below",
    threshold=-0.5,
    margin=0.25,
    reason=ROOT,
    primary="T1_d",
    effect=1.25,
    seeds=24,
    tolerance=0.1,
    control="an exponent of 0 is what a law without concentration would show",
)
STRONG = declare(
    id="C.2",
    group=GROUP,
    source="Lemma C.2, eq. (43)",
    statement="a neuron has |<w_i(0), M_j>| >= Omega(sigma_0 log^(1/4) d) for O(d / 2^sqrt(log d)) features at most",
    quantity="number of these features over d / 2^sqrt(log d), at the neuron with most of them",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason=EXACT_CONSTANT,
    primary=f"{PRIMARY}: W(0)",
    tolerance=0.25,
    control="all d features would be 2^sqrt(log d) times the bound, 2.8 at d = 9",
    bounds=COUNT,
)
TINY = declare(
    id="D.2",
    group=GROUP,
    source="Lemma D.2, eq. (72), (73)",
    statement="a neuron has |<w_i(0), M_j>| <= sigma_0 / d for O(d / polylog d) features at most",
    quantity="number of these features over d / log d, at the neuron with most of them",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason=f"polylog d read as log d; {EXACT_CONSTANT}",
    primary=f"{PRIMARY}: W(0)",
    tolerance=0.25,
    control="all d features would be log d times the bound, 2.2 at d = 9",
    bounds=COUNT,
)
LUCKY = declare(
    id="B.2c",
    group=GROUP,
    source="Lemma B.2 (c), eq. (31), (32)",
    statement="the share of lucky neurons falls with d no faster than the exponent -(1 + gamma) / ratio^2",
    quantity="fitted exponent less the bound",
    test="non-inferiority",
    side="above",
    threshold=0.0,
    margin=0.25,
    reason="Omega hides no power; eq. (239) drops the 1 / sqrt(log d) of eq. (238), a quarter over d = 23 to 128",
    primary="scaling: ratio 0.9, d 23 to 128",
    effect=0.0,
    seeds=0,
    tolerance=0.1,
    control="the same with 1 / sqrt(log d) divided out, in the table scaling_exponents",
)
ORDINARY = declare(
    id="B.2d",
    group=GROUP,
    source="Lemma B.2 (d)",
    statement="|N_i| grows with d no faster than the exponent 1 - ratio^2 (1 - gamma)",
    quantity="fitted exponent less the bound",
    test="non-inferiority",
    side="below",
    threshold=0.0,
    margin=0.1,
    reason="O hides no power: a tenth",
    primary="scaling: ratio 0.9, d 23 to 128",
    effect=0.0,
    seeds=0,
    tolerance=0.1,
    control="d itself has an exponent of 1",
)
CLAIMS = (NORM, FEATURE_NORM, STRONG, TINY, LUCKY, ORDINARY)


def measure(reader: Reader) -> list[Measured]:
    """(a) and (b) over the sizes of the laws of T1; the counts once for every law of W(0)."""
    rows = []
    for claim, role, metric in (
        (NORM, "T1_d1", "initial_norm_deviation"),
        (FEATURE_NORM, "T1_d", "initial_feature_norm_deviation"),
    ):
        studies = reader.studies(role)
        x = np.array([getattr(study.data, role.removeprefix("T1_")) for study in studies.values()], dtype=float)
        if len(x) > 2:
            curves = np.array([reader.values(name, metric) for name in studies])
            rows.append(reader.row(claim, role, f"{x.min():g} to {x.max():g}", exponent(x, curves)))
    seen = set()
    for name, study in reader.studies("stages").items():
        # A study that varies what comes after W(0) would show the same draws again.
        drawn = study.draws, study.training.m, study.first_seed
        if drawn in seen:
            continue
        seen.add(drawn)
        # W(0) does not depend on the point.
        eps_min, sigma = reader.points(name)[0]
        for claim, metric in ((STRONG, "strong_features_at_0"), (TINY, "tiny_features_at_0")):
            values = reader.values(name, metric, eps_min=eps_min, sigma=sigma)
            rows.append(reader.row(claim, name, "W(0)", values))
    for claim, quantity in ((LUCKY, "lucky_probability"), (ORDINARY, "ordinary_features")):
        rows += fitted(reader, claim, quantity)
    return rows


def fitted(reader: Reader, claim: Claim, quantity: str) -> list[Measured]:
    """A claim about an exponent in d, by ratio and range of d, from the table scaling_exponents; without its log factors."""
    table = reader.tables["scaling_exponents"]
    rows = []
    for row in table[(table["quantity"] == quantity) & (table["log_power"] == 0)].itertuples():
        power = "" if row.d1_power != row.d1_power else f", d1 = d^{row.d1_power:g}"
        estimate = of_fit(row.exponent - row.bound, row.ci_low - row.bound, row.ci_high - row.bound, row.n)
        point = f"ratio {row.ratio:g}{power}, d {row.d_low} to {row.d_high}"
        rows.append(Measured(claim, Regime("scaling", point), estimate))
    return rows
