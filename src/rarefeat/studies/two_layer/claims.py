"""What each claim of chapters 2 and 3 looks at: a number of every seed, in some settings."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.config import Setting, TwoLayer

FIRST_STAIR = theory.staircase(*theory.parity_counts(5, 0.5), 1)
"""27/32: the best accuracy with one sign change over the six counts of the parity of five."""
NEAR_STAIR = 0.015
"""Accuracy from the stair up to which a run pauses there."""


NONE = pd.Series(index=pd.Index([], name="seed"), dtype=float)
"""What was not measured."""


class Runs(NamedTuple):
    """The runs of a setting."""

    name: str
    setting: Setting
    numbers: pd.Series
    """Of all settings, by setting, arm, quantity, step and seed."""

    def of(self, arm: str, quantity: str = "test_accuracy", step: int | None = None) -> pd.Series:
        """Return a quantity by seed, by default that at the end."""
        step = self.setting.T if step is None else step
        return self.numbers.get((self.name, arm, quantity, step), NONE)


Quantity = Callable[[Runs], pd.Series]


def of(arm: str, quantity: str = "test_accuracy", step: int | None = None) -> Quantity:
    """Return a number of an arm."""
    return lambda runs: runs.of(arm, quantity, step)


def gain(arm: str, over: str, quantity: str = "test_accuracy") -> Quantity:
    """Return a number of an arm minus that of another one on the same draws."""
    return lambda runs: runs.of(arm, quantity) - runs.of(over, quantity)


def emerged(runs: Runs) -> pd.Series:
    """Return the largest cosine after step 1 less that at initialisation."""
    return runs.of("network", "cosine", 1) - runs.of("network", "cosine", 0)


def tangent(cosine: pd.Series) -> pd.Series:
    """Return noise over signal of a neuron with that cosine."""
    return (1 / cosine**2 - 1) ** 0.5


def improvement(runs: Runs) -> pd.Series:
    """Return the logarithm of the median neuron's noise over signal after step 1 over step 2."""
    one, two = (tangent(runs.of("network", "median_cosine", step)) for step in (1, 2))
    return np.log(one / two)


def step_one_excess(runs: Runs) -> pd.Series:
    """Return the logarithm of that after step 1 over its closed form for beta = 1/2."""
    setting, problem = runs.setting, runs.setting.problem
    gamma = (1 - problem.p_o) / 2
    expected = theory.step_one_cosine(setting.n, problem.D, problem.k, gamma, beta=0.5)
    return np.log(tangent(runs.of("network", "median_cosine", 1)) / tangent(expected))


def initial_excess(runs: Runs) -> pd.Series:
    """Return the largest cosine at initialisation over its closed form, less 1."""
    expected = theory.initial_cosine(runs.setting.problem.d, runs.setting.m)
    return runs.of("network", "cosine", 0) / expected - 1


def pause(runs: Runs) -> pd.Series:
    """Return the longest stretch of recorded steps near the first stair, over T."""
    longest = {}
    for seed, curve in runs.numbers.get((runs.name, "network", "curve"), NONE).groupby("seed"):
        since, stretches = None, [0]
        for (step, _), near in ((curve - FIRST_STAIR).abs() <= NEAR_STAIR).items():
            since = (step if since is None else since) if near else None
            stretches.append(0 if since is None else step - since)
        longest[seed] = max(stretches) / runs.setting.T
    return pd.Series(longest, dtype=float)


def distance_to_a_constant(runs: Runs) -> pd.Series:
    """Return the distance of One Step's test accuracy to the nearer constant output."""
    majority, one_step = runs.of("data", "majority_accuracy", 0), runs.of("one_step")
    return np.minimum((one_step - majority).abs(), (one_step - 1 + majority).abs())


def above_the_bound(runs: Runs) -> pd.Series:
    """Return the hinge loss of the head on m random features less its bound, mean over A."""
    problem, norm = runs.setting.problem, runs.of("random_features", "head_norm")
    bound = theory.fixed_feature_bound_mean(
        runs.setting.m, norm.to_numpy(), problem.D, problem.k, problem.p_o
    )
    return runs.of("random_features", "hinge_loss") - bound


