"""Published claims, judged by the declarations and the tests of today."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from published_claims import (
    ANEW,
    WAITING,
    all_claims,
    published_claims,
    standard_error_from_interval,
)
from rarefeat.claims.estimate import Estimate
from rarefeat.claims.verdict import PAIRED, confidence_bounds
from rarefeat.workflow.project import load


@pytest.mark.parametrize(
    ("total", "differing", "n"),
    [(0, 0, 24), (0, 6, 24), (18, 18, 24), (-4, 10, 24), (-22, 22, 24), (2, 14, 16)],
)
def test_standard_error_from_paired_interval(total, differing, n):
    """The number of seeds that differ is recovered."""
    error = math.sqrt((differing - total**2 / n) / (n * (n - 1)))
    low, high = confidence_bounds(Estimate(total / n, error, n - 1, n), 0.025, PAIRED)
    rounded = {"estimate": total / n, "ci_low": low, "ci_high": high}
    row = SimpleNamespace(n=n, **{name: float(f"{value:.6g}") for name, value in rounded.items()})
    assert standard_error_from_interval(row, PAIRED) == pytest.approx(error, rel=1e-12, abs=1e-12)


def declared_rows(change=lambda rows: rows):
    """Return the judged claims where each claim of one paper has a clear published number."""
    project = load()
    claims = project.claim_sets["long_tail"].claims
    rows = pd.DataFrame(
        {
            "claim_id": list(claims), "declaration": [one.declaration for one in claims.values()],
            "study": "digits", "point": "rho 50", "estimate": 0.5, "ci_low": 0.499,
            "ci_high": 0.501, "n": 60, "verdict": "supported", "remark": math.nan,
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
