"""Tables of the fate over time."""

import pandera.pandas as pa

from rarefeat.storage.schema import SHARE, at_least, column, schema

STEPS, PER_STEP = "steps", "1 / (eta steps)"
CELL = {
    "latents": column(str, pa.Check.isin(["plain", "antithetic", "apart"]), unit="", description="how the training pairs are made"),
    "N": column("int64", at_least(0), unit="pairs", description="training pairs; 0 for fresh ones at every step"),
    "sigma": column(float, at_least(0), unit="1", description="standard deviation of the noise"),
    "share": column(float, at_least(0), unit="1", description="share of the bias"),
    "lambda": column(float, at_least(0), unit="1", description="l2 regularisation"),
    "eps_min": column(float, SHARE, unit="1", description="eps_min / eps_max"),
}  # fmt: skip


def number(unit: str, description: str, check: pa.Check | None = None) -> pa.Column:
    """A number that a replica may not have."""
    return column(float, check, unit=unit, description=description, nullable=True)


FATE = schema(
    "{study}_fate",
    "a row per (cell, seed): when a replica learned the rare feature, and what pulled at it",
    CELL | {
        "seed": column("int64", at_least(0), unit="", description="seed of the replica"),
        "T": column("int64", at_least(1), unit=STEPS, description="steps, if it does not end before"),
        "learned_at": number(STEPS, "first look at which a neuron has |cos| of at least a half with the rare feature, and has it at each look from then on; null for never"),
        "ended_at": column("int64", at_least(1), unit=STEPS, description="last step: T, or when the feature had stayed for `hold` steps"),
        "T1": number(STEPS, "step that ended stage 1; -1 for none"),
        "cosine_looked": number("1", "largest |cos| to the rare feature at the step `looked`", SHARE),
        "leak": number(PER_STEP, "growth rate of the rare feature's part of neurons then, without decay: slope over neurons"),
        "kick": number(PER_STEP, "largest pull on a neuron without the feature over its norm: chance correlations of the sample"),
        "cosine": number("1", "largest |cos| at the last step", SHARE),
        "count": number("pairs", "training pairs with the rare feature; null for fresh latents"),
        "opened_trained": number("1", "share of training samples with the feature that open the neuron nearest to it at the last step", SHARE),
        "opened_fresh": number("1", "the same of fresh samples with the feature", SHARE),
        "opened_without": number("1", "the same of fresh samples without it", SHARE),
        "diverged": column(float, pa.Check.isin([0.0, 1.0]), unit="", description="1 where a step was not taken"),
    },
    unique=["latents", "N", "sigma", "share", "lambda", "eps_min", "seed"],
)  # fmt: skip

FATE_SHARES = schema(
    "fate_shares",
    "a row per (study, cell, step): the share of replicas that have learned the rare feature",
    {"study": column(str, None, unit="", description="entry of fate.studies")} | CELL | {
        "step": column("int64", at_least(1), unit=STEPS, description="training step"),
        "learned": column("int64", at_least(0), unit="replicas", description="those that have learned it by then"),
        "n": column("int64", at_least(1), unit="replicas", description="seeds"),
        "learned_share": column(float, SHARE, unit="1", description="share of replicas that have learned it"),
        "ci_low": column(float, SHARE, unit="1", description="lower end of its exact 95 % interval"),
        "ci_high": column(float, SHARE, unit="1", description="upper end"),
    },
    unique=["study", "latents", "N", "sigma", "share", "lambda", "eps_min", "step"],
)  # fmt: skip

