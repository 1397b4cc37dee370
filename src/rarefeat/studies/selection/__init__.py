"""Which neurons to prune, what pruning them does, and from which frequency a feature is learned.

The sweeps and the digits of the config (config.py) are trained by training.py and digits.py.
measure.py has the quantities of every arm, evaluates the scores of scores.py, and holds the closed
form of docs/method/selection.md against the eps_min at which half of the replicas learn the rare
feature, which critical_frequency.py estimates.
"""

from functools import partial

from rarefeat.studies.experiment import SEED, SHARE, SIZE, TableColumns, column, meanings, text
from rarefeat.studies.selection.config import DIGITS, Digits, InterventionSweep, Selection, inherit
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    Table,
    collected_table,
)

QUESTION = (
    "Which rule identifies the rare feature's neurons, what does pruning them do, and from which"
    " relative frequency on is the feature learned?"
)
PACKAGE = "studies.selection"
MEASURE = Stage(
    f"{PACKAGE}.measure:measure_selection", InterventionSweep, ("probes.parquet", "scores.parquet")
)
MEASURE_DIGITS = Stage(f"{PACKAGE}.digits:digits_of_selection", Digits, ("probes.parquet",))
LAW = ("law_fit", "law_test")
"""Roles of the sweeps of the critical-frequency model."""

QUANTITIES = {
    "max_alignment": "largest |cos(w_i, M_j)| of a neuron to the rare feature, at T as all that"
    " follows",
    "majority_alignment": "largest |cos| to a frequent feature, mean over the frequent features",
    "pure_minority_neurons": "neurons of |cos| above 0.9 to the rare feature",
    "feature_share": "mean fraction of ||w||^2 in the features",
    "learned": "1 where max_alignment is at least 0.5",
    "largest_norm": "largest ||w_i||",
    "loss": "unmasked InfoNCE of the last batch, in nat",
    "diverged": "1 where the loss is above twice log K",
    "silent_share": "fraction of neurons without an open gate in some batches in a row",
    "revivals": "neurons that were re-initialised",
    "pruned_neurons": "neurons in the last mask",
    "pruned_overlap": "fraction of them with |cos| of at least 0.3 to the rare feature; null"
    " without a mask",
    "T1": "step that ended stage 1; null for none",
    "cosine_at_T1": "largest |cos| to the rare feature at T1",
    "balanced_mse": "test MSE of a linear head on data in which all features are equally frequent",
}
maybe = partial(column, missing=True)
count = partial(column, bounds=SIZE, kind=int)
flag = partial(column, bounds=SHARE, unit="")
parameter = partial(column, bounds=SIZE, unit="")
STUDY_COLUMN = {"study": text("entry of selection.sweeps")}
POINT = {"point": text("values on the axes of the sweep other than eps_min, or the drawn regime")}
EPS_MIN = {"eps_min": column("eps_min / eps_max", SHARE)}
ARM = {"arm": text("mask and other keys of the arm, or dense")}
STEP = {
    "place": text("whether the critical frequency lies among the eps_min, or below or above all"),
    "step": maybe("critical frequency: eps_min at which half have learned; null unless among"),
    "ci_low": maybe("lower end of the 95 % interval, jackknife over seeds"),
    "ci_high": maybe("upper end"),
}
SEEDS = {"n": count("seeds", unit="replicas")}
SELECTION = TableColumns(
    "{study}_selection",
    "a row per (point, eps_min, seed, arm, quantity) of a sweep",
    {
        **POINT,
        **EPS_MIN,
        "seed": SEED,
        **ARM,
        "quantity": text(meanings(QUANTITIES)),
        "value": maybe("the number", unit="of the quantity"),
    },
    ["point", "eps_min", "seed", "arm", "quantity"],
)
SELECTION_SCORES = TableColumns(
    "{study}_selection_scores",
    "a row per (point, eps_min, seed, step, score, source): how a score of the dense training finds"
    " the neurons pure in the rare feature",
    {
        **POINT,
        **EPS_MIN,
        "seed": SEED,
        "step": count("training step", unit="steps"),
        "score": text("the rule, lowest first (docs/method/selection.md)"),
        "source": text("moments of one batch, or their running mean"),
        "wanted": count("neurons of |cos| above 0.9 to the rare feature", unit="neurons"),
        "auc": maybe(
            "probability that such a neuron comes before another; null without one", SHARE
        ),
        "precision": maybe("fraction of such neurons among the first, at their number", SHARE),
    },
    ["point", "eps_min", "seed", "step", "score", "source"],
)
SELECTION_STEPS = TableColumns(
    "selection_steps",
    "a row per (study, point, arm): the critical frequency of the rare feature",
    {**STUDY_COLUMN, **POINT, **ARM, **STEP, **SEEDS},
    ["study", "point", "arm"],
)
SELECTION_FATE = TableColumns(
    "selection_fate",
    "a row per (study, point, eps_min, seed): the learning outcome of a dense replica, and what the"
    " critical-frequency model predicts from its initial weights",
    {
        **STUDY_COLUMN,
        **POINT,
        **EPS_MIN,
        "seed": SEED,
        "learned": flag(QUANTITIES["learned"]),
        "diverged": flag(QUANTITIES["diverged"]),
        "margin": column("log margin of the model; infinite without a bias"),
        "ratio_at_T1": maybe("cosine_at_T1 over the threshold of the bias; null without either"),
        "probability": column("probability of learning the feature, by the model", SHARE),
    },
    ["study", "point", "eps_min", "seed"],
)
SELECTION_LAW = TableColumns(
    "selection_law",
    "a row per (study, point) of the sweeps with the roles law_fit and law_test: measured and"
    " predicted critical frequency",
    {
        **STUDY_COLUMN,
        **POINT,
        "lambda": parameter("l2 regularisation"),
        "decay": parameter("lambda over the growth rate of a frequent feature"),
        "share": parameter("bias scale"),
        "C": parameter("C"),
        "L": parameter("tokens", kind=int),
        "tau": parameter("temperature"),
        "d": parameter("features", kind=int),
        "d1": parameter("input dimension", kind=int),
        "m": parameter("neurons", kind=int),
        "sigma_0": parameter("sigma_0"),
        "eta": parameter("learning rate"),
        **STEP,
        "predicted": column(
            "critical frequency by the model; 0 or 1 where it has none between them", SHARE
        ),
        "auc": maybe("AUC of the margin for the learning outcome, over all eps_min", SHARE),
        "auc_of_ratio": maybe("AUC of the ratio at T1, for comparison", SHARE),
        "learned": column("fraction of replicas that have learned, over all eps_min", SHARE),
        "probability": column("mean of their probabilities by the model", SHARE),
        "diverged": count("replicas that diverged", unit="replicas"),
        **SEEDS,
        "centre": column("log kappa, fitted on the sweeps of role law_fit"),
        "steepness": column("gamma, fitted on them as well"),
    },
    ["study", "point"],
)
SELECTION_DIGITS = TableColumns(
    "selection_digits",
    "a row per (rho, seed, rule, group) of the masks on long-tailed digits",
    {
        "rho": column("ratio of frequent to rare images of a digit", {"ge": 1}),
        "seed": SEED,
        "rule": text("rule that chooses the pruned neurons; dense for none"),
        "group": text("tail or head: rare or frequent digits"),
        "accuracy": column(
            "accuracy of a linear probe, fitted on balanced images, on test images of the group",
            SHARE,
        ),
        "overlap": maybe(
            "fraction of the pruned neurons whose mean activation is largest for a rare digit",
            SHARE,
        ),
    },
    ["rho", "seed", "rule", "group"],
)
CAPTIONS = {
    "selection_interventions": "Every mask that begins at T3 and never stops, beside the dense"
    " training at the same seed: minority gain minus majority gain, means with 95 % intervals, and"
    " how many trainings diverge. Look for intervals above zero beside which nothing"
    " diverges.",
    "selection_steps": "Critical frequency, the eps_min at which half of the replicas have a neuron"
    " with a cosine of at least 0.5 to the rare feature, by intervention and bias scale, with 95 %"
    " intervals; arrows where it lies beyond all eps_min. Interventions to the left of the dotted"
    " line of dense lower it.",
    "selection_digits": "Long-tailed digits: change of the accuracy on rare and on frequent digits"
    " by a mask of each rule, minus dense at the same seed, with 95 % intervals; as a number where"
    " a rule ruins the training. Compare each rule with the random mask.",
}


