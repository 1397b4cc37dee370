"""Verdicts from numbers, for every claim of every kind of study, and the page and figures that show them."""

import importlib
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import around, right, verdicts_of

from rarefeat.claims.claim import (
    CONDITION,
    FAILS,
    HOLDS,
    UNTESTABLE,
    Claim,
    Measured,
    measured_table,
    of_fit,
    of_seeds,
    overall,
)
from rarefeat.claims.figure import group
from rarefeat.claims.page import page
from rarefeat.core.errors import RarefeatError
from rarefeat.project import load
from rarefeat.registry import kinds
from rarefeat.studies.theory.claims import initialisation, pruning, stage_one, stage_two


def claims_of(kind: str) -> list[Claim]:
    """What a kind of study claims."""
    return importlib.import_module(f"rarefeat.{kinds()[kind].module('claims')}").CLAIMS


CLAIMS = [claim for kind in load("config/config.yaml").claimed for claim in claims_of(kind)]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_holds_where_its_quantity_is_right_and_fails_where_it_is_wrong(claim):
    true, false = right(claim)
    verdicts = verdicts_of([Measured(claim, "true", of_seeds(around(true)))])["verdict"]
    assert list(verdicts) == [HOLDS]
    table = verdicts_of([Measured(claim, "false", of_seeds(around(false)))])
    assert list(table["verdict"]) == [FAILS]
    assert list(table["condition"]) == ["the interval lies on the other side"]


def test_ids_of_claims_are_distinct_and_each_says_where_it_comes_from():
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.source and claim.statement and claim.quantity and claim.reason for claim in CLAIMS)


def test_a_claim_that_holds_in_some_regimes_says_in_which():
    claim = stage_one.OUTSIDE
    table = verdicts_of([Measured(claim, "here", of_seeds(around(1.0))), Measured(claim, "there", of_seeds(around(2.0)))])
    assert list(table["verdict"]) == [CONDITION, FAILS]
    assert table["condition"][0] == "here"
    assert overall(table) == CONDITION
    assert overall(table[1:]) == FAILS


def test_few_replicas_and_given_reasons_are_not_tested():
    claim = stage_two.GROWTH
    few = Measured(claim, "few", of_seeds(np.array([1.0, math.nan, 1.0])))
    told = Measured(claim, "told", of_seeds(around(1.0)), "true by construction")
    table = verdicts_of([few, told])
    assert list(table["verdict"]) == [UNTESTABLE] * 2
    assert table["condition"][1] == "true by construction"
    assert table["p_value"].isna().all()


def test_a_difference_that_is_noise_is_not_shown():
    draws = np.random.default_rng(3).normal(size=(400, 10))
    family = [Measured(pruning.RAISES, str(index), of_seeds(values)) for index, values in enumerate(draws)]
    table = verdicts_of(family)
    # Family-wise: 400 true null hypotheses are rejected at all in one of twenty tables.
    assert (table["verdict"] == FAILS).all()
    assert (table["p_value"] < 0.05).sum() > 5


def test_many_other_tests_do_not_protect_a_bound():
    """Seven standard errors on the wrong side of it, among a thousand tests of nothing."""
    draws = np.random.default_rng(4).normal(size=(1000, 10))
    others = [Measured(pruning.RAISES, str(index), of_seeds(values)) for index, values in enumerate(draws)]
    bound = Measured(initialisation.LUCKY, "scaling", of_fit(-0.33, -0.48, -0.18, 5))
    assert list(verdicts_of([*others, bound])["verdict"])[-1] == FAILS


def test_the_estimate_of_a_fit_keeps_its_interval():
    assert of_fit(1.5, 1.0, 2.0, 7).interval() == pytest.approx((1.0, 2.0))
    assert of_seeds(np.array([1.0, 2.0, 3.0])).interval() == pytest.approx(
        (2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)), rel=1e-5
    )


def test_values_without_spread_decide_by_themselves():
    assert list(verdicts_of([Measured(stage_one.UNDER, "all", of_seeds(np.ones(6)))])["verdict"]) == [HOLDS]
    assert list(verdicts_of([Measured(stage_one.UNDER, "none", of_seeds(np.zeros(6)))])["verdict"]) == [FAILS]


# The page


def test_the_page_shows_every_claim_with_its_rows():
    measured = [Measured(claim, f"regime {claim.id}", of_seeds(around(right(claim)[0]))) for claim in CLAIMS]
    text = page(verdicts_of(measured))
    assert all(f"### {claim.id}" in text and f"regime {claim.id}" in text for claim in CLAIMS)
    assert "nan" not in text
    assert f"{len(CLAIMS)} holds" in text


@pytest.mark.parametrize("paper", sorted(load("config/config.yaml").papers))
def test_every_part_of_a_paper_has_a_figure_that_can_be_drawn(paper):
    """The groups of the claims are those that the kinds of study declare; one where nothing was tested says so."""
    project = load("config/config.yaml")
    claims = [claim for kind in project.papers[paper] for claim in claims_of(kind)]
    groups = {group for kind in project.papers[paper] for group in project.claimed[kind].groups}
    assert {claim.group for claim in claims} == groups
    table = verdicts_of([Measured(claim, f"a: {claim.id}", of_seeds(around(right(claim)[1]))) for claim in claims])
    untested = table[table["group"] != min(groups)]
    for name in groups:
        job = project.figure_job(f"claims_{name.replace(' ', '_')}")
        for rows in (table, untested):
            figure = group({f"claims_{paper}": rows}, job)
            assert bool(figure.axes) == (name in set(rows["group"]))
            plt.close(figure)


# Rows that are not there


def test_a_claim_without_a_row_is_an_error_that_names_it():
    """Its study has gone from the config, or its measurement from the code: nobody would see it in a table."""
    rows = [Measured(claim, "here", of_seeds(around(right(claim)[0]))) for claim in CLAIMS]
    assert len(measured_table(rows, CLAIMS)) == len(CLAIMS)
    for missing in (CLAIMS[0], CLAIMS[-1]):
        with pytest.raises(RarefeatError, match="nothing was measured for") as caught:
            measured_table([row for row in rows if row.claim != missing], CLAIMS)
        assert missing.id in str(caught.value)
        assert "study left out" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_claim_twice_in_one_regime_is_an_error():
    row = Measured(CLAIMS[0], "here", of_seeds(around(1.0)))
    with pytest.raises(RarefeatError, match="measured"):
        measured_table([row, row], [])


def test_a_claim_of_one_family_is_not_corrected_for_another_paper_s():
    """Claims of one paper are tested together: a table of both would ask more of each."""
    claim = CLAIMS[0]
    alone = verdicts_of([Measured(claim, "here", of_seeds(around(right(claim)[0])))])
    assert alone["adjusted_p_value"].item() == alone["p_value"].item()
