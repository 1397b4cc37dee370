"""Tests of findings: every sentence with the opposite numbers, and with none that decide."""

from types import SimpleNamespace

import pandas as pd
import pytest
from conftest import of_size

from rarefeat.studies.augmentation import findings as augmentation
from rarefeat.studies.exact_results import findings as exact_results
from rarefeat.studies.fate import findings as fate
from rarefeat.studies.fine_labels import findings as fine_labels
from rarefeat.studies.imbalance import findings as imbalance
from rarefeat.studies.long_tail import findings as long_tail
from rarefeat.studies.scaling import findings as scaling
from rarefeat.studies.selection import findings as selection
from rarefeat.studies.two_layer import findings as two_layer
from rarefeat.workflow.files.findings import compare

NAN = float("nan")
UP, DOWN, OPEN = (0.1, 0.2, 0.3), (-0.3, -0.2, -0.1), (-0.1, 0.0, 0.1)
"""Interval and mean of a change that is above zero, below it, or not shown: low, mean, high."""
HIGH, LOW, WIDE = (0.8, 0.85, 0.9), (0.1, 0.15, 0.2), (0.05, 0.5, 0.95)
"""The same of a share: apart from each other, and across both."""


def table(columns: str, *rows: tuple) -> pd.DataFrame:
    """A table of these columns."""
    return pd.DataFrame(rows, columns=columns.split())


def test_compare_needs_intervals_that_do_not_overlap():
    first, second = (
        {"mean": mean, "ci_low": low, "ci_high": high} for low, mean, high in (HIGH, LOW)
    )
    words = ("above", "below", "unclear")
    assert compare(first, second, *words) == "above"
    assert compare(second, first, *words) == "below"
    assert compare(first, first, *words) == "unclear"
    assert compare(first | {"ci_low": NAN, "ci_high": NAN}, second, *words) == "unclear"


# Imbalance.


def shares(*intervals: tuple) -> pd.DataFrame:
    """Shares of seeds that learn, from the lowest frequency to the highest."""
    rows = [(0.1 * (i + 1), low, mean, high) for i, (low, mean, high) in enumerate(intervals)]
    return table("eps_min ci_low share ci_high", *rows)


@pytest.mark.parametrize(
    ("intervals", "words"),
    [
        (
            (LOW, WIDE, HIGH),
            "Most runs do not learn the feature up to a relative frequency of 0.1, and most learn"
            " it from 0.3 on",
        ),
        (
            (LOW, LOW, WIDE),
            "up to a relative frequency of 0.2, and at none is it shown that most do",
        ),
        (
            (WIDE, HIGH, HIGH),
            "Most runs learn the feature from a relative frequency of 0.2 on, and at none is it",
        ),
        ((WIDE, WIDE, WIDE), "at no relative frequency whether most of them learn"),
        (
            (HIGH, WIDE, LOW),
            "does not simply go with its relative frequency: most do at 0.1, and most do not at",
        ),
        ((WIDE, LOW, WIDE), "most do at none, and most do not at 0.2"),
    ],
)
def test_describe_shares_follows_the_intervals(intervals, words):
    assert words in imbalance.describe_shares(shares(*intervals))


def masks(**changes: tuple) -> pd.DataFrame:
    """The largest cosine of dense and of masks with these changes; none diverges but an oracle."""
    columns = "metric arm at_lowest paired_difference paired_ci_low paired_ci_high"
    rows = [("max_alignment", "dense", 0.05, NAN, NAN, NAN)]
    for arm, (low, mean, high) in changes.items():
        rows.append(("max_alignment", arm, 0.05 + mean, mean, low, high))
        diverged = 0.5 if arm == "oracle_all" else 0.0
        rows.append(("diverged", arm, 0.0, diverged, diverged, diverged))
    return table(columns, *rows)


def test_describe_masks_counts_every_arm():
    text = imbalance.describe_masks(
        masks(pruned_neuron=OPEN, oracle_all=UP, oracle_gated=DOWN), 0.1
    )
    assert "Of 3 masks, 1 raises the largest cosine to the rare feature and 1 lowers it" in text
    assert "by at most 0.200 on average" in text
    assert text.endswith("it is 0.250 with the best mask and 0.050 without one.")


@pytest.mark.parametrize(
    ("change", "words"),
    [(UP, "2 raise the largest"), (DOWN, "and 2 lower it"), (OPEN, "none raises the largest")],
)
def test_describe_masks_follows_the_interval(change, words):
    text = imbalance.describe_masks(masks(pruned_neuron=change, oracle_gated=change), 0.1)
    assert words in text


