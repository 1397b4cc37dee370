"""Contrastive pretraining of images: loss and pruned gradients, masks, network, checkpoints."""

import contextlib
import itertools
import os
import signal

import numpy as np
import pytest
import torch
from conftest import job_at, refusal, run_stage, seeded

from rarefeat.errors import RarefeatError
from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.network import ImageEncoder, calibrate, extract, make_encoder
from rarefeat.images.nt_xent import arm_loss, compute_masks, nt_xent, similarities, softmax_weights
from rarefeat.images.pretrain import ProbeData, learning_rate, mask_scores, pretrain_images
from rarefeat.images.trainer import TrainingRun, epoch_batches, identity_of
from rarefeat.model.randomness import generator
from rarefeat.workflow.config.cells import cell
from rarefeat.workflow.config.images import (
    Augmentation,
    ImageArm,
    ImageData,
    ImageTraining,
    Network,
)
from rarefeat.workflow.files.tensors import read_tensors, write_tensors
from rarefeat.workflow.run.job_inputs import CellFile
from rarefeat.workflow.study_kind import IMAGE_DATA, IMAGE_PRETRAIN, IMAGE_PROBE, IMAGE_SPLITS

NETWORK = Network(block="basic", depths=[1, 1], width=4, stem="cifar", head=6)
AUGMENTATION = Augmentation(
    crop_scale=[0.5, 1.0],
    flip=0.5,
    jitter=[0.4, 0.4, 0.2, 0.1],
    jitter_probability=0.8,
    grey=0.2,
    blur=0.5,
)
ARMS = {
    "dense": ImageArm(arm="dense"),
    "unmasked": ImageArm(arm="pruned", alpha=0.5),
    "straight_through": ImageArm(arm="pruned", alpha=0.5, pruned_update="straight_through"),
    "self_damaging": ImageArm(arm="self_damaging", alpha=0.5),
    "random": ImageArm(
        arm="pruned", alpha=0.5, threshold="random", pruned_update="straight_through"
    ),
    "resampled": ImageArm(arm="resampled"),
}


def training(**changes) -> ImageTraining:
    base = {
        "tau": 0.5, "epochs": 3, "warmup_epochs": 1, "batch": 8, "lr": 0.1,
        "final_lr": 0.0, "momentum": 0.9, "weight_decay": 1e-4, "log_epochs": 1,
        "checkpoint_minutes": 10, "device": "cpu", "threads": 1,
    }  # fmt: skip
    return ImageTraining(**base | changes)


def some_images(count=20, size=8):
    return torch.randint(0, 256, (count, 3, size, size), generator=seeded(0)).byte()


# The loss


def test_nt_xent_is_the_mean_over_views_of_minus_log_softmax():
    x, y = torch.randn(3, 5, generator=seeded(1)), torch.randn(3, 5, generator=seeded(2))
    z, tau = np.concatenate([x, y]), 0.3
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    terms = []
    for i in range(6):
        others = [np.exp(z[i] @ z[j] / tau) for j in range(6) if j != i]
        terms.append(-np.log(np.exp(z[i] @ z[(i + 3) % 6] / tau) / sum(others)))
    assert nt_xent(similarities(x, y, tau)).item() == pytest.approx(np.mean(terms), rel=1e-5)


class Linear:
    """A stand-in for the network: one convolution over the image.

    Finite differences of it are exact to rounding.
    """

    def __init__(self):
        self.weights = {"w": torch.randn(4, 3, 2, 2, generator=seeded(3), dtype=torch.float64)}

    def project(self, weights, replaced, views, branch):
        return torch.tanh(views.flatten(1) @ (weights | replaced)["w"].flatten(1).T)


def numerical(function, at, step=1e-4):
    gradient = torch.zeros_like(at)
    for index in np.ndindex(*at.shape):
        values = []
        for sign in (1, -1):
            moved = at.clone()
            moved[index] += sign * step
            values.append(function(moved).item())
        gradient[index] = (values[0] - values[1]) / (2 * step)
    return gradient


