"""Measurements of Theorems 3.1 and E.1, Lemma E.1 and (K2): the end of training."""

from rarefeat.claims.measurements import Measurement
from rarefeat.studies.theory.claims.initialisation import fitted
from rarefeat.studies.theory.claims.table_reader import (
    BY_HAND,
    NO_LUCKY,
    ClaimTableReader,
    log2,
    range_of,
    slope,
    unchanged,
)

AT_POINTS = (
    ("E.1a", "lucky_focus_at_T", log2, NO_LUCKY),
    ("E.1b", "largest_norm", log2, ""),
    ("E.1d", "lucky_over_strongest_at_T", log2, NO_LUCKY),
    ("E.1e", "others_small_at_T", unchanged, ""),
    ("12-beta", "outside_largest_at_T", unchanged, ""),
    ("93", "bias_at_T", log2, ""),
)
OF_ENCODERS = (("E.1-94", "fires_with_its_features", unchanged), ("E.1-95", "fires_at_most", log2))
CURVES = (
    ("E.1c", "E.1c-exponent", "strength_ratio", 2),
    ("12-alpha", "12-alpha-exponent", "magnitude_ratio", 1),
)
NOBODY = "no neuron of M_j, or none with anything of the feature"


def measure(reader: ClaimTableReader) -> list[Measurement]:
    """Measure every study of the stages, point by point, and over eps_min."""
    rows = []
    for name, study in reader.studies("stages").items():
        for eps_min, sigma in reader.points(name):
            point = {"eps_min": eps_min, "sigma": sigma}
            for claim, metric, units, few in AT_POINTS:
                untestable = (
                    BY_HAND if claim == "93" and study.training.bias.rule == "follow" else ""
                )
                rows.append(
                    reader.row(
                        claim,
                        name,
                        point,
                        units(reader.values(name, metric, **point)),
                        few,
                        untestable,
                    )
                )
            if f"{name}_one_step" in reader.tables:
                small = reader.values(name, "others_small_at_T", **point)
                for claim, metric, units in OF_ENCODERS:
                    values = units(reader.values(name, metric, "one_step", **point))
                    rows.append(reader.row(claim, name, point, values, premise=small))
            if eps_min == 1:
                continue
            for claim, _, metric, power in CURVES:
                off = log2(reader.values(name, metric, **point) / eps_min**power)
                rows.append(reader.row(claim, name, point, off, NOBODY))
            rows.append(
                reader.row(
                    "K2-magnitude",
                    name,
                    point,
                    log2(reader.values(name, "magnitude_ratio", **point)),
                )
            )
        neurons_per_feature = study.training.m / study.data.d
        for x, sigma in reader.ranges(name):
            rows.append(
                reader.row(
                    "K2-mixing",
                    name,
                    range_of(x, sigma),
                    slope(x, reader.curves(name, "pure_share", x, sigma)),
                )
            )
            pure = reader.curves(name, "pure_minority_neurons", x, sigma) / neurons_per_feature
            rows.append(reader.row("K2-number", name, range_of(x, sigma), slope(x, pure)))
            for _, claim, metric, _ in CURVES:
                rows.append(
                    reader.power_law(
                        claim, name, x, sigma, reader.curves(name, metric, x, sigma), NOBODY
                    )
                )
    for (eps_min, sigma), cell in reader.tables["confirmation_grid"].groupby(["eps_min", "sigma"]):
        excess = cell["final_loss"] - cell["ideal_loss"]
        rows.append(reader.row("11", "confirmation", {"eps_min": eps_min, "sigma": sigma}, excess))
    return (
        rows
        + fitted(reader, "14", "learned_features")
        + fitted(reader, "3.1-single", "single_minority_share")
    )
