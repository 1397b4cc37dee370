"""Measure how many trainings a second a device makes, and a map of learners by critical frequency.

    python benchmarks/devices.py --device cuda --replicas 100 1000 4000
    python benchmarks/devices.py --device cpu --replicas 4 16 --steps 50

Replicas of one cell train at once, dense, by the direct simulator and the torch step. Printed are
milliseconds a step, trainings of 500 steps a second, the largest memory of a GPU, how far the
replicas of a large block are from the same ones alone, and the operations that take longest. With
`--map` every loss, encoder and optimiser is trained together, a row of
`rarefeat.critical_frequency` each.
"""

import argparse
import time

import pandas as pd
import torch
from torch.profiler import ProfilerActivity, profile

import rarefeat
from rarefeat.stages.synthesise import synthesise
from rarefeat.training.encoders import ENCODERS
from rarefeat.training.losses import LOSSES
from rarefeat.training.optimisers import OPTIMISERS
from rarefeat.training.pretraining import train_arms
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.project import load

FULL = 500
"""Steps of the trainings that are counted."""
FEW = 4
"""Replicas that are trained alone, too."""


def train(device: str, replicas: int, steps: int) -> tuple[torch.Tensor, float]:
    """Train replicas of the paper's cell at once; return their weights, and seconds."""
    study, seeds = load("config/config.yaml").studies["paper"], list(range(replicas))
    training = study.training.model_copy(update={"T": steps, "device": device, "kernel": "torch"})
    latents = synthesise("devices", study.data, 0.5, seeds)["train"]
    arms, name = [Arm(arm="dense")], "devices"
    begin = time.perf_counter()
    encoders, _ = train_arms(
        name, "direct", study.data, training, arms, 0.05, seeds, latents, f"{replicas} replicas"
    )
    weights = encoders["dense"].weights.cpu()
    return weights, time.perf_counter() - begin


def measure(device: str, replicas: list[int], steps: int) -> None:
    """Print a line for each number of replicas, and the profile of the largest."""
    activities = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * (device == "cuda")]
    few, _ = train(device, FEW, steps)
    for number in replicas:
        _, short = train(device, number, 1)
        weights, seconds = train(device, number, steps + 1)
        a_step = (seconds - short) / steps
        memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
        print(
            f"{device}, {number} replicas: {1000 * a_step:.2f} ms a step,"
            f" {number / (FULL * a_step):.1f} trainings of {FULL} steps a second, {memory:.1f} GiB"
        )
    weights, _ = train(device, replicas[-1], steps)
    print(f"largest distance of weights from those alone: {(weights[:FEW] - few).abs().max():.2g}")
    with profile(activities=activities) as profiler:
        train(device, replicas[-1], 5)
    order = "cuda_time_total" if device == "cuda" else "cpu_time_total"
    print(profiler.key_averages().table(sort_by=order, row_limit=10))


def map_learners(device: str, steps: int, seeds: int) -> None:
    """Print the critical frequency of every loss with every encoder and optimiser."""
    begin = time.perf_counter()
    parts = []
    for encoder in (name for name in ENCODERS if name != "double"):
        start = {} if encoder == "mlp" else {"sigma_0": 0.014}  # an MLP has torch's own
        parts.append(
            rarefeat.critical_frequency(
                [0.1, 0.2, 0.3, 0.5, 0.7, 1.0], sigma=0.14, seed=range(seeds), loss=list(LOSSES),
                optimiser=list(OPTIMISERS), encoder=encoder, device=device, T=steps, d1=64, **start,
            ).assign(encoder=encoder)
        )  # fmt: skip
    rows = pd.concat(parts)
    columns = ["loss", "encoder", "optimiser", "frequency", "ci_low", "ci_high", "kept"]
    print(rows[columns].to_string(index=False, float_format="%.2f"))
    print(f"{len(rows)} learners in {(time.perf_counter() - begin) / 60:.1f} minutes")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--replicas", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--map", type=int, metavar="SEEDS", help="make the map, of so many seeds")
    args = parser.parse_args()
    measure(args.device, args.replicas, args.steps)
    if args.map:
        map_learners(args.device, args.steps, args.map)


if __name__ == "__main__":
    main()
