"""The page of claims: from tables with every kind of row."""

import numpy as np
from conftest import of_size

from rarefeat.claims.claim import Claim
from rarefeat.claims.declarations import ClaimSet
from rarefeat.claims.measurements import measured_table, measurement
from rarefeat.claims.page import (
    ORDER,
    claim_records,
    other_verdicts,
    primary_verdicts,
)
from rarefeat.claims.verdict import ALPHA_LEVEL, is_decidable, verdicts
from rarefeat.workflow.project import load

KNOWN = load().claim_sets
CLAIMS: list[Claim] = [claim for known in KNOWN.values() for claim in known.claims.values()]
# As if they were all of one file.
AXES = {axis: text for known in KNOWN.values() for axis, text in known.axes.items()} | {
    "point": "{}"
}
ALL = ClaimSet("all", "", AXES, {claim.id: claim for claim in CLAIMS}, "")
BY_ID = {claim.id: claim for claim in CLAIMS}


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
        values = of_kind(claim, edge + rng.normal(rng.normal(), 0.3, 12))
        met = np.full(12, claim.premise.above + 1) if claim.premise else None
        rows.append(measurement(claim.id, *claim.primary, values, premise=met))
        for number in range(regimes):
            values = of_kind(claim, edge + rng.normal(0, 1) + 0.3 * rng.normal(size=12))
            why = "too few replicas have a lucky neuron" if number % 7 == 0 else ""
            study, place = (
                f"stages_of_another_regime_{number // 4}",
                {"point": f"eps_min 0.{number}, sigma 0.05"},
            )
            rows.append(
                measurement(
                    claim.id,
                    study,
                    place,
                    values,
                    untestable=why,
                    diverged=3 * (number % 11 == 1),
                    premise=met,
                )
            )
    return verdicts(measured_table(rows, ALL))


TABLE = planted()


def test_exact_tests_can_pass_with_the_declared_seeds():
    """A claim on shares of seeds that no outcome could support would be no claim."""
    for claim in CLAIMS:
        rows = sum(other.paper == claim.paper and not other.check for other in CLAIMS)
        if claim.kind in ("0 or 1", "paired 0 or 1"):
            assert is_decidable(claim.seeds, *claim.region, claim.kind, ALPHA_LEVEL / rows), (
                claim.id
            )


def test_primary_regimes_are_in_config_with_their_seeds():
    # What was pre-registered is the full size, of the study that has one and claims of its own.
    studies = load().studies | of_size("full").sections["selection"].studies()
    studies |= of_size("full").sections["fate"].studies
    studies |= of_size("full").sections["long_tail"].studies
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


def test_every_claim_has_a_record_contradicted_ones_first():
    records = claim_records(TABLE, BY_ID)
    assert sorted(record["id"] for record in records) == sorted(BY_ID)
    verdicts_of = [record["verdict"] for record in records]
    assert verdicts_of == sorted(verdicts_of, key=ORDER.index)
    assert verdicts_of[0] == "contradicted"


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
