"""Do few images that return let a rare class of photographs in, as few pairs do in the model?

In the model a rare feature is learned late if few pairs return, since their push stays the same; if
an augmentation redraws them most of the push is gone (docs/studies/fate.md). Declared before the
run; seeds are fresh:

- CIFAR-10, network, optimiser and views of config/cifar10_two_cores.yaml. Of ten classes in an
  order drawn by seed five are frequent, each 400 of 2,400 visits a pass, and five rare, each 80.
  A run has 60 passes.
- A rare class has 20, 80 or 320 distinct images, whose visits are the same in number: an image
  returns every 1/4, 1 or 4 passes. The smaller sets are parts of the larger ones. The two views of
  an image are drawn at each visit, or once for all, frozen. No batch holds an image twice, and all
  runs of a seed share initial weights, order, and draws of views by their place in a batch.
- Controls: a frequent class has 100 distinct images instead of 400, which come back as often as 20
  of a rare one do, at full dose; and no rare class at all (other images of frequent classes have
  the visits), which says how much can be lost here.
- Quantity: accuracy on the rare classes' test images, mean over them, of a linear probe that is
  fitted on 500 other images of each class; beside it that on the frequent ones. A change is paired
  by seed, with Student's interval. Stated by the model: above 0 from 80 to 20 images if views are
  frozen, nothing if they are redrawn. Primary: the change from 80 to 20 under frozen views, and its
  difference from that under redrawn ones. If a change has a deviation of 1.2 points, ten seeds
  show 1.2 points with a power of 0.8.

Rows are appended to --out as runs end, and runs that it holds are not done again.
"""

import argparse
import itertools
import multiprocessing
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from published import publish
from torch import Tensor

from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.datasets import read_images
from rarefeat.images.evaluation import class_accuracy, logistic_probe, predict, standardise
from rarefeat.images.network import calibrate, extract, make_encoder
from rarefeat.images.nt_xent import nt_xent, similarities
from rarefeat.images.pretrain import learning_rate
from rarefeat.images.splits import class_order
from rarefeat.images.trainer import TrainingRun, train
from rarefeat.model.randomness import generator
from rarefeat.statistics import student_interval
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.project import load

NAME = "repeated_images"
STUDY = "cifar10_strided_500"
CLASSES, FREQUENT_VISITS, RARE_VISITS = 10, 100, 20
"""Visits of a class in a quarter of a pass, which is five batches."""
BATCHES, CYCLE, QUARTERS = 5, 16, 240
POOL = 500
CONDITIONS = {
    **{
        f"{images} rare, {views}": (images, 400, views)
        for images, views in itertools.product((20, 80, 320), ("frozen", "redrawn"))
    },
    **{f"80 rare, 100 frequent, {views}": (80, 100, views) for views in ("frozen", "redrawn")},
    "none rare, redrawn": (0, 400, "redrawn"),
}
"""Distinct images of a rare class and of a frequent one, and the views."""


