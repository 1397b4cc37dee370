"""What chapters 2 and 3 state about these networks, as quantities with the region that each statement allows.

Declared before any measurement at full size; thresholds follow from the statements, not from what pilots gave.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from rarefeat.claims.claim import COUNT, SHARE, Claim, Measured, Regime
from rarefeat.claims.estimate import of_seeds
from rarefeat.core.statistics import ANYWHERE
from rarefeat.run.job import Job
from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.config import Emergence
from rarefeat.studies.two_layer.kind import PAPER

SEEDS = 10
STUDY = "emergence"
STAIRS = {changes: theory.staircase(*theory.parity_counts(5, 0.5), changes) for changes in (1, 3, 5)}
"""27/32, 59/64 and 1: the best accuracies with that many sign changes over the six counts of the parity of five."""
LAST_STAIR = STAIRS[3]
GROUPS = {
    "emergence of features": (
        "2.1", "A.20", "A.1-two-step", "2.4", "2.6", "2.5.1", "step-1-cosine", "initial-cosine", "staircase", "one-step",
        "one-step-scale", "A.2-network", "A.2-one-step",
    ),
    "fixed features": ("2.2-rf", "2.2-ntk", "2.2-bound", "staircase-ntk", "A.2-ntk"),
    "unbalanced classes": ("A.4-printed", "A.4-live", "A.28"),
    "rare patterns": ("rare-weight", "rare-learned", "rare-weights", "rare-weights-network", "rare-pruning"),
    "winning tickets": ("B.1", "B.1-kink", "B.1-norm", "half-dead", "smallest-fifth"),
}  # fmt: skip
"""Parts of the theory, and their claims."""


def declare(
    id: str, source: str, statement: str, quantity: str, test: str, side: str, threshold: float, reason: str, primary: str,
    control: str, margin: float = 0.0, effect: float = 2.2, seeds: int = SEEDS, tolerance: float = 0.01,
    bounds: tuple[float, float] = ANYWHERE,
) -> Claim:  # fmt: skip
    """A claim whose primary regime is a setting of the config."""
    group = next(name for name, ids in GROUPS.items() if id in ids)
    return Claim(
        id, group, PAPER, source, statement, quantity, test, side, threshold, reason, f"{STUDY}: {primary}", effect, seeds,
        tolerance, control, margin, bounds,
    )  # fmt: skip


class Evidence:
    """The numbers of all settings and seeds: columns setting, seed, arm, step, quantity, value."""

    def __init__(self, rows: pd.DataFrame, section: Emergence):
        self.rows = rows
        self.section = section
        self._keyed = rows.set_index(["setting", "arm", "quantity", "step", "seed"])["value"].sort_index()

    def of(self, setting: str, arm: str, quantity: str, step: int | None = None) -> pd.Series:
        """By seed; at step T if none is given. Nothing was measured: an empty series."""
        at = self.section.settings[setting].T if step is None else step
        try:
            return self._keyed.loc[setting, arm, quantity, at]
        except KeyError:
            return pd.Series(dtype=float)

    def curve(self, setting: str, arm: str) -> pd.DataFrame:
        """Test accuracies, steps by seeds."""
        part = self.rows.query("setting == @setting and arm == @arm and quantity == 'curve'")
        return part.pivot(index="step", columns="seed", values="value")


Measure = Callable[[Evidence, str], pd.Series]
"""The quantity by seed in a setting."""


def accuracy(arm: str, quantity: str = "test_accuracy") -> Measure:
    """At the end."""
    return lambda evidence, setting: evidence.of(setting, arm, quantity)


def gain(arm: str, over: str, quantity: str = "test_accuracy") -> Measure:
    """Of one arm over another, seed by seed: both have the same draws."""
    return lambda evidence, setting: evidence.of(setting, arm, quantity) - evidence.of(setting, over, quantity)


def emergence(evidence: Evidence, setting: str) -> pd.Series:
    """Largest cosine after step 1 less that at initialisation."""
    return evidence.of(setting, "network", "cosine", 1) - evidence.of(setting, "network", "cosine", 0)


def tangent(cosine: pd.Series) -> pd.Series:
    """Noise over signal of a neuron with that cosine."""
    return (1 / cosine**2 - 1) ** 0.5


def improvement(evidence: Evidence, setting: str) -> pd.Series:
    """Logarithm of the noise-to-signal ratio of the median neuron after step 1 over that after step 2."""
    one, two = (tangent(evidence.of(setting, "network", "median_cosine", step)) for step in (1, 2))
    return np.log(one / two)


def pause(evidence: Evidence, setting: str, arm: str = "network", width: float = 0.015) -> pd.Series:
    """Longest stretch of steps, over T, whose test accuracy is within `width` of the first stair."""
    curve = evidence.curve(setting, arm)
    found = {}
    for seed in curve:
        longest, since = 0, None
        for step, near in ((curve[seed] - STAIRS[1]).abs() <= width).items():
            since = None if not near else step if since is None else since
            longest = longest if since is None else max(longest, step - since)
        found[seed] = longest / evidence.section.settings[setting].T
    return pd.Series(found, dtype=float)


def step_one_excess(evidence: Evidence, setting: str) -> pd.Series:
    """Logarithm of the median neuron's noise-to-signal ratio after step 1 over the closed form with beta = 1/2."""
    s = evidence.section.settings[setting]
    expected = theory.step_one_cosine(s.n, s.problem.D, s.problem.k, gamma=(1 - s.problem.p_o) / 2, beta=0.5)
    return np.log(tangent(evidence.of(setting, "network", "median_cosine", 1)) / math.sqrt(1 / expected**2 - 1))


