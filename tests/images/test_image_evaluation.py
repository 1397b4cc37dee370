"""Probes and metrics of frozen features, compared with scikit-learn and by hand."""

import math

import numpy as np
import pytest
import torch
from conftest import seeded
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from rarefeat.errors import RarefeatError
from rarefeat.images import evaluation
from rarefeat.images.evaluation import (
    alignment,
    class_accuracy,
    group_metrics,
    knn_predict,
    logistic_probe,
    predict,
    sgd_probe,
    standardise,
    uniformity,
)


def clusters(n, classes, size, spread, seed):
    """Features around a centre for each class, and labels of which each class has some."""
    g = seeded(seed)
    centres = torch.randn(classes, size, generator=g, dtype=torch.float64)
    labels = torch.arange(n)[torch.randperm(n, generator=g)] % classes
    return centres[labels] + spread * torch.randn(n, size, generator=g, dtype=torch.float64), labels


def test_standardise_uses_statistics_of_training_features():
    train, test = 3 + 5 * torch.randn(2, 40, 6, generator=seeded(0))
    scaler = StandardScaler().fit(train.double().numpy())
    for got, features in zip(standardise(train, test), (train, test), strict=True):
        assert got.dtype == torch.float64
        np.testing.assert_allclose(
            got, scaler.transform(features.double().numpy()), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6 / 3])
def test_standardise_constant_feature_is_zero(constant):
    train, test = torch.randn(2, 30, 3, generator=seeded(1), dtype=torch.float64)
    train[:, 1] = constant
    got_train, got_test = standardise(train, test)
    assert got_train[:, 1].abs().max() == got_test[:, 1].abs().max() == 0
    assert got_train.isfinite().all()
    assert got_train[:, [0, 2]].std(0, correction=0).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("classes", [3, 10])
@pytest.mark.parametrize("l2", [1e-3, 0.1])
def test_logistic_probe_is_scikit_learns_logistic_regression(classes, l2):
    features, labels = clusters(150, classes, 8, 1.0, 2)
    weights, bias = logistic_probe(features.float(), labels, classes, l2)
    features = features.float().double().numpy()
    regression = LogisticRegression(C=1 / (len(labels) * l2), tol=1e-10, max_iter=10_000)
    expected = regression.fit(features, labels.numpy())
    centred = expected.intercept_ - expected.intercept_.mean()
    np.testing.assert_allclose(weights, expected.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(bias, centred, rtol=1e-4, atol=1e-5)
    found = predict(torch.from_numpy(features), weights, bias)
    assert found.tolist() == expected.predict(features).tolist()
    assert weights.dtype == bias.dtype == torch.float64


def test_logistic_probe_works_where_gradients_are_off():
    features, labels = clusters(30, 3, 4, 1.0, 5)
    expected = logistic_probe(features, labels, 3, 0.1)
    with torch.no_grad():
        got = logistic_probe(features, labels, 3, 0.1)
    assert all(map(torch.equal, got, expected))


def test_logistic_probe_that_does_not_converge_is_refused(monkeypatch):
    features, labels = clusters(60, 3, 4, 1.0, 6)
    monkeypatch.setattr(evaluation, "ITERATIONS", 20)
    with pytest.raises(RarefeatError, match="did not converge"):
        logistic_probe(1e3 * features, labels, 3, 1e-6)
    with pytest.raises(RarefeatError, match="gradient norm nan"):
        logistic_probe(features.fill_(torch.nan), labels, 3, 0.1)


def test_sgd_probe_separates_clusters_and_depends_on_its_generator_alone():
    features, labels = clusters(300, 4, 16, 0.3, 7)
    first, again, other = (
        sgd_probe(features[:200], labels[:200], 4, seeded(seed)) for seed in (1, 1, 2)
    )
    assert (predict(features[200:], *first) == labels[200:]).double().mean() > 0.98
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])


def test_sgd_probe_lowers_the_learning_rate_after_each_third(monkeypatch):
    rates = []

    class Recording(torch.optim.SGD):
        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    monkeypatch.setattr(torch.optim, "SGD", Recording)
    sgd_probe(
        torch.randn(5, 2, generator=seeded(0)), torch.arange(5) % 2, 2, seeded(0), epochs=6, batch=3
    )
    assert rates == pytest.approx([30.0] * 4 + [3.0] * 4 + [0.3] * 4)


