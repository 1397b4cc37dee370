"""The gallery: its notebooks, and the loop in plain torch that agrees with the laboratory."""

import runpy

import matplotlib as mpl
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from notebooks import GALLERY, notebooks


def test_notebooks_are_those_of_the_scripts():
    for path, text in notebooks().items():
        assert path.read_text(encoding="utf-8") == text, "make docs renders it"


@pytest.fixture(scope="module")
def page():
    mpl.use("agg")
    result = runpy.run_path(str(GALLERY / "plot_plain_torch.py"))
    mpl.pyplot.close("all")
    return result


def test_laboratory_agrees_with_a_loop_in_plain_torch(page):
    loop, laboratory = (page["both"][name].groupby("learner") for name in ("loop", "laboratory"))
    for learner in page["LEARNERS"]:
        for metric in ("r2_rare", "r2_frequent"):
            both = (table.get_group(learner)[metric] for table in (loop, laboratory))
            assert ttest_ind(*both, equal_var=False).pvalue > 0.05 / 6


def test_another_temperature_does_not_agree(page):
    """As where a default of one's own loss is replaced in silence."""
    keys = page["LEARNERS"]["DCL"] | {"loss": lambda f_x, f_y: page["dcl"](f_x, f_y, tau=1.0)}
    loop = pd.DataFrame([page["by_hand"](seed, **keys) for seed in page["SEEDS"]])
    laboratory = page["both"]["laboratory"].query("learner == 'DCL'")
    metrics = ["r2_rare", "r2_frequent"]
    assert ttest_ind(loop[metrics], laboratory[metrics], equal_var=False).pvalue.min() < 0.05 / 6
