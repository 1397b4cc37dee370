"""Titles that are a message follow the numbers: planted so, the opposite, and in between."""

import numpy as np
import pandas as pd
import pytest

from doc_figures import summarise_scores, summarise_shares
from rarefeat.studies.augmentation.figures import summarise_activity
from rarefeat.studies.augmentation.image_figures import BEFORE, summarise_views
from rarefeat.studies.exact_results import figures as exact_results
from rarefeat.studies.exact_results.figures import summarise_mixture
from rarefeat.studies.fate.figures import summarise_decays, summarise_draws, summarise_reuse
from rarefeat.studies.fine_labels.figures import summarise_crossing, summarise_labels
from rarefeat.studies.fine_labels.granularity.figures import summarise_directions
from rarefeat.studies.imbalance import figures as imbalance
from rarefeat.studies.learners.figures import summarise_learners
from rarefeat.studies.long_tail.figures import summarise_gains
from rarefeat.studies.pruning_premise import figures as pruning_premise
from rarefeat.studies.scaling.figures import summarise_exponents
from rarefeat.studies.selection import figures as selection
from rarefeat.studies.small_theorems.figures import summarise_bits
from rarefeat.studies.theory import figures as theory
from rarefeat.studies.two_layer.figures import summarise_tickets


def estimates(*ends: tuple[float, float], **columns) -> pd.DataFrame:
    """Return rows of estimates with these intervals, and further columns."""
    low, high = np.array(ends).T
    return pd.DataFrame({"mean": (low + high) / 2, "ci_low": low, "ci_high": high} | columns)


@pytest.mark.parametrize(
    ("ends", "title"),
    [
        (((0, 0.1), (0.9, 1)), "Most runs learn the rare feature from 1 on; most do not up to 0.1"),
        (((0.9, 1), (0, 0.1)), "Runs that learn the rare feature"),
        (((0, 0.6), (0.4, 1)), "Runs that learn the rare feature"),
    ],
)
def test_title_of_shares(ends, title):
    assert summarise_shares(estimates(*ends, eps_min=[0.1, 1.0])) == title


@pytest.mark.parametrize(
    ("reused", "word"), [((0.8, 1), "More"), ((0, 0.1), "Fewer"), ((0.1, 0.9), "Runs")]
)
def test_title_of_reuse(reused, word):
    fresh = (0.3, 0.6)
    assert summarise_reuse(estimates(fresh, reused, N=[0, 64], step=9)).startswith(word)


@pytest.mark.parametrize(
    ("ends", "title"),
    [
        (((0.8, 1), (0, 0.1)), "More runs learn it than from fresh pairs only with pairs as drawn"),
        (((0.8, 1), (0.7, 1)), "In 2 of 2 rows more runs learn it than from fresh pairs"),
        (((0, 0.1), (0.3, 0.5)), "Runs that learn the rare feature, by what comes back of a pair"),
    ],
)
def test_title_of_draws(ends, title):
    rows = estimates(*ends, place=["pairs as drawn", "sign new"])
    assert summarise_draws(rows, estimates((0.3, 0.6))) == title


@pytest.mark.parametrize(("change", "none"), [(0.001, True), (0.4, False), (-0.4, False)])
def test_title_of_masks_on_cosines(change, none):
    ends = {"paired_ci_low": [np.nan, change - 0.01], "paired_ci_high": [np.nan, change + 0.01]}
    assert imbalance.summarise_masks(pd.DataFrame(ends)).startswith("No mask") == none


def test_title_of_gains_counts_both_sides():
    rows = estimates((0.1, 0.2), (-0.2, -0.1), (-0.3, -0.1), (-0.1, 0.1))
    assert "raise accuracy in 1 of 4" in summarise_gains(rows)
    assert summarise_gains(rows).endswith("lower it in 2")


def test_title_of_masks_on_leads():
    rows = estimates((0.1, 0.2), (0.1, 0.3), (-0.2, -0.1), diverged=[0, 5, 0])
    assert selection.summarise_masks(rows).startswith(
        "2 of 3 masks favour the rare feature, 1 of them"
    )


@pytest.mark.parametrize(("later", "lower"), [((0.2, 0.3), True), ((0.6, 0.9), False)])
def test_title_of_critical_frequencies(later, lower):
    rows = estimates((0.4, 0.5), later, arm=["as trained", "later"], point="share=0.2")
    title = selection.summarise_steps(rows, "as trained")
    assert title.endswith("only later lower it") == lower


@pytest.mark.parametrize(("weights", "message"), [((0.0, 0.2), True), ((0.2, 0.0), False)])
def test_title_of_task_mixture(weights, message):
    rows = pd.DataFrame({"setting": ["rarer", "rare"], "ci_high": list(weights)})
    title = summarise_mixture(rows, {"rarer": 0.1, "rare": 0.5})
    assert title.startswith("The rare task is not encoded up to 0.1") == message


