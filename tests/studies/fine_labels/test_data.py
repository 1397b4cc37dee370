"""Hierarchical samples: distributions, classes, and values that the config rejects."""

import pytest
import torch
from common import draws, hierarchy, section
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rarefeat.studies.fine_labels import data as D
from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import COARSE, Labels, fine


def counts(patches, k, n):
    """Common, subclass and distracting patches of each sample."""
    y = D.subclasses(k, n)[:, None]
    held = patches.amplitude > 0
    return [(held & (patches.feature == f)).sum(-1) for f in (y // k, 2 + y, 1 - y // k)]


@settings(max_examples=20)
@given(k=st.integers(1, 5), per=st.integers(1, 4), P=st.integers(4, 20), seed=st.integers(0, 10**6))
def test_samples_hold_features_of_their_class(k, per, P, seed):
    data = hierarchy(k=k, P=P, s_star=P / 3, s_dag=P / 4, iota=0.1)
    n = 2 * k * per
    easy, hard = D.draw_easy(data, n, draws("x", [seed])), D.draw_hard(data, n, draws("x", [seed]))
    assert (D.subclasses(k, n).bincount() == per).all()
    common, subclass, distractor = counts(easy, k, n)
    assert distractor.sum() == 0
    assert torch.equal(common + subclass, (easy.amplitude > 0).sum(-1))
    feature_patches = easy.amplitude[easy.amplitude > 0]
    assert ((feature_patches >= 0.9**0.5) & (feature_patches <= 1.1**0.5)).all()
    common, subclass, distractor = counts(hard, k, n)
    assert common.sum() == 0
    assert torch.equal(subclass + distractor, (hard.amplitude > 0).sum(-1))
    weak = hard.amplitude[hard.feature < 2]
    assert ((weak == 0) | ((weak >= 0.25) & (weak <= 0.35))).all()
    # zeta* takes the place of a noise patch, where there is one.
    assert torch.equal((hard.loud != 0).any(-1), subclass + distractor < P)


def chi_square(found, expected, n):
    """Return whether frequencies of cells are as expected, at level 1e-4 (Wilson & Hilferty)."""
    likely = expected > 5 / n
    statistic = (n * (found - expected) ** 2 / expected.clamp(min=1e-300))[likely].sum()
    freedom = likely.sum() - 1
    z = ((statistic / freedom) ** (1 / 3) - 1 + 2 / (9 * freedom)) / (2 / (9 * freedom)) ** 0.5
    return z < 3.7


def joint_frequencies(data, n):
    _, subclass, distractor = counts(D.draw_hard(data, n, draws("law")), data.k, n)
    cells = subclass * (data.P + 1) + distractor
    return cells.flatten().bincount(minlength=(data.P + 1) ** 2).double().view(data.P + 1, -1) / n


DISTRIBUTIONS = {
    "the study's": {},
    "long": {"P": 24, "s_star": 6, "s_dag": 8},
    "full": {"P": 6, "s_star": 3, "s_dag": 3},
}


@pytest.mark.parametrize("changes", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_patch_numbers_have_the_distribution_of_theory(changes):
    data = hierarchy(**changes)
    n = 40_000
    expected = torch.from_numpy(theory.patch_numbers(data.P, data.s_star, data.s_dag))
    assert expected.sum() == pytest.approx(1)
    assert chi_square(joint_frequencies(data, n), expected, n)


def independent(P, s_star, s_dag):
    """Return a wrong distribution: n_dag as if it were independent of n_sub ~ Bin(P, s*/P)."""
    n = torch.arange(P + 1).double()
    log_choose = torch.lgamma(torch.tensor(P + 1.0)) - torch.lgamma(n + 1) - torch.lgamma(P - n + 1)
    pmf = [
        (
            log_choose
            + n * torch.log(torch.tensor(s / P))
            + (P - n) * torch.log(torch.tensor(1 - s / P))
        ).exp()
        for s in (s_star, s_dag)
    ]
    return pmf[0][:, None] * pmf[1]


def test_wrong_distribution_is_detected():
    data = hierarchy()
    n = 40_000
    assert not chi_square(
        joint_frequencies(data, n), independent(data.P, data.s_star, data.s_dag), n
    )


def test_add_noise_keeps_patches():
    data = hierarchy(sigma_zeta=0.01, sigma_zeta_star=3.0)
    patches = D.draw_hard(data, 400, draws("x"))
    x = D.add_noise(data, patches, draws("noise"), torch.float64)
    loud = x.norm(dim=-1) > 3
    assert torch.equal(loud.sum(-1) == 1, (patches.loud != 0).any(-1))
    torch.testing.assert_close(
        x[loud][:, : data.features], patches.loud[(patches.loud != 0).any(-1)], rtol=0, atol=1e-12
    )
    assert (patches.amplitude[loud] == 0).all()
    clean = torch.zeros_like(x).scatter_(
        3, patches.feature[..., None], patches.amplitude[..., None]
    )
    noise = (x - clean)[~loud]
    assert noise.std() == pytest.approx(0.01, rel=0.02)
    assert abs(noise.mean()) < 1e-4


def test_classes_of_every_kind():
    k, n = 4, 48
    y = D.subclasses(k, n)
    seeds = draws("labels", [0, 1])
    assert torch.equal(D.classes(COARSE, k, n, seeds)[0], y // k)
    assert torch.equal(D.classes(fine(k), k, n, seeds)[1], y)
    merged = D.classes(Labels(kind="subclass", ids=2), k, n, seeds)[0]
    assert torch.equal(merged, y // k * 2 + y % k % 2)
    split = D.classes(Labels(kind="subclass", ids=8), k, n, seeds)
    assert split.max() == 15
    assert torch.equal(split % 8 % k, (y % k).expand_as(split))
    for labels in (
        Labels(kind="random", ids=5),
        Labels(kind="subclass", ids=8),
        Labels(kind="sample"),
    ):
        named = D.classes(labels, k, n, draws("labels", [0, 1]))
        superclass = D.superclasses(labels, k, n)
        assert len(superclass) == labels.classes(k, n)
        assert torch.equal(superclass[named], (y // k).expand_as(named))
    random = D.classes(Labels(kind="random", ids=5), k, n, draws("labels", [0, 1]))
    assert not torch.equal(random[0], random[1])
    misaligned = Labels(kind="misaligned", ids=2)
    assert D.superclasses(misaligned, k, n) is None
    assert D.classes(misaligned, k, n, seeds).max() == 1


@settings(max_examples=30)
@given(
    kind=st.sampled_from(["subclass", "random", "misaligned", "sample"]),
    k=st.sampled_from([1, 2, 4]),
    ids=st.integers(1, 8),
)
def test_members_are_those_of_the_classes(kind, k, ids):
    # Enough samples that each of eight random classes has one of every subclass.
    labels, n = Labels(kind=kind, ids=ids), 2 * k * 300
    try:
        labels.check(k)
    except ValueError:
        return
    named = D.classes(labels, k, n, draws("labels"))[0]
    found = torch.zeros(labels.classes(k, n), 2 * k, dtype=torch.bool)
    found[named, D.subclasses(k, n)] = True
    assert torch.equal(found, D.members(labels, k, n))
    own = D.own_features(labels, k, n)
    assert torch.equal(own[:, 2:], found)
    assert torch.equal(own[:, 0], found[:, :k].any(1))


def test_samples_are_independent_of_their_block():
    data = hierarchy()
    together, alone = (
        D.draw_hard(data, 24, draws("x", [1, 2, 3])),
        D.draw_hard(data, 24, draws("x", [2])),
    )
    assert all(torch.equal(a[1:2], b) for a, b in zip(together, alone, strict=True))


BAD = {
    "2 + 2 k": {"k": [4, 16]},
    "multiple of 2 k": {"tests": 50},
    "s_dag must be at most": {"s_dag": [30]},
    "direct.N": {"direct": {"N": 10}},
    "hierarchy.k": {"k": [2]},
    "noise.P": {"noise": {"P": 4}},
    "noise.tests": {"noise": {"tests": 3}},
    "labels.ids": {"labels": [{"kind": "subclass", "ids": 3}]},
    "s_star must be at most": {"hierarchy": {"s_star": 7}},
    "lower, upper": {"hierarchy": {"alpha_dag": [0.5, 0.2]}},
    "less than 0.5": {"hierarchy": {"iota": 0.7}},
    "Extra inputs": {"hierarchy": {"kk": 1}},
    "finite": {"hierarchy": {"sigma_zeta": float("nan")}},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_section_is_rejected_with_the_key(message):
    with pytest.raises(ValidationError, match=message.replace("+", r"\+")):
        section(**BAD[message])
