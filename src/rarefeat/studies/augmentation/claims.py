"""Feature decoupling by augmentation (Wen & Li 2021), and its crossing with imbalance and pruning."""

from collections.abc import Mapping
from functools import partial

import pandas as pd

from rarefeat.claims.claim import CORRELATION, COUNT, SHARE, Claim, Measured, Regime
from rarefeat.claims.estimate import of_seeds
from rarefeat.config.study import Study
from rarefeat.core.sparse_coding import activation_probability, frequencies
from rarefeat.run.job import Job
from rarefeat.studies.augmentation.config import Augmentation

PAPER, GROUP = "wen_li_feature_decoupling", "feature decoupling"
declare = partial(Claim, paper=PAPER, group=GROUP, effect=1.25, seeds=20, tolerance=0.1)
of_start = partial(declare, primary="independent_noise", control="W(0) knows no augmentation")
with_views = partial(declare, primary="random_mask", control="the same quantity without augmentation")
without = partial(declare, primary="identical_without_bias", control="the same quantity with augmentation")
"""The paper's own augmentation, and its own case without: identical views and no bias."""
START_LUCKY = of_start(
    id="WL-P1-lucky",
    source="Lemma B.2",
    statement="every feature has lucky neurons at the start, |M_j^*| >= Omega(d^(gamma c_0 / 4))",
    quantity="mean |M_j^*|",
    test="non-inferiority",
    side="above",
    threshold=1.0,
    margin=0.5,
    reason="the constant is open: read as 1, a factor of two allowed",
    bounds=COUNT,
)
START_FEW = of_start(
    id="WL-P1-ordinary",
    source="Lemma B.2",
    statement="|N_i| = O(1) at the start",
    quantity="mean |N_i|",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason="the constant is open: read as 1, a factor of two allowed",
    bounds=COUNT,
)
START_SHARED = of_start(
    id="WL-P1-shared",
    source="Lemma B.2",
    statement="|M_j n M_k| <= O(log d) at the start",
    quantity="largest |M_j n M_k| over log d",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason="the constant is open: read as 1, a factor of two allowed",
    bounds=COUNT,
)
CROSS_TALK = with_views(
    id="WL-P2",
    source="Lemma B.3",
    statement="a mask parts features: <M_j, (I - 2 D) M_k> is O~(1/sqrt(d1))",
    quantity="its largest value over j, k and 200 masks, times sqrt(d1) / log d1",
    test="superiority",
    side="below",
    threshold=1.0,
    reason="O~ read as one logarithm",
)
PULL_FEATURES = with_views(
    id="WL-P3-features",
    source="Lemma C.2",
    statement="with augmentation and no bias the pull E[h_i(x') <grad h_i(x), M_j>] is <w_i, M_j> p",
    quantity="the pull over <w_i, M_j> p, over all neurons and features",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.1,
    reason="1, to a tenth",
)
PULL_REST = with_views(
    id="WL-P3-rest",
    source="Lemma C.2",
    statement="and off span(M) there is none",
    quantity="the pull over <w_i, v> sigma^2, over all directions off span(M)",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.1,
    reason="0, to a tenth of what it is without augmentation",
)
PULL_BOTH = declare(
    id="WL-P3-without",
    source="Lemma F.1",
    statement="without augmentation the pull is p + sigma^2 on features",
    quantity="the pull over <w_i, M_j> (p + sigma^2)",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.1,
    reason="1, to a tenth",
    primary="identical",
    control="with augmentation: WL-P3-features",
)
PULL_NOISE = declare(
    id="WL-P3-noise",
    source="Lemma F.1",
    statement="and sigma^2 off them",
    quantity="the pull over <w_i, v> sigma^2, over all directions off span(M)",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.1,
    reason="1, to a tenth",
    primary="identical",
    control="with augmentation: WL-P3-rest",
)
GROWTH = with_views(
    id="WL-P4",
    source="Induction Hypothesis C.4",
    statement="in stage 1 features grow by 1 - eta lambda + eta C_z loglog d / d a step, whatever correlated noise adds",
    quantity="measured over predicted (growth per step - 1 + eta lambda)",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.1,
    reason="to a tenth, as the closed form leaves out overlapping features",
)
LUCKY_T1 = with_views(
    id="WL-P5-lucky",
    source="Theorem C.1",
    statement="at T1 a lucky neuron has |cos(w_i, M_j)| above sqrt(2 log d / d)",
    quantity="share of lucky neurons with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason="all but one in twenty",
    bounds=SHARE,
)
OTHERS_T1 = with_views(
    id="WL-P5-others",
    source="Theorem C.1",
    statement="and a neuron outside M_j below it",
    quantity="share of pairs with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason="all but one in twenty",
    bounds=SHARE,
)
FEW_T1 = with_views(
    id="WL-P5-few",
    source="Theorem C.1",
    statement="at T1 a neuron has |cos| >= log^(1/4) d / sqrt(d) to O(d / 2^sqrt(log d)) features at most",
    quantity="share of neurons with it",
    test="superiority",
    side="above",
    threshold=0.95,
    reason="all but one in twenty, the constant read as 1",
    bounds=SHARE,
)
OUTSIDE_T1 = with_views(
    id="WL-P5-outside",
    source="Theorem C.1",
    statement="at T1 |cos| to a direction off span(M) is O(sqrt(log d / d1))",
    quantity="its largest value over sqrt(log d / d1)",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason="the constant is open: read as 1, a factor of two allowed",
    bounds=COUNT,
)
FOCUS_T2 = with_views(
    id="WL-P6-focus",
    source="Theorem D.5",
    statement="at T2 a lucky neuron is Omega(1) in its feature",
    quantity="mean |cos(w_i, M_j)| of lucky neurons",
    test="non-inferiority",
    side="above",
    threshold=1.0,
    margin=0.5,
    reason="the constant is open: read as 1, a factor of two allowed",
    bounds=CORRELATION,
)
LEADS_T2 = with_views(
    id="WL-P6-leads",
    source="Theorem D.5",
    statement="at T2 ordinary neurons of a feature are no more than a constant above its lucky ones",
    quantity="largest ratio of an ordinary projection to the best lucky one",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason="the constant is open: read as 1, a factor of two allowed",
    bounds=COUNT,
)
INSIDE = with_views(
    id="WL-P7-share",
    source="Theorem 3.4",
    statement="with augmentation a neuron ends in span(M)",
    quantity="mean share of ||w_i||^2 in span(M)",
    test="superiority",
    side="above",
    threshold=0.9,
    reason="nine tenths",
    bounds=SHARE,
)
COVERED = with_views(
    id="WL-P7-singletons",
    source="Theorem 3.4",
    statement="with augmentation every feature has a neuron of its own",
    quantity="share of features with a neuron of absolute cosine > 0.9",
    test="superiority",
    side="above",
    threshold=0.95,
    reason="all but one in twenty",
    bounds=SHARE,
)
FEW = with_views(
    id="WL-P7-few",
    source="Theorem 3.4",
    statement="with augmentation |N_i| = O(1)",
    quantity="mean number of features with absolute cosine >= 1/sqrt(d)",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason="the constant is open: read as 1, a factor of two allowed",
    bounds=COUNT,
)
SPARSE = with_views(
    id="WL-P8",
    source="Fact E.3",
    statement="with augmentation a neuron is active only with its feature: Pr(h_i(x) != 0) <= O(loglog d / d)",
    quantity="mean Pr(h_i(x) != 0) over Pr(z_j != 0)",
    test="non-inferiority",
    side="below",
    threshold=1.0,
    margin=1.0,
    reason="the constant is open: read as 1, a factor of two allowed",
    bounds=COUNT,
)
CLEAN = with_views(
    id="WL-P9",
    source="section 3",
    statement="with augmentation the noise is removed: ||f(x) - f(Mz)|| is small beside ||f(Mz)||",
    quantity="their ratio",
    test="superiority",
    side="below",
    threshold=0.5,
    reason="o(1) read as under a half",
)
NOISY = without(
    id="WL-P10-cosine",
    source="Theorem 3.2",
    statement="without augmentation f(x) has the direction of f(xi), the answer to its noise",
    quantity="mean cosine",
    test="superiority",
    side="above",
    threshold=0.9,
    reason="1 - O(1 / poly(d)) read as nine tenths",
    bounds=CORRELATION,
)
DENSE = without(
    id="WL-P10-share",
    source="Theorem 3.2",
    statement="without augmentation neurons end outside span(M)",
    quantity="mean share of ||w_i||^2 outside span(M)",
    test="superiority",
    side="above",
    threshold=0.9,
    reason="1 - 1 / poly(d) read as nine tenths",
    bounds=SHARE,
)
FAILING = without(
    id="WL-P11",
    source="Corollary 3.3",
    statement="without augmentation a linear head has a constant error with any number of labels",
    quantity="test MSE over the variance of the label, with most labels",
    test="non-inferiority",
    side="above",
    threshold=1.0,
    margin=0.5,
    reason="the constant is open: read as 1, a factor of two allowed",
)
LEARNED = with_views(
    id="WL-P12",
    source="Corollary 3.5",
    statement="with augmentation a linear head has an error of o(1)",
    quantity="test MSE over the variance of the label, with most labels",
    test="superiority",
    side="below",
    threshold=0.5,
    reason="o(1) read as under a half",
)
BETTER = with_views(
    id="WL-P12-raw",
    source="section 3.1 and Corollary 3.5",
    statement="with augmentation a head on the features is better than one on the raw input",
    quantity="error less that on the raw input, with most labels, seed by seed",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="smaller",
)
UP = declare(
    id="WL-P13-up",
    source="footnote 4",
    statement="with augmentation a bias that is learned by gradient increases",
    quantity="mean b_i / ||w_i|| at T",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="above its start at 0",
    primary="random_mask_learned_bias",
    control="WL-P13-down",
)
DOWN = declare(
    id="WL-P13-down",
    source="footnote 4",
    statement="without augmentation it decreases",
    quantity="mean b_i / ||w_i|| at T",
    test="superiority",
    side="below",
    threshold=0.0,
    reason="below its start at 0",
    primary="identical_learned_bias",
    control="WL-P13-up",
)
LIKE_LABELS = with_views(
    id="WL-P14",
    source="section 1",
    statement="an augmentation that keeps the sparse signal makes neurons like those of supervised learning",
    quantity="mean over the supervised neurons, by squared norm, of the largest |cos|",
    test="superiority",
    side="above",
    threshold=0.8,
    reason="four fifths",
    bounds=SHARE,
)
UNLIKE_LABELS = without(
    id="WL-P14-without",
    source="section 1",
    statement="without augmentation they are not like those",
    quantity="mean over the supervised neurons, by squared norm, of the largest |cos|",
    test="superiority",
    side="below",
    threshold=0.8,
    reason="the same bound",
    bounds=SHARE,
)
COLOUR_STAYS = declare(
    id="WL-colour-stays",
    source="section 1, messages 1 and 2",
    statement="a dense nuisance that the augmentation does not decorrelate stays in the weights",
    quantity="mean share of ||w_i||^2 in its span",
    test="superiority",
    side="above",
    threshold=0.1,
    reason="a tenth; at the start it is 4 / d1 = 0.016",
    primary="colour_mask",
    control="WL-colour-goes",
    bounds=SHARE,
)
COLOUR_GOES = declare(
    id="WL-colour-goes",
    source="section 1, message 3",
    statement="an augmentation that redraws it removes it",
    quantity="mean share of ||w_i||^2 in its span",
    test="superiority",
    side="below",
    threshold=0.016,
    reason="less than at the start",
    primary="colour_mask_and_redrawn",
    control="WL-colour-stays",
    bounds=SHARE,
)
MASK_AND_RARE = declare(
    id="crossing-mask",
    source="beyond the papers",
    statement="a mask instead of noise of its own helps a rare feature",
    quantity="minority_alignment of dense with a mask less that without, seed by seed",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="better",
    primary="imbalance_random_mask: eps_min 0.7, dense",
    control="the same seeds, dictionary and samples",
    paper=f"beyond {PAPER}",
)
PRUNED = declare(
    id="crossing-pruning",
    source="beyond the papers",
    statement="pruning helps a rare feature when the augmentation is a mask",
    quantity="minority_alignment less that of dense, seed by seed",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="better",
    primary="imbalance_random_mask: eps_min 0.7, pruned_neuron",
    control="dense on the same seeds",
    paper=f"beyond {PAPER}",
)
# Studies share W(0), which is looked at once.
FIRST = ("independent_noise",)
MASKED = ("random_mask", "mask=0.25", "mask=0.1")
WITH = (*MASKED, "independent_noise")
WITHOUT = ("identical", "identical_without_bias")
STAGED = (GROWTH, LUCKY_T1, OTHERS_T1, FEW_T1, OUTSIDE_T1, FOCUS_T2, LEADS_T2)
BY_STUDY = (
    (START_LUCKY, "lucky_neurons", FIRST),
    (START_FEW, "ordinary_features", FIRST),
    (START_SHARED, "shared_ordinary", FIRST),
    (CROSS_TALK, "cross_talk", ("random_mask",)),
    (PULL_FEATURES, "pull_features", WITH),
    (PULL_REST, "pull_rest", WITH),
    (PULL_BOTH, "pull_signal_and_noise", ("identical",)),
    (PULL_NOISE, "pull_rest", ("identical",)),
    (LUCKY_T1, "lucky_above_threshold_at_T1", WITH),
    (OTHERS_T1, "others_below_threshold_at_T1", WITH),
    (FEW_T1, "few_strong_features_at_T1", WITH),
    (OUTSIDE_T1, "outside_largest_at_T1", WITH),
    (FOCUS_T2, "lucky_focus_at_T2", WITH),
    (LEADS_T2, "ordinary_over_lucky_at_T2", WITH),
    (LIKE_LABELS, "likeness_to_supervised", WITH),
    (UNLIKE_LABELS, "likeness_to_supervised", WITHOUT),
    (GROWTH, "growth_over_closed_form", (*WITH, "rho=0.5", "rho=0.9", *WITHOUT)),
    (INSIDE, "share_features", WITH),
    (COVERED, "covered_features", WITH),
    (FEW, "features_per_neuron", WITH),
    (CLEAN, "noise_left", WITH),
    (NOISY, "noise_cosine", WITHOUT),
    (DENSE, "share_outside", WITHOUT),
    (UP, "bias_share", ("random_mask_learned_bias", "independent_noise_learned_bias")),
    (DOWN, "bias_share", ("identical_learned_bias",)),
    (COLOUR_STAYS, "share_colour", ("colour_identical", "colour_mask")),
    (COLOUR_GOES, "share_colour", ("colour_mask_and_redrawn",)),
)


