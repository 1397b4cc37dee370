"""Section 6.4: what a ridge and a bound on the rank make of spurious features."""

from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.claim import SHARE, Measured
from rarefeat.studies.exact_results.claims.reader import declare as of_paper
from rarefeat.studies.exact_results.claims.reader import row, settings

STUDY = "spurious_features"
declare = partial(of_paper, group="spurious features", effect=1.0, seeds=30, primary=f"{STUDY}: factor=1.0")
INVARIANT = declare(
    id="6.1-alpha",
    source="Lemma 6.1 (3)",
    statement="the ridge's weight of an invariant feature is below 1 / sqrt(r)",
    quantity="alpha sqrt(r)",
    test="superiority",
    side="below",
    threshold=1.0,
    reason="an upper bound with its constant",
    tolerance=0.1,
    control="factor = 0.01: a lambda below what the lemma asks for",
)
ORDER = declare(
    id="6.1-order",
    source="Lemma 6.1 (3)",
    statement="spurious features have positive weights, below those of the invariant ones",
    quantity="larger of beta / alpha - 1 and - beta / alpha",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="0 < beta < alpha",
    tolerance=0.1,
    control="at gamma = 1/2 both sorts are the same",
)
RATIO = declare(
    id="6.1-ratio",
    source="Lemma 6.1 (3)",
    statement="alpha / beta is below 3 / (4 gamma)",
    quantity="log of alpha / beta over 3 / (4 gamma)",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="an upper bound with its constant; the limit of a strong ridge is 1 / (2 gamma), two thirds of it",
    tolerance=0.05,
    control="other factors of lambda",
)
RANK = declare(
    id="6.2",
    source="Lemma 6.2",
    statement="with a bound on the number of features the best ones are invariant",
    quantity="share of instances whose least loss, for weights of norm 1, has no spurious feature",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.05,
    reason="all; a bound on the norm is added, since without one the objective (6.5) has no minimum",
    tolerance=0.05,
    control="at gamma = 1/2 the two are the same",
    bounds=SHARE,
)
RIDGE_OOD = declare(
    id="6.3-ridge",
    source="Proposition 6.3",
    statement="out of domain the ridge is right with probability exp(-r / 10) at most",
    quantity="log of its accuracy, exactly, plus r / 10",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="an upper bound with its constant",
    tolerance=0.1,
    control="in domain the same weights are right nearly always",
)
RANK_OOD = declare(
    id="6.3-rank",
    source="Proposition 6.3",
    statement="out of domain the minimum with a bound on the rank is always right",
    quantity="its accuracy, exactly",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=1e-9,
    reason="100 per cent",
    tolerance=1e-9,
    control="6.2: that its features are invariant is what has to be shown",
    bounds=SHARE,
)
CLAIMS = (INVARIANT, ORDER, RATIO, RANK, RIDGE_OOD, RANK_OOD)


def measure(table: pd.DataFrame) -> list[Measured]:
    """A row for each factor of lambda; every seed is an instance."""
    rows = []
    for setting in settings(table, "alpha"):
        part = table[table["setting"] == setting]
        value, stated = (part.pivot(index="seed", columns="quantity", values=column) for column in ("value", "stated"))
        share = value["beta"] / value["alpha"]
        measured = {
            INVARIANT: value["alpha"] / stated["alpha"],
            ORDER: np.maximum(share - 1, -share),
            RATIO: np.log(value["alpha_over_beta"] / stated["alpha_over_beta"]),
            RANK: (value["cost_of_spurious"] > 0).astype(float),
            RIDGE_OOD: np.log(value["ood_accuracy"] / stated["ood_accuracy"]),
            RANK_OOD: value["rank_ood_accuracy"].round(12),
        }
        rows += [row(claim, STUDY, setting, values) for claim, values in measured.items()]
    return rows
