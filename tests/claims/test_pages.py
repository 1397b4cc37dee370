"""The index, the pages of the parts, and their figures: from tables with every kind of row."""

from itertools import pairwise

import numpy as np
import pytest
from conftest import of_size
from sample_size import POWER, power, seeds_needed

from rarefeat.claims.claim import Claim
from rarefeat.claims.declarations import ClaimSet
from rarefeat.claims.figure import MAX_CLAIMS, axis_limits, draw, select_claims
from rarefeat.claims.measurements import measured_table, measurement
from rarefeat.claims.page import (
    group_page,
    index_page,
    other_verdicts,
    primary_verdicts,
    split_by_claim,
)
from rarefeat.claims.verdict import ALPHA_LEVEL, verdicts
from rarefeat.figures.style import project_style
from rarefeat.project import load

KNOWN = load().claim_sets
CLAIMS: list[Claim] = [claim for known in KNOWN.values() for claim in known.claims.values()]
# As if they were all of one file.
AXES = {axis: text for known in KNOWN.values() for axis, text in known.axes.items()} | {
    "point": "{}"
}
ALL = ClaimSet("all", "", AXES, {claim.id: claim for claim in CLAIMS}, "")
LEAST = 40_000
"""No page in docs is larger, in bytes."""


def of_kind(claim: Claim, values: np.ndarray) -> np.ndarray:
    """Numbers, or where replicas are 0 or 1 whether they are above a half."""
    return {"0 or 1": values > 0.5, "paired 0 or 1": np.sign(np.round(values))}.get(
        claim.kind, values
    ).astype(float)


def planted(claims=CLAIMS, regimes=24):
    """Return verdicts on every claim in many regimes, with random numbers around its threshold."""
    rng = np.random.default_rng(0)
    rows = []
    for claim in claims:
        low, high = claim.region
        edge = low if np.isfinite(low) else high
        rows.append(
            measurement(
                claim.id, *claim.primary, of_kind(claim, edge + rng.normal(rng.normal(), 0.3, 12))
            )
        )
        for number in range(regimes):
            values = of_kind(claim, edge + rng.normal(0, 1) + 0.3 * rng.normal(size=12))
            why = "too few replicas have a lucky neuron" if number % 7 == 0 else ""
            study, place = (
                f"stages_of_another_regime_{number // 4}",
                {"point": f"eps_min 0.{number}, sigma 0.05"},
            )
            rows.append(
                measurement(
                    claim.id, study, place, values, untestable=why, diverged=3 * (number % 11 == 1)
                )
            )
    return verdicts(measured_table(rows, ALL))


TABLE = planted()


def test_primary_seeds_have_declared_power():
    for claim in CLAIMS:
        rows = sum(other.paper == claim.paper for other in CLAIMS)
        if claim.seeds:
            assert claim.seeds >= seeds_needed(claim.test, claim.effect, rows), claim.id
            assert (
                power(claim.seeds, claim.effect, 0.05 / rows, claim.test == "equivalence") >= POWER
            ), claim.id


def test_where_all_replicas_agree_the_sign_test_can_pass():
    for claim in CLAIMS:
        rows = sum(other.paper == claim.paper for other in CLAIMS)
        assert claim.kind == "number" or 0.5**claim.seeds * rows < ALPHA_LEVEL, claim.id


def test_primary_regimes_are_in_config_with_their_seeds():
    # What was pre-registered is the full size, of the study that has one and claims of its own.
    studies = load().studies | of_size("full").sections["selection"].studies()
    studies |= of_size("full").sections["fate"].studies
    roles = {study.role: study for study in studies.values() if hasattr(study, "role")}
    for claim in CLAIMS:
        if claim.primary.study != "scaling":
            study = studies.get(claim.primary.study) or roles[claim.primary.study]
            # Where regimes are drawn, each is a replica.
            hypercube = getattr(study, "hypercube", None)
            assert (hypercube.regimes if hypercube else study.seeds) >= claim.seeds, claim.id


def test_primary_studies_of_theory_have_own_seeds():
    studies = load().studies
    ours = {claim.primary.study for claim in CLAIMS}

    def seeds(name):
        study = studies[name]
        return {seed for block in study.blocks().values() for seed in block}

    theory = {
        name for name in ours & set(studies) if getattr(studies[name], "role", "") == "stages"
    }
    assert theory
    used = {
        seed
        for name in studies
        if name.startswith("stages") and name not in theory
        for seed in seeds(name)
    }
    for name in theory:
        assert not used & seeds(name), name


@pytest.mark.parametrize("paper", ["imbalance_and_pruning", "wen_li_feature_decoupling"])
def test_the_index_has_a_line_for_each_claim_and_is_small(paper):
    groups = {claim.group for claim in CLAIMS if claim.paper == paper}
    table = TABLE[TABLE["group"].isin(groups)]
    text = index_page(table, "imbalance_and_pruning")
    for claim_id in table["claim_id"].unique():
        assert f"| {claim_id} |" in text
    assert len(text.encode()) < LEAST
    assert "nan" not in text


