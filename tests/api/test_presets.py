"""Presets: the constants of a paper, as keys of `train`."""

import pytest
import torch
from conftest import refusal

import rarefeat

SMALL = {"T": 5, "N": 128, "d1": 40}


def test_preset_trains_as_the_study_does():
    preset = rarefeat.preset("imbalance", **SMALL)
    encoder = rarefeat.train(eps_min=0.3, seed=1, **preset)
    expected = rarefeat.train(eps_min=0.3, seed=1, **SMALL)
    assert torch.equal(encoder.weights, expected.weights)
    assert encoder.training == expected.training
    assert len(rarefeat.sweep(seed=[1, 2], progress=False, **preset).table) == 2


@pytest.mark.parametrize(
    ("name", "keys", "line"),
    [
        ("imbalanse", {}, "preset: name: 'imbalanse' is no preset (did you mean 'imbalance'"),
        ("imbalance", {"alpha": 0.1}, "preset: arms.0: alpha must be above 0 for"),
        ("imbalance", {"T": -1}, "preset: T: Input should be greater than or equal to 0"),
    ],
)
def test_preset_refuses_in_one_line(name, keys, line):
    assert line in refusal(rarefeat.preset, name, **keys)
