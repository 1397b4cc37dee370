"""The sweep on digits: label schemes, trainings of many replicas, tables, bad configs."""

import itertools

import pandas as pd
import pytest
import torch
from common import draws
from pydantic import ValidationError

from rarefeat.errors import RarefeatError
from rarefeat.studies.fine_labels.config import Digits, LabelScheme, Perceptrons, SGDSettings
from rarefeat.studies.fine_labels.granularity import aggregate, digits, label_schemes
from rarefeat.studies.fine_labels.granularity.training import learning_rate, shift_images

STUDY = "fine labels tests"
LEVELS = {
    "parity": [y % 2 for y in range(10)],
    "loops": [1, 0, 0, 0, 0, 0, 1, 0, 1, 1],
    "thirds": [y // 4 for y in range(10)],
}
SCHEMES = {
    name: LabelScheme(**scheme)
    for name, scheme in {
        "coarse": {"kind": "coarse"},
        "manual": {"kind": "manual"},
        "manual-thirds": {"kind": "manual", "level": "thirds"},
        "random-3": {"kind": "random", "ids": 3},
        "clusters-3": {"kind": "clusters", "ids": 3},
        "rebalanced-10": {"kind": "rebalanced", "ids": 10},
        "whole-5": {"kind": "whole", "ids": 5},
        "sample": {"kind": "sample"},
    }.items()
}


def descent(**changes):
    return {
        "epochs": 4,
        "warmup": 0.1,
        "batch": 50,
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 5e-5,
    } | changes


def training(**changes):
    base = {
        "pretraining": descent(),
        "finetuning": descent(),
        "features": descent(epochs=2),
        "checkpoints": [4],
    }
    return Perceptrons(**base | {"shift": 1, "l2": 0.01, "train": 400, "hidden": 32} | changes)


def section(**changes):
    base = {
        "seeds": 2,
        "first_seed": 0,
        "seeds_per_block": 2,
        "levels": LEVELS,
        "superclass": ["parity"],
    }
    base |= {
        "labels": [scheme.model_dump() for scheme in SCHEMES.values()],
        "candidates": [2, 4, 8],
    }
    return Digits(**base | {"training": training().model_dump()} | changes)


def levels():
    return label_schemes.read_levels(LEVELS)


def named(scheme: str, seed: int = 0):
    """Labels of the training images, with their digits and superclasses."""
    images = digits.split_digits(training(), [seed], STUDY)
    features = digits.self_supervised(training(), images, [seed], STUDY)[0]
    superclass = label_schemes.at_level(levels(), "parity", images.labels)[0]
    found = label_schemes.classes_of(
        SCHEMES[scheme], images.labels[0], superclass, levels(), features, STUDY, seed, [2, 4, 8]
    )
    return found, images.labels[0], superclass


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_classes_of_every_scheme(scheme):
    assert SCHEMES[scheme].label == scheme
    found, digit, superclass = named(scheme)
    classes = found.unique()
    assert torch.equal(classes, torch.arange(len(classes)))
    assert len(classes) <= label_schemes.most_classes(
        SCHEMES[scheme], levels(), "parity", 400, [2, 4, 8]
    )
    pairs = torch.stack([found, superclass]).unique(dim=1).shape[1]
    assert (pairs == len(classes)) == (scheme not in ("whole-5", "manual-thirds"))
    expected = {
        "coarse": 2,
        "manual": 10,
        "manual-thirds": 3,
        "random-3": 6,
        "clusters-3": 6,
        "whole-5": 5,
        "sample": 400,
    }
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
        return torch.stack(
            [found[digit == y].bincount().max() / (digit == y).sum() for y in range(10)]
        ).mean()

    assert purity("clusters-3") > purity("random-3") + 0.2


def test_read_levels_from_a_file(tmp_path):
    (tmp_path / "levels.csv").write_text("family,order\n3,1\n3,1\n5,0\n")
    found = label_schemes.read_levels("levels.csv", str(tmp_path))
    assert {name: column.tolist() for name, column in found.items()} == {
        "family": [3, 3, 5],
        "order": [1, 1, 0],
    }
    assert label_schemes.at_level(found, "family", torch.tensor([2, 0])).tolist() == [1, 0]
    with pytest.raises(RarefeatError, match="unknown level genus; allowed: family, order"):
        label_schemes.at_level(found, "genus", torch.tensor([0]))
    with pytest.raises(RarefeatError, match="3 labels, but an image has the label 3"):
        label_schemes.at_level(found, "order", torch.tensor([3]))
    (tmp_path / "levels.csv").write_text("family\nx\n")
    with pytest.raises(RarefeatError, match=r"levels\.csv: the column family"):
        label_schemes.read_levels("levels.csv", str(tmp_path))
    with pytest.raises(RarefeatError, match=r"cannot read .*absent\.csv"):
        label_schemes.read_levels("absent.csv", str(tmp_path))


@pytest.mark.parametrize("scheme", ["random-3", "rebalanced-10"])
def test_replicas_are_independent(scheme):
    def rows(seeds):
        return pd.DataFrame(
            digits.error_rows(
                training(), levels(), "loops", SCHEMES[scheme], seeds, STUDY, [2, 4, 8]
            )
        )

    together = rows([0, 1, 2])
    pd.testing.assert_frame_equal(together[together["seed"] == 1].reset_index(drop=True), rows([1]))


def test_task_is_learned_and_probe_keeps_the_body():
    long = training(
        pretraining=descent(epochs=20), finetuning=descent(epochs=20), checkpoints=[2, 20]
    )
    errors = {}
    for scheme in ("coarse", "manual", "sample"):
        rows = pd.DataFrame(
            digits.error_rows(long, levels(), "parity", SCHEMES[scheme], [0, 1], STUDY)
        )
        assert set(rows["epoch"]) == {2, 20}
        assert set(rows["readout"]) == {
            "finetuned",
            "probe",
            *(["once"] if scheme == "coarse" else []),
        }
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
    found = shift_images(x, pixels, draws("shift", [0, 1]))
    at = found.nonzero()[:, 3:] - torch.tensor([3, 4])
    assert len(at) == 2 * 60 * 3
    assert at.abs().max() == pixels
    assert len(at.unique(dim=0)) == (2 * pixels + 1) ** 2
    # One move for all channels of an image, another one for each image and replica.
    assert torch.equal(found[:, :, 0], found[:, :, 2])
    assert pixels == 0 or not torch.equal(found[0], found[1])


def test_learning_rate_warms_up_and_falls_to_0():
    rates = [
        learning_rate(SGDSettings(**descent(lr=2.0, warmup=0.1)), step, 100) for step in range(100)
    ]
    assert rates[0] == pytest.approx(0.2)
    assert max(rates) == rates[9] == pytest.approx(2.0)
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
    assert rates[-1] < 0.01


def test_divergence_is_reported():
    with pytest.raises(RarefeatError, match="diverged"):
        digits.error_rows(
            training(pretraining=descent(lr=1e20)),
            levels(),
            "parity",
            SCHEMES["coarse"],
            [0],
            STUDY,
        )


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
    found = aggregate.summary(pd.DataFrame(rows)).set_index(["labels", "epoch"])
    assert found.loc[("sample", 2), "paired_difference"] == pytest.approx(0.2)
    assert found.loc[("sample", 2), "paired_ci_high"] > 0.3
    assert (found.loc["coarse", "paired_difference"] == 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"superclass": ["x"]}, "levels: unknown level x; allowed: parity"),
        ({"labels": [{"kind": "sample"}]}, "labels must contain"),
        ({"labels": [{"kind": "coarse"}, {"kind": "coarse"}]}, "labels must be distinct"),
        ({"labels": [{"kind": "coarse"}, {"kind": "random"}]}, "ids is required"),
        ({"labels": [{"kind": "coarse"}, {"kind": "sample", "ids": 3}]}, "ids is required"),
        (
            {"labels": [{"kind": "coarse"}, {"kind": "sample", "level": "loops"}]},
            "level is for manual",
        ),
        ({"levels": {name: [0, 1] for name in LEVELS}}, "ten digits"),
        ({"levels": LEVELS | {"parity": [0] * 10}}, "at least two superclasses"),
        ({"levels": LEVELS | {"loops": [0, 1]}}, "same number"),
        ({"training": training().model_dump() | {"checkpoints": [2]}}, "must end with"),
        (
            {
                "training": training().model_dump()
                | {"train": 100, "pretraining": descent(batch=200)}
            },
            "pretraining.batch",
        ),
    ],
)
def test_bad_sweep_is_rejected(changes, message):
    with pytest.raises(ValidationError, match=message):
        section(**changes)


def test_config_of_a_cell_has_only_its_own_keys():
    one = section(labels=[{"kind": "coarse"}, {"kind": "rebalanced", "ids": 10}])
    two = section(superclass=["parity", "loops"], candidates=[2, 16])
    for cell in one.cells():
        same = one.measurement_config(cell) == two.measurement_config(cell)
        assert same == (cell["labels"] == "coarse")