def double_similarities(x, y, tau):
    z = torch.nn.functional.normalize(torch.cat([x, y]), dim=-1)
    return z @ z.T / tau


@pytest.mark.parametrize("name", ARMS)
def test_arm_gradient_is_finite_difference(name, monkeypatch):
    """Compare with finite differences.

    They are of the loss; of the logits with the masked network's weights held fixed; of the masked
    network at its own weights; of the two branches.
    """
    monkeypatch.setattr("rarefeat.images.nt_xent.similarities", double_similarities)
    arm, tau, network = ARMS[name], 0.5, Linear()
    x, y = (torch.randn(5, 3, 2, 2, generator=seeded(seed), dtype=torch.float64) for seed in (4, 5))
    w = network.weights["w"].clone().requires_grad_()
    masks = compute_masks({"w": w}, arm, mask_scores({"w": w}, "gradients", 1))

    def project_with(weight):
        return lambda replaced, views, branch: network.project(
            {"w": weight}, replaced, views, branch
        )

    arm_loss(project_with(w), {"w": w}, masks, arm, x, y, tau).backward()
    keep = 1.0 - masks["w"].double() if masks else torch.ones_like(w)

    def embedded(weight, view):
        return network.project({"w": weight}, {}, view, 0)

    def loss(first, second):
        return nt_xent(double_similarities(embedded(first, x), embedded(second, y), tau))

    at = w.detach()
    if name == "dense":
        expected = numerical(lambda v: loss(v, v), at)
    elif arm.pruned_update == "straight_through":
        expected = numerical(lambda v: loss(v, v), at * keep)
    elif name == "self_damaging":
        expected = numerical(lambda v: loss(v, v * keep), at)
    else:
        fixed = softmax_weights(
            double_similarities(embedded(at * keep, x), embedded(at * keep, y), tau)
        )
        expected = numerical(
            lambda v: nt_xent(double_similarities(embedded(v, x), embedded(v, y), tau), fixed), at
        )
    torch.testing.assert_close(w.grad, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("threshold", ["global", "per_layer"])
def test_masks_prune_smallest_magnitudes_of_convolutions(threshold):
    weights = dict(make_encoder(NETWORK, 1, "masks", 1).named_parameters())
    masks = compute_masks(weights, ImageArm(arm="pruned", alpha=0.3, threshold=threshold))
    assert set(masks) == {name for name, weight in weights.items() if weight.ndim == 4}
    assert not any("head" in name or "norm" in name for name in masks)
    layers = [(weights[name].detach().abs().flatten(), masks[name].flatten()) for name in masks]
    if threshold == "global":
        layers = [tuple(torch.cat(part) for part in zip(*layers, strict=True))]
    for sizes, mask in layers:
        assert mask.sum() == int(0.3 * len(mask))
        assert sizes[mask].max() <= sizes[~mask].min()
    assert compute_masks(weights, ARMS["dense"]) == {}


def test_random_mask_has_counts_of_magnitude_mask():
    weights = dict(make_encoder(NETWORK, 1, "masks", 1).named_parameters())
    scores, other = (mask_scores(weights, "masks", seed) for seed in (1, 2))
    arm = ImageArm(arm="pruned", alpha=0.7, threshold="random")
    by_magnitude = compute_masks(weights, arm.model_copy(update={"threshold": "global"}))
    random = compute_masks(weights, arm, scores)
    assert all(mask.sum() == by_magnitude[name].sum() for name, mask in random.items())
    # Two sets of the share 0.7 that know nothing of each other meet in 0.49.
    both = sum(int((random[name] & by_magnitude[name]).sum()) for name in random)
    assert both / sum(mask.numel() for mask in random.values()) == pytest.approx(0.49, abs=0.05)
    # The same weights throughout, wherever the magnitudes went, as long as a layer loses as many.
    moved = compute_masks({name: weight * 2 for name, weight in weights.items()}, arm, scores)
    assert all(torch.equal(moved[name], mask) for name, mask in random.items())
    drawn = compute_masks(weights, arm, other)
    assert not all(torch.equal(drawn[name], mask) for name, mask in random.items())


# The network


@pytest.mark.parametrize(
    ("block", "depths", "stem", "side", "parameters", "dimension"),
    [
        ("basic", [2, 2, 2, 2], "cifar", 32, 11_168_832, 512),
        ("basic", [2, 2, 2, 2], "strided", 16, 11_168_832, 512),
        ("bottleneck", [3, 4, 6, 3], "imagenet", 8, 23_508_032, 2048),
    ],
)
def test_published_networks_have_their_sizes(block, depths, stem, side, parameters, dimension):
    """ResNet-18 with the CIFAR stem, strided or not, and ResNet-50, without the classifier."""
    encoder = ImageEncoder(Network(block=block, depths=depths, width=64, stem=stem, head=128))
    sizes = {name: weight.numel() for name, weight in encoder.named_parameters()}
    assert sum(n for name, n in sizes.items() if not name.startswith("head")) == parameters
    images = some_images(2, 32)
    assert encoder.pool(encoder.stem(images.float())).shape[2:] == (side, side)
    features = extract(encoder, images)
    assert features.shape == (2, dimension)
    assert encoder.head(features).shape == (2, 128)


def test_branches_share_all_but_norms():
    encoder = make_encoder(NETWORK, 2, "branches", 1)
    names = [name for name, _ in encoder.named_parameters()]
    assert {name.replace("branches.0", "branches.1") for name in names if "branches.0" in name} == {
        name for name in names if "branches.1" in name
    }
    with torch.no_grad():
        encoder.norm.branches[1].weight.fill_(3.0)
    images = some_images().float() / 255
    assert not torch.equal(encoder(images, 0), encoder(images, 1))


def test_calibrate_forgets_earlier_images():
    images = some_images(40)
    fresh, used = (make_encoder(NETWORK, 1, "calibration", 1) for _ in range(2))
    used(torch.rand(9, 3, 8, 8))
    for encoder in (fresh, used):
        calibrate(encoder, images)
    means = [encoder.norm.branches[0].running_mean for encoder in (fresh, used)]
    torch.testing.assert_close(*means)
    seen = fresh.stem((images.float() / 255 - 0.5) / 0.25)
    torch.testing.assert_close(means[0], seen.mean((0, 2, 3)))


# Views, batches and rates


def test_views_depend_on_namespace_seed_and_step_alone():
    augment, images = make_augment(AUGMENTATION, 8), some_images()
    x, y = two_views(augment, images, "views", 1, 5)
    torch.manual_seed(99)
    again = two_views(augment, images, "views", 1, 5)
    assert torch.equal(x, again[0])
    assert torch.equal(y, again[1])
    assert not torch.equal(x, y)
    assert not torch.equal(x, two_views(augment, images, "views", 1, 6)[0])
    assert x.shape == images.shape
    assert x.min() >= 0
    assert x.max() <= 1


def test_epoch_batches_are_full_and_distinct():
    first, second = (
        epoch_batches(generator("order", 1, f"order {epoch}"), 21, 8) for epoch in (0, 1)
    )
    assert [len(part) for part in first] == [8, 8]
    assert len(set(torch.cat(first).tolist())) == 16
    assert torch.cat(first).tolist() != torch.cat(second).tolist()
    assert [len(part) for part in epoch_batches(seeded(0), 5, 8)] == [5]


def test_the_learning_rate_rises_linearly_then_falls_as_a_cosine():
    config = training(epochs=10, warmup_epochs=2, lr=1.0, final_lr=0.1)
    rates = [learning_rate(config, step, 5) for step in range(50)]
    assert rates[:10] == pytest.approx([0.1 * (k + 1) for k in range(10)])
    assert rates[10] == pytest.approx(1.0)
    assert rates[30] == pytest.approx(0.55)
    assert rates[-1] == pytest.approx(0.1, abs=0.01)
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))


