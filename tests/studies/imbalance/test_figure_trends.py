"""Tests of the trends of Figures 1 to 4 as claims."""

import numpy as np
import pandas as pd
import pytest
from conftest import SEEDS, verdicts_of

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.verdict import CONTRADICTED, SUPPORTED
from rarefeat.stages.tables import METRICS
from rarefeat.studies.imbalance.measure import FIGURES, measure, page_statistic
from rarefeat.workflow.project import load

CONFIRMATION = load("config/config.yaml").studies["confirmation"]


def test_page_statistic_has_the_sign_of_the_trend():
    rng = np.random.default_rng(5)
    rising = np.arange(6)[:, None] + rng.normal(size=(6, SEEDS))
    assert page_statistic(rising).mean() > 0.5
    assert page_statistic(-rising).mean() < -0.5
    assert abs(page_statistic(rng.normal(size=(6, 2000))).mean()) < 0.05
    assert (page_statistic(np.ones((6, 3))) == 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_planted_trends_are_supported_and_reversed_ones_fail(sign):
    """Plant metrics that follow eps_min in the papers' direction and the noise in the other.

    With sign -1 both are reversed.
    """
    rng = np.random.default_rng(6)
    sides = {name: load_claims("imbalance").claims[f"Fig{name}-eps_min"].side for name in FIGURES}
    direction = {
        metric: 1 if sides[name] == "above" else -1 for name, (metric, _) in FIGURES.items()
    }
    rows = []
    for cell in CONFIRMATION.cells():
        for seed in range(30):
            of_cell = cell["eps_min"] - 5 * cell["sigma"]
            values = {
                name: sign * direction.get(name, 1) * of_cell + 1e-3 * rng.normal()
                for name in METRICS
            }
            rows.append({**cell.values, "arm": "dense", "seed": seed} | values)
            rows.append({**rows[-1], "arm": "ideal"} | dict.fromkeys(METRICS, 0.0))
    studies = {"confirmation": CONFIRMATION, "printed_follow": CONFIRMATION}
    tables = {"confirmation_grid": pd.DataFrame(rows)}
    # Another regime has one noise level, and no ideal encoder.
    one = tables["confirmation_grid"].query("sigma == 0.05 and arm == 'dense'")
    measured = list(measure(tables | {"printed_follow_grid": one}, studies))
    elsewhere = [row for row in measured if row.regime.study == "printed_follow"]
    assert {row.claim for row in elsewhere} == {
        f"Fig{name}-eps_min" for name in FIGURES if name != "4-matched"
    }
    assert {row.claim for row in measured} == set(load_claims("imbalance").claims)
    assert set(verdicts_of("imbalance", measured)["verdict"]) == {
        SUPPORTED if sign > 0 else CONTRADICTED
    }
