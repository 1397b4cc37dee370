"""The sweep on digits: label schemes, trainings of many replicas, tables, bad configs."""

import itertools

import pandas as pd
import pytest
import torch
from common import RAW, draws
from pydantic import ValidationError

from rarefeat.errors import RarefeatError
from rarefeat.studies.fine_labels import digits, label_schemes, tables
from rarefeat.studies.fine_labels.granularity import (
    Digits,
    LabelScheme,
    Perceptrons,
    SGDSettings,
)
from rarefeat.studies.fine_labels.tables import nearest_paper_row, published_sweep
from rarefeat.training.perceptrons import forward

STUDY = "fine labels tests"
CANDIDATES = [2, 4, 8]
LEVELS = RAW["digits"]["levels"] | {"thirds": [y // 4 for y in range(10)]}
SCHEMES = {
    name: LabelScheme.named(name)
    for name in (
        *("coarse", "manual", "manual-thirds", "random-3", "clusters-3"),
        *("rebalanced-10", "whole-5", "sample"),
    )
}


def descent(**changes):
    return RAW["digits"]["training"]["pretraining"] | {"warmup": 0.1} | changes


def training(**changes):
    own = {"pretraining": descent(), "finetuning": descent(), "features": descent(epochs=2)}
    own |= {"checkpoints": [4], "shift": 1, "l2": 0.01, "train": 400, "hidden": 32}
    return Perceptrons(**own | changes)


def section(**changes):
    labels = [scheme.model_dump() for scheme in SCHEMES.values()]
    own = {"levels": LEVELS, "labels": labels, "candidates": CANDIDATES}
    return Digits(**RAW["digits"] | own | {"training": training().model_dump()} | changes)


def levels():
    return label_schemes.read_levels(LEVELS)


def rows_of(scheme, seeds, own=None, task="parity"):
    own = own or training()
    rows = digits.error_rows(own, levels(), task, SCHEMES[scheme], seeds, STUDY, CANDIDATES)
    return pd.DataFrame(rows)


def test_perceptron_of_one_layer_is_affine():
    x, weights, bias = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(forward([weights, bias[:, :1]], x), x @ weights + bias[:, :1])


def named(scheme: str, seed: int = 0):
    """Labels of the training images, with their digits and superclasses."""
    images = digits.split_digits(400, [seed], STUDY)
    features = digits.self_supervised(training(), images.train, [seed], STUDY)[0]
    superclass = label_schemes.at_level(levels(), "parity", images.labels)[0]
    known = images.labels[0], superclass, levels(), features, STUDY, seed, CANDIDATES
    return label_schemes.classes_of(SCHEMES[scheme], *known), images.labels[0], superclass


@pytest.mark.parametrize("scheme", SCHEMES)
def test_classes_of_every_scheme(scheme):
    assert SCHEMES[scheme].label == scheme
    found, digit, superclass = named(scheme)
    classes = found.unique()
    assert torch.equal(classes, torch.arange(len(classes)))
    most = label_schemes.most_classes(SCHEMES[scheme], levels(), "parity", 400, CANDIDATES)
    assert len(classes) <= most
    pairs = torch.stack([found, superclass]).unique(dim=1).shape[1]
    assert (pairs == len(classes)) == (scheme not in ("whole-5", "manual-thirds"))
    expected = {"coarse": 2, "manual": 10, "manual-thirds": 3, "random-3": 6, "clusters-3": 6}
    expected |= {"whole-5": 5, "sample": 400}
    assert len(classes) == expected.get(scheme, len(classes))
    if scheme == "manual-thirds":
        assert torch.equal(found, digit // 4)
    if scheme == "rebalanced-10":
        assert found.bincount().min() >= 10
        assert len(classes) > 2


def test_clusters_follow_the_digits():
    """Purity is the fraction of the images of a digit in its largest class."""

    def purity(scheme):
        found, digit, _ = named(scheme)
        of = [found[digit == y].bincount().max() / (digit == y).sum() for y in range(10)]
        return torch.stack(of).mean()

    assert purity("clusters-3") > purity("random-3") + 0.2


def test_read_levels_from_a_file(tmp_path):
    (tmp_path / "levels.csv").write_text("family,order\n3,1\n3,1\n5,0\n")
    found = label_schemes.read_levels("levels.csv", str(tmp_path))
    values = {name: column.tolist() for name, column in found.items()}
    assert values == {"family": [3, 3, 5], "order": [1, 1, 0]}
    assert label_schemes.at_level(found, "family", torch.tensor([2, 0])).tolist() == [1, 0]
    with pytest.raises(RarefeatError, match="unknown level genus; allowed: family, order"):
        label_schemes.at_level(found, "genus", torch.tensor([0]))
    with pytest.raises(RarefeatError, match="3 labels, but an image has the label 3"):
        label_schemes.at_level(found, "order", torch.tensor([3]))


@pytest.mark.parametrize("scheme", ["random-3", "rebalanced-10"])
def test_replicas_are_independent(scheme):
    together, alone = (rows_of(scheme, seeds, task="loops") for seeds in ([0, 1, 2], [1]))
    pd.testing.assert_frame_equal(together[together["seed"] == 1].reset_index(drop=True), alone)


def test_task_is_learned_and_probe_keeps_the_body():
    long = descent(epochs=20)
    long = training(pretraining=long, finetuning=long, checkpoints=[2, 20])
    errors = {}
    for scheme in ("coarse", "manual", "sample"):
        rows = rows_of(scheme, [0, 1], long)
        assert set(rows["epoch"]) == {2, 20}
        once = ["once"] if scheme == "coarse" else []
        assert set(rows["readout"]) == {"finetuned", "probe", *once}
        errors[scheme] = rows[rows["epoch"] == 20].groupby("readout")["error"].mean()
    assert errors["coarse"]["finetuned"] < 0.12
    assert errors["coarse"]["once"] < 0.15
    assert errors["manual"]["probe"] < 0.2
    # With a wrong head or body, both kinds of labels would be equally bad.
    assert errors["sample"]["probe"] > errors["manual"]["probe"] + 0.02


@pytest.mark.parametrize("pixels", [0, 1, 2])
def test_shift_images_is_bounded(pixels):
    x = torch.zeros(2, 60, 3, 8, 8)
    x[..., 3, 4] = 1
    found = label_schemes.shift_images(x, pixels, draws("shift", [0, 1]))
    at = found.nonzero()[:, 3:] - torch.tensor([3, 4])
    assert len(at) == 2 * 60 * 3
    assert at.abs().max() == pixels
    assert len(at.unique(dim=0)) == (2 * pixels + 1) ** 2
    # One move for all channels of an image, another one for each image and replica.
    assert torch.equal(found[:, :, 0], found[:, :, 2])
    assert pixels == 0 or not torch.equal(found[0], found[1])


def test_learning_rate_warms_up_and_falls_to_0():
    own = SGDSettings(**descent(lr=2.0))
    rates = [label_schemes.learning_rate(own, step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.2)
    assert max(rates) == rates[9] == pytest.approx(2.0)
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
    assert rates[-1] < 0.01


def test_divergence_is_reported():
    with pytest.raises(RarefeatError, match="diverged"):
        rows_of("coarse", [0], training(pretraining=descent(lr=1e20)))


def test_summary_has_paired_differences():
    same = {"superclass": "parity", "readout": "probe", "classes": 2}
    rows = [
        same | {"labels": labels, "epoch": epoch, "seed": seed, "error": error}
        for labels, epoch, errors in (
            ("coarse", 1, [0.2, 0.4]),
            ("coarse", 2, [0.1, 0.1]),
            ("sample", 2, [0.2, 0.4]),
        )
        for seed, error in enumerate(errors)
    ]
    found = tables.sweep_summary({"": pd.DataFrame(rows)}).set_index(["labels", "epoch"])
    assert found.loc[("sample", 2), "paired_difference"] == pytest.approx(0.2)
    assert found.loc[("sample", 2), "paired_ci_high"] > 0.3
    assert (found.loc["coarse", "paired_difference"] == 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"superclass": ["x"]}, "levels: unknown level x; allowed: parity"),
        ({"labels": [{"kind": "sample"}]}, "labels must contain"),
        ({"labels": [{"kind": "coarse"}, {"kind": "coarse"}]}, "values must be distinct"),
        ({"labels": [{"kind": "coarse"}, {"kind": "random"}]}, "ids is required"),
        ({"labels": [{"kind": "coarse"}, {"kind": "sample", "ids": 3}]}, "ids is required"),
        ({"labels": [{"kind": "coarse", "level": "loops"}]}, "level is for manual"),
        ({"levels": {name: [0, 1] for name in LEVELS}}, "ten digits"),
        ({"levels": LEVELS | {"parity": [0] * 10}}, "at least two superclasses"),
        ({"levels": LEVELS | {"loops": [0, 1]}}, "same number"),
        ({"training": training().model_dump() | {"checkpoints": [2]}}, "must end with"),
        ({"training": training().model_dump() | {"train": 100, "pretraining": descent(batch=200)}},
         "pretraining.batch"),
    ],
)  # fmt: skip
def test_bad_sweep_is_rejected(changes, message):
    with pytest.raises(ValidationError, match=message):
        section(**changes)


def test_settings_of_a_cell_are_its_own():
    one, two = section(), section(candidates=[2, 16])
    for cell in one.cells():
        rebalanced = cell["labels"] == "rebalanced-10"
        assert (one.settings(cell) == two.settings(cell)) == (not rebalanced)


SUMMARY = [
    # labels, classes, epoch, difference, its interval
    ("coarse", 20, 15, 0.0, 0.0, 0.0),
    ("sample", 50_000, 15, 0.02, -0.01, 0.05),
    ("random-50", 1000, 15, 0.03, 0.02, 0.04),
    ("random-5", 100, 15, -0.03, -0.04, -0.02),
    ("clusters-50", 1000, 15, -0.03, -0.04, -0.02),
    ("clusters-128", 2560, 15, -0.03, -0.04, -0.02),
    ("manual", 100, 15, -0.01, -0.02, -0.001),
    ("manual", 100, 5, -0.01, -0.02, -0.001),
    ("random-5", 100, 5, -0.03, -0.04, -0.02),
]


def test_nearest_paper_row_by_granularity():
    # Five classes for each of 11 superclasses are 55, and fifty are 550.
    assert nearest_paper_row("manual", 5)[:2] == (51, 5.10)
    assert nearest_paper_row("random", 50)[:2] == (352, 6.12)
    assert nearest_paper_row("sample", 2500)[0] == 500_000
    assert nearest_paper_row("coarse", 1)[:2] == (11, 5.25)


def test_published_rows_have_directions_in_the_order_of_kinds():
    """A difference must exceed its spread; earlier checkpoints are given for manual labels."""
    columns = ["labels", "classes", "epoch", "paired_difference", "paired_ci_low", "paired_ci_high"]
    rows = pd.DataFrame(SUMMARY, columns=columns).assign(superclass="superclass")
    both = [rows.assign(readout=readout) for readout in ("finetuned", "probe")]
    found = published_sweep(pd.concat(both, ignore_index=True))
    last = found[(found["readout"] == "finetuned") & (found["epoch"] == 15)].set_index("labels")
    assert list(last["direction"].items()) == [
        ("coarse", "not compared"),
        ("manual", "as printed"),
        ("clusters-50", "as printed"),
        ("clusters-128", "not compared"),  # 5.24 and 5.25 printed, with sd 0.03 and 0.05
        ("random-5", "opposite"),
        ("random-50", "as printed"),
        ("sample", "not shown"),
    ]
    assert last.loc["manual", "printed_classes"] == 51
    early = found[found["epoch"] == 5]
    assert early[["labels", "readout"]].to_numpy().tolist() == [["manual", "finetuned"]]
