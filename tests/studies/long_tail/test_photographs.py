"""Tests of Table 2 on photographs: rules of the protocol on planted replicas, published tables."""

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from whole_project import ROOT

import staged_protocol as protocol
from rarefeat.studies.long_tail import GROUPS, PROBES
from rarefeat.workflow.config.images import ImageArm
from rarefeat.workflow.config.study import merge_configs
from rarefeat.workflow.config.yaml_reader import read_yaml
from rarefeat.workflow.project import load, parse
from staged_protocol import (
    BETWEEN,
    CONFIRM,
    MILDER,
    REGIMES,
    SCREEN,
    WIDTHS,
    NextRun,
    minimum_detectable_mean,
)
from tables_long_tail import (
    by_class,
    by_width,
    controlled,
    courses,
    gains,
    imbalance,
    screened,
)

RECIPE = ROOT / "config/cifar10_two_cores.yaml"
PROJECT = load(ROOT / "config/config.yaml", RECIPE)
STUDIES = PROJECT.sections["long_tail"].studies
SPREAD = (-0.01, -0.005, 0.0, 0.005, 0.01)
"""Of five class orders, shared by every arm."""


def replicas(study, effect, spread=SPREAD):
    """Return metrics of every probe at 0.6 plus the class order's shift.

    `effect(cell)` gives what `many` and `few` have more.
    """
    rows = []
    for cell, seed in itertools.product(study.cells(), range(study.seeds)):
        (arm,), width = cell.arms, study.network_of(cell).width
        keys = {"dataset": "x", "rho": 100.0, "split": cell["split"], "width": width, "seed": seed}
        sizes = {"images": 2478, "epochs": 200, "effective_rank": 9.0 + seed}
        row = {f"{probe}_{metric}": 0.6 + spread[seed] for probe in PROBES for metric in GROUPS}
        many, few = effect(cell)
        for probe in PROBES:
            row[f"{probe}_many"] += many
            row[f"{probe}_few"] += few
            row[f"{probe}_accuracy"] += (many + few) / 2
        rows.append(keys | arm.model_dump() | sizes | row)
    return pd.DataFrame(rows)


def of_regime(cost, name=REGIMES[0], **options):
    """Dense, whose rarest third loses `cost` to balanced images."""
    return replicas(
        STUDIES[name], lambda cell: (0.0, 0.0 if cell["split"] == "balanced" else -cost), **options
    )


def of_screen(effect):
    return replicas(
        STUDIES[SCREEN], lambda cell: effect(cell.arms[0]) if cell.arms[0].alpha else (0.0, 0.0)
    )


def test_choose_regime_takes_first_visible_cost():
    cheap, dear, worst = of_regime(0.01), of_regime(0.05), of_regime(0.015, REGIMES[1])
    assert protocol.gap(dear) == pytest.approx((0.05, 0.05, 0.05, 5))
    assert protocol.choose_regime({}) is None
    assert protocol.choose_regime({REGIMES[0]: dear}) == REGIMES[0]
    assert protocol.choose_regime({REGIMES[0]: cheap}) is None
    assert protocol.choose_regime({REGIMES[0]: cheap, REGIMES[1]: dear}) == REGIMES[1]
    # None passes: the nearest.
    assert protocol.choose_regime({REGIMES[0]: cheap, REGIMES[1]: worst}) == REGIMES[1]


def test_gap_with_a_wide_interval_is_not_visible():
    """Check a mean of five points whose interval includes two points."""
    found = of_regime(0.03)
    found.loc[(found["split"] == "balanced") & (found["seed"] == 0), "balanced_few"] += 0.1
    assert protocol.gap(found).mean == pytest.approx(0.05)
    assert not protocol.gap(found).visible


def test_pick_ratios_prefers_best_tail_at_no_cost():
    """Check that the best tail decides among ratios without a loss of capacity."""

    def picked(effect):
        return protocol.pick_ratios(of_screen(effect))

    effects = {0.05: (0.0, 0.01), 0.3: (-0.02, 0.01), 0.9: (-0.2, 0.0)}
    updates = ("pruned", "unmasked"), ("pruned", "straight_through"), ("self_damaging", "unmasked")
    assert picked(lambda arm: effects[arm.alpha]) == dict.fromkeys(updates, 0.3)
    # Where everything costs too much, what costs least.
    assert set(picked(lambda arm: (-arm.alpha - 0.1, -0.1)).values()) == {0.05}
    # Of equal ones the smaller.
    assert set(picked(lambda arm: (0.0, 0.0)).values()) == {0.05}
    table = screened(of_screen(lambda arm: effects[arm.alpha]))
    assert table[table["picked"]]["alpha"].tolist() == [0.3] * 3


