"""Published claims, judged by the declarations and the tests of today."""

import math

import pandas as pd
import pytest

from published_claims import ANEW, WAITING, all_claims, published_claims
from rarefeat.workflow.project import load


def declared_rows(change=lambda rows: rows):
    """Return the judged claims where each claim of one paper has a clear published number."""
    project = load()
    claims = project.claim_sets["long_tail"].claims
    rows = pd.DataFrame(
        {
            "claim_id": list(claims), "declaration": [one.declaration for one in claims.values()],
            "study": "digits", "point": "rho 50", "estimate": 0.5, "error": 0.0005,
            "freedom": 59, "n": 60, "verdict": "supported", "remark": math.nan,
        }
    )  # fmt: skip
    judged = published_claims(dict(verdicts_imbalance_and_pruning=change(rows)), project)
    return judged[judged["primary"]].set_index("claim_id")


def test_a_published_number_is_judged_by_todays_tests():
    verdicts = declared_rows(lambda rows: rows.assign(verdict="undecided"))["verdict"]
    assert verdicts["T2-accuracy"] == "supported"
    assert verdicts["T2-delta"] == "contradicted"


def test_a_number_of_another_declaration_is_no_verdict():
    judged = declared_rows(lambda rows: rows.assign(declaration="of another day"))
    assert judged.loc["T2-accuracy", "verdict"] == "not yet run"
    assert judged.loc["T2-accuracy", "remark"] == ANEW
    assert judged.loc["T2-accuracy", "n"] == 0


def test_every_claim_has_a_row_and_keeps_its_place():
    judged = declared_rows()
    assert set(judged.index) == set(all_claims(load()))
    assert judged.loc["B.2a", "remark"] == WAITING
    few = declared_rows(lambda rows: rows[:1])["adjusted_p_supported"]["T2-accuracy"]
    assert few == pytest.approx(judged["adjusted_p_supported"]["T2-accuracy"], rel=0.1)
