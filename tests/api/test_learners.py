"""Learners of one's own from Python, and pairs for one's own loop."""

import subprocess
import sys

import pandas as pd
import pytest
import torch
from conftest import refusal
from torch.utils.data import DataLoader

import rarefeat

SMALL = {"T": 12, "N": 256, "d1": 20, "K": 16, "progress": False}


def square(f_x, f_y, how=torch.square):
    return how(f_x - f_y).mean() - f_x.square().mean()


def test_train_learners_equals_train_of_the_paper():
    learners = rarefeat.train_learners(0.4, seed=[7, 100], **SMALL)
    encoder = rarefeat.train(0.4, seed=100, simulator="direct", **SMALL)
    assert torch.equal(learners.parameters["weights"][1], encoder.weights)
    assert torch.equal(learners.parameters["bias"][1], encoder.bias)
    tokens = encoder.sample_pairs(6).tokens[:, 0]
    torch.testing.assert_close(learners(tokens)[1], encoder(tokens))
    cosines = learners.table.query("seed == 100")["cosine"].to_numpy()
    torch.testing.assert_close(torch.tensor(cosines), encoder.cosines.amax(0).double())


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_learners_train_where_gradients_are_switched_off(off):
    with off():
        learners = rarefeat.train_learners(loss="vicreg", seed=[1], **SMALL)
    trained = rarefeat.train_learners(loss="vicreg", seed=[1], **SMALL)
    assert learners.table.equals(trained.table)


def test_train_learners_takes_functions_and_options():
    learners = rarefeat.train_learners(
        loss=square, encoder="mlp", data_law="correlated", optimiser="adam",
        data_options={"rho": 0.9}, loss_options={"how": lambda f: f.abs()}, seed=range(2), eta=0.01,
        **SMALL,
    )  # fmt: skip
    assert set(learners.table["seed"]) == {0, 1}
    assert learners.rare_features == [8]
    assert set(learners.trajectory["metric"]) >= {"loss", "max_alignment"}
    assert learners.table["r2"].between(-2, 1).all()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"seed": [1, 1]}, "distinct"),
        ({"seed": "1"}, "must be a whole number"),
        ({"seeds": [1]}, "seeds: unknown key (did you mean 'seed'?)"),
        ({"simulator": "reduced"}, "need every coordinate"),
        ({"eps_min": 2}, "eps_min"),
        ({"loss_options": 3}, "loss_options: must be a mapping, got 3"),
        ({"optimiser_options": {"lr": 0.1}}, "optimiser: lr: the rate is the key eta"),
        ({"optimiser": "adam", "optimiser_options": {"eps": -1.0}}, "optimiser: Invalid epsilon"),
        ({"encoder": torch.nn.Linear(20, 3)}, "give the class Linear"),
        ({"fresh": "no"}, "fresh: must be True or False"),
        ({"history": True}, "history: has no effect"),
        ({"loss": "spectral", "tau": 0.5}, "tau: has no effect: the loss spectral takes none"),
        ({"optimiser_options": {"weight_decay": 1}, "lambda_": 0.1}, "lambda_: has no effect: opt"),
        ({"encoder": "mlp", "sigma_0": 0.1}, "sigma_0: has no effect: the encoder mlp takes none"),
        ({"encoder": "linear", "bias": {"share": 0}}, "bias: has no effect: the encoder linear"),
    ],
)
def test_train_learners_refuses_in_one_line(keys, words):
    assert words in refusal(rarefeat.train_learners, **{**SMALL, **keys})


def soft(f_x, f_y, tau=0.5):
    return (f_x @ f_y.mT / tau).softmax(-1).square().mean()


def test_own_defaults_win_and_all_that_a_part_is_given_is_told():
    own = rarefeat.train_learners(loss=soft, optimiser=torch.optim.RMSprop, **SMALL)
    assert own.given["loss"] == {}
    assert own.given["optimiser"] == {"lr": 0.1}
    assert "'lr': 0.1" in own.table["given"][0]
    assert "'lr': 0.1" in repr(own)
    torchs = rarefeat.train_learners(loss=soft, optimiser=torch.optim.Adam, **SMALL)
    assert torchs.given["optimiser"] == {"lr": 0.1}
    asked = rarefeat.train_learners(loss=soft, optimiser=torch.optim.RMSprop, lambda_=0.3, **SMALL)
    assert asked.given["optimiser"] == {"lr": 0.1, "weight_decay": 0.3}
    built_in = rarefeat.train_learners(loss="nt_xent", optimiser="adam", **SMALL)
    assert built_in.given["loss"] == {"tau": 1.0}
    assert built_in.given["optimiser"] == {"lr": 0.1, "weight_decay": 0.05}


def test_law_without_frequencies_is_told(capfd):
    def always(n, generator, probability):
        return torch.randn(n, len(probability), generator=generator)

    rarefeat.train_learners(data_law=always, loss="spectral", **SMALL)
    told = "data_law always: draws the same at half the probability, so that eps_min has no effect"
    assert capfd.readouterr().err.count(told) == 1


def test_learners_have_controls_a_summary_a_plot_and_modules(tmp_path):
    learners = rarefeat.train_learners(loss="nt_xent", encoder="mlp", seed=[3, 4], **SMALL)
    keys = SMALL | {"T": 0}
    start = rarefeat.train_learners(loss="nt_xent", encoder="mlp", seed=[3, 4], **keys)
    assert learners.table["r2_untrained"].tolist() == pytest.approx(start.table["r2"].tolist())
    summary = learners.summary()
    rare = learners.table.query("feature == 8")["r2"]
    assert summary.loc[("rare", "r2"), "mean"] == pytest.approx(rare.mean())
    assert summary.loc[("others", "r2"), "n"] == 2
    ax = learners.plot()
    assert len(ax.containers) == 18
    tokens = torch.randn(5, 4, 20)
    assert torch.allclose(learners.module(4)(tokens), learners(tokens)[1], atol=1e-6)
    assert "seed: must be one of [3, 4], got 5" in refusal(learners.module, 5)


