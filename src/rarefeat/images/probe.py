"""Stage 3 of the image studies: what linear, few-shot and nearest-neighbour probes make of the frozen features."""

import pandas as pd
import torch
from torch import Tensor

from rarefeat.config.images import ImageArm, ImageProbe, ImageTraining, Network
from rarefeat.core.randomness import generator
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
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs


def probe_images(
    study: str,
    seed: int,
    images: dict[str, Tensor],
    split: dict[str, Tensor],
    encoder: ImageEncoder,
    probe: ImageProbe,
) -> dict[str, Tensor]:
    """Accuracy on the test images by probe and class, each (K,).

    Args:
        images: train, train_labels, test, test_labels, on the encoder's device. split: indices of pool, pretrain and few_shot.

    Returns:
        By name: balanced, the linear probe fitted on every image of the pool (the usual protocol), and balanced_sgd where it
        is asked for; long_tailed, fitted on the pretraining images; few_shot; knn, neighbours among the pretraining images.
    """
    # Each image's features are extracted once, whatever probes it serves.
    pool, needed = (
        split["pool"],
        torch.cat([split["pool"], split["pretrain"], split["few_shot"]]).unique(),
    )
    features, test = (
        extract(encoder, images["train"][needed])[0],
        extract(encoder, images["test"])[0],
    )
    place = torch.full((len(images["train"]),), -1)
    place[needed] = torch.arange(len(needed))
    labels, test_labels = images["train_labels"], images["test_labels"]
    classes = int(labels.max()) + 1
    found = {}
    for name, chosen in (
        ("balanced", pool),
        ("long_tailed", split["pretrain"]),
        ("few_shot", split["few_shot"]),
    ):
        x, queries = standardise(features[place[chosen]], test)
        head = logistic_probe(x, labels[chosen], classes, probe.l2)
        found[name] = class_accuracy(predict(queries, *head), test_labels, classes)
        if name == "balanced" and probe.sgd:
            # The reference implementations' protocol has the features as they are.
            head = sgd_probe(
                features[place[chosen]],
                labels[chosen],
                classes,
                generator(study, seed, "sgd probe"),
            )
            found["balanced_sgd"] = class_accuracy(predict(test, *head), test_labels, classes)
    bank = split["pretrain"]
    predicted = knn_predict(
        features[place[bank]], labels[bank], test, min(probe.neighbours, len(bank)), classes
    )
    return found | {"knn": class_accuracy(predicted, test_labels, classes)}


def stage(read: JobInputs, job: Job) -> pd.DataFrame:
    """The stage: a row for each seed, probe and class."""
    arm, network, judged = (
        job.config_section("arm", ImageArm),
        job.config_section("network", Network),
        job.config_section("probe", ImageProbe),
    )
    training = job.config_section("training", ImageTraining)
    prepare(training.threads, training.device)
    names = ("train", "train_labels", "test", "test_labels")
    found = zip(names, read.file("images").tensors(*names), strict=True)
    images = {name: tensor.to(training.device) for name, tensor in found}
    encoder = ImageEncoder(network, 2 if arm.arm == "self_damaging" else 1)
    keys = ("pool", "pretrain", "few_shot", "class_order", "counts")
    splits, encoders = read.file("splits"), read.file("encoders")
    rows = []
    for seed in job.seed_list:
        split = dict(zip(keys, splits.tensors(*(f"{seed}/{key}" for key in keys)), strict=True))
        state = encoder.state_dict()
        weights = encoders.tensors(*(f"{seed}/{name}" for name in state))
        encoder.load_state_dict(dict(zip(state, weights, strict=True)))
        probed = probe_images(
            job.config_section("draws", str),
            seed,
            images,
            split,
            encoder.to(training.device),
            judged,
        )
        order = split["class_order"].tolist()
        for name, accuracy in probed.items():
            rows += [
                {"seed": seed, "probe": name, "class": label, "rank": order.index(label),
                 "count": int(split["counts"][label]), "accuracy": value}
                for label, value in enumerate(accuracy.tolist())
            ]  # fmt: skip
    return pd.DataFrame(rows)
