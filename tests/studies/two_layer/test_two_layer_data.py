"""Samples follow their laws, class ratios are exact, draws are keyed.

Bad input is refused in one line.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rarefeat.errors import RarefeatError
from rarefeat.studies.two_layer.config import Problem, Setting
from rarefeat.studies.two_layer.data import (
    DataDistribution,
    LabelledPatterns,
    batches,
    class_weights,
    correlation,
    labels_of,
    moments,
)
from rarefeat.workflow.config.section import format_validation_error

PARITY = {"labels": "parity", "d": 30, "D": 20, "k": 5}
RATES = {"network_head": 0.1, "network_first": 0.001, "head": 1.0, "momentum": 0.9, "ntk": 1.0}
SIZES = {"n": 100, "n_test": 50, "m": 4, "T": 10, "batch": 10}
SETTING = {"problem": PARITY, "rates": RATES, "arms": [{"method": "network"}], **SIZES}


def test_the_parity_law_has_the_moments_of_the_text():
    law = DataDistribution(Problem(**PARITY, negatives=0.5), "test", 0)
    sample = law.draw(50000, "train")
    assert correlation(sample, law.relevant) == pytest.approx(0.25, abs=0.01)
    mean, sigma = moments(sample.patterns)
    assert sigma**2 == pytest.approx(20 / 4, rel=0.01)
    x = (sample.patterns - mean) / sigma
    assert float(x.square().sum(1).mean()) == pytest.approx(1, abs=1e-4)
    assert float(x.mean(0).abs().max()) < 1e-5


def test_outside_A_only_a_fair_coin_is_independent_of_A():
    """(A2) asks for independence, which D^mix has at p_o = 1/2 alone.

    Elsewhere its parts differ in their background.
    """

    def dependence(p_o: float) -> float:
        law = DataDistribution(Problem(**PARITY, p_o=p_o), "test", 0)
        patterns = law.draw(60000, "train").patterns
        part = patterns[:, law.relevant].sum(1)
        whole = (part == 0) | (part == 5)
        background = patterns.sum(1) - part
        return float(background[whole].mean() - background[~whole].mean())

    assert abs(dependence(0.5)) < 0.05
    assert dependence(0.2) < -3
    law = DataDistribution(Problem(**PARITY, p_o=0.2), "test", 0)
    outside = [i for i in range(20) if i not in law.relevant]
    share = float(law.draw(60000, "train").patterns[:, outside].mean())
    assert share == pytest.approx(0.2, abs=0.01)


@settings(max_examples=30)
@given(st.floats(0.05, 0.95), st.integers(20, 300), st.booleans(), st.integers(0, 99))
def test_class_ratios_are_exact(share: float, n: int, structure: bool, seed: int):
    law = DataDistribution(Problem(**PARITY, negatives=share), "test", seed, structure)
    sample = law.draw(n, "train")
    assert int((sample.labels < 0).sum()) == round(share * n)
    assert len(sample.patterns) == n
    weights = class_weights(sample.labels)
    if 0 < round(share * n) < n:
        assert float((weights * sample.labels).sum()) == pytest.approx(0, abs=1e-3 * n)
        assert float(weights.mean()) == pytest.approx(1, rel=1e-4)


@settings(max_examples=30)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["parity", "majority", "interval", "codes"]),
    st.booleans(),
)
def test_labels_are_a_function_of_the_relevant_patterns(seed: int, labels: str, structure: bool):
    extra = {"interval": {"interval": [3, 5], "p_A": 0.6}, "codes": {"codes": 3}}.get(labels, {})
    problem = Problem(**PARITY | {"labels": labels} | extra)
    law = DataDistribution(problem, "test", seed, structure)
    sample = law.draw(64, "train")
    assert set(sample.patterns.unique().tolist()) <= {0.0, 1.0}
    present = sample.patterns[:, law.relevant]
    assert torch.equal(labels_of(present, problem, law.codes), sample.labels)


def test_a_draw_is_keyed_by_study_seed_and_purpose():
    problem = Problem(**PARITY)
    law, uniform = (DataDistribution(problem, "test", 3, structure) for structure in (True, False))
    one, same = (law.draw(50, "train") for _ in range(2))
    assert torch.equal(one.patterns, same.patterns)
    for other in (
        law.draw(50, "test"),
        uniform.draw(50, "train"),
        DataDistribution(problem, "test", 4).draw(50, "train"),
        DataDistribution(problem, "other", 3).draw(50, "train"),
    ):
        assert not torch.equal(one.patterns, other.patterns)
    assert torch.equal(law.relevant, uniform.relevant)


def test_thinning_makes_a_pattern_rare_before_labelling():
    """Labels count the occurrences that thinning leaves."""
    problem = Problem(**PARITY | {"labels": "majority", "frequency": [1, 1, 1, 1, 0.2]})
    law = DataDistribution(problem, "test", 0)
    sample = law.draw(40000, "train")
    part = sample.patterns[:, law.relevant]
    assert part.mean(0).tolist() == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.1], abs=0.01)
    assert torch.equal(sample.labels > 0, part.sum(1) > 2.5)


def test_the_hypercube_has_its_corners_and_its_noise():
    law = DataDistribution(Problem(labels="hypercube", d=40, D=40, k=4, sigma_r=0.7), "test", 0)
    sample = law.draw(20000, "train")
    part = sample.patterns[:, law.relevant]
    assert float((part.sign().prod(1) == sample.labels).float().mean()) > 0.99
    noise = sample.patterns.clone()
    noise[:, law.relevant] -= part.sign()
    assert float(noise.square().sum(1).mean()) == pytest.approx(0.7**2 * 4, rel=0.02)


def test_codes_are_distinct_and_equally_likely():
    law = DataDistribution(Problem(labels="codes", d=30, D=20, k=6, codes=10), "test", 0)
    assert len({tuple(code.tolist()) for code in law.codes}) == 20
    sample = law.draw(20000, "train")
    nearest = torch.cdist(sample.patterns[:, law.relevant], law.codes).argmin(1)
    assert nearest.bincount(minlength=20).min() > 800
    assert float((sample.labels > 0).float().mean()) == pytest.approx(0.5, abs=0.02)


@settings(max_examples=30)
@given(st.integers(2, 60), st.data())
def test_a_pass_has_every_sample_at_most_once(n: int, data):
    batch = data.draw(st.integers(1, n))
    steps = data.draw(st.integers(1, 3 * (n // batch)))
    order = batches(n, batch, steps, torch.Generator().manual_seed(0))
    assert order.shape == (steps, batch)
    for start in range(0, steps, n // batch):
        one_pass = order[start : start + n // batch].flatten()
        assert len(one_pass.unique()) == len(one_pass)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 4}, "k must be odd for labels: parity, got 4"),
        ({"D": 31}, "d must be at least D = 31"),
        ({"k": 21}, "k must be at most D = 20, got 21"),
        ({"labels": "interval"}, "interval goes with labels: interval and with no other"),
        ({"labels": "interval", "interval": [3, 6]}, "t_1 <= t_2 <= k = 5, got [3, 6]"),
        ({"labels": "codes", "codes": 17}, "2^k = 32 binary vectors are fewer than two classes"),
        ({"frequency": [1, 1]}, "frequency must have k = 5 entries, got 2"),
        ({"frequency": [1, 1, 1, 1, 0]}, "frequency.4: Input should be greater than 0, got 0"),
        ({"p_o": 0.6}, "p_o: Input should be less than or equal to 0.5, got 0.6"),
        ({"negatives": 1.0}, "negatives: Input should be less than 1, got 1.0"),
        ({"p_A": 0.7}, "p_A goes with labels: interval"),
        ({"odd": True}, "odd: unknown key"),
    ],
)
def test_bad_problems_are_named(change: dict, said: str):
    with pytest.raises(ValidationError) as error:
        Problem(**PARITY | change)
    assert said in format_validation_error(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batch": 101}, "batch must not exceed n = 100, got 101"),
        ({"arms": [{"method": "ntk"}, {"method": "ntk"}]}, "arms must be distinct, got ntk, ntk"),
        ({"arms": [{"method": "ntk", "schedule": "printed"}]}, "schedule is for method: network"),
        ({"arms": [{"method": "ntk", "weights": True}]}, "weights are for methods with the two"),
        ({"neurons": [11]}, "neurons: steps must not exceed T = 10, got [11]"),
        ({"activation": "relu"}, "activation: relu goes with schedule: plain"),
        ({"tickets": {"sizes": [9], "random_draws": 1}}, "not exceed 2m = 8 neurons, got 9"),
        ({"rates": RATES | {"momentum": 1.0}}, "momentum: Input should be less than 1, got 1.0"),
    ],
)
def test_bad_settings_are_named(change: dict, said: str):
    with pytest.raises(ValidationError) as error:
        Setting(**SETTING | change)
    assert said in format_validation_error(error.value)


def test_a_class_that_never_comes_is_named():
    rare = {"labels": "interval", "p_A": 0.01, "interval": [5, 5], "negatives": 0.5}
    law = DataDistribution(Problem(**PARITY | rare), "test", 0)
    with pytest.raises(RarefeatError, match=r"0.5 cannot be had, since class \+1 is too rare"):
        law.draw(20, "train")


def test_samples_without_variance_or_with_one_class_are_named():
    with pytest.raises(RarefeatError, match="no variance"):
        moments(torch.ones(5, 3))
    with pytest.raises(RarefeatError, match="one class only"):
        correlation(LabelledPatterns(torch.rand(5, 3), torch.ones(5)), torch.tensor([0]))
