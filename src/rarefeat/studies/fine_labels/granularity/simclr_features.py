"""Features that no label has shaped, of the images of a sweep on photographs: SimCLR (Chen et al. 2020) for all replicas."""

import torch
from torch import Tensor

from rarefeat.config.images import ImageArm
from rarefeat.images.network import extract
from rarefeat.images.pretrain import ProbeData, pretrain_images
from rarefeat.images.splits import few_shot
from rarefeat.images.trainer import TrainingRun, identity_of, prepare
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.fine_labels.config import ResNetSettings, SelfSupervised

SEED = 0
"""Of its weights, order and views: the clusters of every replica are of these features, as the paper's are of one CLIP."""
ARM = ImageArm(arm="dense")
FEW = 5
"""Images of a class for the probe that is recorded over its training."""


def represent_photographs(read: JobInputs, job: Job) -> dict[str, Tensor]:
    """The stage; a training that is interrupted goes on from its checkpoint."""
    features, network = (
        job.config_section("features", SelfSupervised),
        job.config_section("training", ResNetSettings).network,
    )
    training = features.training
    prepare(training.threads, training.device, "features.training.device")
    names = "train", "train_labels", "test", "test_labels"
    images, labels, test, test_labels = (
        part.to(training.device) for part in read.file("images").tensors(*names)
    )
    few = few_shot(labels.cpu(), min(FEW, int(torch.bincount(labels).min())), job.study, SEED)
    bank = ProbeData(images, labels, images[few], labels[few], test, test_labels)
    sections = ARM, network, features.augmentation, training
    identity = identity_of(job.stage, bank, job.study, SEED, *sections)
    checkpoint = read.checkpoints / "features.safetensors"
    course = TrainingRun(
        job.study,
        SEED,
        checkpoint,
        identity,
        training.checkpoint_minutes,
        f"features of {job.study}",
    )
    encoder, _ = pretrain_images(course, images, bank, *sections)
    read.afterwards.append(course.delete_files)
    return {"features": extract(encoder, images)[0].cpu()}
