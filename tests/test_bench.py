"""A researcher's bench: rules of one's own, sweeps, encoders that are called, saved and drawn."""

import json
from pathlib import Path

import pytest
import torch
from conftest import refusal

import rarefeat
from rarefeat.api import sweeps as sweeping
from rarefeat.core.arms import ARMS
from rarefeat.core.pruning import mask_smallest
from rarefeat.run.code_hashes import code_hash

SMALL = {"T": 8, "N": 256, "d1": 60, "progress": False}
TWO = {"eps_min": [0.2, 1.0], "seed": [3, 5, 6]}
RULES = """
from rarefeat.core.pruning import smallest
from helpers import twice

# {comment}
def small(seen):
    return smallest({times} * twice(seen.norms), seen.alpha)

def half(moved):
    return 0.5 * moved.norms

def wrong(seen):
    return seen.norms
"""


def small(seen):
    return mask_smallest(seen.norms, seen.alpha)


def named(name):
    """A rule of its own, under this name."""

    def rule(seen):
        return seen.norms > 0

    rule.__name__ = name
    return rule


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """Writes the files of a user's rules."""
    monkeypatch.chdir(tmp_path)

    def written(comment: str = "", times: int = 1, helper: str = "2 * x") -> str:
        Path("helpers.py").write_text(f"def twice(x):\n    return {helper}\n", encoding="utf-8")
        Path("my_rules.py").write_text(RULES.format(comment=comment, times=times), encoding="utf-8")
        return code_hash("own.my_rules:small")

    return written


def test_a_rule_of_one_s_own_is_the_one_that_it_copies(rules):
    rules()
    expected = rarefeat.train(arm="pruned_neuron", **SMALL)
    for arm in (small, "my_rules:small"):
        encoder = rarefeat.train(arm=arm, **SMALL)
        assert torch.equal(encoder.weights, expected.weights)
        assert encoder.arm.alpha == 0.1
    biased = rarefeat.train(bias={"rule": "my_rules:half"}, **SMALL)
    assert torch.allclose(biased.bias, 0.5 * biased.weights.norm(dim=-1))
    assert torch.equal(rarefeat.train(bias={"rule": half}, **SMALL).weights, biased.weights)


def half(moved):
    return 0.5 * moved.norms


def test_a_rule_may_know_what_is_said_and_draws_from_its_own_generators():
    def coin(seen):
        S, m, _ = seen.weights.shape
        assert seen.f_x.shape == seen.f_y.shape == (S, 128, m)
        assert seen.bias.shape == seen.moments.fires.shape == (S, m)
        return torch.stack([torch.rand(m, generator=g) < 0.5 for g in seen.generators])

    alone = rarefeat.train(arm=coin, seed=5, alpha=0, **SMALL)
    beside = rarefeat.sweep(arm=["dense", coin], seed=[4, 5], alpha=0, **SMALL)
    assert (
        beside.select(arm="coin", seed=5).table["max_alignment"].item()
        == alone.metrics["max_alignment"]
    )


def test_rule_is_hashed_with_its_helpers(rules):
    before = rules()
    assert rules() == before
    assert len({before, rules(times=2), rules(helper="3 * x"), rules(comment="a word")}) == 4


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"arm": "my_rules:wrong"},
            "the rule my_rules:wrong must return a mask, bool (S, m) = (1, 30)",
        ),
        ({"arm": "my_rules:smal"}, "my_rules.py has no function smal; it has small, half, wrong"),
        ({"arm": "rules:small"}, "rules.py"),
        ({"arm": lambda seen: seen.norms > 0}, "a rule of your own needs a name"),
        (
            {"arm": named("dense")},
            "a rule of your own is called dense, as one that is built in; give it another name",
        ),
        (
            {"bias": {"rule": named("follow")}},
            "a rule of your own is called follow, as one that is built in",
        ),
        (
            {"bias": {"rule": "my_rules:small"}},
            "the rule my_rules:small fails at step 1: AttributeError",
        ),
        (
            {"bias": {"rule": "folow"}},
            "must be one of follow, grow, gradient, or MODULE:FUNCTION of your own, got 'folow'",
        ),
    ],
)
def test_a_rule_that_is_wrong_is_one_line(rules, changes, line):
    rules()
    assert line in refusal(rarefeat.train, **changes, **SMALL)


def test_two_rules_of_one_name_are_refused_by_their_name():
    with pytest.raises(
        rarefeat.RarefeatError,
        match="sweep: arm: two rules are called rule; give each a name of its own",
    ):
        rarefeat.sweep(arm=[named("rule"), named("rule")], **SMALL)


