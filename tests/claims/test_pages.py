"""The page of claims: from tables with every kind of row."""

from conftest import of_size

from rarefeat.claims.claim import Claim
from rarefeat.claims.verdict import ALPHA_LEVEL, is_decidable
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