def test_confirmation_arms_have_controls_and_reference_ratio():
    arms = protocol.confirmation_arms(of_screen(lambda arm: (0.0, 0.0)))
    assert [ImageArm(**arm).label for arm in arms[:4]] == [
        "dense", "pruned_straight_through-alpha=0.05",
        "pruned_straight_through-alpha=0.05-threshold=random", "pruned_straight_through-alpha=0.9",
    ]  # fmt: skip
    assert len(arms) == 1 + 3 * 3
    at_reference = of_screen(lambda arm: (0.0, 0.1 * (arm.alpha == protocol.REFERENCE_RATIO)))
    assert len(protocol.confirmation_arms(at_reference)) == 1 + 3 * 2


def test_class_orders_follow_the_spread_of_dense():
    def orders(factor):
        spread = tuple(factor * shift for shift in SPREAD)
        return protocol.class_orders(of_regime(0.03, spread=spread)), np.std(spread, ddof=1)

    needed, sd = orders(4.7)
    assert (orders(1)[0], orders(100)[0]) == (protocol.FEWEST, protocol.MOST)
    assert protocol.FEWEST < needed <= protocol.MOST
    least, more = (minimum_detectable_mean(sd, n) for n in (needed, needed - 1))
    assert least <= protocol.EFFECT < more


def test_next_run_follows_the_stages():
    tables = {}

    def following(name, table):
        tables[name] = table
        return protocol.next_run(tables)

    assert protocol.next_run({}) == NextRun(REGIMES[0])
    assert following(REGIMES[0], of_regime(0.0)) == NextRun(REGIMES[1])
    assert following(REGIMES[1], of_regime(0.05, REGIMES[1])) == NextRun(SCREEN)
    assert following(SCREEN, of_screen(lambda arm: (0.0, 0.0))) == NextRun(WIDTHS)
    assert following(WIDTHS, replicas(STUDIES[WIDTHS], lambda cell: (0.0, 0.0))) == NextRun(
        CONFIRM, 1
    )
    confirmed = replicas(STUDIES[CONFIRM], lambda cell: (0.0, 0.0))
    assert following(CONFIRM, confirmed[confirmed["seed"] < 3]) == NextRun(CONFIRM, 4)
    assert following(CONFIRM, confirmed) == NextRun(MILDER, 1)
    for name, after in ((MILDER, NextRun(BETWEEN, 1)), (BETWEEN, None)):
        assert following(name, replicas(STUDIES[name], lambda cell: (0.0, 0.0))) == after


def test_overlay_is_a_config_over_the_recipe():
    regimes = {REGIMES[1]: {"data": {"n_max": 500}, "training": {"epochs": 400}}}
    tables = {REGIMES[0]: of_regime(0.0), REGIMES[1]: of_regime(0.05, REGIMES[1])}
    tables[SCREEN] = of_screen(lambda arm: (0.0, 0.0))
    raw = merge_configs(read_yaml(ROOT / "config/config.yaml"), read_yaml(RECIPE))
    raw = merge_configs(raw, protocol.overlay(tables, regimes))
    studies = parse(raw, ROOT / "config/studies").studies
    confirmed, mild = studies[CONFIRM], studies[MILDER]
    sizes = confirmed.data.n_max, confirmed.training.epochs, confirmed.seeds
    assert sizes == (500, 400, protocol.FEWEST)
    assert confirmed.data.folder == "data/cifar10"
    assert len(confirmed.arms) == 10
    assert [arm.alpha for arm in mild.arms] == [0, 0.05, 0.05, 0.05]
    assert (mild.rho, mild.data.n_max, mild.seeds) == ([10], 500, protocol.FEWEST)
    assert protocol.overlay({}, {}) == {"long_tail": {}}


def test_gains_pair_with_dense_and_give_detectable_effect():
    """Check the paired differences, and the smallest effect that could have been detected."""
    study = STUDIES[CONFIRM]
    found = replicas(study, lambda cell: (0.0, 0.0) if not cell.arms[0].alpha else (0.1, 0.1))
    found.loc[found["arm"] == "self_damaging", "balanced_accuracy"] += 2 * np.array(SPREAD)
    table = gains(found).set_index(["metric", "split", "arm"])
    row = table.loc["balanced_accuracy", "long_tailed", "self_damaging-alpha=0.9"]
    assert row["paired_difference"] == pytest.approx(0.1)
    assert row["smallest_seen"] == pytest.approx(
        minimum_detectable_mean(np.std(2 * np.array(SPREAD), ddof=1), 5)
    )
    assert np.isnan(table.loc["balanced_accuracy", "long_tailed", "dense"]["paired_difference"])
    assert table.loc["effective_rank", "balanced", "dense"]["mean"] == 11
    assert len(table) == len(study.cells()) * 13


def test_imbalance_table_says_whether_the_cost_is_visible():
    table = imbalance(of_regime(0.05)).set_index("metric")
    assert table["visible"].tolist() == [True, True, True]
    assert table.loc["balanced_accuracy", "mean"] == pytest.approx(0.025)
    assert set(table["class_orders"]) == {protocol.FEWEST}