@pytest.mark.parametrize(
    ("intervals", "word"),
    [((LOW, HIGH), "Most runs do not"), ((WIDE, WIDE), "at no relative frequency whether")],
)
def test_imbalance_findings_with_few_seeds_are_open(intervals, word):
    training = SimpleNamespace(T=60, lambda_=0.05)
    study = SimpleNamespace(training=training, grid={"arms": SimpleNamespace(eps_min=[0.1, 0.2])})
    trends = masks(pruned_neuron=OPEN).assign(grid="arms", sigma=0.05)
    convergence = table("eps_min max_alignment")
    tables = (
        shares(*intervals).assign(sigma=0.05, fate="learned", n=4),
        trends,
        convergence,
        convergence,
    )
    section = SimpleNamespace(studies={"paper": study})
    published = dict(zip(imbalance.TABLES, tables, strict=True))
    first, second, third = imbalance.findings(section, published)
    _, pooled, *_ = imbalance.findings(section, published | {"paper_fates": tables[0]})
    assert pooled.startswith(second)
    assert "Together with the 4 other runs of the grid" in pooled
    assert word in first
    assert "at least 0.5" in second
    assert "none raises the largest cosine to the rare feature and none lowers it" in third


@pytest.mark.parametrize(
    ("change", "word"), [(UP, "raises"), (DOWN, "lowers"), (OPEN, "is not shown to change")]
)
def test_describe_baselines_follows_the_interval(change, word):
    columns = "eps_min metric way paired_ci_low paired_difference paired_ci_high learned n"
    low, mean, high = change
    rows = [
        (eps_min, "max_alignment", way, low, mean, high, 3, 8)
        for eps_min in (0.1, 1.0)
        for way in ("pruned_neuron", "oversampled", "reweighted")
    ]
    rows += [(0.1, "max_alignment", "dense", 0.0, 0.0, 0.0, 0, 8)]
    text = imbalance.describe_baselines(table(columns, *rows))
    assert text.count(f"{word} the largest cosine to it, by") == 3
    assert "none of 8 dense runs learns the feature" in text
    assert imbalance.describe_baselines(pd.DataFrame()) == ""


# Selection.


def scores(**aucs: tuple) -> pd.DataFrame:
    """AUC of rules."""
    return table("score ci_low mean ci_high", *((name, *auc) for name, auc in aucs.items()))


@pytest.mark.parametrize("auc", [HIGH, LOW, WIDE])
def test_describe_scores_follows_the_interval(auc):
    verb = {HIGH: "identifies", LOW: "misidentifies", WIDE: "is not shown to identify"}[auc]
    weak = scores(effective_rate=auc, norm=WIDE)
    assert f"A low effective rate {verb} the" in selection.summarise_scores(weak)
    weak = scores(effective_rate=WIDE, norm=auc)
    assert f"magnitude pruning, {verb} them" in selection.summarise_scores(weak)
    assert selection.describe_scores(weak, weak[:0]).endswith("; chance is 0.5.")
    strong = scores(firing_rate=auc, effective_rate=(0.4, 0.5, 0.6))
    word = {HIGH: "does better", LOW: "does worse", WIDE: "is not shown to do better or worse"}[auc]
    assert f"the firing rate {word}" in selection.describe_scores(weak, strong)


GAIN = "point eps_min arm ci_low mean ci_high n diverged"


def test_describe_gains_counts_rises_and_falls():
    rows = [
        ("share=0", 0.5, "oracle_all-onset=92", *UP, 30, 7),
        ("share=0.2", 0.7, "random-onset=92", 0.01, 0.02, 0.03, 30, 0),
        ("share=0.2", 0.7, "norm-onset=92", *DOWN, 30, 0),
        ("share=0.2", 0.9, "norm-onset=92", *OPEN, 30, 0),
    ]
    text = selection.describe_gains(table(GAIN, *rows))
    assert "Of 4 comparisons" in text
    assert "rises in 2 and falls in 1;" in text
    assert "finite in 1 of the 2: the largest of these is +0.020 [+0.010, +0.030]" in text
    assert "bias scale 0.2, relative frequency 0.7), and 1 is by a random mask." in text
    assert "All runs stay finite in none of the 1." in selection.describe_gains(
        table(GAIN, rows[0])
    )
    flipped = selection.describe_gains(table(GAIN, *rows[2:]))
    assert "rises in none and falls in 1;" in flipped
    assert "All runs stay" not in flipped


