"""How rare is too rare for contrastive learning, and does pruning help?

Every study is a chain of its own: data, training, probes and tables of a grid of frequencies, noise
levels and arms. They repeat Figures 1 to 4 of imbalance_and_pruning on fresh seeds, without a bias,
with Wen and Li's, with balanced training, under the direct simulator, and the heat map of
liao_imbalanced_features (measure.py). Claims are trends of the figures.
"""

from dataclasses import replace
from functools import partial

from pydantic import Field

from rarefeat.studies.experiment import ARM, POINT, SEED, SHARE, SIZE, TableColumns, column
from rarefeat.workflow.config.names import Name, merge_unique
from rarefeat.workflow.config.section import Section
from rarefeat.workflow.config.study import SHARED_STUDY_KEYS, Study
from rarefeat.workflow.study_kind import (
    PRETRAIN,
    ClaimInputs,
    Figure,
    Page,
    StudyKind,
    StudyOutputs,
    Table,
    chain_tables,
)

QUESTION = "How rare is too rare for contrastive learning, and does pruning help?"
PACKAGE = "studies.imbalance"


class Imbalance(Section):
    """The synthetic experiments of imbalance_and_pruning and liao_imbalanced_features."""

    studies: dict[Name, Study] = Field(
        min_length=1, description="each a chain of its own over its grid, by name"
    )


KEYS = POINT | ARM
of_metric = partial(column, unit="of the metric")
count, index = (partial(column, kind=int, unit=unit) for unit in ("replicas", ""))
flag = partial(column, kind=bool, unit="")
CROSS_CHECK = TableColumns(
    "cross_check",
    "a row per (eps_min, sigma, arm with its keys, metric) that both simulators have run",
    {
        **KEYS,
        "metric": "stages.tables:METRIC",
        "reduced": of_metric("mean over seeds under the reduced simulator, study `paper`"),
        "direct": of_metric("the same under the direct simulator, study `direct`"),
        "n_reduced": count("number of seeds under the reduced simulator", {"ge": 2}),
        "n_direct": count("number of seeds under the direct one", {"ge": 2}),
        "difference": of_metric("reduced - direct"),
        "ci_low": of_metric("lower end of its 95 % interval (Welch)"),
        "ci_high": of_metric("upper end"),
        "p_value": column("two-sided Mann-Whitney test; 1 if all replicas have one value", SHARE),
        "adjusted_p_value": column("the same, adjusted by Holm over the whole table", SHARE),
        "agrees": flag("adjusted p-value at least 0.01: the level for the whole table"),
    },
    (*KEYS, "metric"),
)
HEATMAP = TableColumns(
    "alignment_heatmap",
    "a row per (eps_min, sigma, arm with its keys, seed, neuron, feature) of the study `heatmap`",
    {
        **KEYS,
        "seed": SEED,
        "neuron": index("index i of the neuron, from 0", SIZE),
        "feature": index("index j of the feature, from 0; the minority features are last", SIZE),
        "minority": flag("whether j is a minority feature"),
        "squared_cosine": column(
            "<w_i, M_j>^2 / ||w_i||^2", SHARE, source="liao_imbalanced_features, Figure 1"
        ),
    },
    (*KEYS, "seed", "neuron", "feature"),
)

