"""Measurements for the claims of chapters 2 and 3 about two-layer networks."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.config import Emergence
from rarefeat.workflow.run.job import Job

STUDY = "emergence"
FIRST_STAIR = theory.staircase(*theory.parity_counts(5, 0.5), 1)
"""27/32: the best accuracy with one sign change over the six counts of the parity of five."""


class ClaimEvidence:
    """The numbers of all settings and seeds: columns setting, seed, arm, step, quantity, value."""

    def __init__(self, rows: pd.DataFrame, section: Emergence):
        self.rows = rows
        self.section = section
        self._keyed = rows.set_index(["setting", "arm", "quantity", "step", "seed"])[
            "value"
        ].sort_index()

    def values(self, setting: str, arm: str, quantity: str, step: int | None = None) -> pd.Series:
        """Return a quantity by seed; at step T if none is given."""
        measured_step = self.section.settings[setting].T if step is None else step
        try:
            return self._keyed.loc[setting, arm, quantity, measured_step]
        except KeyError:
            return pd.Series(dtype=float)

    def curve(self, setting: str, arm: str) -> pd.DataFrame:
        """Return test accuracies, steps by seeds."""
        rows = self.rows.query("setting == @setting and arm == @arm and quantity == 'curve'")
        return rows.pivot(index="step", columns="seed", values="value")


Measure = Callable[[ClaimEvidence, str], pd.Series]
"""The quantity by seed in a setting."""


def accuracy(arm: str, quantity: str = "test_accuracy") -> Measure:
    """Return the measure of an arm's accuracy at the end."""
    return lambda evidence, setting: evidence.values(setting, arm, quantity)


def gain(arm: str, over: str, quantity: str = "test_accuracy") -> Measure:
    """Return the measure of one arm's gain over another, seed by seed.

    Both have the same draws.
    """
    return lambda evidence, setting: (
        evidence.values(setting, arm, quantity) - evidence.values(setting, over, quantity)
    )


