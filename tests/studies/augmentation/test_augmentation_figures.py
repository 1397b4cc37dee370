"""The figures of the study of augmentation from planted tables, of few studies and of all."""

import pandas as pd
import pytest
import synthetic_tables
from paper_values import check, texts

from rarefeat.studies.augmentation import FIGURES, figures

FEW = (
    "random_mask", "independent_noise", "random_mask_learned_bias", "colour_mask_and_redrawn",
    "imbalance_random_mask",
)  # fmt: skip
PAIRS = ("random_mask", "independent_noise", "identical")
ALL = (
    *figures.DIAL, "random_mask_without_bias", "identical_without_bias",
    *(f"{pair}_learned_bias" for pair in PAIRS),
    "colour_identical", "colour_mask", "colour_mask_and_redrawn",
    *(f"imbalance_{pair}{bias}" for pair in PAIRS[:2] for bias in ("", "_without_bias")),
)  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    ("studies", "seeds", "labels"), [(FEW, 2, (64,)), (ALL, 7, (64, 256, 1024))], ids=["few", "all"]
)
def test_figure(name, studies, seeds, labels):
    tables = synthetic_tables.augmentation(studies, seeds, labels)
    shown = {table: tables[table] for table in FIGURES[name].tables}
    check(lambda: getattr(figures, name)(shown), seeds, twice=studies is FEW)


@pytest.mark.parametrize("covered", [0.0, 0.6])
def test_dial_without_a_bias(covered):
    """Planted without a bias: no feature has a neuron of its own, or most have."""
    shares = {"identical": 0.8, "identical_without_bias": covered}
    table = pd.DataFrame(shares.items(), columns=["study", "mean"])
    ends = {"ci_low": table["mean"] - 0.01, "ci_high": table["mean"] + 0.01}
    table = table.assign(metric="covered_features", n=5, **ends)
    check(lambda: figures.augmentation_dial({"augmentation": table}), 5)


@pytest.mark.parametrize(
    "kinds",
    [["views_none"], ["views_none", "views_crops", "views_colours", "views_crops_and_colours"]],
)
def test_images(kinds):
    metrics, *others = synthetic_tables.image_views(kinds, seeds=3).values()
    check(lambda: figures.augmentation_images({"metrics": metrics}, kinds), 3)
    tables = dict(zip("ab", others, strict=True))
    figure = check(lambda: figures.augmentation_embeddings(tables, kinds), most=10)
    assert {str(label) for label in range(10)} <= set(texts(figure))


def test_kinds_of_pairs_have_shares():
    assert figures.pair_name("mask=0.25") == "random mask of 25%"
    assert figures.pair_name("rho=0.9") == "shared noise, 90%"
    assert figures.pair_name("identical_without_bias") == "identical views, no bias"
