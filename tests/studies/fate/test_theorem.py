"""The theorem on late learning, against simulations of what it assumes."""

import math

import numpy as np
import pytest

from rarefeat.studies.fate import theorem

Q, LARGEST, M = 0.002, 16.0, 30


def simulate_means(N: int, n: int, random: np.random.Generator) -> np.ndarray:
    """Return n means of N contributions, each 0 or uniform up to LARGEST."""
    counts = random.binomial(N, Q, n)
    return np.array([random.uniform(0, LARGEST, count).sum() / N for count in counts])


@pytest.mark.parametrize("N", [500, 2000, 8000])
def test_exceedance_stays_below_the_bound(N):
    random = np.random.default_rng(N)
    means = simulate_means(N, 20_000, random)
    expected = Q * LARGEST / 2
    for margin in (0.005, 0.01, 0.02, 0.04):
        bound = theorem.exceedance_bound(N, Q, LARGEST, margin)
        assert (means > expected + margin).mean() <= bound + 0.005


def test_a_wrong_constant_breaks_the_bound():
    """With contributions that are as large as allowed, a bound four times as steep is too low."""
    random = np.random.default_rng(0)
    N, margin = 2000, 0.02
    share = (LARGEST * random.binomial(N, Q, 200_000) / N > Q * LARGEST + margin).mean()
    bound = theorem.exceedance_bound(N, Q, LARGEST, margin)
    assert 0 < share <= bound
    assert share > bound**4


def test_beyond_the_critical_sample_no_neuron_exceeds():
    """The share of replicas in which some neuron does falls far faster than as N^-1/2."""
    random = np.random.default_rng(1)
    margin = 0.03
    critical = theorem.critical_sample(M, Q, LARGEST, margin)
    shares = []
    for N in (int(critical / 4), int(critical), int(4 * critical)):
        means = simulate_means(N, M * 1000, random).reshape(1000, M)
        shares.append((means.max(1) > Q * LARGEST / 2 + margin).mean())
    assert shares[0] > 0.3
    assert shares[1] > shares[2]
    assert shares[2] < 0.02
    assert theorem.critical_sample(M, Q, LARGEST, -0.01) == math.inf


@pytest.mark.parametrize(
    ("rate", "kick", "crosses"),
    [(0.01, 0.0, True), (-0.01, 0.003, True), (-0.01, 0.001, False), (0.0, 0.001, True)],
)
def test_crossing_time_is_that_of_the_equation(rate, kick, crosses):
    gate, eta, start = 0.14, 0.1, 0.05
    x, steps = start, 0
    while x < gate and steps < 100_000:
        x, steps = x + eta * (rate * x + kick), steps + 1
    time = theorem.crossing_time(start, rate, kick, gate, eta)
    assert math.isfinite(time) == crosses
    if crosses:
        assert time == pytest.approx(steps, rel=0.02)


def simulate_fresh(eta: float, rate: float, noise: float, steps: int, n: int) -> np.ndarray:
    """Return x of n neurons after so many steps, by a kick drawn at each."""
    random, x = np.random.default_rng(2), np.zeros(n)
    for _ in range(steps):
        x = (1 - eta * rate) * x + eta * noise * random.normal(size=n)
    return x


def test_memory_is_the_sample_of_the_same_spread():
    """One constant off, K instead of 2 K, is not the same."""
    K, eta, rate, pair_noise = 128, 0.1, 0.05, 0.03
    x = simulate_fresh(eta, rate, pair_noise / K**0.5, 2000, 20_000)
    N = theorem.memory(K, eta, rate)
    fixed = pair_noise / N**0.5 / rate
    assert x.std() == pytest.approx(fixed, rel=0.03)
    assert x.std() != pytest.approx(2**0.5 * fixed, rel=0.2)


def test_waiting_time_is_that_of_the_process():
    eta, rate, n = 0.1, 0.1, 2000
    spread, gate = 0.05, 0.125
    noise = spread * (2 * eta * rate) ** 0.5 / eta
    random, x, first = np.random.default_rng(3), np.zeros(n), np.full(n, np.nan)
    for step in range(1, 20_000):
        x = (1 - eta * rate) * x + eta * noise * random.normal(size=n)
        first[np.isnan(first) & (np.abs(x) > gate)] = step
    assert not np.isnan(first).any()
    # Steps are no continuous time, and the formula is the leading term for a far gate.
    assert first.mean() == pytest.approx(theorem.waiting_time(eta, rate, spread, gate), rel=0.35)
    assert first.mean() != pytest.approx(
        theorem.waiting_time(eta, rate, spread * 2**0.5, gate), rel=0.35
    )
