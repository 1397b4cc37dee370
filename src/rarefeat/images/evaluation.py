"""How frozen features are judged: linear probes, nearest neighbours, accuracy by class and group, alignment and uniformity."""

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional

from rarefeat.core.errors import RarefeatError

GRADIENT_NORM = 1e-6
ITERATIONS, ITERATIONS_BETWEEN_CHECKS = 10_000, 20


def standardise(train: Tensor, *others: Tensor) -> list[Tensor]:
    """All features, (n, D) each, in float64 with zero mean and unit (population) variance by the statistics of `train`.

    A feature that is constant in `train` is zero everywhere, also where it varies in the others.
    """
    train = train.double()
    # the rounded mean of equal values may differ from them, hence no test for a variance of zero
    constant = train.amax(0) == train.amin(0)
    mean, scale = train.mean(0), train.std(0, correction=0).masked_fill(constant, torch.inf)
    return [(features.double() - mean) / scale for features in (train, *others)]


@torch.enable_grad()
def logistic_probe(
    features: Tensor, labels: Tensor, classes: int, l2: float
) -> tuple[Tensor, Tensor]:
    """Multinomial logistic regression: the minimum of the mean cross-entropy + l2 / 2 ||W||^2, the bias not penalised.

    L-BFGS on all images from zero, in float64, until the Euclidean norm of the gradient is below 1e-6. The same as
    scikit-learn's LogisticRegression with C = 1 / (n l2), with three classes and more; with two, with C = 2 / (n l2).

    Args: (n, D), best standardised; (n,). The device is that of the features.

    Returns:
        Weights (classes, D) and bias (classes,), float64; the biases add up to zero.

    Raises:
        RarefeatError: if the gradient is not that small after 10,000 iterations, or not finite.
    """
    x, y = features.detach().double(), labels.long()
    weights, bias = (
        x.new_zeros(classes, x.shape[1]).requires_grad_(),
        x.new_zeros(classes).requires_grad_(),
    )
    # without tolerances of its own: those bound the largest component of the gradient and the last change
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
        loss()  # the line search need not have ended on the weights that it chose
        norm = torch.hypot(weights.grad.norm(), bias.grad.norm()).item()
        if norm < GRADIENT_NORM:
            return weights.detach(), bias.detach()
        if not math.isfinite(norm):
            break
    raise RarefeatError(
        f"the linear probe did not converge: gradient norm {norm:.2g}; standardise the features or raise l2"
    )