@pytest.mark.parametrize(
    ("step", "words"), [(HIGH, "raises"), (LOW, "lowers"), (WIDE, "is not shown to change")]
)
def test_describe_mask_follows_the_interval(step, words):
    arms = ("effective_rate-onset=92", "effective_rate-stop-onset=92")
    gains = table(GAIN, *(("share=0.2", 0.7, arm, *UP, 30, 0) for arm in arms))
    steps = table("arm ci_low step ci_high", ("dense", 0.4, 0.5, 0.6), (arms[0], *step))
    assert f"rate {words} the critical frequency" in selection.describe_mask(gains, steps)


def test_describe_steps_looks_at_every_intervention():
    columns, dense = "arm ci_low step ci_high", ("dense", 0.4, 0.5, 0.6)
    arms = ("dense-delay=50", "dense-revived", "norm-onset=92")
    text = selection.describe_steps(
        table(
            columns,
            dense,
            *((arm, *step) for arm, step in zip(arms, (LOW, HIGH, WIDE), strict=True)),
        )
    )
    assert "Of 3 interventions 1 lower it and 1 raise it" in text
    assert text.endswith("The lowest is 0.15 [0.10, 0.20], with a bias that comes 50 steps later.")
    flipped = selection.describe_steps(table(columns, dense, (arms[0], *HIGH)))
    assert "Of 1 interventions none lower it and 1 raise it" in flipped
    assert "The lowest" not in flipped


# Late learning.


def reuse(late: int) -> list[dict]:
    """Points of the course of reuse."""
    at = {"eps_min": 0.2, "T": 8000, "n": 24, "at_once": 0}
    return [at | {"N": 2048, "late": late}, at | {"N": 0, "late": 0}]


def test_describe_late_follows_the_counts():
    some, nobody = (fate.summarise_late(reuse(late)) for late in (12, 0))
    assert some.startswith("A rare feature that is not learned at once may be learned late.")
    assert "50 [29, 71] % of the runs that reuse 2,048 pairs and 0 [0, 14] % of those with" in some
    assert nobody.startswith("No run learned the rare feature late.")
    assert fate.describe_late(reuse(0)).endswith("had learned the feature by step 500.")
    counted = [point | {"pure": point["late"] // 2} for point in reuse(12)]
    assert "Of 12 that learn it, 6 reach a cosine above 0.9." in fate.describe_late(counted)


@pytest.mark.parametrize("verdict", ["supported", "contradicted", "undecided", "not testable"])
def test_describe_reuse_follows_the_verdict(verdict):
    claims = table("claim_id verdict ci_low estimate ci_high", ("F-reuse", verdict, *OPEN))
    assert fate.REUSE.get(verdict, fate.FEW) in fate.describe_reuse(claims)


DIFFERENCES = {
    "fewer": (-0.7, -0.3),
    "more": (0.3, 0.7),
    "alike": (-0.1, 0.1),
    "unclear": (-0.4, 0.2),
}


def mechanism(reuse: str, fresh: str) -> pd.DataFrame:
    """Return ways of drawing of which each differs as told from pairs as drawn and fresh ones."""
    rows = [{"latents": "plain", "N": N, "n": 48, "T": 4000, "learned": 9} for N in (0, 8192)]
    for name in (*fate.KINDS, "planted_ties"):
        row = {"latents": name, "N": 8192, "n": 48, "T": 4000, "learned": 20}
        for other, outcome in (("reuse", reuse), ("fresh", fresh)):
            low, high = DIFFERENCES[outcome]
            row |= {f"{other}_ci_low": low, other: (low + high) / 2}
            row[f"{other}_ci_high"] = high
        rows.append(row)
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("outcome", "words", "ties"),
    [
        ("fewer", "Fewer learn it if each visit", "less frequent"),
        ("alike", "About as many (within 25 points) learn it if each", "change little"),
        ("unclear", "No difference from pairs as drawn is shown if each", "no effect that is"),
        ("more", "More learn it if each visit", "more frequent"),
    ],
)
def test_describe_mechanism_follows_the_intervals(outcome, words, ties):
    first, second = fate.describe_mechanism(mechanism(outcome, outcome))
    assert "9 of 48 runs learn the feature by step 4,000, with fresh pairs 9." in first
    assert words in first
    assert ties in second
    table = mechanism(outcome, outcome)
    assert len(fate.describe_mechanism(table[table["latents"] != "planted_ties"])) == 1


@pytest.mark.parametrize("right", [True, False])
def test_describe_predictors_counts_what_is_right(right):
    """Samples of 2,048 and 131,072 pairs lie on both sides of the critical one."""
    section = of_size("full").sections["fate"]
    point = {"study": "reuse", "latents": "plain", "sigma": 0.05, "share": 0.2, "lambda": 0.02,
             "eps_min": 0.2, "n": 24, "at_once": 0, "leak": 0.007, "border": 0.5}  # fmt: skip
    late = {2048: 24 * right, 131072: 24 * (not right), 0: 24 * (not right)}
    points = pd.DataFrame([point | {"N": N, "late": count} for N, count in late.items()])
    text = fate.describe_predictors(section, points)
    assert f"what most runs do, late or never, at {3 * right} of 3 points" in text


# Augmentation.


@pytest.mark.parametrize(
    ("values", "word"),
    [((HIGH, LOW), "raises"), ((LOW, HIGH), "lowers"), ((WIDE, WIDE), "not shown")],
)
def test_augmentation_findings_follow_the_intervals(values, word):
    with_bias, without = values
    pairs = {"identical": with_bias, "identical_without_bias": without, "random_mask": with_bias,
             "random_mask_without_bias": without}  # fmt: skip
    rows = [
        (study, metric, *value, 20)
        for study, value in pairs.items()
        for metric in ("covered_features", "regression_error")
    ]
    first, second, third = augmentation.findings(
        None, {"augmentation": table("study metric ci_low mean ci_high n", *rows)}
    )
    verb = "is not shown to change" if word == "not shown" else word
    share = "the share of features with a neuron of their own"
    assert first == f"A bias {verb} {share} for identical views and for a random mask (n = 20)."
    assert "of identical views is not shown to change it with a bias" in second
    assert {"raises": "rises with a bias", "lowers": "falls with a bias"}.get(
        word, "is not shown to change with"
    ) in third


# Exact results.


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (LOW, "encodes a task"),
        ((0.0, 0.001, 0.002), "does not encode a task"),
        ((0.0, 0.1, 0.2), "is not shown to encode"),
    ],
)
def test_describe_tasks_follows_the_weights(weight, words):
    mixed = table("setting at ci_low mean ci_high stated", ("mixture=rare_0.3", 1, *weight, 0.1))
    assert f"Contrastive pre-training {words}" in exact_results.describe_tasks(mixed)


