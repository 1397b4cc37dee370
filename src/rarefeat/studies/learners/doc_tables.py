"""Published tables of the study of learners."""

import pandas as pd

from rarefeat.claims.estimate import estimate_mean
from rarefeat.claims.verdict import PAIRED, confidence_bounds
from rarefeat.model.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.statistics import fraction_interval


def compare_late_learners(*tables: pd.DataFrame) -> pd.DataFrame:
    """Compare pairs that come back with fresh ones, for each learner of config/late_learners.yaml.

    A replica has learned the rare features if each has a neuron with a cosine of HALF_LEARNED.
    """
    cosines = []
    for index, table in enumerate(tables):
        n_rare = 1 + (index == len(tables) - 1)
        rare = table[table["feature"] > table["feature"].max() - n_rare]
        sound = rare["cosine"].where(rare["diverged"] == 0, 0.0)
        keys = [rare[name] for name in ("learner", "eta", "eps_min", "pairs", "seed")]
        cosines.append(sound.groupby(keys).min().unstack("pairs"))
    rows = []
    for point, cell in pd.concat(cosines).groupby(["learner", "eta", "eps_min"]):
        learned = (cell >= HALF_LEARNED).astype(float)
        difference = estimate_mean(learned["returning"] - learned["fresh"])
        low, high = confidence_bounds(difference, 0.025, PAIRED)
        for pairs in ("returning", "fresh"):
            row = dict(zip(("learner", "eta", "eps_min"), point, strict=True))
            row |= {"pairs": pairs, "n": len(cell)}
            row |= {"learned": int(learned[pairs].sum())}
            row["ci_low"], row["ci_high"] = fraction_interval(learned[pairs])
            row["pure"] = int((cell[pairs] > PURE_COSINE).sum())
            rows.append(
                row | {"reuse": difference.value, "reuse_ci_low": low, "reuse_ci_high": high}
            )
    return pd.DataFrame(rows)


TABLES = {
    "learner_frequencies": (("which_learners_frequencies",), pd.DataFrame.copy),
    "learner_shares": (("which_learners_learners",), pd.DataFrame.copy),
    "late_learners": (
        ("late_learners_readouts", "late_optimisers_readouts", "late_two_rare_readouts"),
        compare_late_learners,
    ),
}
