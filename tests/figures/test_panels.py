"""Estimates, looks and names that figures are made of."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from printed import check

from rarefeat.core.statistics import student_interval
from rarefeat.figures.draw import say_size
from rarefeat.figures.labels import n_of, name_of, quantity, with_series
from rarefeat.figures.panels import estimate, estimates, letter, median, paired, panels
from rarefeat.figures.style import OF_ARM, QUALITATIVE, looks, ordered

SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=12)


@given(SHARES)
def test_an_interval_of_a_share_stays_a_share_and_holds_its_mean(values):
    mean, low, high, n = estimate(np.array(values), (0, 1))
    assert 0 <= low <= mean + 1e-12
    assert mean <= high + 1e-12 <= 1 + 2e-12
    assert n == len(values)


@given(SHARES)
def test_what_lies_inside_the_range_is_the_student_interval(values):
    _, _, low, high, _ = student_interval(np.array(values))
    assert estimate(np.array(values), (0, 1))[1:3] == (max(low, 0), min(high, 1))


def test_an_accuracy_of_almost_one_has_no_interval_above_one():
    assert student_interval(np.array([0.99, 1.0, 1.0]))[3] > 1
    assert estimate(np.array([0.99, 1.0, 1.0]), quantity("accuracy").range)[2] == 1


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    rng = np.random.default_rng(0)
    for n, least in ((6, 0.95), (20, 0.95), (101, 0.95)):
        ends = np.array([median(rng.normal(size=n))[1:3] for _ in range(2000)])
        covered = ((ends[:, 0] <= 0) & (ends[:, 1] >= 0)).mean()
        assert least - 0.01 <= covered <= 0.985, (n, covered)
    # The sixth and the fifteenth of twenty.
    assert median(np.arange(20.0))[:3] == (9.5, 5.0, 14.0)


def test_one_seed_has_a_mean_and_no_interval():
    mean, low, high, n = estimate(np.array([0.5]), (0, 1))
    assert (mean, n) == (0.5, 1)
    assert np.isnan([low, high]).all()


def test_paired_differences_leave_out_what_is_common_to_a_seed():
    seed = np.arange(5)
    rows = [pd.DataFrame({"series": name, "eps_min": 0.5, "seed": seed, "value": 10.0 * seed + gain})
            for name, gain in (("dense", 0), ("oracle_all", 0.25))]  # fmt: skip
    found = estimates(paired(pd.concat(rows), "value", "oracle_all"), "eps_min", "value")
    assert found.loc[0.5, ["mean", "low", "high", "n"]].tolist() == [0.25, 0.25, 0.25, 5]


def test_arms_of_one_name_are_told_apart_by_the_keys_in_which_they_differ():
    table = pd.DataFrame({"arm": ["dense", "pruned_neuron", "pruned_neuron"], "alpha": [0.0, 0.1, 0.4], "onset": [0, 0, 0]})
    found = list(with_series(table)["series"])
    assert found[0] == "dense"
    assert len(set(found)) == 3
    assert name_of(found[1]) == r"pruned by neuron, $\alpha$ = 0.1"
    assert name_of("a_new_arm") == "a new arm"


def test_looks_are_distinct_and_an_arm_keeps_its_own():
    found = looks(["new_arm", "dense", "oracle_all", "pruned_neuron", "pruned_weight", "another"])
    assert found["oracle_all"] == OF_ARM["oracle_all"]
    assert len(set(found.values())) == len(found)


def test_colours_of_arms_are_distinct_in_colour_and_series_in_order_in_grey():
    hues = {OF_ARM[arm].colour for arm in ("dense", "pruned_neuron", "pruned_weight", "oracle_all")}
    assert len(hues) == 4
    assert hues <= set(QUALITATIVE)
    grey = [np.dot(look.colour[:3], [0.299, 0.587, 0.114]) for look in ordered(range(6)).values()]
    assert (np.diff(grey) > 0.04).all()


def test_numbers_of_seeds_in_words():
    assert (n_of(1), n_of(20), n_of(3, 20)) == ("$n$ = 1 seed", "$n$ = 20 seeds", "$n$ = 3 to 20 seeds")


def test_what_a_figure_says_of_its_run_stands_above_everything_else():
    """In a place of its own, which the layout leaves for it; nothing where there is nothing to say."""

    def drawn(text: str) -> Figure:
        figure, axes = panels(1, 2)
        letter(axes.flat)
        axes[0, 0].set_title("a title")
        say_size(figure, text)
        return figure

    figure = check(lambda: drawn("a run of size quick, not of the default size"))
    renderer = figure.canvas.get_renderer()
    (mark,) = (text for text in figure.findobj(Text) if "quick" in text.get_text())
    assert all(mark.get_window_extent(renderer).y0 >= ax.get_tightbbox(renderer).y1 - 1 for ax in figure.axes)
    assert drawn("")._suptitle is None
