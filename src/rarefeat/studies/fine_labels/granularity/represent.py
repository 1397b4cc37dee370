"""Features that no label has shaped, of the images of a sweep on photographs: SimCLR (Chen et al. 2020) for all replicas."""

from pathlib import Path

import torch

from rarefeat.config.images import ImageArm, ImageData
from rarefeat.images.intermediates import images_of
from rarefeat.images.network import extract
from rarefeat.images.pretrain import Bank, pretrain_images
from rarefeat.images.splits import few_shot
from rarefeat.images.trainer import Course, identity_of, prepare
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.storage.tensors import read_tensors, write_tensors
from rarefeat.studies.fine_labels.config import Residuals, SelfSupervised

SEED = 0
"""Of its weights, order and views: the clusters of every replica are of these features, as the paper's are of one CLIP."""
ARM = ImageArm(arm="dense")
FEW = 5
"""Images of a class for the probe that is recorded over its training."""


def main() -> None:
    """Command line of the stage; a training that is interrupted goes on from its checkpoint."""
    parser = stage(__doc__)
    parser.add_argument("--images", required=True, help="safetensors file of the data set")
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--output", required=True, help="safetensors file to write")
    args = parser.parse_args()
    job: Job = args.job
    features, network = job.part("features", SelfSupervised), job.part("training", Residuals).network
    training = features.training
    prepare(training.threads, training.device, "features.training.device")
    job.part("data", ImageData)
    names = "train", "train_labels", "test", "test_labels"
    images, labels, test, test_labels = (
        part.to(training.device) for part in read_tensors(args.images, *names, expected=images_of(job))
    )
    few = few_shot(labels.cpu(), min(FEW, int(torch.bincount(labels).min())), job.study, SEED)
    bank = Bank(images, labels, images[few], labels[few], test, test_labels)
    sections = ARM, network, features.augmentation, training
    identity = identity_of(job.stage, bank, job.study, SEED, *sections)
    checkpoint = args.checkpoints / "features.safetensors"
    course = Course(job.study, SEED, checkpoint, identity, training.checkpoint_minutes, args.output)
    encoder, _ = pretrain_images(course, images, bank, *sections)
    write_tensors(args.output, {"features": extract(encoder, images)[0].cpu()}, job.text)
    course.forget()


if __name__ == "__main__":
    run(main)