def emergence(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Return the largest cosine after step 1 less that at initialisation."""
    return evidence.values(setting, "network", "cosine", 1) - evidence.values(
        setting, "network", "cosine", 0
    )


def tangent(cosine: pd.Series) -> pd.Series:
    """Return noise over signal of a neuron with that cosine."""
    return (1 / cosine**2 - 1) ** 0.5


def improvement(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Compare the median neuron's noise-to-signal ratio after steps 1 and 2, by the logarithm of
    their quotient.
    """
    one, two = (
        tangent(evidence.values(setting, "network", "median_cosine", step)) for step in (1, 2)
    )
    return np.log(one / two)


def pause(
    evidence: ClaimEvidence, setting: str, arm: str = "network", width: float = 0.015
) -> pd.Series:
    """Return the longest stretch of steps, over T, near the first stair."""
    curve = evidence.curve(setting, arm)
    stretches = {}
    for seed in curve:
        longest, since = 0, None
        for step, near in ((curve[seed] - FIRST_STAIR).abs() <= width).items():
            since = None if not near else step if since is None else since
            longest = longest if since is None else max(longest, step - since)
        stretches[seed] = longest / evidence.section.settings[setting].T
    return pd.Series(stretches, dtype=float)


def step_one_excess(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Compare the median neuron's noise-to-signal ratio after step 1 with its closed form for beta
    = 1/2, by the logarithm of their quotient.
    """
    s = evidence.section.settings[setting]
    expected = theory.step_one_cosine(
        s.n, s.problem.D, s.problem.k, gamma=(1 - s.problem.p_o) / 2, beta=0.5
    )
    return np.log(
        tangent(evidence.values(setting, "network", "median_cosine", 1))
        / math.sqrt(1 / expected**2 - 1)
    )


def initial_excess(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Return the largest cosine at initialisation over its closed form, less 1."""
    s = evidence.section.settings[setting]
    return (
        evidence.values(setting, "network", "cosine", 0) / theory.initial_cosine(s.problem.d, s.m)
        - 1
    )


def distance_to_a_constant(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Return the distance of One Step's test accuracy to the nearer constant output."""
    majority = evidence.values(setting, "data", "majority_accuracy", 0)
    one_step = evidence.values(setting, "one_step", "test_accuracy")
    return pd.concat([(one_step - majority).abs(), (one_step - 1 + majority).abs()], axis=1).min(
        axis=1
    )


def above_the_bound(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Return the hinge loss of the random-features head less its lower bound.

    The bound is that at its number of features and norm (mean over A).
    """
    s = evidence.section.settings[setting]
    norm = evidence.values(setting, "random_features", "head_norm")
    bound = theory.fixed_feature_bound_mean(
        s.m, norm.to_numpy(), s.problem.D, s.problem.k, s.problem.p_o
    )
    return evidence.values(setting, "random_features", "hinge_loss") - bound


def rare_excess(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Return the logarithm of the rare pattern's relative weight after step 2 over its closed
    form.
    """
    problem = evidence.section.settings[setting].problem
    expected = theory.rare_pattern_ratio(
        problem.k, problem.p_o, min(problem.frequency, default=1.0)
    )
    return np.log(evidence.values(setting, "network", "rare_ratio", 2) / expected)


def at_step(arm: str, quantity: str, step: int) -> Measure:
    """Return the measure of a number at a step."""
    return lambda evidence, setting: evidence.values(setting, arm, quantity, step)


def more_than_all(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Return how much more accuracy 18 neurons lose on the rare pattern's samples than on all."""
    lost = gain("network", "ticket-kink-18", "decisive_accuracy")(evidence, setting)
    return lost - gain("network", "ticket-kink-18")(evidence, setting)


def smallest_fifth(evidence: ClaimEvidence, setting: str) -> pd.Series:
    """Return the test accuracy of the fifth of smallest norm, trained alone."""
    return evidence.values(
        setting, f"ticket-smallest-{2 * evidence.section.settings[setting].m // 5}", "test_accuracy"
    )


PARITIES = ("parity", "dimension_100", "dimension_2000", "samples_25000", "samples_10000")
RARE = ("rare_0.5", "rare_0.2", "rare_0.1", "rare_0.02")

QUANTITIES: tuple[tuple[str, Measure, tuple[str, ...]], ...] = (
    ("2.1", accuracy("network"), PARITIES),
    ("A.20", accuracy("network-printed"), PARITIES),
    ("A.1-two-step", accuracy("two_step"), PARITIES),
    ("2.2-rf", accuracy("random_features"), PARITIES),
    ("2.2-ntk", accuracy("ntk"), PARITIES),
    ("2.2-bound", above_the_bound, PARITIES),
    ("2.4", accuracy("network-no_structure"), PARITIES),
    ("2.6", emergence, PARITIES),
    ("2.5.1", improvement, PARITIES),
    ("step-1-cosine", step_one_excess, PARITIES),
    ("initial-cosine", initial_excess, PARITIES),
    ("staircase", pause, PARITIES),
    ("staircase-ntk", accuracy("ntk"), ("parity", "dimension_100", "samples_25000")),
    ("one-step", accuracy("one_step"), PARITIES),
    ("one-step-scale", accuracy("one_step_rescaled"), PARITIES),
    ("A.4-printed", accuracy("network-printed"), ("class_ratio_0.9",)),
    ("A.4-live", at_step("network", "live_share", 2), ("class_ratio_0.9", "class_ratio_0.8")),
    ("A.28", accuracy("network-weighted"), ("class_ratio_0.9",)),
    ("A.2-network", accuracy("network"), ("interval",)),
    ("A.2-ntk", accuracy("ntk"), ("interval",)),
    ("A.2-one-step", distance_to_a_constant, ("interval",)),
    ("rare-weight", rare_excess, RARE),
    ("rare-learned", accuracy("network", "decisive_accuracy"), RARE),
    ("rare-weights", gain("two_step-weighted", "two_step", "decisive_accuracy"), RARE),
    ("rare-weights-network", gain("network-weighted", "network", "decisive_accuracy"), RARE),
    ("rare-pruning", more_than_all, RARE),
    ("B.1", gain("ticket-kink-18", "network"), ("parity", "smoothed")),
    ("B.1-kink", gain("ticket-kink-18", "ticket-random-18"), ("parity", "smoothed")),
    ("B.1-norm", gain("ticket-norm-18", "ticket-kink-18"), ("parity", "smoothed")),
    ("half-dead", at_step("network", "zero_share", 2), ("parity", "smoothed")),
    ("smallest-fifth", smallest_fifth, ("parity", "smoothed")),
)
"""Each claim with its quantity and the settings in which it is measured, the primary one among
them."""


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim in each of its settings that the config has, over seeds."""
    evidence = ClaimEvidence(tables["two_layer"], job.config_section("emergence", Emergence))
    return [
        measurement(claim, STUDY, {"setting": setting}, quantity(evidence, setting))
        for claim, quantity, settings in QUANTITIES
        for setting in settings
        if setting in evidence.section.settings
    ]
