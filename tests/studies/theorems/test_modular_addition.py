"""The network against loops; Theorem 4.9 against its construction, and against a search."""

import itertools
import math

import pytest
import torch

from rarefeat.errors import RarefeatError
from rarefeat.studies.theorems import modular_addition as exact
from rarefeat.studies.theorems.problems import AdditionTable


def weights(k, p, m, seed=0):
    drawn = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.double}
    return torch.randn(k, m, p, **drawn), torch.randn(m, p, **drawn)


def construction(k: int, p: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The network of Lemma C.18: 2^(2k - 1) neurons for each frequency, u (k, m, p) and w (m, p).

    cos(a_1 + ... + a_k - c) is a sum of products of cosines and sines (C.21), and a product of k
    factors is a sum of k-th powers (Lemma C.16), whose signs c and -c give the same.
    """
    angles = 2 * math.pi / p * torch.arange(p, dtype=torch.double)
    wave = (torch.cos, torch.sin)
    u, w = [], []
    for zeta in range(1, (p - 1) // 2 + 1):
        for kinds in itertools.product((0, 1), repeat=k):
            # cos(A - c) = cos A cos c + sin A sin c; the sign of a term is that of the real or
            # imaginary part of i^sines.
            sines = sum(kinds)
            sign = -1.0 if sines % 4 in (2, 3) else 1.0
            for signs in itertools.product((1, -1), repeat=k - 1):
                factors = (1, *signs)
                signed = zip(factors, kinds, strict=True)
                u.append(torch.stack([s * wave[kind](zeta * angles) for s, kind in signed]))
                w.append(sign * math.prod(factors) * wave[sines % 2](zeta * angles))
    return torch.stack(u, 1), torch.stack(w)


def test_scores_and_margin_are_those_of_loops():
    u, w = weights(3, 3, 2)
    scores, gaps = exact.forward(u, w), []
    for at, inputs in enumerate(itertools.product(range(3), repeat=3)):
        by_hand = sum(sum(u[j, i, a] for j, a in enumerate(inputs)) ** 3 * w[i] for i in range(2))
        torch.testing.assert_close(scores[at], by_hand)
        right = sum(inputs) % 3
        gaps.append(by_hand[right] - max(by_hand[c] for c in range(3) if c != right))
    norm = sum((u[:, i].square().sum() + w[i].square().sum()) ** 2 for i in range(2)) ** 0.25
    assert float(exact.norm(u, w)) == pytest.approx(float(norm))
    assert exact.margin(u, w) == pytest.approx(float(min(gaps) / norm**4))
    assert exact.margin(3 * u, 3 * w) == pytest.approx(exact.margin(u, w))


@pytest.mark.parametrize(("k", "p"), [(2, 5), (2, 23), (3, 5), (3, 11), (4, 5)])
def test_the_construction_has_the_largest_margin(k, p):
    u, w = construction(k, p)
    assert u.shape == (k, 2 ** (2 * k - 1) * (p - 1) // 2, p)
    assert exact.margin(u, w) == pytest.approx(exact.largest_margin(k, p), rel=1e-9)
    for quantity, (value, stated) in exact.measure_network(u, w).items():
        assert value == pytest.approx(stated), quantity


def test_largest_margin_of_three_inputs_is_theorem_c_21():
    assert exact.largest_margin(3, 11) == pytest.approx(3 / 16 / (11 * 10))


def test_no_neuron_has_more():
    """The mean margin over all other classes is linear in the neurons.

    Gamma* is the most that one of norm 1 has.
    """
    k, p = 2, 7
    target = exact.sums(k, p)
    best = -math.inf
    for seed in range(4):
        parts = [part.requires_grad_() for part in weights(k, p, 1, seed)]
        search = torch.optim.LBFGS(
            parts, max_iter=300, line_search_fn="strong_wolfe", tolerance_grad=1e-12
        )

        def mean_margin(parts=parts):
            scores = exact.forward(*parts)
            right = scores.gather(1, target[:, None])[:, 0]
            lead = right - (scores.sum(1) - right) / (p - 1)
            return (lead / exact.norm(*parts) ** (k + 1)).mean()

        def closure(search=search, mean_margin=mean_margin):
            search.zero_grad()
            loss = -mean_margin()
            loss.backward()
            return loss

        search.step(closure)
        best = max(best, float(mean_margin().detach()))
    assert best == pytest.approx(exact.largest_margin(k, p), rel=1e-4)


def test_wrong_phases_are_seen():
    u, w = construction(2, 5)
    found = exact.measure_network(u, w.roll(1, dims=1))
    assert found["one_frequency"][0] == 1
    assert found["phase"][0] < 0.9


def test_training_learns_a_small_table():
    problem = AdditionTable(k=2, p=5, m=16, steps=400, lr=0.02, penalty=0.005)
    rows = exact.measure({"table": "k2"}, [1], problem)
    last = {row["quantity"]: row["value"] for row in rows if row["at"] == 400}
    assert last["accuracy"] == 1
    assert last["margin_ratio"] > 0.5


def test_a_training_that_diverges_says_so():
    problem = AdditionTable(k=4, p=5, m=16, steps=60, lr=1e12, penalty=0.005)
    with pytest.raises(RarefeatError, match="modular addition diverged"):
        exact.trained(problem, torch.Generator().manual_seed(0))