def test_courses_and_classes_are_paired_by_epoch_and_rank():
    keys = replicas(STUDIES[SCREEN], lambda cell: (0.0, 0.0))
    keys = keys[["dataset", "rho", "split", "width", *ImageArm.model_fields, "seed"]]
    late = keys.assign(metric="few_shot_accuracy", value=0.3 + 0.1 * (keys["arm"] != "dense"))
    found = courses(pd.concat([late.assign(epoch=20, value=0.3), late.assign(epoch=200)]))
    gained = found[found["arm"] != "dense"].groupby("epoch")["paired_difference"].mean()
    assert gained.tolist() == pytest.approx([0.0, 0.1])
    ranks = [
        keys.assign(probe="balanced", rank=rank, count=100 // 10**rank, accuracy=0.5 + 0.1 * rank)
        for rank in (0, 1)
    ]
    table = by_class(pd.concat(ranks))
    assert set(table[table["rank"] == 1]["images"]) == {10}
    assert table["paired_difference"].dropna().abs().max() == 0


def test_controlled_compares_arms_with_their_random_mask():
    picked = protocol.confirmation_arms(of_screen(lambda arm: (0.0, 0.0)))
    changes = {"arms": [ImageArm(**arm) for arm in picked], "seeds": 5}
    found = replicas(STUDIES[CONFIRM].model_copy(update=changes), lambda cell: (0.0, 0.0))
    lost = [0.1, 0.1, 0.1, 0.2, 0.2]
    found.loc[found["threshold"] == "random", "balanced_few"] -= np.array(lost * 3)
    table = controlled(found).set_index(["arm", "metric"])
    assert set(table["alpha"]) == {0.05}
    assert len(table) == 3 * 3
    rarest = table.loc[("self_damaging", "balanced_few")]
    assert rarest["mean"] == pytest.approx(0.14)
    assert rarest["smallest_seen"] == pytest.approx(
        minimum_detectable_mean(np.std(lost, ddof=1), 5)
    )
    assert table.loc[("self_damaging", "balanced_accuracy"), "mean"] == pytest.approx(0)


def of_widths(line, noise):
    """Return screen and widths whose gain at Jiang et al.'s ratio is `line(log2(width))`."""
    random = np.random.default_rng(0)

    def planted(study):
        def effect(cell):
            gain = line(np.log2(study.network_of(cell).width)) if cell.arms[0].alpha else 0.0
            return gain, gain

        found = replicas(study, effect)
        found["balanced_accuracy"] += noise * random.normal(size=len(found))
        return found

    return planted(STUDIES[SCREEN]), planted(STUDIES[WIDTHS])


def test_by_width_finds_the_crossing_of_a_planted_line():
    """Check at which width the planted loss would cross zero, and its interval."""
    exact = by_width(*of_widths(lambda x: 0.04 * (x - 6), 1e-9))
    assert exact["slope"].tolist() == pytest.approx([0.04] * 3)
    assert exact[["crossing", "crossing_low", "crossing_high"]].to_numpy() == pytest.approx(
        64, rel=1e-3
    )
    assert exact["n"].tolist() == [2] * 3
    noisy = by_width(*of_widths(lambda x: 0.04 * (x - 6), 0.005))
    assert (noisy["ci_low"] > 0).all()
    assert (noisy["crossing_low"] < noisy["crossing"]).all()
    assert (noisy["crossing"] < noisy["crossing_high"]).all()
    assert noisy["crossing"].between(30, 140).all()
    # A loss that does not shrink crosses nothing.
    flat = by_width(*of_widths(lambda x: -0.1, 0.005))
    assert flat[["crossing", "crossing_low", "crossing_high"]].isna().all(axis=None)
    assert (flat["ci_low"] < 0).all()


def test_by_width_interval_covers_the_crossing():
    """Check that the 95 % interval covers the crossing in 90 to 99 % of 150 draws."""
    random = np.random.default_rng(1)
    screen, widths = of_widths(lambda x: 0.1 * (x - 6), 0.0)
    covered = []
    for _ in range(150):
        drawn = [
            t.assign(balanced_accuracy=t["balanced_accuracy"] + 0.01 * random.normal(size=len(t)))
            for t in (screen, widths)
        ]
        found = by_width(*drawn)
        assert (found["ci_low"] > 0).all()
        covered += (
            found["crossing_low"].le(64).to_numpy().tolist(),
            found["crossing_high"].ge(64).to_numpy().tolist(),
        )
    below, above = np.mean(covered[::2]), np.mean(covered[1::2])
    assert 0.9 < below + above - 1 < 0.99


def test_command_asks_for_first_candidate_without_results(tmp_path):
    command = [sys.executable, "docs/build/staged_protocol.py", str(tmp_path / "results")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["--", REGIMES[0]]
    assert f"results={tmp_path}/results" in done.stdout
    chosen = tmp_path / "results/chosen.yaml"
    assert str(chosen) in done.stdout
    load(ROOT / "config/config.yaml", RECIPE, chosen)
