"""Does a mask cost accuracy, or the return of what it hid? Our tables evaluate dense networks.

`python benchmarks/masked_evaluation.py RESULTS`, after config/cifar10_longer.yaml: the linear probe
of all classes on each masked arm's network, dense and with its last mask. A random mask hides large
weights, which no output used in training and which the dense network has again. Not declared:
written when the loss by the random mask was known.
"""

import argparse
from pathlib import Path

import pandas as pd
from published import publish
from safetensors.torch import load_file
from torch import Tensor

from rarefeat.images.network import ImageEncoder, calibrate
from rarefeat.images.nt_xent import compute_masks, masked_weights
from rarefeat.images.pretrain import mask_scores
from rarefeat.images.probe import probe_images
from rarefeat.statistics import student_interval
from rarefeat.workflow.config.images import ImageStudy
from rarefeat.workflow.project import load

STUDY, RECIPE = "cifar10_longer", "config/cifar10_longer.yaml"


def measure(results: Path, study: ImageStudy) -> pd.DataFrame:
    """Return the accuracy of every masked network, dense and with its mask."""
    images, rows = load_file(results / f"images/{STUDY}.safetensors"), []
    probe = study.probe.model_copy(update={"sgd": False})

    def evaluate(encoder: ImageEncoder, split: dict[str, Tensor], seed: int) -> float:
        calibrate(encoder, images["train"][split["pretrain"]])
        accuracies = probe_images(study.draws, seed, images, split, encoder, probe)
        return accuracies["balanced"].mean().item()

    for cell in (cell for cell in study.cells() if cell["split"] == "long_tailed"):
        (arm,) = cell.arms
        encoder = ImageEncoder(study.network_of(cell), 1)
        for file in sorted((results / "encoders" / STUDY / cell.path).glob("*.safetensors")):
            split_file = results / f"splits/{STUDY}/rho={cell['rho']}/split=long_tailed/{file.name}"
            seed, state = read_replica(file)
            _, split = read_replica(split_file)
            encoder.load_state_dict(state)
            weights = dict(encoder.named_parameters())
            random = arm.threshold == "random"
            scores = mask_scores(weights, study.draws, seed) if random else None
            masked = masked_weights(weights, compute_masks(weights, arm, scores))
            values = {"dense": evaluate(encoder, split, seed)}
            if masked:
                encoder.load_state_dict(masked, strict=False)
                values["masked"] = evaluate(encoder, split, seed)
            mask = {"dense": "none", "pruned": "random" if random else "smallest"}[arm.arm]
            rows += [(mask, evaluated, seed, value) for evaluated, value in values.items()]
    return pd.DataFrame(rows, columns=["mask", "evaluated", "seed", "accuracy"])


def read_replica(file: Path) -> tuple[int, dict[str, Tensor]]:
    """Return the seed of a file of one replica, and its tensors by their own names."""
    tensors = load_file(file)
    seed = min(tensors).split("/")[0]
    return int(seed), {name.removeprefix(f"{seed}/"): value for name, value in tensors.items()}


def reduce(rows: pd.DataFrame) -> pd.DataFrame:
    """Return every accuracy, and differences that are paired by class order."""
    by = rows.pivot(index="seed", columns=["mask", "evaluated"], values="accuracy")
    unpruned, smallest, random = by["none", "dense"], by["smallest"], by["random"]
    quantities = {
        "no mask": unpruned,
        "smallest, without its mask": smallest["dense"],
        "smallest, with its mask": smallest["masked"],
        "random, without its mask": random["dense"],
        "random, with its mask": random["masked"],
        "smallest minus no mask, with its mask": smallest["masked"] - unpruned,
        "random minus no mask, without its mask": random["dense"] - unpruned,
        "random minus no mask, with its mask": random["masked"] - unpruned,
        "smallest minus random, without masks": smallest["dense"] - random["dense"],
        "smallest minus random, with masks": smallest["masked"] - random["masked"],
    }
    table = []
    for quantity, values in quantities.items():
        mean, _, low, high, n = student_interval(values.to_numpy())
        table.append((quantity, mean, low, high, n))
    return pd.DataFrame(table, columns=["quantity", "mean", "ci_low", "ci_high", "n"])


def main() -> None:
    """Measure every masked network of RESULTS, and publish where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    table = reduce(
        rows := measure(options.results, load("config/config.yaml", RECIPE).studies[STUDY])
    )
    print(table.to_string(index=False))
    if options.publish:
        publish(Path(__file__).stem, table, sorted(rows["seed"].unique()))


if __name__ == "__main__":
    main()
