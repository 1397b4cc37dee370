"""Outputs of the study of imbalance."""

import dataclasses

from rarefeat.studies.imbalance.config import Imbalance
from rarefeat.workflow.config.names import merge_unique
from rarefeat.workflow.config.study import SHARED_STUDY_KEYS
from rarefeat.workflow.study_kind import (
    PRETRAIN,
    ClaimInputs,
    Figure,
    HtmlPage,
    Page,
    StudyKind,
    StudyOutputs,
    Table,
    chain_tables,
    table_from,
)

BASELINES = ("oversampled_grid", "reweighted_grid")
FIGURES = {
    "fate": Figure(
        ("paper.arms_grid", "without_bias.arms_grid"),
        "The fate of the rare feature against how rare it is, at one noise level: the best neuron"
        " of every replica, dense with and without a bias (a), and the share of replicas with a"
        " neuron for it, by arm (b). See where dense training loses the feature, whether a mask"
        " brings it back, and what becomes of it without a bias.",
    ),
    "figure1_aligned_neurons": Figure(
        ("paper.figures_1_and_2_grid",),
        "Neurons whose weights point along the rare feature, \\|cos\\| at least 0.3, against how"
        " rare it is (a), and what changes at the same seed by pruning (b). See where the curves"
        " leave zero: below it no neuron learns the rare feature.",
    ),
    "figure2_max_alignment": Figure(
        ("paper.figures_1_and_2_grid",),
        "The largest \\|cos\\| of any neuron with the rare feature, against how rare it is (a), and"
        " what changes at the same seed by pruning (b). See how it climbs as the feature becomes as"
        " frequent as the others.",
    ),
    "figure3_cosine_similarity": Figure(
        ("paper.figure_3_grid",),
        "Cosine similarity of positive test pairs after training, on a balanced test set (a) and at"
        " the frequencies of training (b); the same beside both references, the encoder at"
        " initialisation and the ideal one (c, d); and what pruning by neuron changes at the same"
        " seed (e, f). The ideal encoder has no bias and reads the noise along every feature: where"
        " there is much noise, training, whose bias cuts small activations off, can end above it.",
    ),
    "figure4_regression_mse": Figure(
        ("paper.figure_4_grid",),
        "Test error of a linear head that regresses the sum of the features, on a balanced test set"
        " (a) and at the frequencies of training (b); lower is better. The same beside both"
        " references, the encoder at initialisation and the ideal one (c, d), and what pruning by"
        " neuron changes at the same seed (e, f). See how little the rarest settings leave to gain"
        " at the frequencies of training, where few samples have the feature.",
    ),
    "baselines": Figure(
        ("paper.figures_1_and_2_grid", *BASELINES),
        "What Figures 1 and 2 show, at one noise level, without and with pruning, with pairs of the"
        " rare feature drawn until it is as frequent as the others (oversampled), and with that"
        " weight of their loss (reweighted). See which of them raises the curves where the feature"
        " is rare.",
    ),
    "alignment_heatmap": Figure(
        ("alignment_heatmap",),
        "Every neuron of one replica against every feature, sorted by the feature that it is"
        " nearest (a), and the best neuron of each feature in every replica, dense and pruned (b)."
        " See whether the rare features have a neuron.",
    ),
    "arms": Figure(
        ("paper_trends", "direct_trends"),
        "The largest \\|cos\\| of any neuron with the rare feature at the lowest and at the highest"
        " frequency of the grid, without a mask and with each, and beside it how many neurons are"
        " aligned with it: copies of a neuron that is there. The numbers are what a mask changes at"
        " the same seed, averaged over all frequencies, with its 95 % interval.",
    ),
    "trajectories": Figure(
        ("paper.arms_trajectories",),
        "Over training, from the lowest frequency to the highest: alignment with the rare feature"
        " (a) and with the others (b), and the loss over its floor (c), dense and with every neuron"
        " of the rare feature masked. Medians, because the loss of the network without its mask"
        " grows without bound there: arrows are beyond the axis. See that frequent features are"
        " learned first, and how long the rare one waits.",
    ),
}
FIGURES_OF_GRID = (
    "figure1_aligned_neurons",
    "figure2_max_alignment",
    "figure3_cosine_similarity",
    "figure4_regression_mse",
)
PRINTED_BIAS = ("confirmation", "printed_follow", "printed_grow")
"""Studies of one law and the same draws: the bias of the grid, the printed one by both rules."""
SHIPPED = (
    "paper",
    "direct",
    "neighbour",
    "without_bias",
    "oversampled",
    "reweighted",
    "heatmap",
    *PRINTED_BIAS,
)
"""Studies with figures and tables of their own; a user's study has Figures 1 to 4 of its grid."""


QUESTION = "How rare is too rare for contrastive learning, and does pruning help?"


def build_outputs(section: Imbalance) -> StudyOutputs:
    """Return the tables of every study, and the figures of the paper's studies."""
    tables = merge_unique(
        "tables", *(chain_tables(name, study) for name, study in section.studies.items())
    )
    if "heatmap" in section.studies:
        tables["alignment_heatmap"] = Table(
            "studies.imbalance.tables:HEATMAP",
            "studies.imbalance.alignment_map:alignment_map",
            {"heatmap": section.studies["heatmap"]},
            {"encoders": PRETRAIN},
            study="heatmap",
        )
    tables["cross_check"] = table_from(
        "studies.imbalance.cross_check:cross_check", tables=("paper_grid", "direct_grid")
    )
    biases = {name: section.studies[name] for name in PRINTED_BIAS}
    printed_bias = Figure(
        tuple(f"{name}_grid" for name in PRINTED_BIAS),
        "What Figures 1 to 4 show of dense, on the balanced test set, under the bias of the grid"
        " and under the printed one, in proportion to the norm or growing. See from which frequency"
        " on each learns the rare feature, and what a linear head makes of the encoder.",
        sections={"studies": biases},
    )
    user_figures = {
        f"{name}.{figure}": dataclasses.replace(
            FIGURES[figure], tables=(f"{name}_grid",), function=figure
        )
        for name in section.studies
        if name not in SHIPPED
        for figure in FIGURES_OF_GRID
    }
    page = Page(
        "Imbalance and pruning",
        (
            "paper_summary",
            "paper_trends",
            "neighbour_trends",
            "without_bias_trends",
            "cross_check",
            "direct_summary",
        ),
        (*FIGURES, "printed_bias"),
        QUESTION,
    )
    confirmation = {"confirmation": section.studies["confirmation"]}
    play = HtmlPage(
        "What was measured of the rare feature",
        "studies.imbalance.explorer:page",
        ("confirmation_trajectories",),
        confirmation,
    )
    figures = FIGURES | {"printed_bias": printed_bias} | user_figures
    return StudyOutputs(tables, figures, {"imbalance": page}, {"play": play})


def claim_inputs(section: Imbalance) -> ClaimInputs:
    """Return the inputs of the claims about the trends of Figures 1 to 4."""
    return ClaimInputs(("confirmation_grid",), {"confirmation": section.studies["confirmation"]})


KIND = StudyKind(
    "imbalance",
    "Imbalance and pruning",
    Imbalance,
    build_outputs,
    inherits=SHARED_STUDY_KEYS,
    claim_inputs=claim_inputs,
)
