"""Schemas of the tables of the study of selection."""

import pandera.pandas as pa

from rarefeat.workflow.files.schema import (
    SHARE,
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

QUANTITIES = metric_descriptions(
    max_alignment="largest |cos(w_i, M_j)| of a neuron to the rare feature, at T as all that"
    " follows",
    majority_alignment="largest |cos| to a frequent feature, mean over the frequent features",
    pure_minority_neurons="neurons of |cos| above 0.9 to the rare feature",
    feature_share="mean fraction of ||w||^2 in the features",
    learned="1 where max_alignment is at least 0.5",
    largest_norm="largest ||w_i||",
    loss="unmasked InfoNCE of the last batch, in nat",
    diverged="1 where the loss is above twice log K",
    silent_share="fraction of neurons without an open gate in some batches in a row",
    revivals="neurons that were re-initialised",
    pruned_neurons="neurons in the last mask",
    pruned_overlap="fraction of them with |cos| of at least 0.3 to the rare feature; null without a"
    " mask",
    T1="step that ended stage 1; null for none",
    cosine_at_T1="largest |cos| to the rare feature at T1",
    second_cosine_at_T1="second largest",
    strength_at_T1="sum over neurons of <w_i, M_j>^2 for the rare feature, over that for all, at"
    " T1",
    balanced_mse="test MSE of a linear head on data in which all features are equally frequent",
)
POINT = {
    "point": column(
        str,
        None,
        unit="",
        description="values on the axes of the sweep other than eps_min, or the drawn regime",
    ),
    "eps_min": column(float, pa.Check.in_range(0, 1), unit="1", description="eps_min / eps_max"),
}
SEED = {"seed": column("int64", at_least(0), unit="", description="seed of the replica")}
ARM = {"arm": column(str, None, unit="", description="mask and other keys of the arm, or dense")}
STUDY = {"study": column(str, None, unit="", description="entry of selection.sweeps")}
END = {
    "ci_low": column(
        float,
        None,
        unit="1",
        description="lower end of the 95 % interval, jackknife over seeds",
        nullable=True,
    ),
    "ci_high": column(float, None, unit="1", description="upper end", nullable=True),
}
PLACE = {
    "place": column(
        str,
        pa.Check.isin(["below", "among", "above"]),
        unit="",
        description="whether the critical frequency lies among the eps_min, or below or above all",
    ),
    "step": column(
        float,
        None,
        unit="1",
        description="critical frequency: eps_min at which half have learned; null unless among",
        nullable=True,
    ),
}

SELECTION = schema(
    "{study}_selection",
    "a row per (point, eps_min, seed, arm, quantity) of a sweep",
    POINT
    | SEED
    | ARM
    | {
        "quantity": column(
            str,
            pa.Check.isin(list(QUANTITIES)),
            unit="",
            description=format_descriptions(QUANTITIES),
        ),
        "value": column(
            float, None, unit="of the quantity", description="the number", nullable=True
        ),
    },
    unique=["point", "eps_min", "seed", "arm", "quantity"],
)

SELECTION_SCORES = schema(
    "{study}_selection_scores",
    "a row per (point, eps_min, seed, step, score, source): how a score of the dense training finds"
    " the neurons pure in the rare feature",
    POINT
    | SEED
    | {
        "step": column("int64", at_least(0), unit="steps", description="training step"),
        "score": column(
            str, None, unit="", description="the rule, lowest first (docs/method/selection.md)"
        ),
        "source": column(
            str,
            pa.Check.isin(["batch", "running"]),
            unit="",
            description="moments of one batch, or their running mean",
        ),
        "wanted": column(
            "int64",
            at_least(0),
            unit="neurons",
            description="neurons of |cos| above 0.9 to the rare feature",
        ),
        "auc": column(
            float,
            SHARE,
            unit="1",
            description="probability that such a neuron comes before another; null without one",
            nullable=True,
        ),
        "precision": column(
            float,
            SHARE,
            unit="1",
            description="fraction of such neurons among the first, at their number",
            nullable=True,
        ),
    },
    unique=["point", "eps_min", "seed", "step", "score", "source"],
)

SELECTION_STEPS = schema(
    "selection_steps",
    "a row per (study, point, arm): the critical frequency of the rare feature",
    STUDY
    | {"point": POINT["point"]}
    | ARM
    | PLACE
    | END
    | {"n": column("int64", at_least(0), unit="replicas", description="seeds")},
    unique=["study", "point", "arm"],
)

FLAG = pa.Check.isin([0.0, 1.0])
SELECTION_FATE = schema(
    "selection_fate",
    "a row per (study, point, eps_min, seed): the learning outcome of a dense replica, and what the"
    " critical-frequency model predicts from its initial weights",
    STUDY
    | POINT
    | SEED
    | {
        "learned": column(float, FLAG, unit="", description=QUANTITIES["learned"]),
        "diverged": column(float, FLAG, unit="", description=QUANTITIES["diverged"]),
        "margin": column(
            float, None, unit="1", description="log margin of the model; infinite without a bias"
        ),
        "ratio_at_T1": column(
            float,
            None,
            unit="1",
            description="cosine_at_T1 over the threshold of the bias; null without either",
            nullable=True,
        ),
        "probability": column(
            float, SHARE, unit="1", description="probability of learning the feature, by the model"
        ),
    },
    unique=["study", "point", "eps_min", "seed"],
)

NUMBER = {
    "lambda": "l2 regularisation",
    "decay": "lambda over the growth rate of a frequent feature",
    "share": "bias scale",
    "C": "C",
    "tau": "temperature",
    "sigma_0": "sigma_0",
    "eta": "learning rate",
}
INTEGER = {"L": "tokens", "d": "features", "d1": "input dimension", "m": "neurons"}
PARAMETERS = {
    name: column(
        float if name in NUMBER else "int64",
        at_least(0),
        unit="",
        description=NUMBER.get(name) or INTEGER[name],
    )
    for name in ("lambda", "decay", "share", "C", "L", "tau", "d", "d1", "m", "sigma_0", "eta")
}
SELECTION_LAW = schema(
    "selection_law",
    "a row per (study, point) of the sweeps with the roles law_fit and law_test: measured and"
    " predicted critical frequency",
    STUDY
    | {"point": POINT["point"]}
    | PARAMETERS
    | PLACE
    | END
    | {
        "predicted": column(
            float,
            SHARE,
            unit="1",
            description="critical frequency by the model; 0 or 1 where it has none between them",
        ),
        "auc": column(
            float,
            SHARE,
            unit="1",
            description="AUC of the margin for the learning outcome, over all eps_min",
            nullable=True,
        ),
        "auc_of_ratio": column(
            float,
            SHARE,
            unit="1",
            description="AUC of the ratio at T1, for comparison",
            nullable=True,
        ),
        "learned": column(
            float,
            SHARE,
            unit="1",
            description="fraction of replicas that have learned, over all eps_min",
        ),
        "probability": column(
            float, SHARE, unit="1", description="mean of their probabilities by the model"
        ),
        "diverged": column(
            "int64", at_least(0), unit="replicas", description="replicas that diverged"
        ),
        "n": column("int64", at_least(1), unit="replicas", description="seeds"),
        "centre": column(
            float, None, unit="1", description="log kappa, fitted on the sweeps of role law_fit"
        ),
        "steepness": column(float, None, unit="1", description="gamma, fitted on them as well"),
    },
    unique=["study", "point"],
)

SELECTION_DIGITS = schema(
    "selection_digits",
    "a row per (rho, seed, rule, group) of the masks on long-tailed digits",
    {
        "rho": column(
            float, at_least(1), unit="1", description="ratio of frequent to rare images of a digit"
        ),
        **SEED,
        "rule": column(
            str, None, unit="", description="rule that chooses the pruned neurons; dense for none"
        ),
        "group": column(
            str, pa.Check.isin(["tail", "head"]), unit="", description="rare or frequent digits"
        ),
        "accuracy": column(
            float,
            SHARE,
            unit="1",
            description="accuracy of a linear probe, fitted on balanced images, on test images of"
            " the group",
        ),
        "overlap": column(
            float,
            SHARE,
            unit="1",
            description="fraction of the pruned neurons whose mean activation is largest for a rare"
            " digit",
            nullable=True,
        ),
    },
    unique=["rho", "seed", "rule", "group"],
)