@pytest.mark.parametrize(("hard", "missed"), [((0.9, 1), "coarse"), ((0, 0.01), "fine")])
def test_title_of_labels(hard, missed):
    other = (0, 0.01) if hard[0] else (0.9, 1)
    rows = estimates(hard, other, labels=["coarse", "fine"], metric="hard_error")
    assert summarise_labels(rows).startswith(f"With {missed} labels most hard samples are missed")
    either = estimates((0.2, 0.4), (0.2, 0.4), labels=["coarse", "fine"], metric="hard_error")
    assert summarise_labels(either).startswith("Errors on easy")


def test_title_of_directions_counts_both_signs():
    rows = pd.DataFrame({"direction": ["as printed", "opposite", "opposite", "not shown"]})
    assert summarise_directions(rows) == (
        "Of 4 differences 1 have the printed sign, 2 the opposite one"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [(0.2, "higher at 2, lower at 0 of 2"), (-0.2, "higher at 0, lower at 2 of 2")],
)
def test_title_of_trend_counts_what_masks_change(change, words):
    dense = pd.DataFrame(
        {"seed": [1, 2, 1, 2], "eps_min": [0.1, 0.1, 1, 1], "max_alignment": [0, 0.01, 0.7, 0.71]}
    ).assign(series="dense", arm="dense", nsr=1.0)
    masked = dense.assign(series="pruned", max_alignment=dense["max_alignment"] + change)
    trend, counts = imbalance.summarise_trend(
        pd.concat([dense, masked]), "max_alignment", ["pruned"]
    )
    assert trend == "The largest cosine rises with frequency"
    assert words in counts
    falling = dense.assign(max_alignment=-dense["max_alignment"])
    assert "falls" in imbalance.summarise_trend(falling, "max_alignment", [])[0]


def test_title_of_fate_needs_both_kinds_of_runs():
    lower = pd.Series({("dense", 0.5): 0.2, ("dense", 0.6): 0.9, (imbalance.BIASLESS, 0.2): 0.6})
    assert "from a relative frequency of 0.6 on" in imbalance.summarise_fate(lower)
    assert imbalance.summarise_fate(lower[:1]).startswith("Runs that learn")


@pytest.mark.parametrize(("printed", "message"), [(0.5, True), (0.95, False)])
def test_title_of_biases(printed, message):
    rows = estimates((0.85, 0.9), (0.1, printed), study=["ours", "printed"], eps_min=0.9)
    assert imbalance.summarise_biases(rows, ["printed"]).startswith("Under the printed") == message


@pytest.mark.parametrize(("low", "message"), [(0.5, True), (0.3, False)])
def test_title_of_best_views(low, message):
    series = ["views alike", "views differ in colours", "before training"]
    rows = pd.DataFrame({"series": series, "ci_low": [0.2, low, 0.2], "ci_high": [0.4, 0.6, 0.4]})
    title = summarise_views(rows)
    assert title.endswith("if views differ in colours") == message


@pytest.mark.parametrize(("rare", "message"), [(0.1, True), (0.9, False)])
def test_title_of_courses(rare, message):
    last = pd.DataFrame({"max_alignment": [rare] * 8, "majority_alignment": 0.9, "eps_min": 0.1})
    assert imbalance.summarise_courses(last).startswith("The median run") == message


@pytest.mark.parametrize(("rare", "message"), [(0.0, True), (0.8, False)])
def test_title_of_neurons(rare, message):
    rows = [("dense", seed, feature, feature == 1, value) for seed in range(3)
            for feature, value in ((0, 0.9), (1, rare))]  # fmt: skip
    columns = ["arm", "seed", "feature", "minority", "squared_cosine"]
    title = imbalance.summarise_neurons(pd.DataFrame(rows, columns=columns))
    assert title.startswith("Frequent features have neurons") == message


@pytest.mark.parametrize(("later", "message"), [(0.4, True), (0.1, False)])
def test_title_of_decays(later, message):
    rows = estimates(
        (0.6, 0.9), (0.6, 0.9), **{"N": 0, "lambda": [0.01, 0.05], "eps_min": [0.2, later]}
    )
    assert summarise_decays(rows).startswith("The smaller the weight decay") == message


@pytest.mark.parametrize(("ends", "message"), [((0.7, 0.9), True), ((0.1, 0.9), False)])
def test_title_of_changes(ends, message):
    base = estimates((0, 0.2), eps_min=[0.3])
    varied = estimates(ends, eps_min=[0.3], place="tokens", series="double its value")
    title = theory.summarise_changes(varied, base, 0.3)
    assert title.endswith("more runs learn it with double the tokens") == message