@pytest.mark.parametrize(
    ("exact", "rounded", "words"),
    [
        (-0.1, -1.5, "stays below its bound in exact arithmetic, and in double precision"),
        (0.2, -1.5, "does not stay below its bound in exact arithmetic."),
        (-0.1, 70.0, "does not stay below its bound in double precision, before"),
        (0.2, 70.0, "in exact arithmetic and in double precision, before"),
    ],
)
def test_describe_loops_follows_both_errors(exact, rounded, words):
    looped = table(
        "quantity setting mean",
        ("error_excess", "n=16", exact),
        ("rounded_excess", "n=16", rounded),
    )
    assert words in exact_results.describe_loops(looped)


@pytest.mark.parametrize(
    ("ridge", "rank", "words"),
    [
        (0.1, 0.9, "as Proposition"),
        (0.9, 0.1, "against Proposition"),
        (0.5, 0.5, "not more in every"),
    ],
)
def test_describe_spurious_follows_the_accuracies(ridge, rank, words):
    rows = [("id_accuracy", 1.0), ("ood_accuracy", ridge), ("rank_ood_accuracy", rank)]
    assert words in exact_results.describe_spurious(table("quantity mean", *rows))


# Fine-grained labels.


@pytest.mark.parametrize(
    ("change", "word"), [(UP, "raises"), (DOWN, "lowers"), (OPEN, "is not shown to change")]
)
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [(LOW, HIGH, "less often"), (HIGH, LOW, "more often"), (WIDE, WIDE, "not measurably")],
)
def test_fine_labels_findings_follow_the_errors(first, second, words, change, word):
    columns = "k labels s_dag metric ci_low mean ci_high n"
    errors = [
        (8, labels, 6, "hard_error", *value, 20)
        for labels, value in (("fine", first), ("coarse", second))
    ]
    easy = [(8, labels, 6, "easy_error", 0.3, 0.4, 0.5, 20) for labels in ("fine", "coarse")]
    arms = (
        ("views", "dense-bias=1", first),
        ("views", "dense", second),
        ("labels", "fine", WIDE),
        ("labels", "coarse", WIDE),
    )
    crossed = [(8, pair, arm, "hard", *value, 20) for pair, arm, value in arms]
    images = [("finetuned", 40, "loops", labels, *change) for labels in ("manual", "sample")]
    zero, one, two, three = fine_labels.findings(
        None,
        {
            "fine_labels_errors": table(columns, *errors, *easy),
            "fine_labels_crossing": table("k pair arm quantity ci_low mean ci_high n", *crossed),
            "fine_labels_digits": table(
                "readout epoch superclass labels paired_ci_low paired_difference paired_ci_high",
                *images,
            ),
        },
    )
    assert f"networks trained with fine labels are wrong {words}" in zero
    assert "neither is wrong on more than 40.0 %" in one
    assert f"is wrong on hard samples {words}" in two
    assert f"{word} the error" in three
    assert f"image {word} it" in three


