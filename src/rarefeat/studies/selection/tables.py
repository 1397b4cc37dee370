"""Tables of the study of selection."""

import pandera.pandas as pa

from rarefeat.storage.schema import (
    SHARE,
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

QUANTITIES = metric_descriptions(
    max_alignment="largest |cos(w_i, M_j)| of a neuron to the rare feature, at T as all that follows",
    majority_alignment="the same of the frequent features, their mean",
    pure_minority_neurons="neurons of |cos| above 0.9 to the rare feature",
    feature_share="mean share of ||w||^2 in the features",
    learned="1 where max_alignment is at least 0.5",
    largest_norm="largest ||w_i||",
    loss="unmasked InfoNCE of the last batch, in nat",
    diverged="1 where the loss is above twice log K",
    silent_share="share of neurons that no sample of some batches in a row opened",
    revivals="neurons that were drawn anew",
    pruned_neurons="neurons in the last mask",
    pruned_overlap="share of them with |cos| of at least 0.3 to the rare feature; null without a mask",
    T1="step that ended stage 1; null for none",
    cosine_at_T1="largest |cos| to the rare feature then",
    second_cosine_at_T1="second largest",
    strength_at_T1="sum over neurons of <w_i, M_j>^2 for the rare feature, over that for all, then",
    balanced_mse="test MSE of a linear head on data in which all features are equally frequent",
)
POINT = {
    "point": column(
        str,
        None,
        unit="",
        description="values that the sweep varies beside eps_min, or the drawn regime",
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
        str, pa.Check.isin(["below", "among", "above"]), unit="", description="whether the step lies among the eps_min, or below or above all"
    ),
    "step": column(float, None, unit="1", description="eps_min at which half have learned; null unless among", nullable=True),
}  # fmt: skip

SELECTION = schema(
    "{study}_selection",
    "a row per (point, eps_min, seed, arm, quantity) of a sweep",
    POINT | SEED | ARM | {
        "quantity": column(str, pa.Check.isin(list(QUANTITIES)), unit="", description=format_descriptions(QUANTITIES)),
        "value": column(float, None, unit="of the quantity", description="the number", nullable=True),
    },
    unique=["point", "eps_min", "seed", "arm", "quantity"],
)  # fmt: skip

SELECTION_SCORES = schema(
    "{study}_selection_scores",
    "a row per (point, eps_min, seed, step, score, source): how a score of the dense training finds the neurons pure in the rare feature",
    POINT | SEED | {
        "step": column("int64", at_least(0), unit="steps", description="training step"),
        "score": column(str, None, unit="", description="the rule, lowest first (docs/method/selection.md)"),
        "source": column(str, pa.Check.isin(["batch", "running"]), unit="", description="one batch, or a running mean"),
        "wanted": column("int64", at_least(0), unit="neurons", description="neurons of |cos| above 0.9 to the rare feature"),
        "auc": column(float, SHARE, unit="1", description="probability that such a neuron comes before another; null without one", nullable=True),
        "precision": column(float, SHARE, unit="1", description="share of such neurons among the first, at their number", nullable=True),
    },
    unique=["point", "eps_min", "seed", "step", "score", "source"],
)  # fmt: skip

SELECTION_STEPS = schema(
    "selection_steps",
    "a row per (study, point, arm): where the rare feature's step lies",
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
    "a row per (study, point, eps_min, seed): what a dense replica did, beside what the law says from its initial weights",
    STUDY | POINT | SEED | {
        "learned": column(float, FLAG, unit="", description=QUANTITIES["learned"]),
        "diverged": column(float, FLAG, unit="", description=QUANTITIES["diverged"]),
        "margin": column(float, None, unit="1", description="the law's margin; infinite without a bias"),
        "ratio_at_T1": column(float, None, unit="1", description="cosine_at_T1 over the bias's threshold; null without either", nullable=True),
        "probability": column(float, SHARE, unit="1", description="of learning the feature, by the law"),
    },
    unique=["study", "point", "eps_min", "seed"],
)  # fmt: skip

NUMBER = {
    "lambda": "l2 regularisation", "decay": "lambda over the pull", "share": "share of the bias", "C": "C", "tau": "temperature",
    "sigma_0": "sigma_0", "eta": "learning rate",
}  # fmt: skip
WHOLE = {"L": "tokens", "d": "features", "d1": "input dimension", "m": "neurons"}
PARAMETERS = {
    name: column(
        float if name in NUMBER else "int64",
        at_least(0),
        unit="",
        description=NUMBER.get(name) or WHOLE[name],
    )
    for name in ("lambda", "decay", "share", "C", "L", "tau", "d", "d1", "m", "sigma_0", "eta")
}
SELECTION_LAW = schema(
    "selection_law",
    "a row per (study, point) of the law: the step measured and predicted",
    STUDY | {"point": POINT["point"]} | PARAMETERS | PLACE | END | {
        "predicted": column(float, SHARE, unit="1", description="the law's step; 0 or 1 where it has none"),
        "auc": column(float, SHARE, unit="1", description="of the margin for the replicas' fate, over all eps_min", nullable=True),
        "auc_of_ratio": column(float, SHARE, unit="1", description="of the ratio at T1, for comparison", nullable=True),
        "learned": column(float, SHARE, unit="1", description="share of replicas that have learned, over all eps_min"),
        "probability": column(float, SHARE, unit="1", description="the mean of their probabilities by the law"),
        "diverged": column("int64", at_least(0), unit="replicas", description="replicas that diverged"),
        "n": column("int64", at_least(1), unit="replicas", description="seeds"),
        "centre": column(float, None, unit="1", description="log kappa, fitted on the studies with the role law_fit"),
        "steepness": column(float, None, unit="1", description="the other constant, fitted likewise"),
    },
    unique=["study", "point"],
)  # fmt: skip

SELECTION_DIGITS = schema(
    "selection_digits",
    "a row per (rho, seed, rule, group) of the masks on long-tailed digits",
    {
        "rho": column(float, at_least(1), unit="1", description="frequent over rare images of a digit"),
        **SEED,
        "rule": column(str, None, unit="", description="what chooses the pruned neurons; dense for none"),
        "group": column(str, pa.Check.isin(["tail", "head"]), unit="", description="rare or frequent digits"),
        "accuracy": column(float, SHARE, unit="1", description="of a linear probe on balanced images, on test images of the group"),
        "overlap": column(
            float, SHARE, unit="1", description="share of the pruned neurons whose mean answer is largest for a rare digit", nullable=True
        ),
    },
    unique=["rho", "seed", "rule", "group"],
)  # fmt: skip
