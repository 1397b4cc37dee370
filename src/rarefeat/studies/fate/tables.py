"""Schemas of the tables of the study of late learning."""

import pandera.pandas as pa

from rarefeat.storage.schema import SHARE, at_least, column, schema

STEPS, PER_STEP = "steps", "1 / (eta steps)"
CELL = {
    "latents": column(
        str,
        pa.Check.isin(["plain", "antithetic", "apart"]),
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
    """Return a column of numbers that may be null.

    Parameters
    ----------
    unit : str
        Unit.
    description : str
        Definition of the number, and when it is null.
    check : pandera.Check, optional
        Check of the values that are not null.
    """
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
            " and has it at every evaluation from then on; null for never",
        ),
        "ended_at": column(
            "int64",
            at_least(1),
            unit=STEPS,
            description="last step: T, or when the feature had stayed learned for `hold` steps",
        ),
        "T1": nullable(STEPS, "step that ended stage 1; -1 for none"),
        "cosine_looked": nullable(
            "1", "largest |cos| to the rare feature at the step `looked`", SHARE
        ),
        "leak": nullable(
            PER_STEP,
            "growth rate of the projections of neurons on the rare feature at that step, without"
            " decay: a slope over neurons",
        ),
        "kick": nullable(
            PER_STEP,
            "largest growth of such a projection over the norm, of neurons without the feature: the"
            " effect of chance correlations of the sample",
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
        "leak": nullable(PER_STEP, "as in the table of the study"),
        "kick": nullable(PER_STEP, "as in the table of the study"),
        "border": nullable(
            "1",
            "limit of the cosine over that of the gate: learned late above 1; infinite where the"
            " leak exceeds the decay",
        ),
        "cosine_looked": nullable("1", "as in the table of the study", SHARE),
        "cosine": nullable("1", "as in the table of the study", SHARE),
        "count": nullable("pairs", "as in the table of the study"),
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

FATE_LATE = schema(
    "fate_late",
    "a row per (role, cell, seed) of the regimes of the fit and of the test: who has learned by T,"
    " and what the critical-frequency model with T predicts from the initial weights",
    {
        "role": column(
            str,
            pa.Check.isin(["fit", "test"]),
            unit="",
            description="whether the constants are fitted on it",
        )
    }
    | CELL
    | SEED
    | {
        "learned": column(
            float, FLAG, unit="", description="1 where it has learned the feature by T"
        ),
        "margin": column(
            float, None, unit="1", description="log margin (chain/critical_frequency.py)"
        ),
        "by_law": column(
            float, SHARE, unit="1", description="probability of having learned, by the model with T"
        ),
        "without_T": column(
            float, SHARE, unit="1", description="that probability by the model at step 500"
        ),
        "by_regime": column(
            float,
            SHARE,
            unit="1",
            description="that probability by a regression on eps_min, lambda, share and log N",
        ),
        "centre": column(float, None, unit="1", description="log kappa at step 500"),
        "steepness": column(float, at_least(0), unit="1", description="gamma"),
        "drop": column(
            float,
            None,
            unit="1",
            description="log of the fall of the centre in the end, where lambda is the growth rate"
            " of a frequent feature and N = 1",
        ),
        "by_decay": column(
            float, None, unit="1", description="exponent of the fall in lambda over the growth rate"
        ),
        "by_pairs": column(float, None, unit="1", description="exponent of the fall in N"),
        "rate": column(
            float,
            at_least(0),
            unit="1",
            description="exponent in 500 / T of the part of the fall that is still to come",
        ),
    },
    unique=["role", *CELL, "seed"],
)

FATE_STEP = schema(
    "fate_step",
    "a row per (N, sigma, share, lambda, T) of the grids: measured and predicted critical"
    " frequency",
    {name: definition for name, definition in CELL.items() if name != "eps_min"}
    | {
        "T": column(
            "int64",
            at_least(1),
            unit=STEPS,
            description="step by which the feature has to be learned",
        ),
        "measured": column(
            float,
            SHARE,
            unit="1",
            description="eps_min at which half of the replicas have learned it, interpolated",
        ),
        "predicted": column(
            float,
            SHARE,
            unit="1",
            description="critical frequency by the model, whose constants are of other regimes",
        ),
    },
    unique=["latents", "N", "sigma", "share", "lambda", "T"],
)
