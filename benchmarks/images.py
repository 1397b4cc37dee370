"""How fast a training on images is, in CPU seconds and as ratios of one process: views a second with augmentation, by arm.

A step is that of the stage, `pretrain_images`, on random images of the study's size: two views of each image of a batch,
forward and backward, the update. It is measured in bfloat16 with channels-last memory and in float32, and at twice the batch.
The share is that of the network's products, forward and backward, in what the same core does in a large product of two
bfloat16 matrices.
Rounds are interleaved and medians printed, because machines are shared and noisy. Run it as jobs run, with
MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824.
"""

import argparse
import functools
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from rarefeat.config.images import ImageArm, ImageStudy
from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.network import make_encoder
from rarefeat.images.pretrain import Bank, pretrain_images
from rarefeat.project import load

SIDE, PER_EPOCH, EPOCHS = 32, 3, 2
ARMS = (
    ImageArm(arm="dense"),
    ImageArm(arm="pruned", alpha=0.9),
    ImageArm(arm="pruned", alpha=0.9, pruned_update="straight_through"),
    ImageArm(arm="self_damaging", alpha=0.9),
)


def seconds(function: Callable, *arguments) -> float:
    """CPU time of one call."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def train(study: ImageStudy, arm: ImageArm, images: torch.Tensor, **changes) -> None:
    """PER_EPOCH x EPOCHS steps and the one record at their end, which a few images keep small."""
    same = {"epochs": EPOCHS, "warmup_epochs": 1, "log_epochs": EPOCHS}
    training = study.training.model_copy(update=same | changes)
    few = images[:20], torch.arange(20) % 2
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder, "checkpoint.safetensors"), torch.zeros(32, dtype=torch.uint8)
        seen = images[: training.batch * PER_EPOCH]
        pretrain_images("benchmark", 1, seen, Bank(*few * 3), arm, study.network, study.augmentation, training, *where)


def products_of_a_view(study: ImageStudy) -> float:
    """Multiplications and additions of the network, forward and backward, for one view."""
    encoder = make_encoder(study.network, 1, "benchmark", 1)
    views = torch.rand(8, 3, SIDE, SIDE)
    with FlopCounterMode(display=False) as counter:
        encoder(views).sum().backward()
    return counter.get_total_flops() / len(views)


def main() -> None:
    """Print the medians of all rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="config/cifar10_two_cores.yaml", help="laid over config/config.yaml")
    parser.add_argument("--study", default="cifar10_confirm")
    parser.add_argument("--widths", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    study = load("config/config.yaml", args.config).studies[args.study]
    batch = study.training.batch
    images = torch.randint(0, 256, (2 * batch * PER_EPOCH, 3, SIDE, SIDE), dtype=torch.uint8)
    augment, square = make_augment(study.augmentation, SIDE), torch.randn(2048, 2048)
    in_bfloat16 = square.bfloat16()
    found: dict[tuple, list[float]] = {}

    def measured(name: tuple, amount: float, function: Callable, *arguments) -> None:
        found.setdefault(name, []).append(amount / seconds(function, *arguments))

    views = 2 * batch * PER_EPOCH * EPOCHS
    for _ in range(args.rounds):
        measured(("float32",), 2 * 2048**3, torch.mm, square, square)
        measured(("bfloat16",), 2 * 2048**3, torch.mm, in_bfloat16, in_bfloat16)
        measured(("views",), 2 * batch, two_views, augment, images[:batch], "benchmark", 1, 0)
        for width, arm in itertools.product(args.widths, ARMS):
            wide = study.model_copy(update={"network": study.network.model_copy(update={"width": width})})
            measured((width, arm.label), views, functools.partial(train, wide, arm, images, bfloat16=True))
            if arm.arm == "dense":
                measured((width, "in float32"), views, functools.partial(train, wide, ARMS[0], images, bfloat16=False))
                twice = functools.partial(train, wide, arm, images, bfloat16=True, batch=2 * batch)
                measured((width, "twice the batch"), 2 * views, twice)
    rate = {name: statistics.median(values) for name, values in found.items()}
    print(
        f"products of 2048 x 2048: {rate['float32',] / 1e9:.0f} GFLOP/s in float32, {rate['bfloat16',] / 1e9:.0f} in bfloat16"
    )
    print(f"augmentation alone: {rate['views',]:.0f} views a second")
    print(f"{'width':>5} {'what':34} {'views/s':>8} {'/ dense':>8} {'share of products':>18}")
    for (width, what), value in ((name, value) for name, value in rate.items() if len(name) == 2):
        wide = study.model_copy(update={"network": study.network.model_copy(update={"width": width})})
        dense = rate[width, "dense"]
        share = value * products_of_a_view(wide) / rate["bfloat16",] if what == "dense" else float("nan")
        print(f"{width:5} {what:34} {value:8.0f} {value / dense:8.2f} {share:18.2f}")


if __name__ == "__main__":
    main()
