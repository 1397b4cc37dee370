"""Schema of the table of the study of the premise of Theorem 3.2."""

import pandera.pandas as pa

from rarefeat.chain.tables import ARM, METRICS
from rarefeat.storage.schema import SHARE, at_least, column, schema

CORE = "imbalance_and_pruning"


def number(description: str, nullable: bool = False) -> pa.Column:
    """Declare a column of numbers that are not negative."""
    return column(float, at_least(0), unit="1", description=description, nullable=nullable)


def growth(description: str) -> pa.Column:
    """Declare a column with a growth rate."""
    return column(float, None, unit="1 / (eta steps)", description=description)


PREMISE = schema(
    "premise_replicas",
    "a row per (point, arm, update, seed)",
    {
        "purity": column(
            float, SHARE, unit="1", description="initial weights: 0 as drawn, 1 pure; of one norm"
        ),
        "alpha": number("pruning ratio of the point"),
        "share": number("bias scale"),
        "lambda": number("l2 regularisation"),
        "eps_min": column(float, SHARE, unit="1", description="eps_min / eps_max"),
        "arm": ARM["arm"],
        "pruned_update": ARM["pruned_update"],
        "seed": column("int64", at_least(0), unit="", description="seed of the replica"),
        "premise": column(
            float,
            SHARE,
            unit="1",
            description="of the floor(alpha m) smallest neurons when pruning begins, the share"
            " whose nearest feature is the rare one",
            source=f"{CORE}, Theorem 3.2, Remark 2",
        ),
        "norm": number("mean norm at T of the neurons nearest to the rare feature", nullable=True),
        "norm_majority": number("mean norm at T of the other neurons", nullable=True),
        "strength": number("S of the rare feature at T, the sum over i of <w_i, M_j>^2"),
        "strength_majority": number("mean of S over the other features"),
        "cosine": METRICS["max_alignment"],
        "projection": number("largest |<w_i, M_j>| of the rare feature at T"),
        "projection_majority": number("mean of that over the other features"),
        "growth": growth(
            "growth of log sqrt(S) of the rare feature, from the first recorded step with a mask"
            " to the next one"
        ),
        "growth_majority": growth("the same of the mean of S over the other features"),
        "r2": column(
            float,
            pa.Check.le(1),
            unit="1",
            description="R^2 of a linear probe of the rare feature's sign, which is 0 where it is"
            " absent, with every feature at the majority frequency; null where embeddings are not"
            " finite",
            nullable=True,
        ),
        "diverged": column(
            float,
            SHARE,
            unit="",
            description="1 if the last loss is above twice log K, or a step was not taken",
        ),
    },
    unique=["purity", "alpha", "share", "lambda", "eps_min", "arm", "pruned_update", "seed"],
)
