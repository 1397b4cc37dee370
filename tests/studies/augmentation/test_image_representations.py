"""What units and features of an image network are made to do by the kind of augmentation."""

import pandas as pd
import pytest
import synthetic_tables
import torch
from conftest import seeded

from rarefeat.images.augmentation import make_augment
from rarefeat.images.network import calibrate, make_encoder
from rarefeat.studies.augmentation import OF_IMAGES
from rarefeat.studies.augmentation.representations import PLAIN, firing_rates, invariance, measure
from rarefeat.workflow.config.images import Augmentation, Network
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.project import load
from tables_augmentation import image_views, photograph_views

NETWORK = Network(block="basic", depths=[1, 1], width=4, stem="cifar", head=4)


def project_study():
    """Return the study of digits with a small network and two seeds."""
    changes = {"network": NETWORK, "seeds": 2, "first_seed": 3}
    return load("config/config.yaml").studies["digits"].model_copy(update=changes)


@pytest.fixture
def digits():
    images = torch.randint(256, (40, 3, 8, 8), generator=seeded(1), dtype=torch.uint8)
    return images, torch.arange(40) % 4


def test_firing_rates_of_shifted_units(digits):
    """Check that a unit shifted up always fires, and one shifted down never."""
    encoder = make_encoder(NETWORK, 1, "test", 1)
    calibrate(encoder, digits[0])
    with torch.no_grad():
        encoder.norm.branches[0].bias[0] += 100.0
        encoder.norm.branches[0].bias[1] -= 100.0
    rates = firing_rates(encoder, digits[0])
    assert list(rates) == ["stem", "block 1", "block 2"]
    assert rates["stem"].tolist()[:2] == [1.0, 0.0]
    assert 0 < rates["stem"][2] < 1
    assert len(rates["block 2"]) == 8


def test_invariance_without_augmentation_and_under_crops(digits):
    encoder = make_encoder(NETWORK, 1, "test", 1)
    calibrate(encoder, digits[0])
    same = make_augment(Augmentation(**PLAIN), 8)
    assert len(same) == 0
    assert invariance(encoder, digits[0], same, "test", 1) == pytest.approx(1.0)
    crops = make_augment(Augmentation(**PLAIN | {"crop_scale": [0.2, 0.3]}), 8)
    assert invariance(encoder, digits[0], crops, "test", 1) < 0.8


def test_invariance_to_colour_is_measured_of_images_with_colour(digits):
    coloured, labels = digits
    study = project_study()
    encoders = {3: make_encoder(NETWORK, 1, "test", 3)}
    calibrate(encoders[3], coloured)
    metrics = {}
    grey = coloured[:, :1].expand_as(coloured)
    for name, images in {"grey": grey, "coloured": coloured}.items():
        files = {"train": images, "train_labels": labels, "test": images, "test_labels": labels}
        tables = measure(study, "test", files, {3: torch.arange(40)}, encoders, embedded=35)
        metrics[name] = set(tables["augmentation_images"]["metric"])
    assert metrics["coloured"] - metrics["grey"] == {"colour_invariance"}


def test_grey_and_coloured_images_are_published_apart():
    tables = synthetic_tables.image_views(["views_none", "views_crops"], seeds=3)
    metrics, units, _ = tables.values()
    colour = metrics[(metrics["metric"] == "separation") & (metrics["study"] == "views_crops")]
    metrics = pd.concat([metrics, colour.assign(metric="colour_invariance")])
    units = units.assign(firing_rate=units["layer"].map({"stem": 0.9, "1": 0.7, "2": 0.2}))
    grey = image_views(metrics, units)
    coloured = photograph_views(metrics, units)
    assert set(grey["study"]) == {"views_none"}
    assert set(coloured["study"]) == {"views_crops"}
    rates = coloured[coloured["metric"] == "firing_rate"]
    assert list(rates["mean"]) == pytest.approx([0.2, 0.2])  # of the last block


def test_every_kind_is_measured_on_the_same_start(digits):
    images = dict(zip(("train", "train_labels", "test", "test_labels"), digits * 2, strict=True))
    study, kinds, parts = project_study(), ("views_none", "views_crops"), {}
    for name in kinds:
        encoders = {seed: make_encoder(NETWORK, 1, name, seed) for seed in (3, 4)}
        for encoder in encoders.values():
            calibrate(encoder, images["train"])
        pools = dict.fromkeys((3, 4), torch.arange(40))
        parts[name] = measure(study, "views", images, pools, encoders, embedded=35)
    metrics, _, embedding = (
        validate_sorted(
            kind.schema, pd.concat([parts[name][kind.name].assign(study=name) for name in kinds])
        )
        for kind in OF_IMAGES
    )
    places = embedding.groupby("study")["image"].apply(list)
    assert places.tolist() == [list(range(0, 40, 2))] * 2
    initial = metrics[metrics["network"] == "initial"].pivot_table(
        index=["seed", "metric"], columns="study", values="value"
    )
    # Before training the kinds are the same network.
    pd.testing.assert_series_equal(initial["views_none"], initial["views_crops"], check_names=False)
