"""The sweep on the digits: labels of every scheme, a training of many replicas at once, and what the config refuses."""

import pandas as pd
import pytest
import torch
from common import draws
from pydantic import ValidationError

from rarefeat.core.errors import RarefeatError
from rarefeat.studies.fine_labels import digits

torch.set_num_threads(1)
BASE = {
    "superclass": "parity", "seeds": 2, "first_seed": 0, "train": 400, "random": [3], "clusters": [3], "smallest": [10],
    "candidates": [2, 4, 8], "hidden": 32, "epochs": 8, "checkpoints": [2, 8], "batch": 50, "lr": 0.05, "momentum": 0.9,
    "weight_decay": 5e-5,
}  # fmt: skip
STUDY = "fine labels tests"


def sweep(**changes):
    return digits.DigitsSweep(**BASE | changes)


def test_every_label_but_the_digit_keeps_to_its_superclass():
    images = digits.split(sweep(), STUDY)
    found = digits.schemes(sweep(), images, STUDY)
    assert {name for name, _ in found} == {"coarse", "manual", "sample", "random", "clusters", "rebalanced"}
    for named in found.values():
        for labels, superclass in zip(named, images.superclass, strict=True):
            pairs = torch.stack([labels, superclass]).unique(dim=1)
            assert pairs.shape[1] == len(labels.unique())
    assert all((labels.bincount() > 0).sum() == 6 for labels in found["clusters", 3])
    assert all(labels.bincount().min() >= 10 for labels in found["rebalanced", 10])
    assert found["sample", 0][0].unique().numel() == 400


def test_replicas_do_not_depend_on_each_other():
    short = {"random": [], "clusters": [], "smallest": [], "epochs": 3, "checkpoints": [3]}
    rows = pd.DataFrame(digits.sweep_rows(sweep(**short), STUDY))
    alone = pd.DataFrame(digits.sweep_rows(sweep(**short, seeds=1, first_seed=1), STUDY))
    found = rows[rows["seed"] == 1].reset_index(drop=True)
    # One image of 1,397 may change sides by rounding.
    pd.testing.assert_frame_equal(found, alone, check_exact=False, atol=2 / 1397)


def test_the_task_is_learned_and_a_probe_leaves_the_body():
    rows = pd.DataFrame(digits.sweep_rows(sweep(clusters=[], smallest=[], random=[], epochs=20, checkpoints=[2, 20]), STUDY))
    last = rows[rows["epoch"] == 20].groupby(["scheme", "network"])["error"].mean()
    assert last["coarse", "finetuned"] < 0.15
    assert last["manual", "probe"] < 0.25
    assert len(rows) == 3 * 2 * 2 * 2
    seeds = draws("body", [0, 1])
    start = digits.layers([64, 8, 8, 2], seeds)
    images = digits.split(sweep(), STUDY)
    tuned = digits.fit(start, images.train, images.superclass, sweep(epochs=1, checkpoints=[1]), seeds, frozen=4)[1]
    assert all(torch.equal(a, b) for a, b in zip(start[:4], tuned[:4], strict=True))
    assert not torch.equal(start[4], tuned[4])


def test_shifts_move_by_a_pixel_at_most():
    x = torch.zeros(1, 50, 64)
    x[..., 27] = 1  # row 3, column 3
    moved = digits.shifted(x, draws("shift")).view(50, 8, 8)
    at = moved.nonzero()[:, 1:]
    assert len(at) == 50
    assert ((at - 3).abs() <= 1).all()
    assert len(at.unique(dim=0)) > 5


def test_divergence_is_one_clear_line():
    images = digits.split(sweep(), STUDY)
    seeds = draws("body", [0, 1])
    with pytest.raises(RarefeatError, match="diverged"):
        digits.fit(digits.layers([64, 8, 2], seeds), images.train, images.superclass, sweep(lr=1e20), seeds)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"checkpoints": [9]}, "checkpoints"),
        ({"batch": 500}, "batch"),
        ({"random": [200]}, "train / 4"),
        ({"superclass": "x"}, "parity"),
    ],
)
def test_bad_input_is_refused(changes, said):
    with pytest.raises(ValidationError, match=said):
        sweep(**changes)
