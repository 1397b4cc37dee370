"""Titles that are a message follow the numbers: planted so, the opposite, and in between."""

import numpy as np
import pandas as pd
import pytest

from rarefeat.report.doc_figures import summarise_shares
from rarefeat.studies.exact_results.figures import summarise_mixture
from rarefeat.studies.fate.figures import summarise_draws, summarise_reuse
from rarefeat.studies.fine_labels.figures import summarise_labels
from rarefeat.studies.fine_labels.granularity.figures import summarise_directions
from rarefeat.studies.imbalance import figures as imbalance
from rarefeat.studies.long_tail.figures import summarise_gains
from rarefeat.studies.selection import figures as selection


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
    assert selection.summarise_masks(rows).startswith("2 of 3 masks raise the lead, 1 of them")


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
