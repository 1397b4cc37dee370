"""Theorems 7.1 and 7.2: expectations against other code, and what an optimum may encode."""

import itertools

import pytest
import torch
from torch.nn import functional

from rarefeat.studies.theorems import invariant_features as exact
from rarefeat.studies.theorems.problems import HiddenBits

RATES = torch.tensor([0.5, 0.2], dtype=torch.double)
PROBLEM = HiddenBits(
    norm=[1], r=2, u=1, k=3, rates=[0.1, 0.5], samples=20_000, starts=3, steps=400, lr=0.05
)


def seeded(seed: int = 0) -> torch.Generator:
    """Generator of a seed."""
    return torch.Generator().manual_seed(seed)


def representation(norm: float = 1.0) -> torch.Tensor:
    """A representation of two invariant bits and one spurious bit."""
    drawn = torch.randn(4, 2, 3, generator=seeded(1), dtype=torch.double)
    return norm * functional.normalize(drawn, dim=-1)


@pytest.mark.parametrize("tied", [False, True])
def test_joint_probability_has_the_marginals(tied):
    joint = exact.joint_probability(RATES, 1, tied)
    assert joint.sum().item() == pytest.approx(1)
    assert joint.sum(1).tolist() == pytest.approx([0.4, 0.1, 0.4, 0.1])
    assert (joint[2, 1] > 3 * joint[2, 0]).item() == tied


def test_theorem_7_1_by_enumeration():
    """The loss, as a sum over all values of the definition, is minus the variance."""
    phi, joint = representation(), exact.joint_probability(RATES, 1, False)
    p, spurious = joint.sum(1), joint.sum(0)
    loss = 0.0
    for n, q, again, m, w in itertools.product(range(4), range(2), range(2), range(4), range(2)):
        weight = p[n] * spurious[q] * spurious[again] * p[m] * spurious[w]
        loss -= weight * phi[n, q] @ (phi[n, again] - phi[m, w])
    torch.testing.assert_close(loss, exact.exact_loss(phi, joint))
    torch.testing.assert_close(loss, exact.negative_variance(phi, joint))


def test_loss_is_minus_the_variance_without_ties_alone():
    phi = representation()
    for tied in (False, True):
        joint = exact.joint_probability(RATES, 1, tied)
        error = (exact.exact_loss(phi, joint) / exact.negative_variance(phi, joint) - 1).abs()
        assert (error < 1e-12).item() != tied


def test_linear_representation_spans_invariant_directions():
    triples = exact.draw_triples(exact.joint_probability(RATES, 1, False), 50_000, seeded())
    learned, raw = exact.linear_overlaps(RATES, 1, triples, seeded())
    assert learned > 0.99
    assert raw < 0.6


def test_encoded_shares_are_those_of_planted_representations():
    corners = torch.eye(4, dtype=torch.double)
    signs = torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    phi = 2 * (signs[:, None] * corners[0]).unsqueeze(1).expand(4, 2, 4)
    invariant, spurious = exact.encoded_shares(phi, 2.0)
    assert invariant.tolist() == [1.0, 0.0]
    assert spurious.item() == 0.0
    phi = 2 * corners[:2].expand(4, 2, 4)
    invariant, spurious = exact.encoded_shares(phi, 2.0)
    assert invariant.tolist() == [0.0, 0.0]
    assert spurious.item() == pytest.approx(0.5)


def test_optimum_drops_spurious_bits_that_a_pair_draws_anew():
    joint = exact.joint_probability(RATES, 1, False)
    shares = {
        shared: exact.encoded_shares(
            exact.optimal_representation(joint, 1.0, PROBLEM, shared, seeded()), 1.0
        )
        for shared in (False, True)
    }
    assert shares[False][1] < 1e-3
    assert shares[False][0].min() > 0.1
    assert shares[True][1] > 0.1
