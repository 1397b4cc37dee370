"""Lemmas 3.1 and C.1, Theorem C.1: growth while the bias is zero, and what holds at T1."""

import numpy as np

from rarefeat.claims.estimate import exponent
from rarefeat.claims.measurements import Measurement
from rarefeat.studies.theory.claims.table_reader import (
    NO_LUCKY,
    ClaimTableReader,
    by_seed_of,
    log2,
    range_of,
    unchanged,
)

NO_LINEAR = "the logits leave chance before the first recorded step"

LAWS = (
    ("33-d1", "T1_d1", lambda data, training: data.d1),
    ("33-log", "T1_d1", lambda data, training: np.log(data.d1 / data.d)),
    ("33-eta", "T1_eta", lambda data, training: training.eta),
    ("33-d", "T1_d", lambda data, training: data.d / np.log(np.log(data.d))),
)
AT_POINTS = (
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


def measure(reader: ClaimTableReader) -> list[Measurement]:
    """Measure stage 1 at every point, and the laws of T1.

    The laws are over the studies that vary one of d, d1 and eta.
    """
    rows = []
    for name in reader.studies("stages"):
        for x, sigma in reader.ranges(name):
            growth, T1 = (
                reader.curves(name, metric, x, sigma) for metric in ("stage1_growth_minority", "T1")
            )
            rows.append(
                reader.row(
                    "3.1a-linear",
                    name,
                    range_of(x, sigma),
                    by_seed_of(exponent, x, growth),
                    NO_LINEAR,
                )
            )
            rows.append(reader.row("33-eps", name, range_of(x, sigma), by_seed_of(exponent, x, T1)))
        for eps_min, sigma in reader.points(name):
            for claim, metric, units, few in AT_POINTS:
                values = units(reader.values(name, metric, eps_min=eps_min, sigma=sigma))
                rows.append(
                    reader.row(claim, name, {"eps_min": eps_min, "sigma": sigma}, values, few)
                )
    for claim, role, size in LAWS:
        studies, x = reader.law(role, size)
        if len(x) > 2:
            times = np.array([reader.values(name, "T1") for name in studies])
            rows.append(reader.row(claim, role, {"values": len(x)}, exponent(x, times)))
    return rows
