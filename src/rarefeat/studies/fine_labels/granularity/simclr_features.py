"""Features for clusters of images: one SimCLR network (Chen et al. 2020) for all replicas.

No label affects them.
"""

import torch
from torch import Tensor

from rarefeat.images.network import extract
from rarefeat.images.pretrain import ProbeData, pretrain_images
from rarefeat.images.splits import few_shot
from rarefeat.images.trainer import TrainingRun, identity_of, prepare
from rarefeat.studies.fine_labels.config import ResNetSettings, SelfSupervised
from rarefeat.workflow.config.images import ImageArm
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

SEED = 0
"""Seed of the weights, the order and the views.

The clusters of every replica are of these features, as the paper's are of one CLIP network.
"""
ARM = ImageArm(arm="dense")
FEW = 5
"""Images of a class for the probe that is recorded over training."""


def represent_photographs(inputs: JobInputs, job: Job) -> dict[str, Tensor]:
    """Return the features of the training images of a sweep.

    An interrupted training continues from its checkpoint. Inputs: `images` of the study. Config:
    `data`, `training`, `features`.
    """
    features = job.config_section("features", SelfSupervised)
    network = job.config_section("training", ResNetSettings).network
    training = features.training
    prepare(training.threads, training.device, "features.training.device")
    names = "train", "train_labels", "test", "test_labels"
    images, labels, test, test_labels = (
        tensor.to(training.device) for tensor in inputs.file("images").tensors(*names)
    )
    few = few_shot(labels.cpu(), min(FEW, int(torch.bincount(labels).min())), job.study, SEED)
    probe_data = ProbeData(images, labels, images[few], labels[few], test, test_labels)
    sections = ARM, network, features.augmentation, training
    run = TrainingRun(
        job.study,
        SEED,
        inputs.checkpoints / "features.safetensors",
        identity_of(job.stage, probe_data, job.study, SEED, *sections),
        training.checkpoint_minutes,
        f"features of {job.study}",
    )
    encoder, _ = pretrain_images(run, images, probe_data, *sections)
    inputs.afterwards.append(run.delete_files)
    return {"features": extract(encoder, images)[0].cpu()}