class Mine(torch.nn.Module):
    """An encoder that is in no file but this one."""

    def __init__(self, d1, m):
        super().__init__()
        self.layer = torch.nn.Linear(d1, m)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, tokens):
        return self.scale * self.layer(tokens).tanh().sum(-2)


ELSEWHERE = """
import sys, torch
tokens = torch.ones(5, 4, 20)
sums = [torch.export.load(f"{i}.pt2").module()(tokens).double().sum().item() for i in (0, 1)]
print("rarefeat" in sys.modules)
import rarefeat
learners = rarefeat.load("learners.safetensors")
learners.save("again.safetensors")
print(*sums, rarefeat.load("again.safetensors")(tokens).double().sum().item())
"""


def test_modules_and_saved_learners_need_neither_rarefeat_nor_the_class(tmp_path):
    learners = rarefeat.train_learners(loss=square, encoder=Mine, seed=[3, 4], **SMALL)
    encoder = rarefeat.train(simulator="direct", **SMALL)
    tokens, path = torch.ones(5, 4, 20), tmp_path / "learners.safetensors"
    for i, module in enumerate((learners.module(4), encoder.module())):
        torch.export.save(torch.export.export(module, (tokens,)), tmp_path / f"{i}.pt2")
    learners.save(path)
    loaded = rarefeat.load(path)
    assert torch.equal(loaded(tokens), learners(tokens))
    assert torch.equal(loaded.module(4)(tokens), learners.module(4)(tokens))
    for name in ("table", "trajectory"):
        pd.testing.assert_frame_equal(getattr(loaded, name), getattr(learners, name))
    assert (loaded.data, loaded.seeds, loaded.given) == (learners.data, [3, 4], learners.given)
    assert loaded.summary().equals(learners.summary())
    command = [sys.executable, "-c", ELSEWHERE]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    no, *sums = done.stdout.split() or [done.stderr]
    expected = learners(tokens)[1], encoder(tokens), learners(tokens)
    assert no == "False"
    assert [float(x) for x in sums] == pytest.approx([x.double().sum().item() for x in expected])


def test_module_of_an_encoder_takes_tokens_of_its_simulator():
    encoder = rarefeat.train(**SMALL | {"d1": 60})
    tokens = encoder.sample_pairs(6).tokens[:, 0]
    assert tokens.shape[-1] > encoder.weights.shape[1]
    torch.testing.assert_close(encoder.module()(tokens), encoder(tokens))


@pytest.mark.parametrize("loss", ["infonce", square])
def test_losses_are_told_at_every_step(loss):
    told: dict = {3: {}, 4: {}}

    def on_step(step, losses):
        for seed, value in losses.items():
            assert told[seed].setdefault(step, value) == value

    learners = rarefeat.train_learners(loss=loss, seed={3, 4}, on_step=on_step, **SMALL)
    assert [list(steps) for steps in told.values()] == [list(range(13))] * 2
    for row in learners.trajectory.query("metric == 'loss'").itertuples():
        assert told[row.seed][row.step] == row.value


def test_learners_refuse_tokens_of_another_width():
    learners = rarefeat.train_learners(loss="spectral", **SMALL)
    assert "must be (n, L, 20)" in refusal(learners, torch.zeros(2, 4, 21))


class Scaled(torch.nn.Linear):
    def __init__(self, d1, m):
        super().__init__(d1, m)
        self.scale = torch.rand(()).item()

    def forward(self, tokens):
        return super().forward(tokens).sum(-2) * self.scale


def test_learners_of_one_file_have_one_graph(tmp_path):
    learners = rarefeat.train_learners(encoder=Scaled, loss="vicreg", seed=[1, 2], **SMALL)
    assert "Scaled is built otherwise" in refusal(learners.save, tmp_path / "a.safetensors")


def test_stream_pairs_feeds_a_loader_and_begins_anew():
    pairs = rarefeat.stream_pairs(K=16, N=64, d1=20, seed=3)
    loader = DataLoader(pairs, batch_size=None)
    stream, again = iter(loader), iter(loader)
    first = [next(stream) for _ in range(6)]
    assert [item.shape for item in first[0]] == [(16, 4, 20), (16, 4, 20), (16, 9)]
    assert all(torch.equal(*both) for both in zip(first[0], next(again), strict=True))
    assert not torch.equal(first[0][0], first[4][0]), "fresh pairs after an epoch of N"
    assert pairs.dictionary.shape == (20, 9)


def test_stream_pairs_has_the_tokens_of_the_chain():
    pairs = rarefeat.stream_pairs(0.4, K=16, N=256, d1=20, seed=100, fresh=False)
    f_x, f_y, features = next(iter(pairs))
    signal = (f_x.sum(1) + f_y.sum(1)) @ pairs.dictionary
    right = (signal.sign() == features.sign())[features != 0]
    assert right.double().mean() > 0.95


def test_workers_of_a_loader_draw_pairs_of_their_own():
    pairs = rarefeat.stream_pairs(K=16, N=64, d1=20)
    loader = DataLoader(pairs, batch_size=None, num_workers=2)
    stream = iter(loader)
    first, second = next(stream), next(stream)
    assert not torch.equal(first[0], second[0])
