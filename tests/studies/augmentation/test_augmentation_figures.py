"""The figures of the study of augmentation from planted tables, of few studies and of all."""

import pytest
import synthetic_tables
from paper_values import check, texts

from rarefeat.run.job import Job
from rarefeat.studies.augmentation import figures
from rarefeat.studies.augmentation.declaration import FIGURES
from rarefeat.studies.augmentation.image_figures import augmentation_images

JOB = Job(stage="studies.augmentation.figures")
FEW = (
    "random_mask",
    "independent_noise",
    "random_mask_learned_bias",
    "colour_mask_and_redrawn",
    "imbalance_random_mask",
)
PAIRS = figures.PAIRS[:3]
ALL = (
    *figures.DIAL, "random_mask_without_bias", *(f"{pair}_learned_bias" for pair in PAIRS),
    "colour_identical", "colour_mask", "colour_mask_and_redrawn",
    *(f"imbalance_{pair}{bias}" for pair in PAIRS[:2] for bias in ("", "_without_bias")),
)  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    ("studies", "seeds", "labels"), [(FEW, 2, (64,)), (ALL, 7, (64, 256, 1024))], ids=["few", "all"]
)
def test_figure(name, studies, seeds, labels):
    tables = synthetic_tables.augmentation(studies, seeds, labels)
    check(
        lambda: getattr(figures, name)(
            {table: tables[table] for table in FIGURES[name].tables}, JOB
        ),
        seeds,
        twice=studies is FEW,
    )


def test_stages_panel_contains_every_line():
    """Check that an exploding regression error leaves no line outside of the panel."""
    tables = synthetic_tables.augmentation(ALL, 7)
    given = {table: tables[table] for table in FIGURES["augmentation_stages"].tables}
    ax = check(lambda: figures.augmentation_stages(given, JOB)).axes[3]
    low, high = ax.get_ylim()
    assert ax.get_yscale() == "log"
    assert all(low <= value <= high for line in ax.lines for value in line.get_ydata())


@pytest.mark.parametrize(
    "kinds", [["views_none"], ["views_none", "views_crops", "views_crops_and_intensity"]]
)
def test_images(kinds):
    job = Job(stage="studies.augmentation.image_figures", config={"kinds": kinds})
    figure = check(
        lambda: augmentation_images(synthetic_tables.image_views(kinds, seeds=3), job), 3, most=10
    )
    assert {str(label) for label in range(10)} <= set(texts(figure))


def test_kinds_of_pairs_have_symbols():
    assert figures.pair_name("mask=0.25") == "random mask, $q$ = 0.25"
    assert figures.pair_name("rho=0.9") == r"shared noise, $\rho$ = 0.9"
    assert figures.pair_name("identical_without_bias") == "identical views, no bias"
