"""The maps of the theory from planted tables."""

import numpy as np
import pandas as pd
import planted
import pytest
from printed import check, texts

from rarefeat.config.section import told
from rarefeat.project import load
from rarefeat.run.job import Job
from rarefeat.studies.theory.figures import overlap, phase, pruning, signed


def job(figure: str) -> Job:
    """With the studies of the committed config."""
    parts = load().figures[figure].parts
    return Job(stage="studies.theory.figures", config={name: told(part) for name, part in parts.items()})


@pytest.mark.parametrize("eps_mins", [(0.2, 1.0), (0.1, 0.3, 0.5, 0.7, 1.0)], ids=["few", "many"])
def test_phase(eps_mins):
    given = job("claims_map_phase")
    studies = given.config["studies"]
    tables = {name: planted.trajectories(eps_mins, ("dense",), 3, 2000, draw=i) for i, name in enumerate(studies)}
    check(lambda: phase(tables, given), 3, twice=len(eps_mins) == 2)


def test_pruning_is_blank_where_nothing_is():
    dense = planted.trajectories((0.3, 0.7), ("dense",), 5, draw=1)
    noise, parts = np.random.default_rng(0), [dense]
    for alpha in (0.1, 0.4, 0.9):
        for onset in (0, 92):
            gain = -0.2 * (alpha == 0.9) + 0.001 * noise.normal(size=len(dense)) * (alpha == 0.4)
            parts.append(dense.assign(arm="pruned_neuron", alpha=alpha, onset=onset, value=dense["value"] + gain))
    figure = check(
        lambda: pruning({"pruning_trajectories": pd.concat(parts, ignore_index=True)}, job("claims_map_pruning")), 5, twice=True
    )
    found = [text for text in texts(figure) if text.startswith(("+", "\N{MINUS SIGN}0.2"))]
    # Of both frequencies and onsets the largest ratio alone; not a change of nothing.
    assert sum(text == "\N{MINUS SIGN}0.20" for text in texts(figure)) - 1 <= 4 <= len(found)
    assert not any(text in ("+0.00", "-0.00", "\N{MINUS SIGN}0.00") for text in texts(figure))


@pytest.mark.parametrize("value", [0.0004, -0.0004, -0.004, 0.3])
def test_no_change_is_written_as_nothing(value):
    assert float(signed(value).replace("\N{MINUS SIGN}", "-")) * value > 0


def test_overlap_has_the_scale_of_the_data():
    given = job("claims_map_overlap")
    rows = [(eps, 0.05, step, k / 6, 0.4 * (eps > 0.5) * step / 500, 0.0, 0.4, 3)
            for eps in (0.1, 0.7) for step in (1, 10, 100, 500) for k in range(1, 7)]  # fmt: skip
    columns = ["eps_min", "sigma", "step", "alpha", "overlap", "ci_low", "ci_high", "n"]
    tables = {name: pd.DataFrame(rows, columns=columns) for name in given.config["studies"]}
    figure = check(lambda: overlap(tables, given), 3, twice=True)
    assert figure.axes[0].collections[0].get_clim() == (0, pytest.approx(0.4))
    assert texts(figure).count("none") == len(tables)