@pytest.mark.parametrize("neighbours", [1, 5, 11])
@pytest.mark.parametrize("chunk", [7, 1000])
def test_knn_is_scikit_learns_with_the_cosine_metric(neighbours, chunk):
    # With two classes and an odd number there is no tie.
    features, labels = clusters(120, 2, 6, 1.5, 9)
    train, test = features[:80], 3 * features[80:]
    classifier = KNeighborsClassifier(neighbours, metric="cosine")
    expected = classifier.fit(train.numpy(), labels[:80].numpy()).predict(test.numpy())
    found = knn_predict(train, labels[:80], test, neighbours, 2, chunk)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("nearest_first", "expected"),
    [
        ([0, 1, 1, 0], 0),
        ([1, 2, 2, 0], 2),
        ([2, 1, 0], 2),
    ],
)
def test_knn_tie_goes_to_class_of_nearest_neighbour(nearest_first, expected):
    angles = torch.arange(1, len(nearest_first) + 1) / 10
    train = torch.stack([angles.cos(), angles.sin()], 1) * torch.arange(1, len(angles) + 1)[:, None]
    shuffle = torch.randperm(len(angles), generator=seeded(3))
    far = torch.tensor([[-1.0, 0.0]]).expand(4, 2)
    train, labels = (
        torch.cat([far, train[shuffle]]),
        torch.cat([torch.full((4,), 3), torch.tensor(nearest_first)[shuffle]]),
    )
    assert knn_predict(train, labels, torch.tensor([[2.0, 0.0]]), len(angles), 4).tolist() == [
        expected
    ]


def test_class_accuracy_by_hand():
    labels, predicted = torch.tensor([0, 0, 0, 0, 1, 1, 3]), torch.tensor([0, 0, 0, 1, 0, 2, 3])
    got = class_accuracy(predicted, labels, 4)
    assert got.dtype == torch.float64
    assert got.tolist() == pytest.approx([0.75, 0.0, math.nan, 1.0], nan_ok=True)


def test_group_metrics_by_hand():
    # from the largest class to the smallest: 0.9, 0.7, 0.8, 0.6, 0.3, 0.1, 0.2
    accuracy, order = (
        torch.tensor([0.1, 0.9, 0.3, 0.8, 0.2, 0.7, 0.6]),
        torch.tensor([1, 5, 3, 6, 2, 0, 4]),
    )
    got = group_metrics(accuracy, order)
    many, medium, few = (0.9 + 0.7 + 0.8) / 3, 0.45, 0.15
    expected = {"accuracy": 3.6 / 7, "delta_20": 0.7, "many": many, "medium": medium, "few": few}
    assert got == pytest.approx(expected | {"group_std": np.std([many, medium, few])}, abs=1e-7)


@pytest.mark.parametrize(
    ("classes", "sizes", "fifth"),
    [(3, (1, 1, 1), 1), (10, (4, 3, 3), 2), (14, (6, 4, 4), 2), (100, (34, 33, 33), 20)],
)
def test_groups_have_the_published_sizes(classes, sizes, fifth):
    order = torch.randperm(classes, generator=seeded(classes))
    bounds = np.cumsum((0, *sizes))
    for name, start, stop in zip(("many", "medium", "few"), bounds[:-1], bounds[1:], strict=True):
        for rank in range(classes):
            only = torch.zeros(classes, dtype=torch.float64)
            only[order[rank]] = 1.0
            got = group_metrics(only, order)
            assert got[name] == pytest.approx((start <= rank < stop) / (stop - start))
            assert got["delta_20"] == pytest.approx(
                ((rank < fifth) - (rank >= classes - fifth)) / fifth
            )


def test_two_classes_have_a_head_and_a_tail_but_no_groups():
    got = group_metrics(torch.tensor([0.25, 0.75]), torch.tensor([1, 0]))
    nothing = dict.fromkeys(("medium", "few", "group_std"), math.nan)
    assert got == pytest.approx(
        {"accuracy": 0.5, "delta_20": 0.5, "many": 0.5} | nothing, nan_ok=True
    )


def test_alignment_by_hand():
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    assert alignment(x, 5 * x).item() == 0
    assert alignment(x, -x).item() == pytest.approx(4.0)
    assert alignment(
        x, torch.tensor([[0.0, 7.0], [0.0, 1.0], [-1.0, 0.0]])
    ).item() == pytest.approx((2 + 0 + 4) / 3)


def test_uniformity_by_hand():
    assert uniformity(torch.tensor([[1.0, 1.0], [2.0, 2.0], [5.0, 5.0]])).item() == pytest.approx(
        0.0, abs=1e-6
    )
    assert uniformity(torch.tensor([[1.0, 0.0], [-3.0, 0.0]])).item() == pytest.approx(-8.0)
    square = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    assert uniformity(square).item() == pytest.approx(
        math.log((4 * math.exp(-4) + 2 * math.exp(-8)) / 6), rel=1e-5
    )
