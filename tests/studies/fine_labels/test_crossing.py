"""The contrastive encoder on hierarchical data: pairs, training and metrics."""

import pytest
import torch
from common import RAW, draws, hierarchy
from pydantic import ValidationError

from rarefeat.errors import RarefeatError
from rarefeat.model.contrastive import infonce
from rarefeat.model.encoder import embed, pre_activations
from rarefeat.studies.fine_labels import Crossing, contrastive_encoder
from rarefeat.studies.fine_labels import data as D
from rarefeat.studies.fine_labels.config import ContrastiveSettings, CrossingArm, LinearHeadSettings

ARMS = [
    CrossingArm(arm=arm, alpha=alpha, bias=bias)
    for arm, alpha in (("dense", 0.0), ("pruned_neuron", 0.25), ("oracle_gated", 0.0))
    for bias in (0.0, 1.0)
]
HEADS = LinearHeadSettings(samples=40, ridge=[1e-4, 0.1], hard_share=[0, 0.1])


def contrast(**changes):
    base = {"lambda": 0.01, "sigma_0": 0.05, "T": 60, "bias_from": 20}
    return ContrastiveSettings(**RAW["crossing"]["training"] | base | changes)


def train(pair="views", arms=ARMS, seeds=(0,), data=None, **changes):
    own = contrast(**changes)
    return contrastive_encoder.train(data or hierarchy(), own, pair, list(arms), list(seeds))


@pytest.mark.parametrize("pair", ["views", "subclass", "superclass"])
def test_positive_pairs_share_their_kind(pair):
    data = hierarchy(k=4)
    n = 80
    first = D.draw_easy(data, n, draws("first"))
    other = contrastive_encoder.draw_partners(pair, data, first, draws("pairs"))
    y = D.subclasses(4, n)
    held = (other.amplitude * (other.feature >= 2)).argmax(-1)[0]
    subclass = other.feature[0].gather(-1, held[:, None])[:, 0] - 2
    known = (other.amplitude * (other.feature >= 2)).sum(-1)[0] > 0
    same = (subclass == y)[known]
    assert torch.equal(subclass[known] // 4, (y // 4)[known])
    assert same.all() == (pair != "superclass")
    assert torch.equal(other.feature, first.feature) == (pair == "views")
    # Partners of a superclass are drawn without replacement.
    assert (subclass[known].bincount(minlength=8) <= n // 8).all()


def test_training_lowers_the_loss_independently():
    start, end = train(T=1, seeds=range(4)), train(seeds=range(4))
    for arm in ARMS:
        assert end[arm.label].loss.mean() < start[arm.label].loss.mean()
        assert (end[arm.label].bias > 0).all() == bool(arm.bias)
    together, alone = train(seeds=[0, 1], arms=ARMS[:4]), train(seeds=[1], arms=ARMS[2:3])
    for part in ("weights", "loss"):
        assert torch.equal(
            getattr(together[ARMS[2].label], part)[1:], getattr(alone[ARMS[2].label], part)
        )
    assert (end["pruned_neuron-alpha=0.25"].pruned == 0.25).all()
    assert (end["dense"].pruned == 0).all()


def test_encoder_without_bias_is_linear_in_the_sum():
    data = hierarchy(sigma_zeta=0.1)
    patches = D.draw_easy(data, 16, draws("samples"))
    x = D.add_noise(data, patches, draws("noise"))
    weights = torch.randn(1, 8, data.d, generator=draws("weights")[0])
    whole, summed = (
        embed(pre_activations(part, weights), torch.zeros(1, 8))
        for part in (x, x.sum(2, keepdim=True))
    )
    torch.testing.assert_close(whole, summed)


def test_first_step_is_gradient_descent():
    """The update of the first step is the gradient of the loss, by autograd."""
    data, own = hierarchy(sigma_zeta=0.1), contrast(T=1, **{"lambda": 0.0})
    found = contrastive_encoder.train(data, own, "views", ARMS[:1], [0])["dense"].weights
    first = D.draw_easy(data, own.K, D.streams("crossing batches", [0]))
    noise = D.streams("crossing noise", [0])
    x, y = D.add_noise(data, first, noise), D.add_noise(data, first, noise)
    (rng,) = D.streams("crossing weights", [0])
    start = (own.sigma_0 * torch.randn(own.m, data.d, generator=rng))[None].requires_grad_()
    f_x = embed(pre_activations(x, start), torch.zeros(1, own.m))
    f_y = embed(pre_activations(y, start.detach()), torch.zeros(1, own.m))
    infonce(f_x, f_y, own.tau).sum().backward()
    torch.testing.assert_close(found, (start - own.eta * start.grad).detach(), rtol=1e-4, atol=1e-7)


def test_superclass_pairs_teach_less_of_subclasses():
    found = {
        pair: contrastive_encoder.composition(
            train(pair, ARMS[:1], data=hierarchy(k=4), T=100)["dense"], hierarchy(k=4)
        )["strength_ratio"]
        for pair in ("views", "subclass", "superclass")
    }
    assert found["superclass"] < 0.8 * found["subclass"]
    assert found["superclass"] < 0.8 * found["views"]


def test_cosine_to_kind():
    y = D.subclasses(2, 16)
    for classes, number, expected in ((y, 4, [1, -1 / 3, -1 / 3]), (y // 2, 2, [1, 1, -1])):
        embedding = torch.nn.functional.one_hot(classes, number).double()[None]
        found = contrastive_encoder.cosine_to_kind(embedding, 2)
        names = ("within_subclass", "within_superclass", "across")
        assert [found[name].item() for name in names] == pytest.approx(expected)


def test_measure_arm_covers_metrics_and_heads():
    encoder = train(T=5, arms=ARMS[:1])["dense"]
    final, probe = contrastive_encoder.measure_arm(hierarchy(), encoder, 0, 40, HEADS)
    assert {row["metric"] for row in final} >= {"strength_ratio", "within_subclass", "pruned"}
    assert {(row["penalty"], row["hard_share"]) for row in probe} == {
        (a, b) for a in (1e-4, 0.1) for b in (0, 0.1)
    }
    assert all(0 <= row[kind] <= 1 for row in probe for kind in ("easy", "hard"))


def test_divergence_is_reported():
    with pytest.raises(RarefeatError, match="contrastive arm dense at step"):
        train(eta=1e20, arms=ARMS[:1])


def test_bad_arms_are_rejected():
    with pytest.raises(ValidationError, match="alpha must be greater than 0"):
        CrossingArm(arm="pruned_neuron")
    both = {"seeds": 1, "seeds_per_block": 1, "training": contrast().model_dump(by_alias=True)}
    with pytest.raises(ValidationError, match=r"arms\.views\n.*values must be distinct"):
        Crossing(**both, arms={"views": [{"arm": "dense"}, {"arm": "dense"}]})
    with pytest.raises(ValidationError, match="'views', 'subclass' or 'superclass'"):
        Crossing(**both, arms={"other": [{"arm": "dense"}]})
