"""Theorems 3.1 and 3.2 of Liao et al.: the printed growth, and the parts of a norm."""

import math

import pytest
import torch
from conftest import quick

from rarefeat.model.sparse_coding import frequencies
from rarefeat.model.theory import stage1_growth
from rarefeat.studies.theorems import first_stages


@pytest.fixture(scope="module")
def problem():
    """The problem of the quick size."""
    section = quick().sections["small_theorems"]
    point = next(cell for cell in section.cells() if cell["result"] == "first_stages")
    return section.settings(point)["problem"]


def test_printed_growth_is_the_rate_times_the_printed_time(problem):
    """(40): with T1 = d log d / (eta loglog d) steps, the rate of eq. (45) sums to it."""
    data, training = problem.data, problem.training
    eps = torch.as_tensor(frequencies(data.d, data.minority, 0.5))
    nsr = problem.sigma**2 * data.d1
    step = stage1_growth(eps, data.C, data.L, nsr, training.K, training.tau, training.eta, 0.0)
    T1 = data.d * math.log(data.d) / (training.eta * math.log(math.log(data.d)))
    torch.testing.assert_close(first_stages.printed_growth(problem, eps), (step - 1) * T1)
    assert (
        first_stages.printed_growth(problem, eps)[-1] < first_stages.printed_growth(problem, eps)[0]
    )


def test_part_norms_are_along_and_off_the_features():
    neurons = torch.tensor([[3.0, 4.0, 13.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    along, outside = first_stages.part_norms(neurons, 2)
    assert along.tolist() == [5.0, 1.0]
    assert outside.tolist() == [12.0, 0.0]


def test_stages_end_in_order_and_neurons_grow_along_features(problem):
    rows = first_stages.measure(0.9, [0], "test", problem)
    found = {row.quantity: float(row.value) for row in rows}
    assert found["T1"] > next(float(row.stated) for row in rows if row.quantity == "T1")
    assert found["along"] > 10 * found["outside"]
    # Without a feature's growth (4) would be missed: a neuron that stays has less than its bound.
    assert found["growth"] > -0.1
