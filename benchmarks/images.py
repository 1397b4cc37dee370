"""Measure a training on images: views a CPU second with augmentation, by arm, and ratios of them.

A step is that of the stage, `pretrain_images`, on random images of the study's size: two views of
each image of a batch, forward and backward, the update. It is measured in bfloat16 with
channels-last memory and in float32, and at twice the batch, by one process alone and by two at
once, as jobs run on two cores. The share is that of the network's products, forward and backward,
in the rate of the same core in a large product of two bfloat16 matrices. Rounds are interleaved and
medians printed, because machines are shared and noisy. Run it as jobs run, with
MALLOC_MMAP_THRESHOLD_=33554432 and MALLOC_TRIM_THRESHOLD_=1073741824.
"""

import argparse
import functools
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode

from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.bfloat16 import enable_emulation
from rarefeat.images.network import make_encoder
from rarefeat.images.pretrain import ProbeData, pretrain_images
from rarefeat.images.trainer import TrainingRun
from rarefeat.workflow.config.images import ImageArm, ImageStudy
from rarefeat.workflow.files.published import PublishedTables, commit
from rarefeat.workflow.project import load
from rarefeat.workflow.run.metadata import machine

SIDE, PER_EPOCH, EPOCHS = 32, 9, 2
ARMS = (
    ImageArm(arm="dense"),
    ImageArm(arm="pruned", alpha=0.9),
    ImageArm(arm="pruned", alpha=0.9, pruned_update="straight_through"),
    ImageArm(arm="self_damaging", alpha=0.9),
)


def seconds(function: Callable, *arguments) -> float:
    """Return the CPU seconds of one call."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def train(study: ImageStudy, arm: ImageArm, images: torch.Tensor, **changes) -> None:
    """Train PER_EPOCH x EPOCHS steps, with one record at their end, of a few images.

    Parameters
    ----------
    study : ImageStudy
        Study with the network and the training.
    arm : ImageArm
        The arm.
    images : Tensor of shape (n, 3, SIDE, SIDE)
        Training images, uint8.
    **changes
        Keys of the training.
    """
    same = {"epochs": EPOCHS, "warmup_epochs": 1, "log_epochs": EPOCHS}
    training = study.training.model_copy(update=same | changes)
    few = images[:20], torch.arange(20) % 2
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder, "checkpoint.safetensors"), torch.zeros(32, dtype=torch.uint8)
        course = TrainingRun("benchmark", 1, *where, training.checkpoint_minutes, "benchmark")
        epoch = images[: training.batch * PER_EPOCH]
        pretrain_images(
            course, epoch, ProbeData(*few * 3), arm, study.network, study.augmentation, training
        )


def of_width(study: ImageStudy, width: int) -> ImageStudy:
    """Return the study with a network of another width."""
    return study.model_copy(update={"network": study.network.model_copy(update={"width": width})})


def products_of_a_view(study: ImageStudy) -> float:
    """Return the operations of the network, forward and backward, for one view."""
    encoder = make_encoder(study.network, 1, "benchmark", 1)
    views = torch.rand(8, 3, SIDE, SIDE)
    with FlopCounterMode(display=False) as counter:
        encoder(views).sum().backward()
    return counter.get_total_flops() / len(views)


def measure_rates(study: ImageStudy, widths: list[int], rounds: int) -> dict[tuple, float]:
    """Measure operations and views a CPU second, of one process on one thread.

    Parameters
    ----------
    study : ImageStudy
        Study with the network and the training.
    widths : list of int
        Widths of the network.
    rounds : int
        Number of rounds.

    Returns
    -------
    dict
        Medians over the rounds, by what was measured.
    """
    torch.set_num_threads(1)
    enable_emulation()
    batch = study.training.batch
    images = torch.randint(0, 256, (2 * batch * PER_EPOCH, 3, SIDE, SIDE), dtype=torch.uint8)
    augment, square = make_augment(study.augmentation, SIDE), torch.randn(2048, 2048)
    in_bfloat16 = square.bfloat16()
    results: dict[tuple, list[float]] = {}

    def measure(name: tuple, amount: float, function: Callable, *arguments) -> None:
        results.setdefault(name, []).append(amount / seconds(function, *arguments))

    views = 2 * batch * PER_EPOCH * EPOCHS
    # A process chooses kernels for shapes that it meets first, once.
    for width, bfloat16 in itertools.product(widths, (True, False)):
        train(of_width(study, width), ARMS[0], images, bfloat16=bfloat16)
    for _ in range(rounds):
        measure(("float32",), 2 * 2048**3, torch.mm, square, square)
        measure(("bfloat16",), 2 * 2048**3, torch.mm, in_bfloat16, in_bfloat16)
        measure(("augmentation",), 2 * batch, two_views, augment, images[:batch], "benchmark", 1, 0)
        for width, arm in itertools.product(widths, ARMS):
            wide = of_width(study, width)
            measure(
                (width, arm.label),
                views,
                functools.partial(train, wide, arm, images, bfloat16=True),
            )
            if arm is ARMS[0]:
                measure(
                    (width, "in float32"),
                    views,
                    functools.partial(train, wide, ARMS[0], images, bfloat16=False),
                )
                twice = functools.partial(train, wide, arm, images, bfloat16=True, batch=2 * batch)
                measure((width, "twice the batch"), 2 * views, twice)
    return {name: statistics.median(values) for name, values in results.items()}


def rate_table(study: ImageStudy, rates: dict[tuple, float], processes: int) -> pd.DataFrame:
    """Return a row for each kind of step, and one for the augmentation alone.

    Parameters
    ----------
    study : ImageStudy
        Study with the network.
    rates : dict
        Medians of `measure_rates`.
    processes : int
        Number of processes that have measured at the same time.
    """
    rows = [(processes, 0, "augmentation alone", rates["augmentation",], np.nan, np.nan)]
    for (width, kind), views in ((name, value) for name, value in rates.items() if len(name) == 2):
        share = np.nan
        if kind == "dense":
            share = views * products_of_a_view(of_width(study, width)) / rates["bfloat16",]
        rows.append((processes, width, kind, views, views / rates[width, "dense"], share))
    columns = ["processes", "width", "what", "views_per_second", "of_dense", "share_of_products"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(
        gflops_float32=rates["float32",] / 1e9, gflops_bfloat16=rates["bfloat16",] / 1e9
    )


def main() -> None:
    """Measure, print, and publish if that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--config", default="config/cifar10_two_cores.yaml", help="laid over config/config.yaml"
    )
    parser.add_argument("--study", default="cifar10_confirm")
    parser.add_argument("--widths", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2], help="how many measure at the same time"
    )
    parser.add_argument("--publish", action="store_true", help="write docs/tables/image_rates.csv")
    args = parser.parse_args()
    study = load("config/config.yaml", args.config).studies[args.study]
    tables = []
    for processes in args.processes:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            every = list(
                pool.map(
                    measure_rates,
                    *zip(*[(study, args.widths, args.rounds)] * processes, strict=True),
                )
            )
        medians = {name: statistics.median(rates[name] for rates in every) for name in every[0]}
        tables.append(rate_table(study, medians, processes))
    table = pd.concat(tables, ignore_index=True)
    print(table.to_string(index=False, float_format="%.3g"))
    if args.publish:
        run = f"benchmarks/images.py, medians of {args.rounds} rounds"
        PublishedTables().put(
            "image_rates", table, {"run": run, "commit": commit(), "machine": machine()}
        )


if __name__ == "__main__":
    main()
