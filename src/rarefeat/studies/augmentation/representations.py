"""Firing rates and features of networks under the image views of the augmentation study.

The counterparts of Wen & Li 2021 (wen_li_feature_decoupling), Figures 3 and 4, on images.
"""

import pandas as pd
import torch
from jaxtyping import Float, Int, UInt8
from sklearn.manifold import TSNE
from torch import Tensor, nn
from torch.nn.functional import normalize

from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.evaluation import knn_predict, logistic_probe, predict, standardise
from rarefeat.images.network import ImageEncoder, batches_of, calibrate, extract, make_encoder
from rarefeat.model.randomness import generator
from rarefeat.studies.augmentation import OF_IMAGES
from rarefeat.studies.augmentation.metrics import separation
from rarefeat.workflow.config.images import Augmentation, ImageStudy
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

PLAIN = {
    "crop_scale": [1.0, 1.0], "flip": 0.0, "jitter": [0.0] * 4, "jitter_probability": 0.0,
    "grey": 0.0, "blur": 0.0,
}  # fmt: skip
CHANGES = {
    "crop": {"crop_scale": [0.5, 1.0]},
    "intensity": {"jitter": [0.4, 0.4, 0.0, 0.0], "jitter_probability": 1.0},
    "colour": {"jitter": [0.0, 0.0, 0.4, 0.1], "jitter_probability": 1.0, "grey": 0.2},
}
"""Changes that features may be invariant to."""
STREAMS = {"crop": "crops", "intensity": "intensity", "colour": "colour"}
"""Random stream of each of them."""
Images = UInt8[Tensor, "N 3 H W"]


@torch.no_grad()
def firing_rates(encoder: ImageEncoder, images: Images) -> dict[str, Float[Tensor, " channels"]]:
    """Compute, by layer, the share of images and places at which each channel is above 0."""
    counts: dict[str, Tensor] = {}
    places: dict[str, int] = {}

    def count(name: str, output: Tensor) -> None:
        counts[name] = counts.get(name, 0) + (output > 0).sum((0, 2, 3)).double()
        places[name] = places.get(name, 0) + output[:, 0].numel()

    layers = {f"block {k}": block for k, block in enumerate(encoder.blocks, 1)}
    hooks = [
        module.register_forward_hook(lambda _, __, output, name=name: count(name, output))
        for name, module in {"stem": encoder.norm, **layers}.items()
    ]
    encoder.eval()
    for batch in batches_of(images):
        encoder.features(batch)
    encoder.train()
    for hook in hooks:
        hook.remove()
    return {name: counts[name] / places[name] for name in counts}


def invariance(
    encoder: ImageEncoder, images: Images, augment: nn.Module, study: str, seed: int
) -> float:
    """Compute the mean cosine of centred features of an image and of its augmented self."""
    changed = (two_views(augment, images, study, seed, 0)[0] * 255).round().to(torch.uint8)
    before, after = (extract(encoder, version) for version in (images, changed))
    centre = before.mean(0)
    parts = (normalize(features - centre, dim=-1) for features in (before, after))
    return (next(parts) * next(parts)).sum(-1).mean().item()


def embed_in_plane(
    features: Float[Tensor, "N features"], labels: Int[Tensor, " N"], most: int, state: int
) -> list[dict]:
    """Return t-SNE of at most so many test images, which may stand class by class."""
    chosen = range(0, len(features), -(-len(features) // most))
    neighbours = min(30, len(chosen) - 1)
    tsne = TSNE(init="pca", random_state=state, n_jobs=1, perplexity=neighbours)
    plane = tsne.fit_transform(features[chosen].numpy())
    return [
        {"image": image, "label": label, "x": float(x), "y": float(y)}
        for image, label, (x, y) in zip(chosen, labels[chosen].tolist(), plane, strict=True)
    ]


def measure(
    study: ImageStudy, draws: str, images: dict[str, Tensor],
    pools: dict[int, Int[Tensor, " pool"]], encoders: dict[int, ImageEncoder], embedded: int,
) -> dict[str, pd.DataFrame]:  # fmt: skip
    """Return the tables of one kind of views: of networks trained, and before their training."""
    test, labels = images["test"], images["test_labels"]
    classes = int(images["train_labels"].max()) + 1
    grey = not (test != test[:, :1]).any()  # has no colour to change
    augments = {
        name: make_augment(Augmentation(**PLAIN | change), test.shape[-1])
        for name, change in CHANGES.items()
        if not (grey and name == "colour")
    }
    values, units, places = [], [], []
    for seed, trained in encoders.items():
        pool, pool_labels = images["train"][pools[seed]], images["train_labels"][pools[seed]]
        initial = make_encoder(study.network, 1, draws, seed)
        calibrate(initial, pool)
        for network, encoder in (("trained", trained), ("initial", initial)):
            keys = {"seed": seed, "network": network}
            features, queries = extract(encoder, pool), extract(encoder, test)
            x, standard = standardise(features, queries)
            predicted = predict(standard, *logistic_probe(x, pool_labels, classes, study.probe.l2))
            neighbours = min(study.probe.neighbours, len(pool))
            nearest = knn_predict(features, pool_labels, queries, neighbours, classes)
            metrics = {
                "linear_accuracy": (predicted == labels).double().mean().item(),
                "knn_accuracy": (nearest == labels).double().mean().item(),
                "separation": separation(queries, labels),
            }
            for name, augment in augments.items():
                stream = f"{draws} {STREAMS[name]}"
                metrics[f"{name}_invariance"] = invariance(encoder, test, augment, stream, seed)
            values += [{**keys, "metric": name, "value": value} for name, value in metrics.items()]
            units += [
                {**keys, "layer": layer, "unit": unit, "firing_rate": rate}
                for layer, rates in firing_rates(encoder, test).items()
                for unit, rate in enumerate(rates.tolist())
            ]
            if seed == study.first_seed and network == "trained":
                state = generator(draws, seed, "embedding").initial_seed() % 2**32
                places += embed_in_plane(queries, labels, embedded, state)
    rows = (values, units, places)
    return {kind.name: pd.DataFrame(of) for kind, of in zip(OF_IMAGES, rows, strict=True)}


def measure_image_views(
    inputs: JobInputs, job: Job, study: ImageStudy, embedded: int
) -> dict[str, pd.DataFrame]:
    """Return the tables of one kind of views, from the images, splits and encoders of a study."""
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
            weights = file.tensors(*(f"{seed}/{name}" for name in state))
            encoder.load_state_dict(dict(zip(state, weights, strict=True)))
    tables = measure(study, study.draws, images, pools, encoders, embedded)
    return {
        kind.name: validate_sorted(kind.schema, tables[kind.name].assign(study=job.study))
        for kind in OF_IMAGES
    }