# Training and checkpoints


def course(path, identity=0, how=None, draws="training"):
    tag = torch.full((32,), identity, dtype=torch.uint8)
    return TrainingRun(draws, 1, path, tag, (how or training()).checkpoint_minutes, "pretrain")


def trained(tmp_path, arm, images=None, name="checkpoint", identity=0, **changes):
    images = some_images() if images is None else images
    labels = torch.arange(len(images)) % 4
    bank = ProbeData(images, labels, images[:8], labels[:8], images[8:], labels[8:])
    sections = arm, NETWORK, AUGMENTATION, training(**changes)
    return pretrain_images(
        course(tmp_path / f"{name}.safetensors", identity, training(**changes)),
        images,
        bank,
        *sections,
    )


def same_weights(one, other) -> bool:
    return all(
        torch.equal(value, other.state_dict()[key]) for key, value in one.state_dict().items()
    )


def test_resampled_batches_hold_every_class_as_often(tmp_path, monkeypatch):
    """Images of class 0 are black, and those of class 1, a quarter of them, are white."""
    images = torch.zeros(80, 3, 8, 8, dtype=torch.uint8)
    images[60:] = 255
    labels = (torch.arange(80) >= 60).long()
    bank = ProbeData(images, labels, images[:8], labels[:8], images[8:], labels[8:])
    shares = {}
    for name in ("dense", "resampled"):
        white = []

        def views(augment, batch, *arguments, white=white):
            white.append((batch > 0).flatten(1).all(1).double().mean().item())
            return two_views(augment, batch, *arguments)

        monkeypatch.setattr("rarefeat.images.pretrain.two_views", views)
        run, settings = course(tmp_path / name), training(epochs=5)
        pretrain_images(run, images, bank, ARMS[name], NETWORK, AUGMENTATION, settings)
        shares[name] = sum(white) / len(white)
    assert shares["dense"] == pytest.approx(0.25)
    assert shares["resampled"] == pytest.approx(0.5, abs=0.08)