@torch.enable_grad()
def sgd_probe(
    features: Tensor,
    labels: Tensor,
    classes: int,
    generator: Generator,
    epochs: int = 30,
    lr: float = 30.0,
    batch: int = 128,
) -> tuple[Tensor, Tensor]:
    """The linear probe of the reference implementation of Jiang et al. 2021, but on cached features.

    SGD with momentum 0.9 without weight decay; the learning rate is a tenth after a third of the epochs and a hundredth after
    two thirds. The weights are those of the last epoch; there, images are augmented and the best epoch on validation images is
    taken. Meant for features as they leave the encoder.

    Args: (n, D), (n,). generator: on the CPU, of the initial weights, uniform in +-1 / sqrt(D), and of the order of the images.

    Returns:
        Weights (classes, D) and bias (classes,), float32.
    """
    x, y = features.detach().float(), labels.long()
    bound = x.shape[1] ** -0.5
    weights, bias = (
        torch.empty(shape)
        .uniform_(-bound, bound, generator=generator)
        .to(x.device)
        .requires_grad_()
        for shape in ((classes, x.shape[1]), (classes,))
    )
    optimiser = torch.optim.SGD([weights, bias], lr=lr, momentum=0.9)
    for epoch in range(epochs):
        optimiser.param_groups[0]["lr"] = lr * 0.1 ** (3 * epoch // epochs)
        for indices in torch.randperm(len(x), generator=generator).to(x.device).split(batch):
            optimiser.zero_grad()
            functional.cross_entropy(x[indices] @ weights.T + bias, y[indices]).backward()
            optimiser.step()
    return weights.detach(), bias.detach()


def predict(features: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Labels (n,) of largest logit, of features (n, D), weights (classes, D) and bias (classes,)."""
    return (features.to(weights.dtype) @ weights.T + bias).argmax(-1)


def knn_predict(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    neighbours: int,
    classes: int,
    chunk: int = 1024,
) -> Tensor:
    """Labels (n',) by majority vote of the `neighbours` training images of largest cosine similarity.

    A tie of votes goes to the class of the nearest neighbour among the tied; which of equally near images are the last
    neighbours is not defined.

    Args: (n, D), (n,), (n', D). chunk: test images at a time, which take chunk x n similarities of memory.

    Raises:
        RarefeatError: if there are fewer training images than neighbours.
    """
    if neighbours > len(train):
        raise RarefeatError(
            f"{neighbours} neighbours of {len(train)} images; lower probe.neighbours"
        )
    train, test = functional.normalize(train, dim=-1), functional.normalize(test, dim=-1)
    predicted = []
    for part in test.split(chunk):
        nearest = train_labels.long()[(part @ train.T).topk(neighbours).indices]
        votes = nearest.new_zeros(len(part), classes).scatter_add_(
            1, nearest, torch.ones_like(nearest)
        )
        votes_of_nearest = votes.gather(1, nearest)
        # argmax is the first of equal maxima, and the nearest come first
        predicted.append(nearest.gather(1, votes_of_nearest.argmax(1, keepdim=True))[:, 0])
    return torch.cat(predicted)


def class_accuracy(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Share of the test images of each class that are predicted right, (n,), (n,) -> (classes,) float64; NaN without images."""
    right = torch.bincount(labels[predicted == labels], minlength=classes)
    return right.double() / torch.bincount(labels, minlength=classes)


def group_metrics(accuracy_by_class: Tensor, class_order: Tensor) -> dict[str, float]:
    """Accuracy over all classes, at the head and the tail of the pretraining counts, as shares in [0, 1].

    Args:
        accuracy_by_class: (K,), of `class_accuracy`. class_order: (K,), its k-th entry is the class of k-th largest count.

    Returns:
        accuracy: mean over classes, which is that over test images where all classes have equally many.
        delta_20: mean of the first floor(K / 5) classes, but at least one, less that of as many last ones.
        many, medium, few: means of the groups of Jiang et al. 2021; K // 3 classes each are medium and few, the rest many.
        group_std: population standard deviation of these three.

        With two classes medium, few and group_std are NaN.

    Raises:
        RarefeatError: if a class has no accuracy, for want of test images.
    """
    if missing := accuracy_by_class.isnan().nonzero().flatten().tolist():
        raise RarefeatError(f"no test images of class {missing[0]}; every class needs some")
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


def alignment(x: Tensor, y: Tensor) -> Tensor:
    """Mean squared distance of two views on the sphere (Wang & Isola 2020, alpha = 2), (n, D), (n, D) -> (), in [0, 4].

    The projections are normalised here. Small is aligned.
    """
    return (
        (functional.normalize(x, dim=-1) - functional.normalize(y, dim=-1)).square().sum(-1).mean()
    )


def uniformity(x: Tensor) -> Tensor:
    """log mean exp(-2 ||x_i - x_j||^2) over distinct pairs on the sphere (Wang & Isola 2020, t = 2), (n, D) -> (), in [-8, 0].

    The projections are normalised here. Small is uniform; fewer than two points give NaN.
    """
    return torch.pdist(functional.normalize(x, dim=-1)).square().mul(-2).exp().mean().log()


def effective_rank(features: Tensor) -> float:
    """exp of the entropy of the shares of the singular values of the centred features (Roy & Vetterli 2007), (n, D), in [1, D].

    As RankMe (Garrido et al. 2023) has it, but without the mean, which all images share.
    """
    values = torch.linalg.svdvals(features.double() - features.double().mean(0))
    shares = values / values.sum()
    return torch.special.entr(shares).sum().exp().item()