def initial_excess(evidence: Evidence, setting: str) -> pd.Series:
    """Largest cosine at initialisation over its closed form, less 1."""
    s = evidence.section.settings[setting]
    return evidence.of(setting, "network", "cosine", 0) / theory.initial_cosine(s.problem.d, s.m) - 1


def distance_to_a_constant(evidence: Evidence, setting: str) -> pd.Series:
    """Of One Step's test accuracy to that of the nearer of the two constant answers."""
    majority = evidence.of(setting, "data", "majority_accuracy", 0)
    found = evidence.of(setting, "one_step", "test_accuracy")
    return pd.concat([(found - majority).abs(), (found - 1 + majority).abs()], axis=1).min(axis=1)


def above_the_bound(evidence: Evidence, setting: str) -> pd.Series:
    """Hinge loss of the random-features head less the bound at its number of features and norm (mean over A)."""
    s = evidence.section.settings[setting]
    norm = evidence.of(setting, "random_features", "head_norm")
    bound = theory.fixed_feature_bound_mean(s.m, norm.to_numpy(), s.problem.D, s.problem.k, s.problem.p_o)
    return evidence.of(setting, "random_features", "hinge_loss") - bound


def rare_excess(evidence: Evidence, setting: str) -> pd.Series:
    """Logarithm of the rare pattern's relative weight after step 2 over its closed form."""
    problem = evidence.section.settings[setting].problem
    expected = theory.rare_pattern_ratio(problem.k, problem.p_o, min(problem.frequency, default=1.0))
    return np.log(evidence.of(setting, "network", "rare_ratio", 2) / expected)


def at_step(arm: str, quantity: str, step: int) -> Measure:
    """A number at a step."""
    return lambda evidence, setting: evidence.of(setting, arm, quantity, step)


PARITIES = ("parity", "dimension_100", "dimension_2000", "samples_25000", "samples_10000")
RARE = ("rare_0.5", "rare_0.2", "rare_0.1", "rare_0.02")

