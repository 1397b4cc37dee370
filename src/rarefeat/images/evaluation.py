"""Evaluation of frozen features: linear probes, nearest neighbours, and metrics.

The metrics are accuracy by class and group, alignment and uniformity, and the effective rank.
Axes: n images, q other ones, D features, K classes.
"""

import math

import torch
from jaxtyping import Float, Float64, Int
from torch import Generator, Tensor
from torch.nn import functional

from rarefeat.errors import RarefeatError

Head = tuple[Float[Tensor, "K D"], Float[Tensor, " K"]]
"""Weights and biases of a linear classifier."""
GRADIENT_NORM = 1e-6
ITERATIONS, ITERATIONS_BETWEEN_CHECKS = 10_000, 20


def standardise(
    train: Float[Tensor, "n D"], *others: Float[Tensor, "_ D"]
) -> list[Float64[Tensor, "_ D"]]:
    """Scale features to zero mean and unit (population) variance in `train`."""
    train = train.double()
    # The rounded mean of equal values may differ from them, so the variance need not be 0.
    constant = train.amax(0) == train.amin(0)
    mean, scale = train.mean(0), train.std(0, correction=0).masked_fill(constant, torch.inf)
    return [(features.double() - mean) / scale for features in (train, *others)]


@torch.enable_grad()
def logistic_probe(
    features: Float[Tensor, "n D"], labels: Int[Tensor, " n"], n_classes: int, l2: float
) -> Head:
    """Fit a multinomial logistic regression.

    It minimises the mean cross-entropy + l2 / 2 ||W||^2; the bias is not penalised. L-BFGS on all
    images runs from zero, in float64, until the Euclidean norm of the gradient is below 1e-6. The
    result is that of scikit-learn's LogisticRegression with C = 1 / (n l2), with three classes and
    more; with two, with C = 2 / (n l2).
    """
    x, y = features.detach().double(), labels.long()
    weights, bias = (
        x.new_zeros(n_classes, x.shape[1]).requires_grad_(),
        x.new_zeros(n_classes).requires_grad_(),
    )
    # L-BFGS gets no tolerances: its own bound the largest component of the gradient and the last
    # change.
    optimiser = torch.optim.LBFGS(
        [weights, bias],
        max_iter=ITERATIONS_BETWEEN_CHECKS,
        tolerance_grad=0,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = functional.cross_entropy(x @ weights.T + bias, y) + l2 / 2 * weights.square().sum()
        value.backward()
        return value

    for _ in range(ITERATIONS // ITERATIONS_BETWEEN_CHECKS):
        optimiser.step(loss)
        loss()  # The line search need not have ended on the weights that it chose.
        norm = torch.hypot(weights.grad.norm(), bias.grad.norm()).item()
        if norm < GRADIENT_NORM:
            return weights.detach(), bias.detach()
        if not math.isfinite(norm):
            break
    raise RarefeatError(
        f"linear probe: it did not converge, gradient norm {norm:.2g}; standardise the features"
        " or raise l2"
    )


@torch.enable_grad()
def sgd_probe(
    features: Float[Tensor, "n D"],
    labels: Int[Tensor, " n"],
    n_classes: int,
    generator: Generator,
    epochs: int = 30,
    lr: float = 30.0,
    batch: int = 128,
) -> Head:
    """Fit the linear probe of the reference implementation of Jiang et al. 2021.

    SGD has momentum 0.9 and no weight decay; the learning rate is a tenth after a third of the
    epochs and a hundredth after two thirds. Two differences from the reference: it augments images,
    here features are cached; it takes the best epoch on validation images, here the last.
    """
    x, y = features.detach().float(), labels.long()
    bound = x.shape[1] ** -0.5
    weights, bias = (
        torch.empty(shape)
        .uniform_(-bound, bound, generator=generator)
        .to(x.device)
        .requires_grad_()
        for shape in ((n_classes, x.shape[1]), (n_classes,))
    )
    optimiser = torch.optim.SGD([weights, bias], lr=lr, momentum=0.9)
    for epoch in range(epochs):
        optimiser.param_groups[0]["lr"] = lr * 0.1 ** (3 * epoch // epochs)
        for indices in torch.randperm(len(x), generator=generator).to(x.device).split(batch):
            optimiser.zero_grad()
            functional.cross_entropy(x[indices] @ weights.T + bias, y[indices]).backward()
            optimiser.step()
    return weights.detach(), bias.detach()


def predict(
    features: Float[Tensor, "n D"], weights: Float[Tensor, "K D"], bias: Float[Tensor, " K"]
) -> Int[Tensor, " n"]:
    """Predict the label of largest logit."""
    return (features.to(weights.dtype) @ weights.T + bias).argmax(-1)


def knn_predict(
    train: Float[Tensor, "n D"],
    train_labels: Int[Tensor, " n"],
    test: Float[Tensor, "q D"],
    neighbours: int,
    n_classes: int,
    chunk: int = 1024,
) -> Int[Tensor, " q"]:
    """Predict labels by a majority vote of the nearest training images, by cosine similarity."""
    train, test = functional.normalize(train, dim=-1), functional.normalize(test, dim=-1)
    predicted = []
    for queries in test.split(chunk):
        nearest = train_labels.long()[(queries @ train.T).topk(neighbours).indices]
        votes = nearest.new_zeros(len(queries), n_classes).scatter_add_(
            1, nearest, torch.ones_like(nearest)
        )
        votes_of_nearest = votes.gather(1, nearest)
        # argmax is the first of equal maxima, and the nearest come first.
        predicted.append(nearest.gather(1, votes_of_nearest.argmax(1, keepdim=True))[:, 0])
    return torch.cat(predicted)


def class_accuracy(
    predicted: Int[Tensor, " n"], labels: Int[Tensor, " n"], n_classes: int
) -> Float64[Tensor, " K"]:
    """Compute the fraction of the test images of each class that are predicted right."""
    right = torch.bincount(labels[predicted == labels], minlength=n_classes)
    return right.double() / torch.bincount(labels, minlength=n_classes)


def group_metrics(
    accuracy_by_class: Float[Tensor, " K"], class_order: Int[Tensor, " K"]
) -> dict[str, float]:
    """Compute accuracy over all classes, and at head and tail of the pretraining counts."""
    ordered = accuracy_by_class.double()[class_order]
    fifth, third = max(1, len(ordered) // 5), len(ordered) // 3
    groups = torch.stack(
        [group.mean() for group in ordered.split([len(ordered) - 2 * third, third, third])]
    )
    return {
        "accuracy": ordered.mean().item(),
        "delta_20": (ordered[:fifth].mean() - ordered[-fifth:].mean()).item(),
        **dict(zip(("many", "medium", "few"), groups.tolist(), strict=True)),
        "group_std": groups.std(correction=0).item(),
    }


def alignment(x: Float[Tensor, "n D"], y: Float[Tensor, "n D"]) -> Float[Tensor, ""]:
    """Compute the mean squared distance of two views on the sphere."""
    return (
        (functional.normalize(x, dim=-1) - functional.normalize(y, dim=-1)).square().sum(-1).mean()
    )


def uniformity(x: Float[Tensor, "n D"]) -> Float[Tensor, ""]:
    """Compute log mean exp(-2 ||x_i - x_j||^2) over distinct pairs on the sphere."""
    return torch.pdist(functional.normalize(x, dim=-1)).square().mul(-2).exp().mean().log()
