"""Claims are declared once, consistently, and their quantities are read off tables made by hand."""

import math

import pandas as pd
import pytest

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import NOT_RUN, measured_table
from rarefeat.studies.two_layer import claims, theory
from rarefeat.studies.two_layer.config import TwoLayer
from rarefeat.studies.two_layer.paper_values import MIXTURES, PRINTED
from rarefeat.workflow.config.section import dump_config
from rarefeat.workflow.project import load
from rarefeat.workflow.run.job import Job

KNOWN = load_claims("two_layer")


@pytest.fixture(scope="module")
def section() -> TwoLayer:
    return load().sections["two_layer"]


def evidence(section: TwoLayer, **arms: dict) -> claims.ClaimEvidence:
    """Rows of `parity` by hand, {arm: {(quantity, step): value}}, for three seeds."""
    rows = [
        ("parity", seed, arm.replace("__", "-"), step, quantity, value)
        for seed in range(3)
        for arm, numbers in arms.items()
        for (quantity, step), value in numbers.items()
    ]
    return claims.ClaimEvidence(
        pd.DataFrame(rows, columns=["setting", "seed", "arm", "step", "quantity", "value"]), section
    )


def test_the_config_has_the_sizes_that_are_printed(section: TwoLayer):
    parity = section.settings["parity"]
    assert (parity.n, parity.m, parity.T, parity.batch) == (50000, 300, 600, 1000)
    assert (parity.problem.d, parity.problem.D, parity.problem.k, parity.problem.p_o) == (
        500,
        100,
        5,
        0.5,
    )
    interval = section.settings["interval"]
    assert (interval.m, interval.T, interval.problem.k, interval.problem.interval) == (
        100,
        200,
        30,
        [20, 30],
    )
    for printed in PRINTED:
        assert printed.arm in {arm.label for arm in section.settings[printed.setting].arms}
    for mixture in MIXTURES:
        setting = section.settings[mixture.setting]
        assert (setting.problem.d, setting.problem.k, setting.problem.sigma_r) == (
            mixture.d,
            mixture.k,
            mixture.sigma_r,
        )
        assert setting.neurons == [epoch * setting.n // setting.batch for epoch in mixture.epochs]
        assert 2 * setting.m == 800


def test_claims_are_consistent(section: TwoLayer):
    assert sorted(KNOWN.claims) == sorted(name for name, _, _ in claims.QUANTITIES)
    for name, _, settings in claims.QUANTITIES:
        claim = KNOWN.claims[name]
        assert claim.primary.axes["setting"] in settings
        assert set(settings) <= set(section.settings)


def test_every_claim_reads_arms_that_the_config_has(section: TwoLayer):
    """Each quantity asks only for arms and numbers that a replica of its settings writes."""
    asked: list[tuple[str, str]] = []

    class Spy(claims.ClaimEvidence):
        def values(self, setting, arm, quantity, step=None):
            asked.append((setting, arm))
            return pd.Series([0.5, 0.6, 0.7])

        def curve(self, setting, arm):
            asked.append((setting, arm))
            return pd.DataFrame({0: [0.5, 0.84, 0.84]}, index=[0, 10, 20])

    spy = Spy(
        pd.DataFrame(columns=["setting", "seed", "arm", "step", "quantity", "value"]), section
    )
    for _, quantity, settings in claims.QUANTITIES:
        for setting in settings:
            assert not quantity(spy, setting).empty
    for setting, arm in asked:
        of = section.settings[setting]
        known = {one.label for one in of.arms} | {"data"}
        if of.tickets:
            known |= {
                f"ticket-{score}-{size}"
                for score in ("random", "kink", "norm")
                for size in of.tickets.sizes
            }
            known.add(f"ticket-smallest-{2 * of.m // 5}")
        assert arm in known, (setting, arm)


def test_the_pause_is_the_longest_one(section: TwoLayer):
    curve = {0: 0.5, 100: 0.84, 200: 0.85, 300: 0.9, 400: 0.84, 500: 0.85, 600: 1.0}
    numbers = {("curve", step): value for step, value in curve.items()}
    found = claims.pause(evidence(section, network=numbers), "parity")
    assert found.tolist() == pytest.approx([1 / 6] * 3)


def test_a_pause_is_not_seen_in_a_steady_rise(section: TwoLayer):
    numbers = {("curve", step): 0.5 + step / 1200 for step in range(0, 601, 15)}
    assert claims.pause(evidence(section, network=numbers), "parity").max() <= 0.06


def test_excesses_vanish_at_the_closed_forms(section: TwoLayer):
    one = theory.step_one_cosine(50000, 100, 5, 0.25, 0.5)
    two = theory.step_one_cosine(50000, 100, 5, 0.25, 1.0)
    numbers = {
        ("cosine", 0): theory.initial_cosine(500, 300),
        ("cosine", 1): one,
        ("median_cosine", 1): one,
        ("median_cosine", 2): two,
    }
    by_hand = evidence(section, network=numbers)
    assert claims.step_one_excess(by_hand, "parity").tolist() == pytest.approx([0] * 3, abs=1e-9)
    assert claims.initial_excess(by_hand, "parity").tolist() == pytest.approx([0] * 3, abs=1e-9)
    assert claims.improvement(by_hand, "parity").tolist() == pytest.approx(
        [math.log(2) / 2] * 3, rel=1e-6
    )
    assert (claims.emergence(by_hand, "parity") > 0.8).all()


def test_a_constant_answer_is_at_no_distance(section: TwoLayer):
    for value in (0.585, 0.415):
        by_hand = evidence(
            section,
            data={("majority_accuracy", 0): 0.585},
            one_step={("test_accuracy", section.settings["parity"].T): value},
        )
        assert claims.distance_to_a_constant(by_hand, "parity").max() < 1e-9


def test_what_was_not_measured_has_no_value(section: TwoLayer):
    by_hand = evidence(section, network={("test_accuracy", 600): 1.0})
    assert claims.accuracy("ntk")(by_hand, "parity").empty
    job = Job(stage="claims", config={"emergence": dump_config(section.emergence)})
    found = [row for row in claims.measure({"two_layer": by_hand.rows}, job) if row.estimate.n]
    assert {(row.claim, KNOWN.format_regime(row.regime)) for row in found} == {
        ("2.1", "emergence: parity")
    }


def test_measure_skips_claims_without_their_settings(section: TwoLayer):
    """A claim whose settings are left out has no row, and its primary regime says so."""
    by_hand = evidence(section, network={("test_accuracy", 600): 1.0})
    alone = section.emergence.model_copy(
        update={"settings": {"parity": section.settings["parity"]}}
    )
    found = claims.measure(
        {"two_layer": by_hand.rows}, Job(stage="claims", config={"emergence": dump_config(alone)})
    )
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
    assert regions["2.4"] == pytest.approx((0.475, 0.525))
    assert regions["B.1"] == (-0.02, math.inf)
    assert regions["B.1-norm"] == (-math.inf, 0.0)
