"""The theorem on late learning, against simulations of what it assumes."""

import math

import numpy as np
import pytest

from rarefeat.studies.fate import learning_times as theorem

M, GATE, ETA = 30, 0.14, 0.1


@pytest.mark.parametrize("rate", [-0.01, -0.003])
@pytest.mark.parametrize("push", [0.003, 0.001, 0.0001, 0.0, -0.0001, -0.001, -0.003])
@pytest.mark.parametrize("start", [0.05, 0.0, -0.05])
def test_a_push_above_the_threshold_crosses_the_gate(rate, push, start):
    """Also of a push against the sign of x, which turns it round or holds it."""
    x, steps = start, 0
    while abs(x) < GATE and steps < 50_000:
        x, steps = x + ETA * (rate * x + push), steps + 1
    assert (steps < 50_000) == (abs(push) > theorem.threshold(rate, GATE))


def test_share_is_that_of_many_runs():
    """A push of each neuron, normal; where it starts does not matter, how many neurons does."""
    random, rate, n = np.random.default_rng(0), -0.01, 2000
    limit = theorem.threshold(rate, GATE)
    for size in (0.4 * limit, 0.6 * limit, 1.2 * limit):
        x = random.uniform(-0.1, 0.1, (n, M))
        pushes, crossed = size * random.normal(size=(n, M)), np.zeros(n, dtype=bool)
        for _ in range(1000):
            x += 10 * ETA * (rate * x + pushes)
            crossed |= (np.abs(x) > GATE).any(1)
        assert crossed.mean() == pytest.approx(theorem.share_learned(size, limit, M), abs=0.05)
    assert theorem.share_learned(limit, limit, 1) < 0.5 < theorem.share_learned(limit, limit, M)


def test_half_of_the_runs_have_a_larger_push_at_the_critical_sample():
    limit, variance = 0.001, 0.005
    largest = theorem.largest_normal(M)
    N = theorem.critical_sample(variance, limit, largest)
    shares = [theorem.share_learned((variance / n) ** 0.5, limit, M) for n in (N / 4, N, 4 * N)]
    assert shares[1] == pytest.approx(0.5)
    assert shares[0] > 0.99
    assert shares[2] < 0.001
    assert theorem.critical_sample(variance, 0.0, largest) == math.inf


def simulate_leaks(N: int, q: float, largest: float, n: int) -> np.ndarray:
    """Return n means of N contributions, each 0 or uniform up to the largest."""
    random = np.random.default_rng(N)
    counts = random.binomial(N, q, n)
    return np.array([random.uniform(0, largest, count).sum() / N for count in counts])


@pytest.mark.parametrize("N", [500, 2000, 8000])
def test_leak_stays_below_its_bound(N):
    """Bennett's inequality, as in (d)."""
    q, largest = 0.002, 16.0
    means = simulate_leaks(N, q, largest, 20_000) - q * largest / 2
    for margin in (0.005, 0.01, 0.02, 0.04):
        u = margin / (q * largest)
        bound = math.exp(-N * q * ((1 + u) * math.log1p(u) - u))
        assert (means > margin).mean() <= bound + 0.005