@pytest.mark.parametrize("group", sorted({claim.group for claim in CLAIMS}))
def test_group_page_has_declarations_and_verdicts(group):
    text = group_page(TABLE, group, "claims_paper.md")
    for primary, others in split_by_claim(TABLE[TABLE["group"] == group]):
        section = text.split(f"## {primary['claim_id']}\n")[1].split("\n## ")[0]
        assert primary["verdict"].capitalize() in section
        assert primary["reason"] in section
        assert f"of {len(others)} regimes" in section
    assert len(text.encode()) < LEAST
    assert "nan" not in text


@pytest.mark.parametrize("group", ["stage 2", "pruning", "feature decoupling"])
def test_claim_figure_text_is_inside_and_of_ten_claims(group):
    rows = TABLE[TABLE["group"] == group]
    with project_style():
        figure = draw(rows, group)
        assert len(figure.axes) == 3 * min(rows["claim_id"].nunique(), MAX_CLAIMS)
        figure.canvas.draw()
        whole = figure.bbox
        boxes = [
            text.get_window_extent() for ax in figure.axes for text in (*ax.texts, ax.xaxis.label)
        ]
        assert all(box.x0 >= whole.x0 and box.x1 <= whole.x1 for box in boxes)
        rows_of_text = [ax.texts[0].get_window_extent() for ax in figure.axes[::3]]
        assert all(below.y1 <= above.y0 for above, below in pairwise(rows_of_text))
    statements = dict(zip(rows["claim_id"], rows["statement"], strict=True))
    for said, ax, claim in zip(
        figure.axes[::3], figure.axes[1::3], select_claims(rows), strict=True
    ):
        (statement,) = (text.get_text() for text in said.texts)
        assert statement.split(":")[0] == claim
        assert statements[claim][:20] in statement.replace("\n", " ")
        assert ax.get_xlabel()
        assert ax.get_xlim()[0] < ax.get_xlim()[1]


def test_claims_that_are_not_supported_have_the_first_place():
    rows = TABLE[TABLE["group"] == "feature decoupling"].copy()
    rows.loc[rows["primary"], "verdict"] = "supported"
    last = rows["claim_id"].iloc[-1]
    rows.loc[rows["primary"] & (rows["claim_id"] == last), "verdict"] = "contradicted"
    assert last in select_claims(rows)
    assert len(select_claims(rows)) == MAX_CLAIMS
    assert "](figures/" in group_page(rows, "feature decoupling", "claims_paper.md")
    rows.loc[rows["primary"], "verdict"] = "supported"
    assert "](figures/" not in group_page(rows, "feature decoupling", "claims_paper.md")


def test_claim_figure_undecided_reason_and_point_region():
    rows = TABLE[TABLE["group"] == "feature decoupling"].copy()
    first, second = rows["claim_id"].unique()[:2]
    rows = rows[rows["claim_id"].isin([first, second])]
    rows.loc[rows["claim_id"] == first, "verdict"] = "diverged"
    rows.loc[rows["claim_id"] == second, ["required_low", "required_high"]] = 0.5
    with project_style():
        axes = draw(rows, "feature decoupling").axes[1::3]
    assert [text.get_text() for text in axes[0].texts] == ["diverged"]
    assert any(line.get_xdata()[0] == line.get_xdata()[-1] == 0.5 for line in axes[1].lines)
    quantities = rows.drop_duplicates("claim_id")["quantity"]
    assert [ax.get_xlabel().replace("\n", " ") for ax in axes] == quantities.tolist()


def test_a_runaway_regime_does_not_set_the_scale():
    one = TABLE[(TABLE["claim_id"] == "E.1b")].copy()
    before = axis_limits(
        one[one["verdict"].isin(["supported", "contradicted", "undecided"])], -np.inf, 1.0
    )
    one.loc[one.index[-1], "estimate"] = 1e8
    after = axis_limits(
        one[one["verdict"].isin(["supported", "contradicted", "undecided"])], -np.inf, 1.0
    )
    assert after[1] < before[1] + 5


def test_claim_figure_without_measurements_says_so():
    figure = draw(TABLE[:0], "stage 2")
    assert "no claim is measured" in figure.texts[0].get_text()


def test_published_verdicts_are_those_of_primary_rows():
    found = primary_verdicts(TABLE)
    assert found["claim_id"].tolist() == TABLE["claim_id"].drop_duplicates().tolist()
    primary = TABLE[TABLE["primary"]].set_index("claim_id")
    assert (
        primary.loc[found["claim_id"], "verdict"].to_numpy() == found["verdict"].to_numpy()
    ).all()
    others = (
        TABLE[~TABLE["primary"] & (TABLE["verdict"] == "contradicted")].groupby("claim_id").size()
    )
    assert (
        others.reindex(found["claim_id"], fill_value=0).to_numpy()
        == found["contradicted_elsewhere"].to_numpy()
    ).all()
    elsewhere = other_verdicts(TABLE)
    assert len(found) + len(elsewhere) == len(TABLE)
    assert (
        elsewhere[elsewhere["verdict"] == "contradicted"].groupby("claim_id").size().equals(others)
    )
