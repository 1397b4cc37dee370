"""Published tables of the theory, from which docs/studies/theory.md is filled in."""

import pandas as pd

from rarefeat.claims.estimate import estimate_mean
from rarefeat.claims.verdict import PAIRED, confidence_bounds
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.statistics import holm, sign_test
from rarefeat.studies.experiment import means_of
from rarefeat.studies.theory.pruning_claims import (
    POINT_AND_ARM,
    at_end,
    minus_dense,
    pruned_minority,
)


def learned_by_mask(trajectories: pd.DataFrame) -> pd.DataFrame:
    """Count who learns under each mask, tested by McNemar against dense and corrected by Holm."""
    best = at_end(trajectories, "max_alignment")
    learned, cosine = (best >= HALF_LEARNED).astype(float), minus_dense(best)
    changes, overlaps, rows = minus_dense(learned), pruned_minority(trajectories), []
    for key, values in learned.iterrows():
        row = dict(zip(POINT_AND_ARM, key, strict=True))
        row |= {"n": len(values), "learned": int(values.sum())}
        if key in changes.index:
            change, moved = estimate_mean(changes.loc[key]), estimate_mean(cosine.loc[key])
            ends = change.value, *confidence_bounds(change, 0.025, PAIRED)
            row |= dict(zip(("more", "fewer", "p_value"), sign_test(changes.loc[key]), strict=True))
            row |= dict(zip(("difference", "ci_low", "ci_high"), ends, strict=True))
            row |= {"cosine": moved.value, "overlap": overlaps.loc[key].mean()}
            row["cosine_low"], row["cosine_high"] = moved.interval()
        rows.append(row)
    table = pd.DataFrame(rows)
    masked = table["p_value"].notna()
    table.loc[masked, "adjusted_p"] = holm(table.loc[masked, "p_value"].to_numpy())
    return table


def milestones(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means of milestones by frequency."""
    return means_of(table, ["eps_min", "metric"])


TABLES = {
    "half_and_double": (("half_and_double",), pd.DataFrame.copy),
    "algorithm_1": (("algorithm_1_trajectories",), learned_by_mask),
    "theorem_71": (("theorem_71_milestones",), milestones),
    "theorem_100": (("theorem_100_milestones",), milestones),
}