FATE_POINTS = schema(
    "fate_points",
    "a row per (study, cell): what became of its replicas, and medians of what pulled at the rare feature at the step `looked`",
    {"study": column(str, None, unit="", description="entry of fate.studies")} | CELL | {
        "n": column("int64", at_least(1), unit="replicas", description="seeds"),
        "T": column("int64", at_least(1), unit=STEPS, description="steps"),
        "at_once": column("int64", at_least(0), unit="replicas", description="those that had learned it by `looked`"),
        "late": column("int64", at_least(0), unit="replicas", description="those that learned it after that, by T"),
        "leak": number(PER_STEP, "as in the table of the course"),
        "kick": number(PER_STEP, "as in the table of the course"),
        "border": number("1", "the cosine that it tends to, over the gate's: late above 1; infinite where the leak exceeds the decay"),
        "cosine_looked": number("1", "as in the table of the course", SHARE),
        "cosine": number("1", "as in the table of the course", SHARE),
        "count": number("pairs", "as in the table of the course"),
        "opened_trained": number("1", "mean over those that learned late", SHARE),
        "opened_fresh": number("1", "mean over those that learned late", SHARE),
        "opened_without": number("1", "mean over those that learned late", SHARE),
    },
    unique=["study", "latents", "N", "sigma", "share", "lambda", "eps_min"],
)  # fmt: skip

FATE_TIMES = schema(
    "fate_times",
    "a row per (study, cell, seed) of the regimes of the law: when it learned, and what the law says from the state at `looked`",
    {"study": column(str, None, unit="", description="entry of fate.studies")} | CELL | {
        "seed": column("int64", at_least(0), unit="", description="seed of the replica"),
        "T": column("int64", at_least(1), unit=STEPS, description="steps"),
        "learned_at": number(STEPS, "as in the table of the course"),
        "at_once": column(float, pa.Check.isin([0.0, 1.0]), unit="", description="1 where it had learned by `looked`, of which the law says nothing"),
        "reach": number("1", "log of the cosine that it tends to over the gate's; infinite where the leak exceeds the decay"),
        "predicted": number(STEPS, "median time by the law; null for never"),
        "probability": number("1", "of having learned by T, by the law", SHARE),
        "gate_alone": number("1", "the same by a regression on eps_min, lambda, share and log N", SHARE),
    },
    unique=["study", "latents", "N", "sigma", "share", "lambda", "eps_min", "seed"],
)  # fmt: skip

FATE_LATE = schema(
    "fate_late",
    "a row per (role, cell, seed) of the regimes of the law: who has learned by T, and what the step's law with T says from W(0)",
    {"role": column(str, pa.Check.isin(["fit", "test"]), unit="", description="whether the constants are fitted on it")} | CELL | {
        "seed": column("int64", at_least(0), unit="", description="seed of the replica"),
        "learned": column(float, pa.Check.isin([0.0, 1.0]), unit="", description="1 where it has learned the feature by T"),
        "margin": column(float, None, unit="1", description="chain/critical_frequency.py, margin: of the initial weights"),
        "by_law": column(float, SHARE, unit="1", description="probability of that by the step's law with T"),
        "without_T": column(float, SHARE, unit="1", description="the same at step 500"),
        "by_regime": column(float, SHARE, unit="1", description="the same by a regression on eps_min, lambda, share and log N"),
        "centre": column(float, None, unit="1", description="log kappa at step 500"),
        "steepness": column(float, at_least(0), unit="1", description="gamma"),
        "drop": column(float, None, unit="1", description="log of how far the centre falls in the end, at lambda / pull = 1 and N = 1"),
        "by_decay": column(float, None, unit="1", description="exponent of that in lambda / pull"),
        "by_pairs": column(float, None, unit="1", description="exponent of that in N"),
        "rate": column(float, at_least(0), unit="1", description="exponent in 500 / T of what is left of it"),
    },
    unique=["role", "latents", "N", "sigma", "share", "lambda", "eps_min", "seed"],
)  # fmt: skip

FATE_STEP = schema(
    "fate_step",
    "a row per (N, sigma, share, lambda, T) of the grids: the step in eps_min that replicas have by T, and the law's",
    {name: column_ for name, column_ in CELL.items() if name != "eps_min"} | {
        "T": column("int64", at_least(1), unit=STEPS, description="by which the feature has to be learned"),
        "measured": column(float, SHARE, unit="1", description="eps_min at which half of the replicas have learned it, interpolated"),
        "predicted": column(float, SHARE, unit="1", description="the same by the law, whose constants are of other regimes"),
    },
    unique=["latents", "N", "sigma", "share", "lambda", "T"],
)  # fmt: skip