@pytest.mark.parametrize(("lead", "message"), [((0.1, 0.3), True), ((-0.1, 0.3), False)])
def test_title_of_premise(lead, message):
    series = pruning_premise.SERIES["pruned_neuron", "unmasked"]
    rows = estimates(lead, series=[series], purity=1.0)
    title = pruning_premise.summarise_premise(rows, estimates((-0.001, 0.001)))
    assert title.startswith("Where its premise holds") == message


def test_title_of_learners_counts_both_sides():
    rows = estimates(
        (0.2, 0.3), (0.05, 0.1), (0.6, 0.7), learner=["infonce", "a", "b"], pairs="returning",
        measure="readout", bound="",
    )  # fmt: skip
    assert summarise_learners(rows).startswith("Of 2 other learners, 1 learn")


@pytest.mark.parametrize(("free", "message"), [(1.0, True), (0.1, False)])
def test_title_of_activity(free, message):
    rows = pd.DataFrame(
        {"study": ["mask", "mask_without_bias"], "seed": 1, "activity": [0.1, free]}
    )
    assert summarise_activity(rows).startswith("Without a bias") == message


@pytest.mark.parametrize(("alike", "message"), [((0.6, 0.7), True), ((0.79, 0.9), False)])
def test_title_of_views(alike, message):
    series = ["views alike", "views differ in crops", BEFORE]
    rows = estimates(alike, (0.95, 0.97), (0.75, 0.8), series=series)
    assert summarise_views(rows).startswith("Training makes the class easier") == message


@pytest.mark.parametrize(("biased", "message"), [((0.1, 0.4), True), ((0.8, 1.0), False)])
def test_title_of_crossing(biased, message):
    rows = estimates(biased, (0.9, 1.0), arm=["dense-bias=1", "dense"])
    assert summarise_crossing(rows, "dense-bias=1").startswith("Trained on two") == message


@pytest.mark.parametrize(("norm", "message"), [((0.1, 0.3), True), ((0.4, 0.9), False)])
def test_title_of_scores(norm, message):
    rows = estimates(
        (0.9, 1), norm, (0.5, 0.6), score=["growth", "norm", "norm"], point="share=0.2",
        eps_min=[0.5, 0.5, 1.0],
    )  # fmt: skip
    assert summarise_scores(rows).endswith("does not") == message


def test_title_of_bits_names_what_is_not_encoded():
    rows = pd.DataFrame({"place": ["bit 1", "bit 2"], "mean": [0.5, 0.0]})
    assert summarise_bits(rows) == "The optimum encodes 1 of 2 bits, not the bit 2"
    assert summarise_bits(rows[:1]).startswith("What the optimum")


def test_title_of_tickets_names_what_beats_chance():
    rows = pd.DataFrame(
        {"score": ["norm"] * 3 + ["random"] * 3, "value": [0.9, 0.91, 0.92, 0.5, 0.51, 0.52]}
    ).assign(setting="parity", size=4)
    assert summarise_tickets(rows).startswith("The 4 neurons of largest norm")
    assert summarise_tickets(rows[3:]).startswith("A few neurons")


@pytest.mark.parametrize(("value", "message"), [(0.95, True), (0.4, False)])
def test_titles_of_exact_results(value, message):
    rows = pd.DataFrame({"value": [value, value], "setting": "k=2", "series": "two logits"})
    assert exact_results.summarise_margins(rows).startswith("Training reaches") == message
    assert (
        exact_results.summarise_penalty(rows, 100).startswith("With 100 training samples")
        == message
    )
    assert (
        exact_results.summarise_loops(rows.assign(value=value - 0.5, at=9)).startswith(
            "The error falls"
        )
        == message
    )


def test_title_of_clusters_and_ranks():
    rows = estimates((0.5, 0.6), (0.1, 0.2), place=["a", "b"])
    assert exact_results.summarise_clusters(rows).endswith("for 1 of 2 spreads")
    ranks = pd.DataFrame({"setting": "s", "at": [1, 3], "mean": [2.0, 1.0]})
    assert exact_results.summarise_ranks(ranks).startswith("The mean error is smallest at rank 3")


@pytest.mark.parametrize(("printed", "message"), [(False, True), (True, False)])
def test_title_of_exponents(printed, message):
    title = summarise_exponents(pd.Series([True, printed]), pd.Series([True, True]))
    assert title.startswith("As printed, 1 of 2") == message
    assert summarise_exponents(pd.Series([False]), pd.Series([False])).startswith("Fitted")


@pytest.mark.parametrize(("masked", "message"), [(0.1, True), (0.9, False)])
def test_title_of_baselines(masked, message):
    rows = pd.DataFrame(
        {"arm": ["oversampled"] * 3 + ["pruned"] * 3, "max_alignment": [0.9] * 3 + [masked] * 3}
    )
    title = imbalance.summarise_baselines(rows, ["oversampled"])
    assert title.startswith("At the lowest frequency, only") == message
