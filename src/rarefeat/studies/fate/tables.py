"""Schemas of the tables of the study of late learning."""

from typing import get_args

import pandera.pandas as pa

from rarefeat.studies.fate.config import Latents
from rarefeat.studies.fate.growth import TOPS
from rarefeat.workflow.files.schema import SHARE, at_least, column, schema

STEPS, PER_STEP = "steps", "1 / (eta steps)"
GROWTH = {
    "leak": PER_STEP,
    "kick": PER_STEP,
    "kick_size": PER_STEP,
    "excess": PER_STEP,
    "largest_leak": PER_STEP,
    "own_growth": PER_STEP,
    **{f"top_{k}": "1" for k in TOPS},
    "winner_rank": "1",
}
"""Columns on the growth of the rare feature at `looked`, with their units."""
CELL = {
    "latents": column(
        str,
        pa.Check.isin(get_args(Latents)),
        unit="",
        description="how the training pairs are drawn",
    ),
    "N": column(
        "int64",
        at_least(0),
        unit="pairs",
        description="training pairs; 0 for fresh pairs at every step",
    ),
    "sigma": column(float, at_least(0), unit="1", description="standard deviation of the noise"),
    "share": column(float, at_least(0), unit="1", description="bias scale"),
    "lambda": column(float, at_least(0), unit="1", description="l2 regularisation"),
    "eps_min": column(float, SHARE, unit="1", description="eps_min / eps_max"),
}
STUDY = {"study": column(str, None, unit="", description="entry of fate.studies")}
SEED = {"seed": column("int64", at_least(0), unit="", description="seed of the replica")}
T = {"T": column("int64", at_least(1), unit=STEPS, description="training steps")}
FLAG = pa.Check.isin([0.0, 1.0])


def nullable(unit: str, description: str, check: pa.Check | None = None) -> pa.Column:
    """Return a column of numbers that may be null."""
    return column(float, check, unit=unit, description=description, nullable=True)


FATE = schema(
    "{study}_fate",
    "a row per (cell, seed): when a replica learned the rare feature, and its growth terms",
    CELL
    | SEED
    | {
        "T": column(
            "int64", at_least(1), unit=STEPS, description="training steps, unless it ends before"
        ),
        "learned_at": nullable(
            STEPS,
            "first evaluation at which a neuron has |cos| of at least 0.5 with the rare feature,"
            " and one has at every evaluation from then on; null for never",
        ),
        "pure_at": nullable(
            STEPS, "first evaluation from `learned_at` on at which it is above 0.9; null for never"
        ),
        "ended_at": column(
            "int64",
            at_least(1),
            unit=STEPS,
            description="last step: T, or `hold` steps after `pure_at`",
        ),
        "T1": nullable(STEPS, "step that ended stage 1; -1 for none"),
        "cosine_looked": nullable(
            "1", "largest |cos| to the rare feature at the step `looked`", SHARE
        ),
        "leak": nullable(
            PER_STEP,
            "leak A_i, the growth rate of <w_i, M_rare> through open gates, without decay: the mean"
            " over neurons at that step, weighted by their squares",
        ),
        "kick": nullable(
            PER_STEP,
            "largest growth of such a projection over the norm, without the feature in any weight",
        ),
        "kick_size": nullable(
            PER_STEP,
            "root mean square of that growth over neurons, with the noise of ten passes subtracted",
            at_least(0),
        ),
        "excess": nullable(
            PER_STEP, "largest A_i - g_i of a neuron, g_i being the growth of its norm"
        ),
        "largest_leak": nullable(PER_STEP, "largest A_i of a neuron"),
        "own_growth": nullable(PER_STEP, "g_i of the neuron of the largest excess"),
        **{
            f"top_{k}": nullable(
                "1",
                f"part of the leak of that neuron that the {k} pairs with most of it have, of those"
                " with a positive one; null for fresh pairs",
                SHARE,
            )
            for k in TOPS
        },
        "winner_rank": column(
            "int64",
            at_least(1),
            unit="1",
            description="place of the neuron that is nearest to the feature at the last step, in"
            " the order of A_i - g_i at `looked`; 1 for the largest",
        ),
        "cosine": nullable("1", "largest |cos| at the last step", SHARE),
        "count": nullable("pairs", "training pairs with the rare feature; null for fresh pairs"),
        "opened_trained": nullable(
            "1",
            "fraction of training samples with the feature for which the neuron nearest to it has"
            " an open gate at the last step",
            SHARE,
        ),
        "opened_fresh": nullable("1", "that fraction of fresh samples with the feature", SHARE),
        "opened_without": nullable("1", "that fraction of fresh samples without it", SHARE),
        "diverged": column(float, FLAG, unit="", description="1 where a step was not taken"),
    },
    unique=[*CELL, "seed"],
)

