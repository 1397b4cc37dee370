"""Result 2-10: the regulariser (A.289), the inputs, and a student of its teacher."""

import math

import pytest
import torch

from rarefeat.studies.theorems import input_structure
from rarefeat.workflow.project import load


@pytest.fixture(scope="module")
def problem():
    return load().sections["small_theorems"].input_structure.model_copy(update={"steps": 150})


def test_regulariser_is_least_for_even_and_sure_classes():
    sure = 50 * torch.eye(10)
    even = torch.zeros(10, 10)
    one = 50 * torch.eye(10)[:1].expand(10, 10)
    found = [float(input_structure.regulariser(logits, 0.5)) for logits in (sure, even, one)]
    assert found[0] == pytest.approx(-math.log(10), abs=1e-4)
    assert found[1] == pytest.approx(-math.log(10) + 0.5 * math.log(10), abs=1e-4)
    assert found[2] == pytest.approx(0, abs=1e-4)


def test_digits_have_mean_0_and_mean_square_1():
    x, y = input_structure.images()
    assert x.shape == (1797, 64)
    assert set(y.tolist()) == set(range(10))
    torch.testing.assert_close(x.square().mean(), torch.tensor(1.0))
    torch.testing.assert_close(x.mean(0), torch.zeros(64), atol=1e-5, rtol=0)


def test_student_learns_and_no_seed_depends_on_its_block(problem):
    def values(seeds):
        rows = input_structure.measure(9, seeds, "test", problem)
        return {(row.seed, row.quantity): float(row.value) for row in rows}

    both = values([0, 1])
    assert values([1]) == {key: value for key, value in both.items() if key[0] == 1}
    assert both[0, "digits_isotropic"] > 0.6
    assert both[0, "digits_isotropic"] > both[0, "digits_isotropic_course"]
    assert both[0, "teacher_isotropic"] > 0.6
    assert both[0, "common_isotropic"] < 0.5