FIGURES = {
    "fate": Figure(
        ("paper.arms_grid", "without_bias.arms_grid"),
        "The fate of the rare feature against how rare it is, at one noise level: the best neuron"
        " of every replica, dense with and without a bias. See where dense training loses the"
        " feature, and what becomes of it without a bias.",
    ),
    "figure1_aligned_neurons": Figure(
        ("paper.figures_1_and_2_grid",),
        "Neurons whose weights point along the rare feature, \\|cos\\| at least 0.3, against how"
        " rare it is, and below what changes at the same seed by pruning. See where the curves"
        " leave zero: below it no neuron learns the rare feature.",
    ),
    "figure2_max_alignment": Figure(
        ("paper.figures_1_and_2_grid",),
        "The largest \\|cos\\| of any neuron with the rare feature, against how rare it is, and"
        " below what changes at the same seed by pruning. See how it climbs as the feature becomes as"
        " frequent as the others.",
    ),
    "figure3_cosine_similarity": Figure(
        ("paper.figure_3_grid",),
        "Cosine similarity of positive test pairs after training, by the noise (NSR), and below what"
        " changes at the same seed by pruning. The encoder at initialisation and the ideal one are"
        " in the table of trends.",
    ),
    "figure4_regression_mse": Figure(
        ("paper.figure_4_grid",),
        "Test error of a linear head that regresses the sum of the features, by the noise (NSR),"
        " and below what changes at the same seed by pruning; lower is better. See how little the"
        " rarest settings leave to gain at the frequencies of training, where few samples have the"
        " feature.",
    ),
    "alignment_heatmap": Figure(
        ("alignment_heatmap",),
        "The cosine of every neuron of one replica with every feature. See whether the rare features"
        " have a neuron.",
    ),
    "trajectories": Figure(
        ("paper.arms_trajectories",),
        "Alignment with the rare feature over training, dense, from the lowest frequency to the"
        " highest, beside the bias over the norm of a neuron. See which frequencies are ahead of the"
        " gate when it closes.",
    ),
}
FIGURES_OF_GRID = (
    "figure1_aligned_neurons",
    "figure2_max_alignment",
    "figure3_cosine_similarity",
    "figure4_regression_mse",
)
BIASES = ("confirmation", "printed_follow", "printed_grow")
"""Studies of one law and the same draws: the bias of the grid, and Wen and Li's, 5 times it, in
proportion to the norm and growing."""
GATE = {
    "as_trained": "as trained",
    "no_bias": "no bias:\nno gate",
    "bias_later": "bias 200\nsteps later",
    "as_printed": "bias scale 0.71,\n2,000 steps",
    "oversampled_pairs": "its pairs oversampled (needs labels)",
    "reweighted_pairs": "their loss weighted",
    "longer": "four times the steps",
}
"""What each study of config/gate.yaml changes, in words; `as_trained` has Algorithm 1 as an arm."""
SHIPPED = ("paper", "direct", "neighbour", "without_bias", "heatmap", *BIASES, *GATE)
"""Studies with figures and tables of their own; a user's study has Figures 1 to 4 of its grid."""
SHOWN = (
    *("paper_summary", "paper_trends", "neighbour_trends", "without_bias_trends"),
    *("cross_check", "direct_summary"),
)
"""Tables on the page."""


def build_outputs(section: Imbalance) -> StudyOutputs:
    """Return the tables of every study, and the figures of the paper's studies."""
    studies = section.studies
    tables = merge_unique("tables", *(chain_tables(name, study) for name, study in studies.items()))
    tables["cross_check"] = Table(
        f"{PACKAGE}:CROSS_CHECK.schema", f"{PACKAGE}.measure:cross_check",
        tables=("paper_grid", "direct_grid"),
    )  # fmt: skip
    if "heatmap" in studies:
        tables["alignment_heatmap"] = Table(
            f"{PACKAGE}:HEATMAP.schema", f"{PACKAGE}.measure:alignment_map",
            {"heatmap": studies["heatmap"]}, {"encoders": PRETRAIN}, study="heatmap",
        )  # fmt: skip
    gate = Figure(
        tuple(f"{name}.gate_grid" for name in GATE),
        "The share of runs that learn the rare feature, against how rare it is, as trained and with"
        " one change each: of the bias, which closes a neuron's gate, of the pairs, or by pruning.",
    )
    user_figures = {
        f"{name}.{figure}": replace(FIGURES[figure], tables=(f"{name}_grid",), function=figure)
        for name in studies
        if name not in SHIPPED
        for figure in FIGURES_OF_GRID
    }
    page = Page("Imbalance and pruning", SHOWN, tuple(FIGURES), QUESTION)
    figures = FIGURES | user_figures
    figures |= {"gate": gate} if studies.keys() >= GATE.keys() else {}
    return StudyOutputs(tables, figures, {"imbalance": page})


def claim_inputs(section: Imbalance) -> ClaimInputs:
    """Return the studies of each bias, and those of a user, which has Figures 1 to 4, too."""
    names = (*BIASES, *(name for name in section.studies if name not in SHIPPED))
    regimes = {name: section.studies[name] for name in names}
    tables = tuple(f"{name}_grid" for name in names)
    return ClaimInputs(tables, {"regimes": regimes}, f"{PACKAGE}.measure:measure")


KIND = StudyKind(
    "imbalance",
    "Imbalance and pruning",
    Imbalance,
    build_outputs,
    inherits=SHARED_STUDY_KEYS,
    claim_inputs=claim_inputs,
)