@pytest.mark.parametrize("arm", [name for name, arm in ARMS.items() if arm.trained])
def test_every_arm_that_is_built_in_is_trained_by_its_name(arm):
    encoder = rarefeat.train(
        arm=arm, simulator="direct" if ARMS[arm].single_weights else "reduced", **SMALL
    )
    assert (encoder.arm.arm, encoder.arm.alpha) == (arm, 0.1 * ARMS[arm].ratio)


def test_a_sweep_trains_once_and_again_where_a_rule_is_edited(rules, tmp_path, monkeypatch):
    rules()
    arms = ["dense", "my_rules:small"]
    first = rarefeat.sweep(arm=arms, cache="kept", **TWO, **SMALL)
    trained, real = [], sweeping.pretrain

    def counted(*arguments):
        trained.extend(arm.arm for arm in arguments[4])
        return real(*arguments)

    monkeypatch.setattr(sweeping, "pretrain", counted)
    sweeping.SESSION_CACHE.clear()
    assert rarefeat.sweep(arm=arms, cache="kept", **TWO, **SMALL).table.equals(first.table)
    assert trained == []
    rules(times=2)
    rarefeat.sweep(arm=arms, cache="kept", **TWO, **SMALL)
    assert set(trained) == {"my_rules:small"}
    assert len(list(Path("kept").glob("*.json"))) == 18


def test_who_stops_a_sweep_goes_on_from_there(monkeypatch):
    sweeping.SESSION_CACHE.clear()
    real, done = sweeping.train_and_probe, []

    def once(*arguments):
        if done:
            raise KeyboardInterrupt
        done.append(real(*arguments))

    monkeypatch.setattr(sweeping, "train_and_probe", once)
    with pytest.raises(KeyboardInterrupt, match="3 of 6 encoders are kept"):
        rarefeat.sweep(**TWO, **SMALL)
    done.clear()
    assert len(rarefeat.sweep(**TWO, **SMALL).table) == 6


def test_lists_of_changes_are_columns():
    found = rarefeat.sweep(
        seed=2, arm=["dense", "pruned_neuron"], alpha=[0.1, 0.3], lambda_=[0.02, 0.05], **SMALL
    )
    assert list(found.table.columns[:2]) == ["lambda", "eps_min"]
    assert sorted(found.select(**{"lambda": 0.05}).table["alpha"]) == [0.0, 0.1, 0.3]
    assert set(found.summary().columns[:1]) == {"lambda"}
    assert "3 points" not in repr(found)
    with pytest.raises(rarefeat.RarefeatError, match="several lambda; choose one"):
        found.plot()
    lines = found.select(**{"lambda": 0.05}).plot("max_alignment", x="step").get_lines()
    assert len(lines) >= 3
    shown = found.select(**{"lambda": 0.05})._repr_html_()
    assert shown.count("<polyline") == 3
    assert "pruned by neuron" in shown


def test_the_digest_of_a_function_is_of_all_that_it_reads():
    def made(share):
        def rule(seen):
            return seen.norms < share * helper(seen)

        def helper(seen):
            return seen.norms.mean(-1, keepdim=True)

        return rule

    assert sweeping.hash_function(made(0.5)) == sweeping.hash_function(made(0.5))
    assert sweeping.hash_function(made(0.5)) != sweeping.hash_function(made(0.6))
    with pytest.raises(
        rarefeat.RarefeatError, match="a PosixPath, of which no digest can be taken"
    ):
        sweeping.hash_function(made(Path()))


def test_an_encoder_is_called_saved_and_shown(tmp_path):
    encoder = rarefeat.train(eps_min=1.0, seed=9, history=True, simulator="direct", **SMALL)
    pairs = encoder.sample_pairs(50)
    z = torch.softmax(pairs.tokens @ pairs.tokens.mT, -1) @ pairs.tokens
    s = z @ encoder.weights.T
    expected = ((s - encoder.bias).relu() - (-s - encoder.bias).relu()).sum(-2)
    assert torch.allclose(encoder(pairs), expected, atol=1e-5)
    assert torch.allclose(encoder(pairs.tokens[3, 1]), expected[3, 1], atol=1e-5)
    assert torch.allclose(
        (pairs.tokens @ encoder.dictionary).round().clamp(-1, 1).mean(),
        pairs.latents.float().mean(),
        atol=0.05,
    )
    encoder.save(tmp_path / "one.safetensors")
    again = rarefeat.load(tmp_path / "one.safetensors")
    assert torch.equal(again.history, encoder.history)
    assert again.trajectory.equals(encoder.trajectory)
    assert (again.arm, again.training, again.data) == (encoder.arm, encoder.training, encoder.data)
    assert "polyline" in again._repr_html_()
    assert len(encoder.plot(neuron=2).get_lines()) == 9
    assert len(json.dumps(encoder._repr_html_())) < 3000
