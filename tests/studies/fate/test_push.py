"""What a push does to a step."""

import pytest
import torch
from conftest import of_size

from rarefeat.model.randomness import generator
from rarefeat.studies.fate import Push
from rarefeat.studies.fate.draws import CellSettings
from rarefeat.studies.fate.growth import added_growth, gate
from rarefeat.studies.fate.measure import Trainings
from rarefeat.training.loop import Group, look, take_step
from rarefeat.training.step import TrainState

STUDY = of_size("quick").sections["fate"].studies["reuse"]
SETTINGS = CellSettings("test", STUDY.data, STUDY.training, "plain", 256, 0.05, 1.0)
D = STUDY.data.d


def step(push: Push | None, rare: float, T1: int = 50, at: int = 60) -> torch.Tensor:
    """Return the change of the rare feature's projections at a step of frequent neurons."""
    source = Trainings(SETTINGS, [{"share": 0.2, "lambda": 0.02}], [1], push)
    weights = torch.zeros_like(source.weights)
    m = weights.shape[1]
    weights[0, torch.arange(m), torch.arange(m) % (D - 1)] = 1.0
    weights[0, :, D - 1] = rare
    bias = gate(D, 0.2) * weights.norm(dim=-1)
    state = TrainState(weights, bias, torch.tensor([T1]), torch.tensor([False]))
    view, _ = look(source, source.draw(), Group((), state), source.config, at, 0)
    after, _ = take_step(source, view, source.change(view), source.config, 50)
    return (after.weights - weights)[0, :, D - 1]


def test_without_its_push_a_batch_leaves_what_has_no_rare_feature():
    """And mirrored neurons change as mirrored ones do."""
    none = Push(by="none")
    assert step(None, 0.0).abs().max() > 1e-5
    assert step(none, 0.0).abs().max() < 1e-7
    assert step(none, 0.1) == pytest.approx(-step(none, -0.1), abs=1e-6)
    assert step(None, 0.1) != pytest.approx(-step(None, -0.1), abs=1e-5)
    # What it takes out is the mean of both.
    both = (step(None, 0.1) + step(None, -0.1)) / 2
    assert step(None, 0.1) - step(none, 0.1) == pytest.approx(both, abs=1e-6)


def test_push_acts_from_stage_2_until_its_end():
    push = Push(by="neuron", size=0.01, until=60)
    assert step(push, 0.0, at=59) != pytest.approx(step(None, 0.0, at=59))
    for arguments in ({"at": 60}, {"at": 40, "T1": -1}):
        assert step(push, 0.0, **arguments) == pytest.approx(step(None, 0.0, **arguments))


def test_kinds_of_push():
    numbers = torch.randn(1, 400, D, generator=generator("test", 1, "push"))
    weights = torch.zeros(1, 400, D + 3)
    weights[..., 2] = torch.tensor([1.0, -2.0]).repeat(200)
    weights[..., D - 1] = 0.1
    gates = torch.tensor([[0.08]])
    norms = weights.norm(dim=-1)

    def added(by: str) -> torch.Tensor:
        return added_growth(Push(by=by, size=0.5), numbers, weights, gates) / norms[..., None]

    assert added("neuron")[..., :-1].abs().max() == 0
    assert float(added("neuron")[..., -1].square().mean().sqrt()) == pytest.approx(0.5, rel=0.1)
    assert added("direction") == pytest.approx(0.5 * numbers)
    of_feature = added("feature")[0, :, -1]
    assert of_feature[::2].unique().numel() == of_feature[1::2].unique().numel() == 1
    assert of_feature[0] == pytest.approx(-of_feature[1])
    # A leak is in proportion to x, and ends at the gate: cosines here are .0995 and .05.
    leak = added("leak")[0, :, -1]
    assert leak[::2].abs().max() == 0
    assert leak[1::2] == pytest.approx(0.5 * numbers[0, 1::2, -1] * 0.1 / norms[0, 1])
