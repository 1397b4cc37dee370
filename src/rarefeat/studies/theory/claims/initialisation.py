"""Measurements of Lemmas B.2, C.2 and D.2: the neurons before training."""

import numpy as np

from rarefeat.claims.estimate import estimate_from_interval, exponent
from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.theory.claims.table_reader import ClaimTableReader


def measure(reader: ClaimTableReader) -> list[Measurement]:
    """Measure the lemmas about W(0).

    B.2 (a) and (b) are measured over the sizes of the laws of T1; the counts once for every law
    of W(0).
    """
    rows = []
    for claim, role, metric in (
        ("B.2a", "T1_d1", "initial_norm_deviation"),
        ("B.2b", "T1_d", "initial_feature_norm_deviation"),
    ):
        size = role.removeprefix("T1_")
        studies, x = reader.law(role, lambda data, training, size=size: getattr(data, size))
        if len(x) > 2:
            curves = np.array([reader.values(name, metric) for name in studies])
            rows.append(reader.row(claim, role, {size: (x.min(), x.max())}, exponent(x, curves)))
    measured_draws = set()
    for name, study in reader.studies("stages").items():
        # A study that varies what comes after W(0) would show the same draws again.
        draws = study.draws, study.training.m, study.first_seed
        if draws in measured_draws:
            continue
        measured_draws.add(draws)
        # W(0) does not depend on the point.
        eps_min, sigma = reader.points(name)[0]
        for claim, metric in (("C.2", "strong_features_at_0"), ("D.2", "tiny_features_at_0")):
            values = reader.values(name, metric, eps_min=eps_min, sigma=sigma)
            rows.append(reader.row(claim, name, {"at": "W(0)"}, values))
    for claim, quantity in (("B.2c", "lucky_probability"), ("B.2d", "largest_features")):
        rows += fitted(reader, claim, quantity)
    return rows


def fitted(reader: ClaimTableReader, claim: str, quantity: str) -> list[Measurement]:
    """Return the measurements of a claim about an exponent in d, without its log factors."""
    table = reader.tables["scaling_exponents"]
    rows = []
    for row in table[(table["quantity"] == quantity) & (table["log_power"] == 0)].itertuples():
        power = {} if row.d1_power != row.d1_power else {"d1_power": row.d1_power}
        estimate = estimate_from_interval(
            row.exponent - row.bound, row.ci_low - row.bound, row.ci_high - row.bound, row.n
        )
        rows.append(
            measurement(
                claim,
                "scaling",
                {"ratio": row.ratio, **power, "d": (row.d_low, row.d_high)},
                estimate,
            )
        )
    return rows
