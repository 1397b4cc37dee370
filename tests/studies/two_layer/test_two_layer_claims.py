"""Claims agree with their declarations, and their quantities are read off tables made by hand."""

import math

import pandas as pd
import pytest

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import NOT_RUN, measured_table
from rarefeat.studies.two_layer import claims, theory
from rarefeat.studies.two_layer.config import TwoLayer
from rarefeat.studies.two_layer.printed import PRINTED
from rarefeat.workflow.project import load
from tables_two_layer import MIXTURES

KNOWN = load_claims("two_layer")
SECTION: TwoLayer = load().sections["two_layer"]
PARITY = SECTION.by_name["parity"]


def rows_by_hand(**arms: dict) -> pd.DataFrame:
    """Rows of `parity`, {arm: {(quantity, step): value}}, for three seeds."""
    rows = [
        ("parity", seed, arm, step, quantity, value)
        for seed in range(3)
        for arm, numbers in arms.items()
        for (quantity, step), value in numbers.items()
    ]
    return pd.DataFrame(rows, columns=["setting", "seed", "arm", "step", "quantity", "value"])


def measured(section: TwoLayer = SECTION, **arms: dict) -> dict[str, pd.Series]:
    """What each claim measures of these rows, by seed."""
    found = claims.measure({"two_layer": rows_by_hand(**arms)}, section)
    return {row.claim: row.values for row in found if row.regime.axes == {"setting": "parity"}}


def test_the_config_has_the_sizes_that_are_printed():
    problem = PARITY.problem
    assert (PARITY.n, PARITY.m, PARITY.T, PARITY.batch) == (50000, 300, 600, 1000)
    assert (problem.d, problem.D, problem.k, problem.p_o) == (500, 100, 5, 0.5)
    interval = SECTION.by_name["interval"]
    sizes = interval.m, interval.T, interval.problem.k, interval.problem.interval
    assert sizes == (100, 200, 30, [20, 30])
    for printed in PRINTED:
        assert printed.arm in {arm.label for arm in SECTION.by_name[printed.setting].arms}
    for name, mixture in MIXTURES.items():
        setting = SECTION.by_name[name]
        for key in ("d", "k", "sigma_r"):
            assert getattr(setting.problem, key) == mixture[key]
        epochs = [epoch * setting.n // setting.batch for epoch in mixture["epochs"]]
        assert (setting.neurons, 2 * setting.m) == (epochs, 800)


def test_claims_are_consistent():
    assert sorted(KNOWN.claims) == sorted(claims.QUANTITIES)
    for name, (_, settings) in claims.QUANTITIES.items():
        assert KNOWN.claims[name].primary.axes["setting"] in settings
        assert set(settings) <= set(SECTION.by_name)


def test_every_claim_reads_arms_that_the_config_has():
    asked: set[tuple[str, str]] = set()

    class Spy:
        def get(self, key, default):
            asked.add(key[:2])
            return pd.Series([0.5, 0.6, 0.7]) if len(key) == 4 else default

    for quantity, settings in claims.QUANTITIES.values():
        for name in settings:
            quantity(claims.Runs(name, SECTION.by_name[name], Spy()))
    for name, arm in asked:
        setting, known = SECTION.by_name[name], {"data"}
        known |= {arm.label for arm in setting.arms}
        if setting.tickets:
            scores, sizes = ("random", "kink", "norm"), setting.tickets.sizes
            known |= {f"ticket-{score}-{size}" for score in scores for size in sizes}
            known.add(f"ticket-smallest-{2 * setting.m // 5}")
        assert arm in known, (name, arm)


def test_the_pause_is_the_longest_one():
    curve = {0: 0.5, 100: 0.84, 200: 0.85, 300: 0.9, 400: 0.84, 500: 0.85, 600: 1.0}
    numbers = {("curve", step): value for step, value in curve.items()}
    assert measured(network=numbers)["staircase"].tolist() == pytest.approx([1 / 6] * 3)
    steady = {("curve", step): 0.5 + step / 1200 for step in range(0, 601, 15)}
    assert measured(network=steady)["staircase"].max() <= 0.06


def test_excesses_vanish_at_the_closed_forms():
    one, two = (theory.step_one_cosine(50000, 100, 5, 0.25, beta) for beta in (0.5, 1.0))
    numbers = {("cosine", 0): theory.initial_cosine(500, 300), ("cosine", 1): one}
    found = measured(network=numbers | {("median_cosine", 1): one, ("median_cosine", 2): two})
    assert found["step-1-cosine"].tolist() == pytest.approx([0] * 3, abs=1e-9)
    assert found["initial-cosine"].tolist() == pytest.approx([0] * 3, abs=1e-9)
    assert found["2.5.1"].tolist() == pytest.approx([math.log(2) / 2] * 3, rel=1e-6)
    assert (found["2.6"] > 0.8).all()


@pytest.mark.parametrize("value", [0.585, 0.415])
def test_a_constant_answer_is_at_no_distance(value: float):
    rows = rows_by_hand(
        data={("majority_accuracy", 0): 0.585}, one_step={("test_accuracy", PARITY.T): value}
    )
    numbers = rows.set_index(["setting", "arm", "quantity", "step", "seed"])["value"].sort_index()
    runs = claims.Runs("parity", PARITY, numbers)
    assert claims.distance_to_a_constant(runs).max() < 1e-9


def test_what_was_not_measured_has_no_value():
    """A claim whose settings are left out has no row, and its primary regime says so."""
    alone = SECTION.model_copy(update={"by_name": {"parity": PARITY}})
    rows = rows_by_hand(network={("test_accuracy", 600): 1.0})
    for section in (SECTION, alone):
        found = claims.measure({"two_layer": rows}, section)
        assert {row.claim for row in found if row.estimate.n} == {"2.1"}
    assert {KNOWN.format_regime(row.regime) for row in found} == {"emergence: parity"}
    table = measured_table(found, KNOWN).set_index("claim_id")
    assert set(table.index) == set(KNOWN.claims)
    assert table.loc["A.2-network", "remark"] == NOT_RUN


def test_the_regions_are_those_that_are_declared():
    regions = {name: claim.region for name, claim in KNOWN.claims.items()}
    stairs = [theory.staircase(*theory.parity_counts(5, 0.5), changes) for changes in (1, 3, 5)]
    assert stairs == [27 / 32, 59 / 64, 1]
    successes = {name: claim.success for name, claim in KNOWN.claims.items() if claim.success}
    assert {successes[name].above for name in ("2.1", "A.20", "A.1-two-step")} == {stairs[1]}
    assert successes["one-step-scale"].below == stairs[1]
    assert {regions[name] for name in successes} == {(0.5, math.inf)}
    assert regions["2.2-rf"] == regions["2.2-ntk"] == (-math.inf, stairs[1])
    assert sum(regions["staircase-ntk"]) / 2 == pytest.approx(claims.FIRST_STAIR)
    unbalanced = theory.staircase(*theory.parity_counts(5, 0.5, 0.9), 3)
    assert regions["A.4-printed"] == regions["A.28"] == (unbalanced, math.inf)
