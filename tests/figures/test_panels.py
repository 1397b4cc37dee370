"""Estimates, styles and labels of figures."""

import numpy as np
import pandas as pd
import pytest

from rarefeat.figures.labels import add_series_column, arm_label
from rarefeat.figures.panels import (
    mean_interval,
    median_interval,
    paired_differences,
    panels,
    plot_lines,
    plot_points,
)
from rarefeat.figures.style import assign_styles


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(0)
    for n in (6, 20, 101):
        ends = np.array([median_interval(rng.normal(size=n)) for _ in range(2000)])
        covered = ((ends[:, 0] <= 0) & (ends[:, 1] >= 0)).mean()
        assert 0.94 <= covered <= 0.985, (n, covered)
    # The sixth and the fifteenth of twenty.
    assert median_interval(np.arange(20.0)) == (5.0, 14.0)


def replicas() -> pd.DataFrame:
    return pd.DataFrame(
        {"series": series, "x": x, "seed": seed, "value": x + shift + 0.1 * seed}
        for series, shift in (("one", 0.0), ("two", 1.0))
        for x in (0.2, 0.4, 0.8)
        for seed in range(5)
    )


def estimated(table: pd.DataFrame) -> pd.DataFrame:
    rows = [
        (*key, part.mean(), *mean_interval(part.to_numpy()), 5)
        for key, part in table.groupby(["series", "x"])["value"]
    ]
    return pd.DataFrame(rows, columns=["series", "x", "mean", "ci_low", "ci_high", "n"])


def drawn(ax) -> dict[str, np.ndarray]:
    return {
        line.get_label(): line.get_xydata()
        for line in ax.lines
        if not line.get_label().startswith("_")
    }


def bars(ax) -> np.ndarray:
    drawn = [path.vertices for bar in ax.collections for path in bar.get_paths()]
    drawn += [
        line.get_xydata()
        for line in ax.lines
        if line.get_label().startswith("_") and len(line.get_xydata()) == 2
    ]
    return np.concatenate(drawn)


def test_plot_points_dodge_and_plot_lines_do_not():
    """A line that is moved to the right seems to rise later."""
    styles = assign_styles(["one", "two"])
    _, ((joined, aside),) = panels(1, 2)
    plot_lines(joined, replicas(), "x", "value", styles)
    plot_points(aside, replicas(), "x", "value", styles, dodge=0.5)
    for series, shift in (("one", 0.0), ("two", 1.0)):
        assert np.allclose(drawn(joined)[series], [(x, x + shift + 0.2) for x in (0.2, 0.4, 0.8)])
        assert np.allclose(drawn(aside)[series][:, 1], [x + shift + 0.2 for x in (0.2, 0.4, 0.8)])
    assert (drawn(aside)["one"][:, 0] < [0.2, 0.4, 0.8]).all()
    assert (drawn(aside)["two"][:, 0] > [0.2, 0.4, 0.8]).all()


@pytest.mark.parametrize("draw", [plot_lines, plot_points])
def test_a_table_of_means_is_drawn_as_its_replicas_are(draw):
    _, ((of_seeds, of_means),) = panels(1, 2)
    for ax, table in ((of_seeds, replicas()), (of_means, estimated(replicas()))):
        draw(ax, table, "x", "value", assign_styles(["one", "two"]))
    for series, places in drawn(of_seeds).items():
        assert np.allclose(places, drawn(of_means)[series])
    assert np.allclose(bars(of_seeds), bars(of_means))


def test_paired_differences_cancel_effects_of_seeds():
    seed = np.arange(5)
    rows = [
        pd.DataFrame({"series": name, "eps_min": 0.5, "seed": seed, "value": 10.0 * seed + gain})
        for name, gain in (("dense", 0), ("oracle_all", 0.25))
    ]
    found = paired_differences(pd.concat(rows), "value", "oracle_all")["value"]
    assert found.tolist() == [0.25] * 5


def test_series_name_has_keys_that_differ():
    arms = {"arm": ["dense", *2 * ["pruned_neuron"]], "alpha": [0.0, 0.1, 0.4], "onset": [0, 0, 0]}
    table = pd.DataFrame(arms)
    found = list(add_series_column(table)["series"])
    assert found[0] == "dense"
    assert len(set(found)) == 3
    assert arm_label(found[1]) == r"pruned by neuron, $\alpha$ = 0.1"
    assert arm_label("a_new_arm") == "a new arm"
