"""Firing rates and features of networks under the image views of the augmentation study.

The counterparts of Wen & Li 2021 (wen_li_feature_decoupling), Figures 3 and 4, on images.
"""

import pandas as pd
import torch
from sklearn.manifold import TSNE
from torch import Tensor, nn
from torch.nn.functional import normalize

from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.evaluation import knn_predict, logistic_probe, predict, standardise
from rarefeat.images.network import ImageEncoder, batches_of, calibrate, extract, make_encoder
from rarefeat.model.randomness import generator
from rarefeat.studies.augmentation.metrics import separation
from rarefeat.studies.augmentation.tables import IMAGE_SCHEMAS
from rarefeat.workflow.config.images import Augmentation, ImageStudy
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

PLAIN = {
    "crop_scale": [1.0, 1.0],
    "flip": 0.0,
    "jitter": [0.0] * 4,
    "jitter_probability": 0.0,
    "grey": 0.0,
    "blur": 0.0,
}
STREAMS = {"crop": "crops", "intensity": "intensity", "colour": "colour"}
"""Random stream of each change that features may be invariant to."""


@torch.no_grad()
def firing_rates(encoder: ImageEncoder, images: Tensor) -> dict[str, Tensor]:
    """Compute the share of images and places at which each channel is above 0, by layer.

    Layers are the stem and every block, each (channels,), under the running statistics; images
    are uint8 (N, 3, H, W).
    """
    counts: dict[str, Tensor] = {}
    places: dict[str, int] = {}

    def count(name: str, output: Tensor) -> None:
        counts[name] = counts.get(name, 0) + (output > 0).sum((0, 2, 3)).double()
        places[name] = places.get(name, 0) + output[:, 0].numel()

    hooks = [
        module.register_forward_hook(lambda _, __, output, name=name: count(name, output))
        for name, module in {
            "stem": encoder.norm,
            **{f"block {k}": block for k, block in enumerate(encoder.blocks, 1)},
        }.items()
    ]
    encoder.eval()
    for batch in batches_of(images):
        encoder.features(batch)
    encoder.train()
    for hook in hooks:
        hook.remove()
    return {name: counts[name] / places[name] for name in counts}


def invariance(
    encoder: ImageEncoder, images: Tensor, augment: nn.Module, study: str, seed: int
) -> float:
    """Compute the mean cosine of the features of an image and of its augmented self.

    Both are less the mean feature of all images.

    images (N, 3, H, W).
    """
    features = extract(encoder, images)[0]
    changed = extract(
        encoder, (two_views(augment, images, study, seed, 0)[0] * 255).round().to(torch.uint8)
    )[0]
    centre = features.mean(0)
    return (
        (normalize(features - centre, dim=-1) * normalize(changed - centre, dim=-1))
        .sum(-1)
        .mean()
        .item()
    )


def measure(
    study: ImageStudy,
    draws: str,
    images: dict[str, Tensor],
    pools: dict[int, Tensor],
    encoders: dict[int, ImageEncoder],
    embedded: int,
) -> dict[str, pd.DataFrame]:
    """Return the tables of one kind of augmentation, by their name.

    Trained networks are measured, and each before its training.
    """
    test, labels = images["test"], images["test_labels"]
    classes = int(images["train_labels"].max()) + 1
    size = test.shape[-1]
    changes = {
        "crop": {"crop_scale": [0.5, 1.0]},
        "intensity": {"jitter": [0.4, 0.4, 0.0, 0.0], "jitter_probability": 1.0},
    }
    if (test != test[:, :1]).any():  # Grey images have no colour to change.
        changes["colour"] = {"jitter": [0.0, 0.0, 0.4, 0.1], "jitter_probability": 1.0, "grey": 0.2}
    augments = {
        name: make_augment(Augmentation(**PLAIN | change), size) for name, change in changes.items()
    }
    values, units, places = [], [], []
    for seed, trained in encoders.items():
        pool, pool_labels = images["train"][pools[seed]], images["train_labels"][pools[seed]]
        initial = make_encoder(study.network, 1, draws, seed)
        calibrate(initial, pool)
        for network, encoder in (("trained", trained), ("initial", initial)):
            keys = {"seed": seed, "network": network}
            features, queries = extract(encoder, pool)[0], extract(encoder, test)[0]
            x, standard = standardise(features, queries)
            predicted = predict(standard, *logistic_probe(x, pool_labels, classes, study.probe.l2))
            nearest = knn_predict(
                features, pool_labels, queries, min(study.probe.neighbours, len(pool)), classes
            )
            metrics = {
                "linear_accuracy": (predicted == labels).double().mean().item(),
                "knn_accuracy": (nearest == labels).double().mean().item(),
                "separation": separation(queries, labels),
            } | {
                f"{name}_invariance": invariance(
                    encoder, test, augment, f"{draws} {STREAMS[name]}", seed
                )
                for name, augment in augments.items()
            }
            values += [{**keys, "metric": name, "value": value} for name, value in metrics.items()]
            units += [
                {**keys, "layer": layer, "unit": unit, "firing_rate": rate}
                for layer, rates in firing_rates(encoder, test).items()
                for unit, rate in enumerate(rates.tolist())
            ]
            if seed == study.first_seed and network == "trained":
                state = generator(draws, seed, "embedding").initial_seed() % 2**32
                # Test images may stand class by class.
                chosen = range(0, len(queries), -(-len(queries) // embedded))
                tsne = TSNE(
                    init="pca", random_state=state, n_jobs=1, perplexity=min(30, len(chosen) - 1)
                )
                plane = tsne.fit_transform(queries[chosen].numpy())
                places += [
                    {"image": image, "label": label, "x": float(x_of), "y": float(y_of)}
                    for image, (label, (x_of, y_of)) in zip(
                        chosen, zip(labels[chosen].tolist(), plane, strict=True), strict=True
                    )
                ]
    return dict(zip(IMAGE_SCHEMAS, map(pd.DataFrame, (values, units, places)), strict=True))


def measure_image_views(inputs: JobInputs, job: Job) -> dict[str, pd.DataFrame]:
    """Return the tables of one kind of views.

    Inputs are the images, splits and encoders, config the study and `embedded`.
    """
    study = job.config_section(job.study, ImageStudy)
    names = ("train", "train_labels", "test", "test_labels")
    (of_data,) = inputs.files("images")
    images, encoders = dict(zip(names, of_data.tensors(*names), strict=True)), {}
    pools = {
        seed: file.tensors(f"{seed}/pretrain")[0]
        for file in inputs.files("splits")
        for seed in file.seeds
    }
    for file in inputs.files("encoders"):
        for seed in file.seeds:
            encoders[seed] = encoder = ImageEncoder(study.network)
            state = list(encoder.state_dict())
            encoder.load_state_dict(
                dict(zip(state, file.tensors(*(f"{seed}/{name}" for name in state)), strict=True))
            )
    tables = measure(
        study, study.draws, images, pools, encoders, job.config_section("embedded", int)
    )
    return {
        name: validate_sorted(IMAGE_SCHEMAS[name], table.assign(study=job.study))
        for name, table in tables.items()
    }
