"""The page of claims: from tables with every kind of row."""

import numpy as np
from conftest import of_size

from rarefeat.claims.claim import Claim
from rarefeat.claims.measurements import measured_table, measurement
from rarefeat.claims.page import (
    ORDER,
    claim_records,
)
from rarefeat.claims.verdict import ALPHA_LEVEL, is_decidable, verdicts
from rarefeat.workflow.project import load

KNOWN = load().claim_sets
CLAIMS: list[Claim] = [claim for known in KNOWN.values() for claim in known.claims.values()]


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
    """Of one paper, whose claims are measured on the one or the other side of their thresholds."""
    known = KNOWN["two_layer"]
    by_id = known.claims
    rng = np.random.default_rng(0)
    rows = []
    for claim in by_id.values():
        edge = next(end for end in claim.region if np.isfinite(end))
        values = edge + rng.normal(rng.normal(), 0.3, 12)
        met = np.full(12, claim.premise.above + 1) if claim.premise else None
        rows.append(measurement(claim.id, *claim.primary, values, premise=met))
    records = claim_records(verdicts(measured_table(rows, known)), by_id)
    assert sorted(record["id"] for record in records) == sorted(by_id)
    found = [record["verdict"] for record in records]
    assert found == sorted(found, key=ORDER.index)
    assert {found[0], "supported"} == {"contradicted", "supported"} & {*found}
