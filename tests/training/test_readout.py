"""The readout finds what is in planted embeddings, and nothing else."""

import pandas as pd
import torch
from torch import nn

from rarefeat.training.learners import DataLawSource, Learner, TrainedLearners, train_learners
from rarefeat.training.readout import measure_learners, ridge_r2


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_ridge_finds_planted_features_alone():
    features = torch.randn(400, 3, generator=seeded())
    noise = torch.randn(400, 2, generator=seeded())
    embeddings = torch.cat([features[:, :1] * 3, features[:, 1:2] + features[:, :1], noise], 1)
    r2 = ridge_r2(embeddings, features, 200)
    assert (r2[:2] > 0.99).all()
    assert r2[2] < 0.3


def test_ridge_of_zero_or_infinite_embeddings():
    features = torch.randn(40, 2, generator=seeded())
    assert (ridge_r2(torch.zeros(40, 3), features, 20) <= 0).all()
    assert ridge_r2(torch.full((40, 3), torch.inf), features, 20).isnan().all()


class Planted(nn.Module):
    """The dictionary without its last feature."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, tokens):
        return (tokens @ self.weights.mT).sum(-2)


def test_readout_finds_all_but_the_missing_feature(settings):
    data, training = settings
    source = DataLawSource("test", Learner(), data, training, 0.05, [1, 2])
    M = source.simulator.dictionary
    weights = M.mT[:, :-1].clone()
    planted = TrainedLearners(
        Planted(weights[0]), {"weights": weights}, "weights", M,
        torch.tensor([-1, -1]), torch.zeros(2), [],
    )  # fmt: skip
    rows = pd.DataFrame(measure_learners(planted, source))
    missing = rows["feature"] == data.d - 1
    assert (rows["r2"][~missing] > 0.8).all()
    assert (rows["r2"][missing] < 0.1).all()
    assert (rows["r2_shuffled"] < 0.1).all()
    assert (rows["cosine"][~missing] > 0.999).all()
    assert (rows["cosine"][missing] < 0.001).all()
    assert len(rows) == 2 * data.d
    weights[1, 0] = torch.inf
    rows = pd.DataFrame(measure_learners(planted, source))
    assert rows["diverged"].tolist() == [0.0] * data.d + [1.0] * data.d


def test_readout_does_not_depend_on_the_block(settings, dense):
    data, training = settings
    tables = []
    for seeds in ([3, 4], [4]):
        learner = Learner(encoder="mlp")
        source = DataLawSource("test", learner, data, training, 0.1, seeds)
        result = train_learners(source, dense, 0.5)
        rows = pd.DataFrame(measure_learners(result, source))
        tables.append(rows[rows["seed"] == 4].reset_index(drop=True))
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    assert tables[0]["diverged"].eq(0).all()


def law_of_tokens(n, generator, probability):
    features = 1.0 * (torch.rand(n, 5, generator=generator) < probability)
    tokens = features[:, None, None, :].repeat(1, 2, 3, 4)[..., :16]
    return features, tokens + 0.01 * torch.randn(tokens.shape, generator=generator)


def test_a_law_may_draw_tokens_itself(settings, dense):
    data, training = settings
    learner = Learner(data_law=law_of_tokens, encoder="linear", optimiser="adam")
    source = DataLawSource("test", learner, data, training, 0.1, [1])
    rows = pd.DataFrame(measure_learners(train_learners(source, dense, 0.5), source))
    assert rows["r2"].max() > 0.9