DECLARED: list[tuple[Claim, Measure, tuple[str, ...]]] = [
    (
        declare(
            "2.1", "Theorem 2.1, Table A.1", "the network learns parities to a small error", "test accuracy",
            "superiority", "above", LAST_STAIR, "59/64 is the most that a score can have which misses a sign change", "parity",
            "network-no_structure: the same network and steps on uniform patterns", tolerance=0.05,
            bounds=SHARE,
        ),
        accuracy("network"), PARITIES,
    ),
    (
        declare(
            "A.20", "Theorem A.20, eq. (A.276)", "the printed schedule learns parities to a small error in T = 600 steps",
            "test accuracy", "superiority", "above", LAST_STAIR, "as in 2.1", "parity",
            "two_step: another head on the same features, which tells the schedule from the features", tolerance=0.05,
            bounds=SHARE,
        ),
        accuracy("network-printed"), PARITIES,
    ),
    (
        declare(
            "A.1-two-step", "A.7.1, Table A.1", "after two steps the features suffice for an accurate head", "test accuracy",
            "superiority", "above", LAST_STAIR, "as in 2.1", "parity", "one_step: the same head a step before", tolerance=0.05,
            bounds=SHARE,
        ),
        accuracy("two_step"), PARITIES,
    ),
    (
        declare(
            "2.2-rf", "Theorem 2.2, Table A.1", "random features do not learn parities", "test accuracy", "superiority",
            "below",
            LAST_STAIR, "as in 2.1, from the other side", "parity", "two_step: the same head on learned features",
            tolerance=0.05,
            bounds=SHARE,
        ),
        accuracy("random_features"), PARITIES,
    ),
    (
        declare(
            "2.2-ntk", "Theorem 2.2, Table A.1", "the linearised network does not learn parities", "test accuracy",
            "superiority",
            "below", LAST_STAIR, "as in 2.1, from the other side", "parity", "interval, where the same method succeeds",
            tolerance=0.05,
            bounds=SHARE,
        ),
        accuracy("ntk"), PARITIES,
    ),
    (
        declare(
            "2.2-bound", "Theorem 2.2 with B outside the root", "the hinge loss of fixed features is above the lower bound",
            "hinge loss of the random-features head less the bound at its N and B", "superiority", "above", 0.0,
            "a lower bound",
            "parity", "the bound holds on average over A; A is drawn at random", tolerance=0.05,
        ),
        above_the_bound, PARITIES,
    ),
    (
        declare(
            "2.4", "Theorem 2.4, Table A.1", "without input structure the network guesses", "test accuracy", "equivalence",
            "around", 0.5, "guessing; the printed numbers are within 2.5 % of it", "parity",
            "network: the same on structured patterns", margin=0.025,
            bounds=SHARE,
        ),
        accuracy("network-no_structure"), PARITIES,
    ),
    (
        declare(
            "2.6", "Lemma 2.6, Figure 2.2", "effective features emerge in the first step",
            "largest cosine to the sum of M_j over A, after step 1 less at initialisation", "superiority", "above", 0.0,
            "emerging", "parity", "the cosine at initialisation is that of chance", tolerance=0.05,
        ),
        emergence, PARITIES,
    ),
    (
        declare(
            "2.5.1", "section 2.5.1, Lemma A.16", "the second step improves the signal-to-noise ratio of the features",
            "log of noise over signal of the median neuron, step 1 over step 2", "superiority", "above", 0.0, "improving",
            "parity", "the closed form gives log(2) / 2 for beta = 1/2 to 1 by the sample alone", tolerance=0.1,
        ),
        improvement, PARITIES,
    ),
    (
        declare(
            "step-1-cosine", "Lemma 2.6 made exact (theory.step_one_cosine)", "the step-1 cosine is the sampling error's",
            "log of noise over signal of the median neuron over the closed form", "equivalence", "around", 0.0,
            "a quarter covers what the population puts on other patterns", "parity",
            "samples_25000 and samples_10000 change n alone", margin=0.25, tolerance=0.1,
        ),
        step_one_excess, PARITIES,
    ),
    (
        declare(
            "initial-cosine", "Tables A.1, A.3 (theory.initial_cosine)",
            "the cosine at initialisation is that of random vectors",
            "largest cosine at step 0 over its closed form, less 1", "equivalence", "around", 0.0,
            "a tenth; neighbouring rows of Table A.3 differ by a factor of 2", "parity",
            "d = 100 and 2000: the only place where d enters", margin=0.1, tolerance=0.05,
        ),
        initial_excess, PARITIES,
    ),
    (
        declare(
            "staircase", "Figure 2.1 (theory.staircase)", "training pauses at the first stair, 27/32",
            "longest stretch within 0.015 of it, over T", "superiority", "above", 0.05, "a twentieth of the steps is a pause",
            "parity", "rising evenly from 1/2 to 1 in T steps would give 0.06 T at most at any height; from 27/32 the printed "
            "schedule does not go on", tolerance=0.05,
            bounds=SHARE,
        ),
        pause, PARITIES,
    ),
    (
        declare(
            "staircase-ntk", "Table A.1, A.5 (theory.staircase)", "the linearised network ends on the first stair, 27/32",
            "test accuracy", "equivalence", "around", STAIRS[1], "the printed values are 86.4, 84.1 and 81.5 at m = 300",
            "parity", "random_features, which end below it", margin=0.025,
            bounds=SHARE,
        ),
        accuracy("ntk"), ("parity", "dimension_100", "samples_25000"),
    ),
    (
        declare(
            "one-step", "Table A.1", "heads on the step-1 features guess", "test accuracy", "equivalence", "around", 0.5,
            "guessing; printed 52.2", "parity", "one_step_rescaled: the same directions at the norm of step 2", margin=0.025,
            bounds=SHARE,
        ),
        accuracy("one_step"), PARITIES,
    ),
    (
        declare(
            "one-step-scale", "A.7.1 on Table A.1", "One Step fails since its features must be improved in the second step",
            "test accuracy at the norm of step 2", "superiority", "below", LAST_STAIR,
            "if the directions were the reason, they would fail at any scale", "parity",
            "one_step: the same directions as they are", tolerance=0.05,
            bounds=SHARE,
        ),
        accuracy("one_step_rescaled"), PARITIES,
    ),
    (
        declare(
            "A.4-printed", "Theorem A.20 at class ratio 0.9, Table A.4", "the printed steps learn unbalanced classes",
            "test accuracy", "superiority", "above", theory.staircase(*theory.parity_counts(5, 0.5, 0.9), 3),
            "the most that a score can have which misses a sign change", "class_ratio_0.9",
            "network-weighted: the class weights of A.28", tolerance=0.02,
            bounds=SHARE,
        ),
        accuracy("network-printed"), ("class_ratio_0.9",),
    ),
    (
        declare(
            "A.4-live", "Theorem A.20 at class ratio 0.9",
            "without class weights the second step switches nearly all neurons off",
            "share of neurons after step 2 that answer to any sample", "superiority", "below", 0.1,
            "below a tenth of the neurons, of which half live with balanced classes", "class_ratio_0.9",
            "network-weighted, and parity with balanced classes", tolerance=0.02,
            bounds=SHARE,
        ),
        at_step("network", "live_share", 2), ("class_ratio_0.9", "class_ratio_0.8"),
    ),
    (
        declare(
            "A.28", "Theorem A.28, eq. (A.293)", "class weights in the first two steps cure it", "test accuracy",
            "superiority", "above", theory.staircase(*theory.parity_counts(5, 0.5, 0.9), 3), "as in A.4-printed",
            "class_ratio_0.9", "network: the same without weights", tolerance=0.02,
            bounds=SHARE,
        ),
        accuracy("network-weighted"), ("class_ratio_0.9",),
    ),
    (
        declare(
            "A.2-network", "Table A.2", "the network learns interval labels", "test accuracy", "superiority", "above", 0.99,
            "printed 100", "interval", "least squares on the same features: the classes are linearly separable",
            bounds=SHARE,
        ),
        accuracy("network"), ("interval",),
    ),
    (
        declare(
            "A.2-ntk", "Table A.2", "the linearised network learns interval labels as well", "test accuracy", "superiority",
            "above", 0.9, "printed 100; well above random features' 73.2", "interval", "random_features",
            bounds=SHARE,
        ),
        accuracy("ntk"), ("interval",),
    ),
    (
        declare(
            "A.2-one-step", "Table A.2", "the printed One Step is a constant answer",
            "distance of its test accuracy to that of the nearer constant", "superiority", "below", 0.02,
            "printed 41.0 beside 41.5, the constant -1", "interval", "random_features, which are no constant",
            bounds=COUNT,
        ),
        distance_to_a_constant, ("interval",),
    ),
    (
        declare(
            "rare-weight", "(A1) for patterns of different frequency (theory.rare_pattern_ratio)",
            "after step 2 a rare relevant pattern has weight in proportion to its covariance with the label",
            "log of its relative weight over the closed form", "equivalence", "around", 0.0, "a quarter", "rare_0.2",
            "rare_0.5 and rare_0.1: the same at other frequencies", margin=0.25, tolerance=0.1,
        ),
        rare_excess, RARE,
    ),
    (
        declare(
            "rare-learned", "Theorem 2.1 for patterns of different frequency", "the rare relevant pattern is learned",
            "accuracy on samples whose class the rare pattern decides", "superiority", "above", 0.5,
            "an answer that ignores it is wrong on all of them; one half of them right", "rare_0.2",
            "random_features: fixed features on the same samples", tolerance=0.1,
            bounds=SHARE,
        ),
        accuracy("network", "decisive_accuracy"), RARE,
    ),
    (
        declare(
            "rare-weights", "Theorem A.28", "class weights in the first two steps help the rare pattern",
            "accuracy of the head on step-2 features on its samples, with class weights less without", "superiority",
            "above", 0.0, "helping; the features of step 2 are what the weights change", "rare_0.2",
            "class weights know the classes and not the patterns", tolerance=0.05,
        ),
        gain("two_step-weighted", "two_step", "decisive_accuracy"), RARE,
    ),
    (
        declare(
            "rare-weights-network", "Theorem A.28",
            "class weights in the first two steps help the network find the rare pattern",
            "accuracy of the network on its samples, with class weights less without", "superiority", "above", 0.0,
            "helping; at a frequency where the pattern's weight after step 2 is that of the noise", "rare_0.02",
            "rare_0.5 to rare_0.1: where the network finds it either way", tolerance=0.05,
        ),
        gain("network-weighted", "network", "decisive_accuracy"), RARE,
    ),
    (
        declare(
            "rare-pruning", "Proposition B.1 for patterns of different frequency", "pruning harms the rare pattern first",
            "loss of accuracy on its samples less that on all, 18 random neurons with a kink against the network",
            "superiority",
            "above", 0.0, "first", "rare_0.2", "rare_0.5: a pattern half as frequent as the others", tolerance=0.05,
        ),
        lambda e, s: gain("network", "ticket-kink-18", "decisive_accuracy")(e, s) - gain("network", "ticket-kink-18")(e, s),
        RARE,
    ),
    (
        declare(
            "B.1", "Proposition B.1", "a sparse sub-network of step 2, trained alone, is as good as the network",
            "test accuracy of 18 neurons with a kink inside the counts less the network's", "non-inferiority", "above", 0.0,
            "as good, to two percent", "parity", "ticket-random-18: as many neurons at random", margin=0.02,
        ),
        gain("ticket-kink-18", "network"), ("parity", "smoothed"),
    ),
    (
        declare(
            "B.1-kink", "Proposition B.1", "the ticket's neurons are those that can take part in the ground truth",
            "test accuracy of 18 neurons with a kink inside the counts less that of 18 at random", "superiority", "above", 0.0,
            "better than chance", "parity", "smoothed: fewer neurons are dead, so that chance does better", tolerance=0.03,
        ),
        gain("ticket-kink-18", "ticket-random-18"), ("parity", "smoothed"),
    ),
    (
        declare(
            "B.1-norm", "ours, on magnitude pruning", "the norm is no better a score than a kink inside the counts",
            "test accuracy of the 18 neurons of largest norm less that of 18 with a kink", "superiority", "below", 0.0,
            "worse", "parity", "ticket-effective_rate-18: another score that does not know the counts", tolerance=0.03,
        ),
        gain("ticket-norm-18", "ticket-kink-18"), ("parity", "smoothed"),
    ),
    (
        declare(
            "half-dead", "Theorem A.20 without the noise (footnote 1)", "after step 2 half of the neurons have w = 0",
            "share of neurons with w = 0", "equivalence", "around", 0.5,
            "those with b <= 0; two deviations of 300 fair coins are "
            "0.06", "parity", "smoothed, with the noise: none", margin=0.05,
            bounds=SHARE,
        ),
        at_step("network", "zero_share", 2), ("parity", "smoothed"),
    ),
    (
        declare(
            "smallest-fifth", "Theorem A.20 without the noise (footnote 1)",
            "the fifth of the neurons of smallest norm says nothing",
            "test accuracy of that fifth trained alone", "equivalence", "around", 0.5,
            "half of the neurons have w = 0 and b < 0",
            "parity", "smoothed, where no neuron has w = 0", margin=0.005,
            bounds=SHARE,
        ),
        lambda e, s: accuracy(f"ticket-smallest-{2 * e.section.settings[s].m // 5}")(e, s), ("parity", "smoothed"),
    ),
]  # fmt: skip
"""Each claim with its quantity and the settings in which it is measured, the primary one among them."""


CLAIMS = [claim for claim, _, _ in DECLARED]


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every claim in each of its settings that the config has, over seeds."""
    evidence = Evidence(tables["two_layer"], job.part("emergence", Emergence))
    return [
        Measured(claim, Regime(STUDY, setting), of_seeds(of(evidence, setting).to_numpy()))
        for claim, of, settings in DECLARED
        for setting in settings
        if setting in evidence.section.settings
    ]
