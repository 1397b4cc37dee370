"""Measure three remarks of imbalance_and_pruning that no study has.

Declared before the run; seeds are fresh.

- Theorem 3.1, Remark 2: imbalance asks for more neurons. m(eps) is the number of neurons at which
  half of the runs learn the rare feature, interpolated in log m. At least m d^(-1/eps^2) neurons
  are lucky, by (9), so that m(eps) is at most of the order of d^(1/eps^2). Quantity: the slope of
  log m(eps) in 1/eps^2, over the frequencies at which half is crossed between two numbers of
  neurons; stated: above 0, and at most log d. Its interval resamples seeds.
- Abstract and (13): imbalance hinders the separation from noise. Quantity: the rank correlation
  over frequencies of the share of ||w||^2 outside span(M), by run, of the neuron nearest to the
  rare feature, and the mean over all neurons; stated: below 0.
- Theorem 3.2, Remark 1: pruning lifts one rare feature after the other. Three neurons are set
  along each of nine features, with the magnitudes of (13); the rare ones have frequencies of 0.4,
  0.6 and 0.8. The three smallest neurons are masked, eq. (5), as many as the rarest feature has:
  from the start, where they are the rarest feature's by (13), or from step 1,000 on, when training
  has set the magnitudes. Quantities: the share of the smallest neurons that each rare feature's
  have over time, and the largest magnitude of the rarest over that of the second rarest; stated:
  it rises to 1, and then the second rarest's are masked, too. Beside it, training without a mask.
  Later and before its run: the same at a decay of 0.1, where a rare feature's neurons stay the
  smallest when all are set to one size (docs/tables/premise_changes.csv).

Everything else is the regime of the paper's grid, with a bias scale of 0.2 and 500 steps; the last
has 8,000 steps.
"""

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from published import publish
from scipy.stats import spearmanr
from small_checks import Check, over_seeds

from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.simulators import make_simulator
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.stages.synthesise import synthesise
from rarefeat.statistics import fraction_interval
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.project import load

NAME, PAPER = "remarks", "imbalance_and_pruning"
SIGMA = 0.05
NEURONS = (8, 15, 30, 60, 120, 240)
FREQUENCIES = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 1.0)
WIDTHS_AT = FREQUENCIES[2:-1]
"""Frequencies at which the number of neurons is varied."""
RESAMPLES = 2000
RARE, ONSET, STEPS, COPIES = (0.8, 0.6, 0.4), 1000, 8000, 3
DECAYS = (0.05, 0.1)


def end_of_training(eps_min: float, m: int, seeds: list[int]) -> tuple[np.ndarray, ...]:
    """Return by seed the largest cosine to the rare feature, and the shares outside span(M)."""
    study = load("config/config.yaml").studies["paper"]
    training = study.training.model_copy(update={"m": m})
    latents = synthesise(NAME, study.data, eps_min, seeds)["train"]
    arms = [Arm(arm="dense")]
    encoders, _ = pretrain(
        NAME, "reduced", study.data, training, arms, SIGMA, seeds, latents, f"{m} at {eps_min}"
    )
    weights = encoders["dense"].weights
    cosines = weights[..., : study.data.d].abs() / weights.norm(dim=-1, keepdim=True)
    outside = 1 - cosines.square().sum(-1)
    best = cosines[..., -1].max(-1)
    nearest = outside.gather(-1, best.indices[:, None])[:, 0]
    return best.values.numpy(), nearest.numpy(), outside.mean(-1).numpy()


def crossing(shares: np.ndarray) -> float:
    """Return log m at which the share that learns first reaches a half; NaN if not within."""
    reached = int(np.argmax(shares >= 0.5))
    if shares[reached] < 0.5 or reached == 0:
        return np.nan
    low, high = shares[reached - 1 : reached + 1]
    return float(np.interp(0.5, [low, high], np.log(NEURONS[reached - 1 : reached + 1])))


def slope(learned: np.ndarray) -> float:
    """Return the slope of the crossing in 1 / eps^2, of who learned: (frequency, m, seed)."""
    at = np.array([crossing(shares) for shares in learned.mean(-1)])
    within = np.isfinite(at)
    x = 1 / np.array(WIDTHS_AT) ** 2
    return float(np.polyfit(x[within], at[within], 1)[0]) if within.sum() > 1 else np.nan


