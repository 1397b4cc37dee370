"""The figures by name, with the tables and the block of the paper's grid that each is drawn from."""

from typing import NamedTuple


class Figure(NamedTuple):
    """What a figure reads: tables by name, and a block of the grid of the study `paper` where it shows one."""

    tables: tuple[str, ...]
    block: str = ""


FIGURES = {
    "figure1_aligned_neurons": Figure(("paper_grid",), "figures_1_and_2"),
    "figure2_max_alignment": Figure(("paper_grid",), "figures_1_and_2"),
    "figure3_cosine_similarity": Figure(("paper_grid",), "figure_3"),
    "figure4_regression_mse": Figure(("paper_grid",), "figure_4"),
    "alignment_heatmap": Figure(("alignment_heatmap",)),
    "arms": Figure(("paper_summary", "direct_summary"), "arms"),
    "cross_check": Figure(("paper_grid", "direct_grid", "cross_check"), "arms"),
    "scaling": Figure(("lucky_sets", "scaling")),
    "neighbour_regime": Figure(("paper_grid", "neighbour_grid", "without_bias_grid"), "arms"),
    "trajectories": Figure(("paper_trajectories",), "arms"),
}
# A figure of the claims table for each part of the theory.
CLAIMS_GROUPS = (
    "initialisation",
    "stage_1",
    "stage_2",
    "stage_3",
    "figures_1-4",
    "pruning",
    "imbalance",
    "table_2",
    "feature_decoupling",
)
# Maps of the claims: the kind of table, and the studies that each is drawn from.
CLAIMS_MAPS = {
    "phase": ("trajectories", ("phase", "phase_without_bias", "phase_small_lambda", "phase_small_lambda_without_bias")),
    "pruning": ("trajectories", ("pruning",)),
    "overlap": ("overlap", ("stages_small_lambda", "stages", "stages_large_lambda")),
}
AUGMENTATION_FIGURES = (
    "augmentation_stages",
    "augmentation_dial",
    "augmentation_representations",
    "augmentation_imbalance",
)
IMAGE_VIEWS_TABLES = ("augmentation_images", "augmentation_images_units", "augmentation_images_embedding")
AUGMENTATION_TABLES = ("augmentation", "augmentation_course", "augmentation_neurons", "augmentation_embedding")
STUDIES = ("paper", "direct", "neighbour", "without_bias", "heatmap")