# Long tail.


@pytest.mark.parametrize(
    ("change", "gains", "losses"), [(UP, "1 shows", "none shows"), (DOWN, "none shows", "1 shows")]
)
def test_long_tail_findings_count_gains_and_losses(change, gains, losses):
    low, mean, high = change
    columns = (
        "dataset rho split arm alpha metric mean n paired_ci_low paired_difference paired_ci_high"
    )
    dense, pruned, resampled = (
        ("digits", 5.0, "long_tailed", arm, alpha, "accuracy", 0.9, 6)
        for arm, alpha in (("dense", 0.0), ("pruned", 0.7), ("resampled", 0.0))
    )
    rows = (*dense, NAN, NAN, NAN), (*pruned, low, mean, high), (*resampled, 0.01, 0.02, 0.03)
    (text,) = long_tail.findings(None, {"table2": table(columns, *rows)})
    assert "Of 1 comparisons of a pruned network" in text
    assert f"{gains} a gain and {losses} a loss" in text
    assert "change it by +2.0 [+1.0, +3.0] points at ρ = 5." in text
    (text,) = long_tail.findings(None, {"table2": table(columns, *rows[:2])})
    assert "by the labels" not in text


# Sizes.


FIT = (
    "quantity ratio d1_power d_low d_high log_power ci_low exponent ci_high bound bound_side"
    " consistent"
)


@pytest.mark.parametrize(
    ("plain", "divided", "words"),
    [
        (False, True, "all 1 agree"),
        (False, False, "1 of all 1 does not agree"),
        (True, True, None),
        (False, None, None),
    ],
)
def test_scaling_findings_follow_the_fits(plain, divided, words):
    at = ("lucky_probability", 1.0, 2.0, 9, 16)
    rows = [(*at, 0.0, *DOWN, -1.0, "at least", plain)]
    rows += [] if divided is None else [(*at, -0.5, *DOWN, -1.0, "at least", divided)]
    first, *rest = scaling.findings(None, {"scaling_exponents": table(FIT, *rows)})
    assert f"{int(plain)} are compatible" in first
    assert len(rest) == (not plain)
    if rest:
        assert ("divide out" in rest[0]) == (divided is not None)
        assert words is None or words in rest[0]


# Two layers.


@pytest.mark.parametrize(
    ("network", "fixed", "word"),
    [(HIGH, LOW, "more often"), (LOW, HIGH, "less often"), (WIDE, WIDE, "not measurably")],
)
def test_two_layer_findings_follow_the_accuracies(network, fixed, word):
    arms = {"network": network, "ntk": fixed, "random_features": WIDE, "network-printed": fixed,
            "one_step": fixed, "two_step": network}  # fmt: skip
    rows = [("parity", arm, "test_accuracy", *value, 12, NAN) for arm, value in arms.items()]
    first, detail, second = two_layer.findings(
        None,
        {"two_layer_printed": table("setting arm quantity ci_low mean ci_high n printed", *rows)},
    )
    assert f"a trained network is right {word}" in first
    assert "random features" in first
    opposite = {"more often": "less often right", "less often": "more often right"}.get(
        word, "not measurably other"
    )
    assert f"printed schedule the network is {opposite}: " in detail
    step = {"more often": "makes features better", "less often": "makes features worse"}.get(
        word, "is not shown to make"
    )
    assert f"The second step of training {step}" in second
