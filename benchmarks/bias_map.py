"""Map which features are learned, by the bias scale, the number of neurons and the frequency.

Declared before the run; seeds are fresh. Everything else is the regime of the paper's grid.

- A neuron along one feature of relative frequency eps, whose gate follows its norm, grows while
  eps R > lambda, with R = p (1 - 1/K) E[sum (a - b)_+] E[sum over a > b of a] / tau: p is the
  probability that a frequent feature is active, a are its attended coordinates, b is the bias over
  the norm. It needs no other neuron and nothing is fitted. Stated: no run learns the feature below
  lambda / R. Above it, it may still be locked out by the frequent features.
- Quantities, by bias scale, number of neurons and frequency: the share of runs that learn the rare
  feature (a cosine of 0.5 at T), its energy over a frequent feature's (of all neurons), and the
  share of the frequent features that are learned. Primary: the share of runs below lambda / R, at
  all scales and numbers of neurons together (stated: 0), and the share above it (no statement).
- T is that of the published runs at each scale, chosen by the loss at 30 neurons.

12 seeds of all cells are some 40 minutes of a core.
"""

import argparse
import math

import pandas as pd
import torch
from published import publish

from rarefeat.model.theory import activation_probability, attended_count
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.stages.synthesise import synthesise
from rarefeat.statistics import fraction_interval, student_interval
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.project import load

NAME, SIGMA = "bias_map", 0.05
STEPS = {0.2: 500, 0.71: 2000, 1.0: 8000}
"""T by bias scale."""
NEURONS = (8, 30, 120)
FREQUENCIES = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8)


def lowest_frequency(study: Study, scale: float) -> float:
    """Compute lambda / R, below which no neuron of the feature grows."""
    data, training = study.data, study.training
    bias, small = scale * math.sqrt(2 * math.log(data.d) / data.d), 1e-6

    def count(threshold: float) -> float:
        return attended_count(data.L, SIGMA**2 * data.d1, 1.0, threshold)

    passed = count(bias)
    # The gate is held fixed in the gradient: open tokens pass all of their coordinate.
    gradient = passed - bias * (count(bias + small) - count(bias - small)) / (2 * small)
    chance = float(activation_probability(torch.ones(data.d), data.C)[0])
    rate = chance * (1 - 1 / training.K) * passed * gradient / training.tau
    return training.lambda_ / rate


def measure(study: Study, scale: float, m: int, eps_min: float, seeds: list[int]) -> dict:
    """Train one cell; return the share of runs that learn, and what the frequent features do."""
    bias = study.training.bias.model_copy(update={"share": scale})
    training = study.training.model_copy(update={"m": m, "T": STEPS[scale], "bias": bias})
    latents = synthesise(NAME, study.data, eps_min, seeds)["train"]
    label = f"scale {scale:g}, {m} neurons, {eps_min}"
    dense = [Arm(arm="dense")]
    encoders, _ = pretrain(
        NAME, "reduced", study.data, training, dense, SIGMA, seeds, latents, label
    )
    weights = encoders["dense"].weights
    along = weights[..., : study.data.d].abs()
    best = (along / weights.norm(dim=-1, keepdim=True)).amax(-2)
    energy = along.square().sum(-2)
    ratio = (energy[:, -1] / energy[:, :-1].mean(-1)).numpy()
    learned = (best[:, -1] >= HALF_LEARNED).double().numpy()
    low, high = fraction_interval(learned)
    mean, _, energy_low, energy_high, n = student_interval(ratio)
    return {
        "scale": scale, "m": m, "eps_min": eps_min, "T": training.T,
        "lowest": lowest_frequency(study, scale),
        "learned": learned.mean(), "ci_low": low, "ci_high": high,
        "energy": mean, "energy_low": energy_low, "energy_high": energy_high,
        "frequent": float((best[:, :-1] >= HALF_LEARNED).double().mean()), "n": n,
    }  # fmt: skip


def main() -> None:
    """Print the table, and publish it if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=50000)
    parser.add_argument("--steps", type=int, help="instead of T, to try the script")
    parser.add_argument("--publish", action="store_true", help="write docs/tables/bias_map.csv")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.steps:
        STEPS.update(dict.fromkeys(STEPS, args.steps))
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    study = load("config/config.yaml").studies["paper"]
    cells = [(scale, m, eps) for scale in STEPS for m in NEURONS for eps in FREQUENCIES]
    table = pd.DataFrame([measure(study, *cell, seeds) for cell in cells])
    print(table.to_string(index=False, float_format="%.4g"))
    if args.publish:
        publish(NAME, table, seeds)


if __name__ == "__main__":
    main()
