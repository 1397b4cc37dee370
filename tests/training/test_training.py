"""Trainings: closed form, autograd, blocks, masks, bias rules, views."""

import pytest
import torch
from conftest import refusal

from rarefeat.stages.synthesise import synthesise
from rarefeat.training.choices import BUILT_IN
from rarefeat.training.data_laws import DATA_LAWS
from rarefeat.training.encoders import ENCODERS
from rarefeat.training.learners import Learner
from rarefeat.training.losses import LOSSES
from rarefeat.training.optimisers import OPTIMISERS
from rarefeat.training.pretraining import pretrain
from rarefeat.training.readout import learn
from rarefeat.workflow.config.model import Arm, Views

BY_AUTOGRAD = {"optimiser_options": {"momentum": 0.0}}
"""The paper's learner by autograd: an option that changes nothing but the way."""


def run(settings, learner, arm=None, seeds=(3, 4), eps_min=0.5, **training):
    data, base = settings
    base = base.model_copy(update=training)
    arm = arm or Arm(arm="dense")
    return learn("test", learner, data, base, arm, 0.1, eps_min, list(seeds)).learners


def test_names_of_choices_are_the_built_in_ones():
    dicts = {
        "data_law": DATA_LAWS, "encoder": ENCODERS, "loss": LOSSES, "optimiser": OPTIMISERS
    }  # fmt: skip
    assert {kind: (*items,) for kind, items in dicts.items()} == BUILT_IN


def test_momentum_keeps_nine_tenths_of_a_step():
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.ones(1)
    optimiser = OPTIMISERS["momentum"]([weight], lr=1.0, weight_decay=0.0)
    for position in (-1.0, -2.9):
        optimiser.step()
        assert weight.item() == pytest.approx(position)


def test_paper_learner_has_the_bits_of_the_chain(settings, dense):
    data, training = settings
    latents = synthesise("test", data, 0.5, [3, 4])["train"]
    encoders, _ = pretrain("test", "direct", data, training, [dense], 0.1, [3, 4], latents)
    result = run(settings, Learner())
    assert torch.equal(result.weights, encoders["dense"].weights)
    assert torch.equal(result.parameters["bias"], encoders["dense"].bias)
    assert torch.equal(result.loss, encoders["dense"].loss)


@pytest.mark.parametrize("rule", ["follow", "grow", "gradient"])
def test_autograd_trains_as_the_closed_form(settings, rule):
    bias = settings[1].bias.model_copy(update={"rule": rule})
    exact = run(settings, Learner(), bias=bias)
    other = run(settings, Learner(**BY_AUTOGRAD), bias=bias)
    scale = exact.weights.abs().max()
    assert (exact.weights - other.weights).abs().max() < 1e-5 * scale
    assert (exact.parameters["bias"] - other.parameters["bias"]).abs().max() < 1e-5 * scale
    torch.testing.assert_close(exact.loss, other.loss)
    assert torch.equal(exact.T1, other.T1)


def test_double_precision_has_the_draws_of_single(settings):
    single, double = run(settings, Learner()), run(settings, Learner(encoder="double"))
    assert double.weights.dtype == torch.float64
    assert (single.weights - double.weights).abs().max() < 1e-5 * double.weights.abs().max()
    item = Arm(arm="pruned_neuron", alpha=0.3, pruned_update="straight_through")
    masked = run(settings, Learner(encoder="double"), item)
    assert not torch.equal(double.weights, masked.weights)


@pytest.mark.parametrize("arm", ["pruned_neuron", "random_neuron", "pruned_weight"])
def test_masks_act_as_in_the_closed_form(settings, arm):
    item = Arm(arm=arm, alpha=0.3, pruned_update="straight_through")
    exact, other = (run(settings, Learner(**keys), item) for keys in ({}, BY_AUTOGRAD))
    assert (exact.weights - other.weights).abs().max() < 1e-5 * exact.weights.abs().max()
    assert not torch.equal(other.weights, run(settings, Learner(**BY_AUTOGRAD)).weights)


def test_autograd_uses_separate_negatives(settings):
    data, training = settings
    views = Views(mask=0.5, clean_negatives=True)
    masked = data.model_copy(update={"views": views, "L": 1}), training
    exact, other = (run(masked, Learner(**keys)) for keys in ({}, BY_AUTOGRAD))
    assert (exact.weights - other.weights).abs().max() < 1e-5 * exact.weights.abs().max()
    assert "takes no negatives" in refusal(run, masked, Learner(loss="spectral"))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_replicas_do_not_depend_on_their_block(settings, encoder, optimiser):
    learner = Learner(encoder=encoder, loss="vicreg", optimiser=optimiser)
    block, alone = run(settings, learner, seeds=(5, 3, 4)), run(settings, learner, seeds=(3,))
    for name, value in alone.parameters.items():
        assert torch.equal(value[0], block.parameters[name][1]), name


@pytest.mark.parametrize("law", DATA_LAWS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_under_every_law(settings, law, loss):
    result = run(settings, Learner(data_law=law, loss=loss), T=3)
    assert result.loss.isfinite().all()
    assert {row["metric"] for row in result.trajectory} >= {"loss", "max_alignment"}


def test_fresh_pairs_are_others_after_an_epoch(settings):
    again, fresh = (
        run(settings, Learner(loss="spectral", fresh=fresh), T=8) for fresh in (False, True)
    )
    assert not torch.equal(again.weights, fresh.weights)
    again, fresh = (
        run(settings, Learner(loss="spectral", fresh=fresh), T=4) for fresh in (False, True)
    )
    assert torch.equal(again.weights, fresh.weights), "64 pairs last for four batches of 16"


def test_own_pruning_and_bias_rules_act(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from rarefeat.model.pruning import mask_smallest\n"
        "def disagreeing(context):\n"
        "    return mask_smallest(context.moments.agreement, 0.25)\n"
        "def constant(context):\n"
        "    return 0 * context.bias + 0.01\n"
    )
    arm = Arm(arm="mine:disagreeing", pruned_update="straight_through")
    bias = settings[1].bias.model_copy(update={"rule": "mine:constant"})
    learner = Learner(loss="nt_xent", loss_options={"tau": 0.5})
    plain, pruned = run(settings, learner), run(settings, learner, arm)
    assert not torch.equal(plain.weights, pruned.weights)
    assert not torch.equal(plain.weights, run(settings, Learner(loss="nt_xent")).weights)
    assert run(settings, learner, bias=bias).parameters["bias"].eq(0.01).all()
    message = refusal(run, settings, Learner(encoder="linear"), bias=bias)
    assert "encoder linear names no `thresholds`" in message


def test_arm_of_eq_5_is_refused_elsewhere(settings):
    arm = Arm(arm="pruned_neuron", alpha=0.3)
    assert "set pruned_update: straight_through" in refusal(
        run, settings, Learner(loss="spectral"), arm
    )


def test_a_diverged_replica_leaves_others_alone(settings):
    learner = Learner(loss="spectral", encoder="mlp")
    result = run(settings, learner, eta=50.0, lambda_=0.0)
    assert not result.loss.isfinite().any()