@contextlib.contextmanager
def at_the_fourth_step(monkeypatch, happens):
    taken = []

    def views(*arguments):
        taken.append(0)
        if len(taken) == 4:
            happens()
        return two_views(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("rarefeat.images.pretrain.two_views", views)
        yield


def killed():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("self_damaging", {}),
        ("resampled", {}),
        ("random", {}),
        ("unmasked", {"bfloat16": True}),
    ],
)
def test_stopped_training_resumes_to_same_weights(tmp_path, name, how, monkeypatch):
    """Stop by SIGTERM within an epoch, where the mask is no longer that of the weights."""
    whole, records = trained(tmp_path, ARMS[name], name="whole", **how)
    with (
        at_the_fourth_step(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGTERM)),
        pytest.raises(RarefeatError, match=r"SIGTERM at step 4 of 6; run again"),
    ):
        trained(tmp_path, ARMS[name], **how)
    again, resumed = trained(tmp_path, ARMS[name], **how)
    assert same_weights(whole, again)
    assert resumed == records
    assert {row["epoch"] for row in records} == {1, 2, 3}


def test_killed_training_resumes_from_checkpoint(tmp_path, monkeypatch):
    """Kill in the second step of an epoch: steps since the checkpoint are taken again."""
    arm, how = ARMS["unmasked"], {"checkpoint_minutes": 1e-9}
    whole, records = trained(tmp_path, arm, name="whole", **how)
    with at_the_fourth_step(monkeypatch, killed), pytest.raises(KeyboardInterrupt):
        trained(tmp_path, arm, **how)
    (step,) = read_tensors(tmp_path / "checkpoint.safetensors", "step")
    assert int(step) == 3
    again, resumed = trained(tmp_path, arm, **how)
    assert same_weights(whole, again)
    assert resumed == records