FATE_SHARES = schema(
    "fate_shares",
    "a row per (study, cell, step): the fraction of replicas that have learned the rare feature",
    STUDY
    | CELL
    | {
        "step": column("int64", at_least(1), unit=STEPS, description="training step"),
        "learned": column(
            "int64",
            at_least(0),
            unit="replicas",
            description="replicas that have learned it by that step",
        ),
        "pure": column(
            "int64",
            at_least(0),
            unit="replicas",
            description="of these, replicas that have had a cosine above 0.9 by that step",
        ),
        "n": column("int64", at_least(1), unit="replicas", description="seeds"),
        "learned_share": column(
            float, SHARE, unit="1", description="fraction of replicas that have learned it"
        ),
        "ci_low": column(
            float, SHARE, unit="1", description="lower end of its exact 95 % interval"
        ),
        "ci_high": column(float, SHARE, unit="1", description="upper end"),
    },
    unique=["study", *CELL, "step"],
)

FATE_POINTS = schema(
    "fate_points",
    "a row per (study, cell): learning outcomes, and medians of the growth terms at `looked`",
    STUDY
    | CELL
    | {"n": column("int64", at_least(1), unit="replicas", description="seeds")}
    | T
    | {
        "at_once": column(
            "int64",
            at_least(0),
            unit="replicas",
            description="replicas that had learned it by `looked`",
        ),
        "late": column(
            "int64",
            at_least(0),
            unit="replicas",
            description="replicas that learned it after that, by T",
        ),
        "pure": column(
            "int64",
            at_least(0),
            unit="replicas",
            description="replicas that have learned it and have had a cosine above 0.9 by T",
        ),
        **{name: nullable(unit, "as in the table of the study") for name, unit in GROWTH.items()},
        "border": nullable(
            "1",
            "limit of the cosine over that of the gate: learned late above 1; infinite where the"
            " leak exceeds the decay",
        ),
        "cosine_looked": nullable("1", "as in the table of the study", SHARE),
        "cosine": nullable("1", "as in the table of the study", SHARE),
        "count": nullable("pairs", "as in the table of the study"),
        "step_quarter": nullable(
            STEPS, "step by which a quarter of the replicas has learned it; null for never"
        ),
        "step_half": nullable(STEPS, "that of half of them"),
        "opened_trained": nullable("1", "mean over replicas that learned late", SHARE),
        "opened_fresh": nullable("1", "mean over replicas that learned late", SHARE),
        "opened_without": nullable("1", "mean over replicas that learned late", SHARE),
    },
    unique=["study", *CELL],
)

FATE_TIMES = schema(
    "fate_times",
    "a row per (study, cell, seed) of the regimes of the fit and of the test: when it learned, and"
    " what the linear model predicts from the state at `looked`",
    STUDY
    | CELL
    | SEED
    | T
    | {
        "learned_at": nullable(STEPS, "as in the table of the study"),
        "at_once": column(
            float,
            FLAG,
            unit="",
            description="1 where it had learned by `looked`; the model does not apply",
        ),
        "reach": nullable(
            "1",
            "log of the limit of the cosine over that of the gate; infinite where the leak exceeds"
            " the decay",
        ),
        "predicted": nullable(STEPS, "median time by the model; null for never"),
        "probability": nullable("1", "probability of having learned by T, by the model", SHARE),
        "gate_alone": nullable(
            "1", "that probability by a regression on eps_min, lambda, share and log N", SHARE
        ),
    },
    unique=["study", *CELL, "seed"],
)