def tables_with_role(section: Selection, *roles: str) -> tuple[str, ...]:
    """Return the names of the tables `STUDY_selection` of the sweeps that have some roles."""
    return tuple(f"{name}_selection" for name in section.studies_with_role(*roles))


def law_tables(section: Selection) -> tuple[str, ...]:
    """Return the names of the tables of the critical-frequency model, where it has sweeps."""
    return ("selection_fate", "selection_law") if section.studies_with_role(*LAW) else ()


def build_outputs(section: Selection) -> StudyOutputs:
    """Return the tables of the sweeps, the model and the digits, their figures, and a page."""
    schema = f"{PACKAGE}:{{}}.schema".format
    tables = {}
    for name, sweep in section.sweeps.items():
        for suffix, folder in (("selection", "probes"), ("selection_scores", "scores")):
            made = collected_table(schema(suffix.upper()), MEASURE, folder, name, sweep)
            tables[f"{name}_{suffix}"] = made
    if sources := tables_with_role(section, "help", *LAW):
        function = f"{PACKAGE}.critical_frequency:selection_steps"
        tables["selection_steps"] = Table(schema("SELECTION_STEPS"), function, tables=sources)
    sweeps, sources = section.studies_with_role(*LAW), tables_with_role(section, *LAW)
    for name in law_tables(section):
        function = f"{PACKAGE}.measure:{name}"
        tables[name] = Table(schema(name.upper()), function, {"sweeps": sweeps}, tables=sources)
    tables[DIGITS] = collected_table(
        schema("SELECTION_DIGITS"), MEASURE_DIGITS, "probes", DIGITS, section.digits
    )
    helped = ("selection_steps",) if section.studies_with_role("help") else ()
    tables_of = {
        "selection_interventions": tables_with_role(section, "interventions"),
        "selection_steps": helped,
        "selection_digits": (DIGITS,),
    }
    sections = {"selection": section}
    figures = {
        name: Figure(sources, CAPTIONS[name], sections=sections)
        for name, sources in tables_of.items()
        if sources
    }
    shown = tuple(name for name in ("selection_steps", "selection_law", DIGITS) if name in tables)
    page = Page("Which neurons to prune", shown, tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"selection": page})


def claim_inputs(section: Selection) -> ClaimInputs:
    """Return the tables that the claims are measured on."""
    scores = (f"{name}_selection_scores" for name in section.studies_with_role("scores"))
    masks = tables_with_role(section, "interventions", "help")
    return ClaimInputs((*masks, *scores, *law_tables(section), DIGITS), {"selection": section})


# A plain `snakemake` makes it once its full run has been made.
KIND = StudyKind(
    "selection",
    "Which neurons to prune",
    Selection,
    build_outputs,
    Selection.studies,
    (MEASURE, MEASURE_DIGITS),
    inherit=inherit,
    claim_inputs=claim_inputs,
    by_default=False,
)
