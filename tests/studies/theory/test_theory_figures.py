"""The maps of the theory from planted tables."""

import pandas as pd
import pytest
import synthetic_tables
from paper_values import check

from rarefeat.studies.theory.figures import overlap, phase
from rarefeat.workflow.project import load

FIGURES = load().figures


@pytest.mark.parametrize("eps_mins", [(0.2, 1.0), (0.1, 0.3, 0.5, 0.7, 1.0)], ids=["few", "many"])
def test_phase(eps_mins):
    studies = FIGURES["claims_map_phase"].sections["studies"]
    # Not in the order of the config.
    names = sorted(studies, reverse=True)
    tables = {
        f"{name}_trajectories": synthetic_tables.trajectories(eps_mins, ("dense",), 3, 2000, draw=i)
        for i, name in enumerate(names)
    }
    figure = check(lambda: phase(tables, studies), 3, twice=len(eps_mins) == 2)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert ["no bias" in title for title in titles] == ["without_bias" in name for name in names]
    assert ["0.02" in title for title in titles] == ["small_lambda" in name for name in names]


def test_overlap_is_shown_at_one_pruning_ratio():
    studies = FIGURES["claims_map_overlap"].sections["studies"]
    rows = [(eps, 0.05, step, k / 6, 0.4 * (eps > 0.5) * k / 6, 0.0, 0.4, 3)
            for eps in (0.1, 0.7) for step in (1, 10, 100, 500) for k in range(1, 7)]  # fmt: skip
    columns = ["eps_min", "sigma", "step", "alpha", "overlap", "ci_low", "ci_high", "n"]
    names = sorted(studies, reverse=True)
    tables = {f"{name}_overlap": pd.DataFrame(rows, columns=columns) for name in names}
    figure = check(lambda: overlap(tables, studies), 3, twice=True)
    assert "17 % smallest" in figure.axes[0].get_ylabel()
    shown = {round(y, 6) for line in figure.axes[0].lines for y in line.get_ydata()}
    assert {0, round(0.4 / 6, 6)} <= shown
    decays = {"small": "0.02", "large": "0.1", "stages": "0.05"}
    wanted = [next(value for word, value in decays.items() if word in name) for name in names]
    titles = [ax.get_title() for ax in figure.axes]
    assert [f"= {value}" in title for value, title in zip(wanted, titles, strict=True)] == [
        True
    ] * 3
