"""Claims of the small theorems on planted numbers, true and opposite."""

import numpy as np
import pandas as pd
import pytest
from conftest import verdicts_of

from rarefeat.claims.verdict import CONTRADICTED, SUPPORTED
from rarefeat.studies.small_theorems.claims import OTHER_LAW, PARTS, iter_measurements

POINTS = {
    "invariant_features": ("0.1", "1.0"),
    "parity_in_context": ("8",),
    "gradient_features": ("separated", "noisy", "three"),
    "first_stages": ("0.9",),
    "input_structure": ("50",),
}
TRUE = {
    "loss": {"invariant_features": (-0.5, -0.5), "gradient_features": (0.01, np.nan)},
    "loss_tied": (-0.2, -0.5),
    "pca_overlap": (0.99, 1.0),
    "raw_overlap": (0.3, np.nan),
    "spurious": (1e-5, 0.0),
    "spurious_shared": (0.4, np.nan),
    "larger_loss": (1e-6, 0.0),
    "fewer_loss": (0.5, np.nan),
    "least_norm": (1.02, 1.0),
    "ranked_loss": (0.012, 0.01),
    "smaller_noise": (0.5, 0.5),
    "ranked_noise": (1.0, 0.5),
    "smaller_accuracy": (0.8, np.nan),
    "larger_accuracy": (0.7, np.nan),
    "smaller_accuracy_rest": (0.6, np.nan),
    "larger_accuracy_rest": (0.7, np.nan),
    "cosine_start": (0.2, np.nan),
    "cosine_first": (0.98, 1.0),
    "error": (0.001, 0.0),
    "error_frozen": (0.2, np.nan),
    "stated_loss": (1e-5, 0.0),
    "T1": (100.0, 45.0),
    "growth": (0.0, -0.11),
    "outside": (0.01, np.nan),
    "along": (0.9, np.nan),
    "lucky": (0.9, np.nan),
    "lucky_start": (0.1, np.nan),
    "outside_2": (0.01, np.nan),
    "digits_isotropic": (0.9, np.nan),
    "gaussians_isotropic": (0.7, np.nan),
    "digits_isotropic_course": (0.6, np.nan),
    "gaussians_isotropic_course": (0.3, np.nan),
    "digits_matched": (0.9, np.nan),
    "gaussians_matched": (0.8, np.nan),
    "teacher_isotropic": (0.9, np.nan),
}
OPPOSITE = TRUE | {
    "loss": {"invariant_features": (-0.6, -0.5), "gradient_features": (0.9, np.nan)},
    "loss_tied": (-0.5, -0.5),
    "pca_overlap": (0.3, 1.0),
    "spurious": (0.45, 0.0),
    "larger_loss": (0.6, 0.0),
    "least_norm": (0.8, 1.0),
    "ranked_loss": (0.0, 0.01),
    "smaller_noise": (0.9, 0.5),
    "ranked_noise": (0.5, 0.5),
    "smaller_accuracy": (0.6, np.nan),
    "larger_accuracy_rest": (0.5, np.nan),
    "cosine_first": (0.15, 1.0),
    "error": (0.3, 0.0),
    "stated_loss": (0.2, 0.0),
    "growth": (-0.5, -0.11),
    "outside": (0.4, np.nan),
    "along": (0.01, np.nan),
    "lucky": (0.1, np.nan),
    "outside_2": (0.4, np.nan),
    "digits_isotropic": (0.6, np.nan),
    "digits_isotropic_course": (0.2, np.nan),
    "digits_matched": (0.7, np.nan),
    "teacher_isotropic": (0.3, np.nan),
}
OF_RESULT = {
    "invariant_features": list(TRUE)[:6],
    "parity_in_context": list(TRUE)[6:16],
    "gradient_features": ["loss", *list(TRUE)[16:21]],
    "first_stages": list(TRUE)[21:28],
    "input_structure": list(TRUE)[28:],
}


def planted(values: dict, encoded: tuple[float, float]) -> pd.DataFrame:
    """A table with these values, and a little noise, for 15 seeds."""
    rng, rows = np.random.default_rng(0), []
    for result, points in POINTS.items():
        for point in points:
            numbers = [
                (0.0, name, *(found if isinstance(found, tuple) else found[result]))
                for name in OF_RESULT[result]
                for found in (values[name],)
            ]
            if result == "invariant_features":
                numbers += [
                    (1.0, "encoded", encoded[0], np.nan),
                    (2.0, "encoded", encoded[1], np.nan),
                ]
            for at, name, value, stated in numbers:
                spread = 1e-4 * (abs(value) + 0.001) if value else 0.0
                rows += [
                    (result, point, seed, at, name, value + spread * rng.normal(), stated)
                    for seed in range(15)
                ]
    columns = ["result", "point", "seed", "at", "quantity", "value", "stated"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("values", "encoded", "verdict"),
    [(TRUE, (0.5, 0.3), SUPPORTED), (OPPOSITE, (0.01, 0.2), CONTRADICTED)],
)
def test_claims_follow_planted_numbers(values, encoded, verdict):
    judged = verdicts_of("small_theorems", iter_measurements(planted(values, encoded)))
    primary = judged[judged["primary"]]
    assert set(primary["claim_id"]) == set(judged["claim_id"])
    assert set(primary["verdict"]) == {verdict}, primary[primary["verdict"] != verdict]


def test_claims_speak_of_their_own_law():
    judged = verdicts_of("small_theorems", iter_measurements(planted(TRUE, (0.5, 0.3))))
    for law, claims in OTHER_LAW.items():
        assert claims < {claim for part in PARTS for claim in judged["claim_id"]}
        rows = judged[judged["point"].str.contains(law)]
        assert not claims & set(rows["claim_id"])