def test_bfloat16_is_near_float32_and_its_weights_stay_float32(tmp_path):
    """One step from the same weights: the same direction to rounding."""
    start = dict(make_encoder(NETWORK, 1, "training", 1).named_parameters())
    moved, losses = [], []
    for bfloat16 in (False, True):
        changes = {"bfloat16": bfloat16, "epochs": 1, "batch": 20}
        found, rows = trained(tmp_path, ARMS["dense"], name=str(bfloat16), **changes)
        kinds = {value.dtype for value in found.state_dict().values()}
        assert kinds == {torch.float32, torch.int64}
        steps = [(found.get_parameter(name) - start[name]).detach().flatten() for name in start]
        moved.append(torch.cat(steps))
        losses += [row["value"] for row in rows if row["metric"] == "loss"]
    assert 0.98 < torch.cosine_similarity(*moved, dim=0).item() < 1
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert losses[0] != losses[1]


def test_a_finished_replica_is_not_trained_again(tmp_path, monkeypatch):
    """And its checkpoint is refused where the config is another."""
    first, _ = trained(tmp_path, ARMS["dense"])
    monkeypatch.setattr("rarefeat.images.pretrain.two_views", None)
    again, _ = trained(tmp_path, ARMS["dense"])
    assert same_weights(first, again)
    said = "checkpoint of another config, other images or other code; delete it"
    assert said in refusal(trained, tmp_path, ARMS["dense"], identity=1)


def test_damaged_checkpoint_does_not_change_training(tmp_path, capsys):
    first, records = trained(tmp_path, ARMS["unmasked"])
    path = tmp_path / "checkpoint.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        again, same = trained(tmp_path, ARMS["unmasked"])
        assert same == records
        assert same_weights(first, again)
        assert f"{path} is damaged; starting at the first step" in capsys.readouterr().err


def test_training_separates_classes(tmp_path):
    """Train on two kinds of images that every view keeps apart: neighbours are of one kind."""
    bright = torch.arange(64) % 2
    noise = torch.randint(0, 100, (64, 3, 8, 8), generator=seeded(1))
    stripes = torch.zeros(64, 3, 8, 8, dtype=torch.long)
    stripes[bright == 1, :, ::2] = 150
    stripes[bright == 0, :, :, ::2] = 150
    images = (noise + stripes).byte()
    bank = ProbeData(images[:48], bright[:48], images[:8], bright[:8], images[48:], bright[48:])
    mild = AUGMENTATION.model_copy(update={"crop_scale": [0.8, 1.0], "blur": 0.0})
    config = training(epochs=15, batch=16, lr=0.2)
    for name in ("dense", "unmasked", "self_damaging"):
        at = course(tmp_path / f"{name}.safetensors", draws="learns")
        _, rows = pretrain_images(at, images[:48], bank, ARMS[name], NETWORK, mild, config)
        for metric in ("knn_accuracy", "few_shot_accuracy"):
            by_epoch = {row["epoch"]: row["value"] for row in rows if row["metric"] == metric}
            assert by_epoch[15] > 0.9, (name, metric)


SPLIT = {"pool": 16, "pretrain": 16, "few_shot": 8, "class_order": 4, "counts": 4}
CELL = cell(rho=1.0, split="balanced", arm=ARMS["unmasked"].label)


