"""Measurements for the claims on small theorems, at every point of each."""

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.workflow.run.job import Job

Values = Callable[..., pd.Series]
"""Maps a quantity, and maybe a place and a column, to values by seed."""


def measure_invariant(v: Values) -> dict[str, pd.Series]:
    """Measure Theorems 7.1 and 7.2 at a norm of the representation."""
    errors = {name: v(name) / v(name, column="stated") - 1 for name in ("loss", "loss_tied")}
    encoded = v("encoded", place=None)
    return {
        "7.1": errors["loss"],
        "7.1-tied": errors["loss_tied"].abs() - errors["loss"].abs(),
        "7.1-pca": v("pca_overlap"),
        "7.1-raw": v("pca_overlap") - v("raw_overlap"),
        "7.2-1": v("spurious"),
        "7.2-1-shared": v("spurious_shared") - v("spurious"),
        "7.2-2": encoded.min(axis=1),
        "7.2-order": encoded[encoded.columns.min()] - encoded[encoded.columns.max()],
    }


def measure_parity(v: Values) -> dict[str, pd.Series]:
    """Measure Theorems 5.5.1 and 5.5.2 at a number of features."""
    return {
        "5.5.1-loss": v("larger_loss"),
        "5.5.1-pair": v("fewer_loss") - v("larger_loss"),
        "5.5.1-least": v("least_norm"),
        "5.5.1-small": v("ranked_loss") / v("ranked_loss", column="stated"),
        "5.5.2-noise": v("smaller_noise") - v("smaller_noise", column="stated"),
        "5.5.2-price": v("ranked_noise"),
        "5.5.2-robust": v("smaller_accuracy") - v("larger_accuracy"),
        "5.5.2-rest": v("larger_accuracy_rest") - v("smaller_accuracy_rest"),
    }


def measure_features(v: Values) -> dict[str, pd.Series]:
    """Measure chapter 3 on a law of the data; a claim on another law is a regime of its own."""
    gain = v("error_frozen") - v("error")
    return {
        "3.13": v("cosine_first"),
        "3.13-start": v("cosine_first") - v("cosine_start"),
        "3.12": v("loss") - v("stated_loss"),
        "3.17": v("stated_loss"),
        "3.18": v("error"),
        "B.42": v("error"),
        "3.18-frozen": gain,
        "3.21": v("stated_loss"),
        "3.22": v("error"),
        "3.22-frozen": gain,
    }


def measure_stages(v: Values) -> dict[str, pd.Series]:
    """Measure Theorems 3.1 and 3.2 of Liao et al. at a frequency of the rare feature."""
    return {
        "L-4": v("growth"),
        "L-5": v("outside"),
        "L-5-along": v("along"),
        "L-6": v("lucky"),
        "L-6-start": v("lucky") - v("lucky_start"),
        "L-7": v("outside_2"),
    }


def measure_input_structure(v: Values) -> dict[str, pd.Series]:
    """Measure result 2-10 for a student."""
    return {
        "2-10-better": v("digits_isotropic") - v("gaussians_isotropic"),
        "2-10-faster": v("digits_isotropic_course") - v("gaussians_isotropic_course"),
        "2-10-matched": v("digits_matched") - v("gaussians_matched"),
        "2-10-teacher": v("teacher_isotropic"),
    }


PARTS = {
    "invariant_features": measure_invariant,
    "parity_in_context": measure_parity,
    "gradient_features": measure_features,
    "input_structure": measure_input_structure,
    "first_stages": measure_stages,
}
"""Function that measures the claims of each theorem at a point."""
OTHER_LAW = {
    "three": {"3.17", "3.18", "B.42", "3.18-frozen"},
    "separated": {"3.21", "3.22", "3.22-frozen", "B.42"},
    "noisy": {"3.21", "3.22", "3.22-frozen", "3.18", "3.17"},
}
"""Claims that do not speak of a law of the data."""


def iter_measurements(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure every claim at every point of the table."""
    for (result, point), rows in table.groupby(["result", "point"]):
        wide = rows.pivot(index="seed", columns=["quantity", "at"], values=["value", "stated"])

        def values(name: str, place: float | None = 0.0, column: str = "value", wide=wide):
            places = wide[column][name]
            return places if place is None else places[place]

        for claim, by_seed in PARTS[result](values).items():
            if claim not in OTHER_LAW.get(point, ()):
                axes = {"result": result, "point": point}
                yield measurement(claim, "theorem_points", axes, by_seed)


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim. Inputs: `theorem_numbers`."""
    return list(iter_measurements(tables["theorem_numbers"]))