CLAIMS = [claim for claim in list(globals().values()) if isinstance(claim, Claim)]


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every study of the section `augmentation` that a claim is about."""
    table, studies = tables["augmentation"], job.part("augmentation", Augmentation).studies
    known = [name for name in studies if name in set(table["study"])]
    rows = []

    def of(study: str, metric: str, labels: int = 0, encoder: str = "trained") -> pd.DataFrame:
        """Values by (eps_min, arm), a column per seed."""
        chosen = table[(table["study"] == study) & (table["encoder"] == encoder) & (table["labels"] == labels)]
        if metric == "share_outside":
            return 1 - wide(chosen[chosen["metric"] == "share_features"])
        if metric == "pull_signal_and_noise":
            chosen = chosen[chosen["metric"] == "pull_features"]
            p, noise = probability(studies[study]), chosen["sigma"] ** 2
            return wide(chosen.assign(value=chosen["value"] * p / (p + noise)))
        return wide(chosen[chosen["metric"] == metric])

    def add(claim: Claim, study: str, values: pd.DataFrame) -> None:
        """A row for every point and arm that has values."""
        for (eps_min, arm), of_point in values.iterrows():
            found = of_seeds(of_point.to_numpy())
            point = f"eps_min {eps_min:g}, {arm}" if len(values) > 1 else ""
            reason = "fewer than five replicas come to this stage" if claim in STAGED and found.n < 5 else ""
            rows.append(Measured(claim, Regime(study, point), found, reason))

    for claim, metric, names in BY_STUDY:
        for study in (name for name in names if name in known):
            add(claim, study, of(study, metric))
    most = table["labels"].max()
    for study in (name for name in (*WITH, *WITHOUT) if name in known):
        error = of(study, "regression_error", most)
        add(LEARNED if study in WITH else FAILING, study, error)
        if study in WITH and "independent_noise" in known:
            raw = of("independent_noise", "regression_error", most, "raw").droplevel("arm")
            add(BETTER, study, error.sub(raw, level="eps_min").dropna(how="all"))
        if study in WITH:
            add(SPARSE, study, of(study, "activity") / probability(studies[study]))
    for suffix in ("", "_without_bias"):
        mask, noise = (f"imbalance_{name}{suffix}" for name in ("random_mask", "independent_noise"))
        if mask not in known:
            continue
        fate = of(mask, "minority_alignment")
        dense = fate.xs("dense", level="arm")
        add(PRUNED, mask, fate.drop("dense", level="arm").sub(dense, level="eps_min"))
        if noise in known:
            other = of(noise, "minority_alignment").xs("dense", level="arm")
            add(MASK_AND_RARE, mask, fate.xs("dense", level="arm", drop_level=False).sub(other, level="eps_min"))
    return rows


def probability(study: Study) -> float:
    """p, that a majority feature is active."""
    return activation_probability(frequencies(study.data.d, study.data.minority, 1.0), study.data.C)[0].item()


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per (eps_min, arm), a column per seed."""
    return rows.pivot(index=["eps_min", "arm"], columns="seed", values="value")
