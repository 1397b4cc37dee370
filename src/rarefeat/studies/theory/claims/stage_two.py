"""Lemmas 3.2 and D.1, Theorem D.1: which neurons take off between T1 and T2."""

import numpy as np

from rarefeat.claims.estimate import censored_exponent
from rarefeat.claims.measurements import Measurement
from rarefeat.studies.theory.claims.table_reader import (
    NO_LUCKY,
    NO_T2,
    ClaimTableReader,
    log2,
    unchanged,
)

LAWS = (
    ("60-eta", "T1_eta", lambda data, training: training.eta),
    ("60-d", "T1_d", lambda data, training: data.d * np.log(data.d) / np.log(np.log(data.d))),
    ("60-eps", "T1_C", lambda data, training: data.C),
)
AT_POINTS = (
    ("3.2a", "lucky_growth_at_T2", unchanged, NO_LUCKY),
    ("3.2b", "ordinary_over_lucky_at_T2", log2, NO_LUCKY),
    ("D.1a", "lucky_focus_at_T2", log2, NO_LUCKY),
    ("D.1-66", "lucky_above_bias", unchanged, NO_LUCKY),
    ("D.1-67", "others_below_bias", unchanged, ""),
    ("D.1-68", "others_largest", unchanged, ""),
    ("D.1-69", "features_near_bias", unchanged, ""),
    ("D.1-70", "outside_largest_in_stage_two", unchanged, ""),
)


def measure(reader: ClaimTableReader) -> list[Measurement]:
    """Measure stage 2 at every point, and the laws of T2.

    The laws are over the studies that vary one of d, eta and C.
    """
    rows = []
    for name in reader.studies("stages"):
        for eps_min, sigma in reader.points(name):
            ended = np.isfinite(reader.values(name, "T2", eps_min=eps_min, sigma=sigma)).sum()
            for claim, metric, units, few in AT_POINTS:
                values = units(reader.values(name, metric, eps_min=eps_min, sigma=sigma))
                reason = NO_T2 if ended < 5 else few or NO_T2
                rows.append(
                    reader.row(
                        claim,
                        name,
                        {"eps_min": eps_min, "sigma": sigma},
                        values,
                        reason,
                    )
                )
    for claim, role, size in LAWS:
        studies, x = reader.law(role, size)
        if len(x) < 3:
            continue
        T1, T2 = (
            np.array([reader.values(name, metric) for name in studies]) for metric in ("T1", "T2")
        )
        horizon = np.array([[study.training.T] for study in studies.values()]) - T1
        # A replica without T1 has not begun stage 2, and says nothing about its duration.
        begun = np.isfinite(T1).all(0)
        estimate = censored_exponent(x, (T2 - T1)[:, begun], horizon[:, begun])
        missing = int((~np.isfinite(T2)).sum())
        remark = (
            f"{missing} of {T2.size} replicas do not reach T2, and count as censored"
            if missing
            else ""
        )
        most = (
            "more than half of the replicas at one value do not reach T2"
            if np.isnan(estimate.value)
            else ""
        )
        rows.append(reader.row(claim, role, {"values": len(x)}, estimate, "", most, remark=remark))
    return rows
