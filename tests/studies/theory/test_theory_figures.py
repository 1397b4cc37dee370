"""The maps of the theory from planted tables."""

import pandas as pd
import planted
import pytest
from printed import check, texts

from rarefeat.config.section import told
from rarefeat.project import load
from rarefeat.run.job import Job
from rarefeat.studies.theory.figures import overlap, phase


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


def test_overlap_has_the_scale_of_the_data():
    given = job("claims_map_overlap")
    rows = [(eps, 0.05, step, k / 6, 0.4 * (eps > 0.5) * step / 500, 0.0, 0.4, 3)
            for eps in (0.1, 0.7) for step in (1, 10, 100, 500) for k in range(1, 7)]  # fmt: skip
    columns = ["eps_min", "sigma", "step", "alpha", "overlap", "ci_low", "ci_high", "n"]
    tables = {name: pd.DataFrame(rows, columns=columns) for name in given.config["studies"]}
    figure = check(lambda: overlap(tables, given), 3, twice=True)
    assert figure.axes[0].collections[0].get_clim() == (0, pytest.approx(0.4))
    assert texts(figure).count("none") == len(tables)