def neurons_and_noise(seeds: list[int]) -> Iterator[Check]:
    """Train the grid of frequencies and numbers of neurons; yield both remarks."""
    runs = {(eps, m): end_of_training(eps, m, seeds) for eps in WIDTHS_AT for m in NEURONS}
    learned = np.array([[runs[eps, m][0] >= HALF_LEARNED for m in NEURONS] for eps in WIDTHS_AT])
    element = "Theorem 3.1, Remark 2"
    for eps, of_m in zip(WIDTHS_AT, learned, strict=True):
        for m, seen in zip(NEURONS, of_m, strict=True):
            what = f"share of runs that learn it, relative frequency {eps}, {m} neurons"
            ends = fraction_interval(seen.astype(float))
            yield Check(PAPER, element, what, np.nan, seen.mean(), *ends, len(seeds))
        what = f"neurons at which half of the runs learn it, relative frequency {eps}"
        value = float(np.exp(crossing(of_m.mean(-1))))
        yield Check(PAPER, element, what, np.nan, value, n=len(seeds))
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(seeds), size=(RESAMPLES, len(seeds)))
    low, high = np.nanquantile([slope(learned[..., some]) for some in drawn], [0.025, 0.975])
    what = "slope of log m(eps) in 1/eps^2; stated: above 0, at most log d"
    yield Check(PAPER, element, what, np.log(9), slope(learned), low, high, len(seeds))
    others = {eps: end_of_training(eps, 30, seeds) for eps in FREQUENCIES if eps not in WIDTHS_AT}
    at_30 = [others.get(eps) or runs[eps, 30] for eps in FREQUENCIES]
    for place, neurons in ((1, "of the neuron nearest to the rare feature"), (2, "of all neurons")):
        shares = np.array([run[place] for run in at_30])
        trends = [spearmanr(FREQUENCIES, by_seed).statistic for by_seed in shares.T]
        what = f"rank correlation of the part outside span(M) {neurons} over the frequency"
        yield over_seeds(PAPER, "Abstract, (13)", what + "; stated: below 0", 0, trends)
        for eps, of_seed in zip(FREQUENCIES, shares, strict=True):
            what = f"part outside span(M) {neurons}, relative frequency {eps}"
            yield over_seeds(PAPER, "Abstract, (13)", what, np.nan, of_seed)


def one_after_the_other(decay: float, seeds: list[int]) -> Iterator[Check]:
    """Train from neurons of one feature each, with and without eq. (5); yield the third remark."""
    study = load("config/config.yaml").studies["paper"]
    data = study.data.model_copy(update={"minority": [eps / RARE[0] for eps in RARE]})
    d, m = data.d, data.d * COPIES
    training = study.training.model_copy(
        update={"m": m, "T": STEPS, "history": True, "lambda_": decay}
    )
    frequencies = torch.tensor([*[1.0] * (d - len(RARE)), *RARE])
    simulator = make_simulator("reduced", NAME, d, data.d1, m, seeds)
    weights = torch.zeros(len(seeds), m, simulator.dictionary.shape[-2])
    neurons = torch.arange(m)
    weights[:, neurons, neurons % d] = frequencies[neurons % d]
    masked = [Arm(arm="pruned_neuron", alpha=COPIES / m, onset=onset) for onset in (0, ONSET)]
    arms = [Arm(arm="dense"), *masked]
    latents = synthesise(NAME, data, RARE[0], seeds)["train"]
    encoders, _ = pretrain(
        NAME, "reduced", data, training, arms, SIGMA, seeds, latents, "three", weights
    )
    steps = np.array(log_spaced(STEPS))
    element = "Theorem 3.2, Remark 1"
    setting = "" if decay == study.training.lambda_ else f", decay {decay:g}"
    for arm, encoder in encoders.items():
        along = encoder.history[..., :d].abs()
        smallest = encoder.history[..., d].argsort(dim=-1, stable=True)[..., :COPIES]
        feature = along.argmax(-1).gather(-1, smallest)
        largest = along.amax(2)
        for step in (0, 100, 500, ONSET, 2000, 4000, STEPS):
            at = int(abs(steps - step).argmin())
            for place, name in ((d - 1, "rarest"), (d - 2, "second rarest"), (d - 3, "third")):
                shares = (feature[:, at] == place).double().mean(-1).tolist()
                what = f"share of the smallest neurons that the {name} feature has, {arm}, step {steps[at]}{setting}"
                yield over_seeds(PAPER, element, what, np.nan, shares)
            ratio = (largest[:, at, d - 1] / largest[:, at, d - 2]).tolist()
            what = (
                f"largest magnitude of the rarest over the second rarest, {arm}, step {steps[at]}"
            )
            yield over_seeds(PAPER, element, what + setting, 1, ratio)


def main() -> None:
    """Print the table, and publish it if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first-seed", type=int, default=47000)
    parser.add_argument("--publish", action="store_true", help="write docs/tables/remarks.csv")
    args = parser.parse_args()
    torch.set_num_threads(1)
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    checks = [check for decay in DECAYS for check in one_after_the_other(decay, seeds[:10])]
    checks += neurons_and_noise(seeds)
    table = pd.DataFrame(checks)
    print(table.to_string(index=False, float_format="%.4g"))
    if args.publish:
        publish(NAME, table, seeds)


if __name__ == "__main__":
    main()
