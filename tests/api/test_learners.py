"""Learners of one's own from Python, and pairs for one's own loop."""

import pytest
import torch
from conftest import refusal
from torch.utils.data import DataLoader

import rarefeat

SMALL = {"T": 12, "N": 256, "d1": 20, "K": 16, "progress": False}


def square(f_x, f_y):
    return (f_x - f_y).square().mean() - f_x.square().mean()


def test_train_learners_equals_train_of_the_paper():
    learners = rarefeat.train_learners(0.4, seeds=[7, 100], **SMALL)
    encoder = rarefeat.train(0.4, seed=100, simulator="direct", **SMALL)
    assert torch.equal(learners.parameters["weights"][1], encoder.weights)
    assert torch.equal(learners.parameters["bias"][1], encoder.bias)
    tokens = encoder.sample_pairs(6).tokens[:, 0]
    torch.testing.assert_close(learners(tokens)[1], encoder(tokens))
    cosines = learners.table.query("seed == 100")["cosine"].to_numpy()
    torch.testing.assert_close(torch.tensor(cosines), encoder.cosines.amax(0).double())


def test_train_learners_takes_functions_and_options():
    learners = rarefeat.train_learners(
        loss=square, encoder="mlp", data_law="correlated", optimiser="adam",
        data_options={"rho": 0.9}, seeds=range(2), eta=0.01, **SMALL,
    )  # fmt: skip
    assert set(learners.table["seed"]) == {0, 1}
    assert learners.rare_features == [8]
    assert set(learners.trajectory["metric"]) >= {"loss", "max_alignment"}
    assert learners.table["r2"].between(-2, 1).all()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"loss": "infonse"}, "did you mean 'infonce'"),
        ({"seeds": [1, 1]}, "distinct"),
        ({"seeds": "1"}, "must be a whole number"),
        ({"simulator": "reduced"}, "need every coordinate"),
        ({"lose": "infonce"}, "did you mean 'loss'"),
        ({"eps_min": 2}, "eps_min"),
        ({"loss_options": 3}, "loss_options: must be a mapping, got 3"),
    ],
)
def test_train_learners_refuses_in_one_line(keys, words):
    assert words in refusal(rarefeat.train_learners, **{**SMALL, **keys})


def test_learners_refuse_tokens_of_another_width():
    learners = rarefeat.train_learners(loss="spectral", **SMALL)
    assert "must be (n, L, 20)" in refusal(learners, torch.zeros(2, 4, 21))


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