def rare_excess(runs: Runs) -> pd.Series:
    """Return the logarithm of the rare pattern's weight after step 2 over its closed form."""
    problem = runs.setting.problem
    rarest = min(problem.frequency, default=1.0)
    expected = theory.rare_pattern_ratio(problem.k, problem.p_o, rarest)
    return np.log(runs.of("network", "rare_ratio", 2) / expected)


def more_than_all(runs: Runs) -> pd.Series:
    """Return how much more accuracy 18 neurons lose on the rare pattern's samples than on all."""
    lost = gain("network", "ticket-kink-18", "decisive_accuracy")(runs)
    return lost - gain("network", "ticket-kink-18")(runs)


def smallest_fifth(runs: Runs) -> pd.Series:
    """Return the test accuracy of the fifth of smallest norm, trained alone."""
    return runs.of(f"ticket-smallest-{2 * runs.setting.m // 5}")


PARITIES = ("parity", "dimension_100", "dimension_2000", "samples_25000", "samples_10000")
STAIRS = ("parity", "dimension_100", "samples_25000")
RARE = ("rare_0.5", "rare_0.2", "rare_0.1", "rare_0.02")
TICKETS = ("parity", "smoothed")
QUANTITIES: dict[str, tuple[Quantity, tuple[str, ...]]] = {
    "2.1": (of("network"), PARITIES),
    "A.20": (of("network-printed"), PARITIES),
    "A.1-two-step": (of("two_step"), PARITIES),
    "2.2-rf": (of("random_features"), PARITIES),
    "2.2-ntk": (of("ntk"), PARITIES),
    "2.2-bound": (above_the_bound, PARITIES),
    "2.4": (of("network-no_structure"), PARITIES),
    "2.6": (emerged, PARITIES),
    "2.5.1": (improvement, PARITIES),
    "step-1-cosine": (step_one_excess, PARITIES),
    "initial-cosine": (initial_excess, PARITIES),
    "staircase": (pause, PARITIES),
    "staircase-ntk": (of("ntk"), STAIRS),
    "one-step": (of("one_step"), PARITIES),
    "one-step-scale": (of("one_step_rescaled"), PARITIES),
    "A.4-printed": (of("network-printed"), ("class_ratio_0.9",)),
    "A.4-live": (of("network", "live_share", 2), ("class_ratio_0.9", "class_ratio_0.8")),
    "A.28": (of("network-weighted"), ("class_ratio_0.9",)),
    "A.2-network": (of("network"), ("interval",)),
    "A.2-ntk": (of("ntk"), ("interval",)),
    "A.2-one-step": (distance_to_a_constant, ("interval",)),
    "rare-weight": (rare_excess, RARE),
    "rare-learned": (of("network", "decisive_accuracy"), RARE),
    "rare-weights": (gain("two_step-weighted", "two_step", "decisive_accuracy"), RARE),
    "rare-weights-network": (gain("network-weighted", "network", "decisive_accuracy"), RARE),
    "rare-pruning": (more_than_all, RARE),
    "B.1": (gain("ticket-kink-18", "network"), TICKETS),
    "B.1-kink": (gain("ticket-kink-18", "ticket-random-18"), TICKETS),
    "B.1-norm": (gain("ticket-norm-18", "ticket-kink-18"), TICKETS),
    "half-dead": (of("network", "zero_share", 2), TICKETS),
    "smallest-fifth": (smallest_fifth, TICKETS),
}
"""Each claim with its quantity and its settings, the primary one among them."""


def measure(tables: Mapping[str, pd.DataFrame], emergence: TwoLayer) -> list[Measurement]:
    """Measure every claim in each of its settings that the config has, over seeds."""
    keys = ["setting", "arm", "quantity", "step", "seed"]
    numbers = tables["two_layer"].set_index(keys)["value"].sort_index()
    settings = emergence.by_name
    return [
        measurement(
            claim, "emergence", {"setting": name}, quantity(Runs(name, settings[name], numbers))
        )
        for claim, (quantity, names) in QUANTITIES.items()
        for name in names
        if name in settings
    ]
