"""The index, the pages of the parts, and their figures: from tables with every kind of row."""

import importlib
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import of_size

from rarefeat.claims.claim import Claim, Measured, Regime, measured_table
from rarefeat.claims.estimate import of_seeds
from rarefeat.claims.figure import draw, limits
from rarefeat.claims.page import by_claim, index, part, place, primary_verdicts
from rarefeat.claims.verdict import POWER, power, seeds_needed, verdicts
from rarefeat.project import load
from rarefeat.registry import kinds

CLAIMS: list[Claim] = [
    claim
    for kind in kinds().values()
    if kind.claimed(load().sections[kind.name])
    for claim in importlib.import_module(f"rarefeat.{kind.module('claims')}").CLAIMS
]
LEAST = 40_000
"""No page in docs is larger, in bytes."""


def planted(claims=CLAIMS, regimes=24):
    """Every claim in its primary regime and in many others, with random numbers around the edge of what it requires."""
    rng = np.random.default_rng(0)
    rows = []
    for claim in claims:
        low, high = claim.region
        edge = low if np.isfinite(low) else high
        regime = Regime(*claim.primary.split(": ", 1))
        rows.append(Measured(claim, regime, of_seeds(edge + rng.normal(rng.normal(), 0.3, 12))))
        for number in range(regimes):
            values = edge + rng.normal(0, 1) + 0.3 * rng.normal(size=12)
            why = "too few replicas have a lucky neuron" if number % 7 == 0 else ""
            other = Regime(f"stages_of_another_regime_{number // 4}", f"eps_min 0.{number}, sigma 0.05")
            rows.append(Measured(claim, other, of_seeds(values), why, diverged=3 * (number % 11 == 1)))
    return verdicts(measured_table(rows, claims))


TABLE = planted()


def test_ids_are_distinct_and_every_claim_declares_all_that_it_must():
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        for text in (claim.source, claim.statement, claim.quantity, claim.reason, claim.control, claim.primary, claim.paper):
            assert text.strip(), claim.id


def test_the_seeds_of_every_primary_row_have_the_power_that_they_promise():
    for claim in CLAIMS:
        rows = sum(other.paper == claim.paper for other in CLAIMS)
        if claim.seeds:
            assert claim.seeds >= seeds_needed(claim.test, claim.effect, rows), claim.id
            assert power(claim.seeds, claim.effect, 0.05 / rows, claim.test == "equivalence") >= POWER, claim.id


def test_every_primary_regime_is_in_the_config_with_as_many_seeds_as_it_declares():
    # What was pre-registered is the full size, of the study that has one and claims of its own.
    studies = load().studies | of_size("full").sections["selection"].studies()
    roles = {study.role: study for study in studies.values() if hasattr(study, "role")}
    for claim in CLAIMS:
        name, _, point = claim.primary.partition(": ")
        if name == "scaling":
            continue
        study = studies.get(name) or roles.get(name)
        assert study is not None, claim.id
        # Where regimes are drawn, each is a replica.
        drawn = getattr(study, "drawn", None)
        assert (drawn.regimes if drawn else study.seeds) >= claim.seeds, claim.id
        eps = point.removeprefix("eps_min ").split(",")[0]
        if point.startswith("eps_min") and " to " not in eps:
            assert any(cell["eps_min"] == float(eps) for cell in study.cells()), claim.id


def test_the_primary_studies_of_the_theory_use_seeds_that_no_other_study_uses():
    studies = load().studies
    ours = {claim.primary.partition(": ")[0] for claim in CLAIMS}

    def seeds(name):
        study = studies[name]
        return {seed for block in study.blocks().values() for seed in block}

    theory = {name for name in ours & set(studies) if getattr(studies[name], "role", "") == "stages"}
    assert theory
    used = {seed for name in studies if name.startswith("stages") and name not in theory for seed in seeds(name)}
    for name in theory:
        assert not used & seeds(name), name


@pytest.mark.parametrize("paper", ["imbalance_and_pruning", "wen_li_feature_decoupling"])
def test_the_index_has_a_line_for_each_claim_and_is_small(paper):
    groups = {claim.group for claim in CLAIMS if claim.paper == paper}
    table = TABLE[TABLE["group"].isin(groups)]
    text = index(table)
    for claim_id in table["claim_id"].unique():
        assert f"[{claim_id}](" in text
    assert len(text.encode()) < LEAST
    assert "nan" not in text


@pytest.mark.parametrize("group", sorted({claim.group for claim in CLAIMS}))
def test_the_page_of_a_part_says_what_was_declared_and_found_and_is_small(group):
    text = part(TABLE, group, "claims_paper.md")
    for primary, others in by_claim(TABLE[TABLE["group"] == group]):
        section = text.split(f"## {primary['claim_id']}\n")[1].split("\n## ")[0]
        assert primary["verdict"].capitalize() in section
        assert primary["reason"] in section
        assert f"of {len(others)} regimes" in section
    assert len(text.encode()) < LEAST
    assert place(group).endswith(".md")
    assert "nan" not in text


def test_a_figure_has_a_row_for_each_claim_and_all_its_text_lies_on_it():
    rows = TABLE[TABLE["group"] == "stage 2"]
    figure = draw(rows, "stage 2")
    assert len(figure.axes) == rows["claim_id"].nunique()
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for ax in figure.axes:
        for text in ax.texts:
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= width
    boxes = [ax.texts[1].get_window_extent() for ax in figure.axes]
    assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))
    assert height > 0
    plt.close(figure)


def test_a_runaway_regime_does_not_set_the_scale():
    one = TABLE[(TABLE["claim_id"] == "E.1b")].copy()
    before = limits(one[one["verdict"].isin(["supported", "contradicted", "undecided"])], -np.inf, 1.0)
    one.loc[one.index[-1], "estimate"] = 1e8
    after = limits(one[one["verdict"].isin(["supported", "contradicted", "undecided"])], -np.inf, 1.0)
    assert after[1] < before[1] + 5


def test_a_part_that_nothing_was_measured_of_has_a_figure_that_says_so():
    figure = draw(TABLE[:0], "stage 2")
    assert "no claim is measured" in figure.texts[0].get_text()
    plt.close(figure)


def test_the_verdicts_that_are_published_are_those_of_the_primary_rows():
    found = primary_verdicts(TABLE)
    assert found["claim_id"].tolist() == TABLE["claim_id"].drop_duplicates().tolist()
    primary = TABLE[TABLE["primary"]].set_index("claim_id")
    assert (primary.loc[found["claim_id"], "verdict"].to_numpy() == found["verdict"].to_numpy()).all()
    others = TABLE[~TABLE["primary"] & (TABLE["verdict"] == "contradicted")].groupby("claim_id").size()
    assert (others.reindex(found["claim_id"], fill_value=0).to_numpy() == found["contradicted_elsewhere"].to_numpy()).all()
