"""Schemas of the tables of the study of learners."""

import pandera.pandas as pa

from rarefeat.workflow.files.schema import SHARE, at_least, column, schema

FLAG = pa.Check.isin([0.0, 1.0])
LEARNER = {"learner": column(str, None, unit="", description="name of the learner in the config")}
PAIRS = {
    "pairs": column(
        str,
        pa.Check.isin(["returning", "fresh"]),
        unit="",
        description="N pairs that come back with fresh noise, or pairs that are seen once",
    )
}
EPS_MIN = {"eps_min": column(float, SHARE, unit="1", description="eps_min / eps_max")}
SEED = {"seed": column("int64", at_least(0), unit="", description="seed of the replica")}
ETA = {"eta": column(float, at_least(0), unit="1", description="learning rate; 0 before training")}
R2 = "R^2 of a ridge regression of the feature on the embeddings, on a balanced test set"
DIVERGED = {
    "diverged": column(float, SHARE, unit="1", description="1, or the share, of not finite losses")
}


def number(unit: str, description: str, check: pa.Check | None = None) -> pa.Column:
    """Return a column of numbers that may be null."""
    return column(float, check, unit=unit, description=description, nullable=True)


RATES = schema(
    "{study}_rates",
    "a row per (learner, eta, seed): the choice of the learning rate on balanced data",
    LEARNER
    | ETA
    | {
        "chosen": column(float, FLAG, unit="", description="1 for the rate that the learner takes"),
        **SEED,
        "r2": number("1", f"{R2}, mean over features; null where it diverged or was not tried"),
        "loss": number("of the loss", "loss of the last batch; null where it was not tried"),
    }
    | DIVERGED,
    unique=["learner", "eta", "seed"],
)

READOUTS = schema(
    "{study}_readouts",
    "a row per (cell, seed, feature): what is known of the feature",
    LEARNER
    | PAIRS
    | EPS_MIN
    | ETA
    | SEED
    | {
        "feature": column("int64", at_least(0), unit="", description="its number, the rare last"),
        "r2": number("1", f"{R2}; null where the replica diverged"),
        "r2_shuffled": number("1", "the same with the feature shuffled over samples, a control"),
        "cosine": number(
            "1",
            "largest |cos| of a first-layer neuron with the feature; null without such neurons",
        ),
        "norm": number("1", "mean norm of the embeddings"),
        "rank": number("1", "effective rank of the embeddings (Roy & Vetterli 2007)"),
        "loss": number("of the loss", "loss of the last batch"),
    }
    | DIVERGED,
    unique=["learner", "pairs", "eps_min", "seed", "feature"],
)

INTERVAL = "end of its 95 % interval"
LEARNERS = schema(
    "{study}_learners",
    "a row per (learner, pairs, eps_min): how many replicas have learned the rare feature",
    LEARNER
    | PAIRS
    | EPS_MIN
    | ETA
    | {
        "n": column("int64", at_least(0), unit="", description="replicas that did not diverge"),
        "learned": number(
            "1",
            "share of replicas whose readout of the rare features has at least half of the mean"
            " R^2 of the frequent ones",
            SHARE,
        ),
        "learned_low": number("1", f"lower {INTERVAL} (Clopper & Pearson)", SHARE),
        "learned_high": number("1", f"upper {INTERVAL}", SHARE),
        "aligned": number(
            "1",
            "share of replicas with a neuron of |cos| at least 0.5 to each rare feature; null"
            " without first-layer neurons",
            SHARE,
        ),
        "aligned_low": number("1", f"lower {INTERVAL} (Clopper & Pearson)", SHARE),
        "aligned_high": number("1", f"upper {INTERVAL}", SHARE),
        "r2_rare": number("1", f"{R2}, mean over rare features and seeds"),
        "r2_frequent": number("1", "the same of the frequent features"),
        "r2_shuffled": number("1", "the same of all features, shuffled: a control"),
    }
    | DIVERGED,
    unique=["learner", "pairs", "eps_min"],
)

FREQUENCIES = schema(
    "{study}_frequencies",
    "a row per (learner, pairs, measure): the frequency from which half of the replicas learn",
    LEARNER
    | PAIRS
    | {
        "measure": column(
            str,
            pa.Check.isin(["readout", "cosine"]),
            unit="",
            description="readout: `learned` of the table of learners; cosine: its `aligned`",
        ),
        "n": column("int64", at_least(0), unit="", description="replicas without a divergence"),
        "frequency": number(
            "1", "eps_min from which half learn, interpolated; null where no replica is left"
        ),
        "ci_low": number("1", f"lower {INTERVAL} over seeds (bootstrap)"),
        "ci_high": number("1", f"upper {INTERVAL}"),
        "bound": column(
            str,
            pa.Check.isin(["", "at most", "above"]),
            unit="",
            description="at most: half or more learn at the smallest frequency; above: fewer than"
            " half learn at the largest",
        ),
    },
    unique=["learner", "pairs", "measure"],
)