def schedule(order: list[int], images: list[Tensor], rare: int, frequent: int) -> Tensor:
    """Return the image of each place of a quarter of a pass, for a cycle of quarters."""
    quarters = []
    for quarter in range(CYCLE):
        rows = []
        for rank, label in enumerate(order):
            own, visits, distinct = images[label], FREQUENT_VISITS, frequent
            if rank >= CLASSES // 2:
                visits, distinct = RARE_VISITS, rare
                if not rare:  # further images of a frequent class
                    own, distinct = images[order[rank - CLASSES // 2]][frequent:], 4 * RARE_VISITS
            first = visits * quarter % distinct
            rows.append(own[first : first + visits])
        quarters.append(torch.cat(rows))
    return torch.stack(quarters)


def measure(task: tuple[int, str], tensors: dict[str, Tensor], folder: Path) -> dict:
    """Train and probe one encoder."""
    seed, condition = task
    rare, frequent, views = CONDITIONS[condition]
    study = load("config/config.yaml", "config/cifar10_two_cores.yaml").studies[STUDY]
    training = study.training.model_copy(update={"epochs": QUARTERS, "warmup_epochs": 24})
    torch.set_num_threads(1)
    train_images, labels = tensors["train"], tensors["train_labels"]
    own = [torch.nonzero(labels == label)[:, 0] for label in range(CLASSES)]
    own = [
        rows[torch.randperm(len(rows), generator=generator(NAME, seed, f"images {label}"))]
        for label, rows in enumerate(own)
    ]
    order = class_order(NAME, seed, CLASSES)
    places = schedule(order, own, rare, frequent)
    distinct = places.unique()
    pool = torch.cat([rows[-POOL:] for rows in own])
    encoder = make_encoder(study.network, 1, NAME, seed).to(memory_format=torch.channels_last)
    augment = make_augment(study.augmentation, train_images.shape[-1])
    frozen = two_views(augment, train_images[distinct], f"{NAME} frozen", seed, 0)
    row_of = torch.full((len(labels),), -1)
    row_of[distinct] = torch.arange(len(distinct))

    def loss_of(rows: Tensor, step: int) -> Tensor:
        chosen = places[step // BATCHES % CYCLE][rows]
        if views == "frozen":
            pair = [side[row_of[chosen]] for side in frozen]
        else:
            pair = two_views(augment, train_images[chosen], NAME, seed, step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            both = encoder(torch.cat(pair).contiguous(memory_format=torch.channels_last))
        return nt_xent(similarities(*both.chunk(2), training.tau))

    weights = dict(encoder.named_parameters())
    optimiser = torch.optim.SGD(
        weights.values(), lr=training.lr, momentum=training.momentum,
        weight_decay=training.weight_decay,
    )  # fmt: skip
    identity = torch.zeros(32, dtype=torch.uint8)
    path = folder / f"{seed} {condition}.safetensors"
    run = TrainingRun(NAME, seed, path, identity, 1e9, condition)
    size = places.shape[1], places.shape[1] // BATCHES, QUARTERS
    train(run, weights, optimiser, size, partial(learning_rate, training), loss_of, {})
    run.delete_files()
    calibrate(encoder, train_images[distinct])
    features, queries = (
        extract(encoder, train_images[pool]),
        extract(encoder, tensors["test"]),
    )
    x, queries = standardise(features, queries)
    head = logistic_probe(x, labels[pool], CLASSES, study.probe.l2)
    accuracy = class_accuracy(predict(queries, *head), tensors["test_labels"], CLASSES)[order]
    return {
        "seed": seed, "condition": condition, "rare": accuracy[CLASSES // 2 :].mean().item(),
        "frequent": accuracy[: CLASSES // 2].mean().item(),
    }  # fmt: skip


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """Return every condition's accuracies, and its change from the one with 80 and 400 images."""
    wide = runs.pivot(index="seed", columns="condition", values=["rare", "frequent"])
    rows = []
    for condition, (_, _, views) in CONDITIONS.items():
        for classes in ("rare", "frequent"):
            own, first = wide[classes][condition], wide[classes][f"80 rare, {views}"]
            paired = (own - first).dropna()
            mean, _, low, high, n = student_interval(paired.to_numpy())
            rows.append((condition, classes, own.mean(), mean, low, high, n))
    rare = wide["rare"]
    changes = {v: rare[f"20 rare, {v}"] - rare[f"80 rare, {v}"] for v in ("frozen", "redrawn")}
    between = (changes["frozen"] - changes["redrawn"]).dropna()
    mean, _, low, high, n = student_interval(between.to_numpy())
    rows.append(("20 instead of 80, frozen minus redrawn", "rare", None, mean, low, high, n))
    columns = ["condition", "classes", "accuracy", "change", "ci_low", "ci_high", "n"]
    return pd.DataFrame(rows, columns=columns)


def main() -> None:
    """Train what --out lacks, and print or publish the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", default="data/cifar10", help="CIFAR-10 as the hub's Parquet")
    parser.add_argument("--out", type=Path, default=Path("results/repeated_images.csv"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=52000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--publish", action="store_true", help=f"write docs/tables/{NAME}.csv")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    runs = pd.read_csv(args.out) if args.out.exists() else pd.DataFrame(columns=["seed"])
    done = set(runs.itertuples(index=False, name=None)) if len(runs) else set()
    done = {(seed, condition) for seed, condition, *_ in done}
    tasks = [task for task in itertools.product(seeds, CONDITIONS) if task not in done]
    if tasks:
        tensors = read_images(ImageData(format="cifar_parquet", folder=args.folder))
        work = partial(measure, tensors=tensors, folder=args.out.parent)
        with multiprocessing.get_context("fork").Pool(args.jobs) as pool:
            for row in pool.imap(work, tasks):
                print(row, flush=True)
                runs = pd.concat([runs, pd.DataFrame([row])], ignore_index=True)
                runs.to_csv(args.out, index=False)
    table = summarise(runs[runs["seed"].isin(seeds)])
    print(table.to_string(index=False, float_format="%.3f"))
    if args.publish:
        publish(NAME, table, seeds)


if __name__ == "__main__":
    main()