def stage_job(results, **changes):
    images, data = some_images(), {"data": ImageData(format="digits")}
    tensors = {"train": images, "train_labels": torch.arange(20) % 4, "test": images[:8].clone()}
    tensors["test_labels"] = torch.arange(8) % 4
    data_job = job_at(IMAGE_DATA, data, "stage", None, "")
    write_tensors(results / "images/stage.safetensors", tensors, data_job.to_json)
    config = {"draws": "stage", **data}
    lists = {f"{seed}/{name}": torch.arange(n) for seed in (1, 2) for name, n in SPLIT.items()}
    split_job = job_at(IMAGE_SPLITS, config, "stage", IMAGE_SPLITS.shared_cell(CELL), "1-2")
    path = results / IMAGE_SPLITS.path("splits", "stage", CELL, "1-2")
    write_tensors(path, lists, split_job.to_json)
    config |= {"arm": ARMS["unmasked"], "network": NETWORK, "augmentation": AUGMENTATION}
    config["training"] = training(**changes)
    folders = IMAGE_PRETRAIN.folders
    outputs = [results / IMAGE_PRETRAIN.path(name, "stage", CELL, "1-2") for name in folders]
    return job_at(IMAGE_PRETRAIN, config, "stage", CELL, "1-2"), outputs


def checkpoints(results, suffix):
    return list(results.glob(f"checkpoints/stage/**/seeds=*.{suffix}"))


def test_stage_resumes_after_sigterm_and_leaves_no_checkpoint(tmp_path, monkeypatch):
    job, outputs = stage_job(tmp_path, epochs=3)
    with at_the_fourth_step(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGTERM)):
        assert "SIGTERM at step" in refusal(run_stage, job, tmp_path, *outputs)
    assert checkpoints(tmp_path, "safetensors")
    assert not outputs[0].exists()
    run_stage(job, tmp_path, *outputs)
    resumed = outputs[0].read_bytes()
    assert not checkpoints(tmp_path, "*")
    run_stage(job, tmp_path, *outputs)
    assert outputs[0].read_bytes() == resumed


def test_stages_ask_for_the_gpu_of_the_config(tmp_path, monkeypatch):
    """And a GPU that is there is not taken where the config names the CPU."""
    job, outputs = stage_job(tmp_path, epochs=1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    run_stage(job, tmp_path, *outputs)
    config = job.config | {"probe": {"l2": 0.01, "few_shot": 2, "neighbours": 3}}
    run_stage(job_at(IMAGE_PROBE, config, "stage", CELL, "1-2"), tmp_path, tmp_path / "p.parquet")
    config["training"]["device"] = "cuda"
    monkeypatch.setattr(CellFile, "expected", {})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for stage, files in ((IMAGE_PRETRAIN, outputs), (IMAGE_PROBE, [tmp_path / "p.parquet"])):
        said = refusal(run_stage, job_at(stage, config, "stage", CELL, "1-2"), tmp_path, *files)
        assert said.startswith("training.device is cuda, and there is no GPU here; ")


def test_identity_depends_on_data_and_config_not_runtime():
    images, labels = some_images(200), torch.arange(200)
    one, swapped = images.clone(), labels.clone()
    one[7, 0, 0, 0] ^= 1
    swapped[[0, 1]] = swapped[[1, 0]]
    job, data = IMAGE_PRETRAIN.function, (images, labels)
    found = [
        identity_of(job, data, "draws", 1, training()),
        identity_of(job, (one, labels), "draws", 1, training()),
        identity_of(job, (images, swapped), "draws", 1, training()),
        identity_of(job, data, "draws", 2, training()),
        identity_of(job, data, "draws", 1, training(lr=0.2)),
        identity_of(IMAGE_PROBE.function, data, "draws", 1, training()),
    ]
    assert len({tuple(identity.tolist()) for identity in found}) == 6
    again = identity_of(job, data, "draws", 1, training(threads=2, checkpoint_minutes=1))
    assert torch.equal(found[0], again)


def test_diverged_training_is_one_line_without_checkpoint(tmp_path):
    with pytest.raises(RarefeatError, match="the loss is not finite after epoch 1; lower lr"):
        trained(tmp_path, ARMS["dense"], lr=1e37, warmup_epochs=0, log_epochs=3)
    assert not list(tmp_path.iterdir())
