"""Stage 3 of the image studies: linear, few-shot and nearest-neighbour probes of the features."""

import pandas as pd
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from rarefeat.images.evaluation import (
    class_accuracy,
    knn_predict,
    logistic_probe,
    predict,
    sgd_probe,
    standardise,
)
from rarefeat.images.network import ImageEncoder, extract
from rarefeat.images.trainer import prepare
from rarefeat.model.randomness import generator
from rarefeat.workflow.config.images import ImageArm, ImageProbe, ImageTraining, Network
from rarefeat.workflow.run.job_inputs import JobInputs


def probe_images(
    namespace: str,
    seed: int,
    images: dict[str, Shaped[Tensor, "..."]],
    split: dict[str, Shaped[Tensor, " _"]],
    encoder: ImageEncoder,
    probe: ImageProbe,
) -> dict[str, Float[Tensor, " classes"]]:
    """Compute the accuracy of each probe on the test images of each class."""
    # The features of an image are extracted once, for all probes.
    pool, pretrain = split["pool"], split["pretrain"]
    needed = torch.cat([pool, pretrain, split["few_shot"]]).unique()
    features = extract(encoder, images["train"][needed])
    test = extract(encoder, images["test"])
    row_of = torch.full((len(images["train"]),), -1)
    row_of[needed] = torch.arange(len(needed))
    labels, test_labels = images["train_labels"], images["test_labels"]
    n_classes = int(labels.max()) + 1
    accuracies = {}
    for name, chosen in (
        ("balanced", pool),
        ("long_tailed", pretrain),
        ("few_shot", split["few_shot"]),
    ):
        x, queries = standardise(features[row_of[chosen]], test)
        head = logistic_probe(x, labels[chosen], n_classes, probe.l2)
        accuracies[name] = class_accuracy(predict(queries, *head), test_labels, n_classes)
        if name == "balanced" and probe.sgd:
            # The protocol of the reference implementations does not standardise features.
            stream = generator(namespace, seed, "sgd probe")
            head = sgd_probe(features[row_of[chosen]], labels[chosen], n_classes, stream)
            predicted = predict(test, *head)
            accuracies["balanced_sgd"] = class_accuracy(predicted, test_labels, n_classes)
    neighbours = min(probe.neighbours, len(pretrain))
    predicted = knn_predict(
        features[row_of[pretrain]], labels[pretrain], test, neighbours, n_classes
    )
    return accuracies | {"knn": class_accuracy(predicted, test_labels, n_classes)}


def stage(
    inputs: JobInputs,
    seeds: list[int],
    draws: str,
    arm: ImageArm,
    network: Network,
    probe: ImageProbe,
    training: ImageTraining,
) -> pd.DataFrame:
    """Probe the encoders of a cell and seed block."""
    prepare(training.threads, training.device)
    names = ("train", "train_labels", "test", "test_labels")
    tensors = zip(names, inputs.file("images").tensors(*names), strict=True)
    images = {name: tensor.to(training.device) for name, tensor in tensors}
    encoder = ImageEncoder(network, 2 if arm.arm == "self_damaging" else 1)
    keys = ("pool", "pretrain", "few_shot", "class_order", "counts")
    splits, encoders = inputs.file("splits"), inputs.file("encoders")
    rows = []
    for seed in seeds:
        split = dict(zip(keys, splits.tensors(*(f"{seed}/{key}" for key in keys)), strict=True))
        state = encoder.state_dict()
        weights = encoders.tensors(*(f"{seed}/{name}" for name in state))
        encoder.load_state_dict(dict(zip(state, weights, strict=True)))
        encoder.to(training.device)
        accuracies = probe_images(draws, seed, images, split, encoder, probe)
        order = split["class_order"].tolist()
        for name, accuracy in accuracies.items():
            rows += [
                {"seed": seed, "probe": name, "class": label, "rank": order.index(label),
                 "count": int(split["counts"][label]), "accuracy": value}
                for label, value in enumerate(accuracy.tolist())
            ]  # fmt: skip
    return pd.DataFrame(rows)
