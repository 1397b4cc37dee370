"""The published numbers of the claims, judged by the tests and the declarations of today."""

import math
from typing import Any

import pandas as pd

from claim_records import NOT_YET
from rarefeat.claims.claim import Claim
from rarefeat.claims.verdict import verdicts
from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import Project

WAITING = "declared, not yet run"
ANEW = "declared anew, not yet run"
FEWER = "declared with {} seeds, of which {} were run"
"""What is said of claims without published numbers: of any declaration, or of today's."""
LEAST_SHARE = 0.5
"""Of the declared seeds; fewer are another measurement, and not seeds without a value."""
TESTED = ("supported", "contradicted", "undecided", "too few seeds", "check passed", "check failed")


def all_claims(project: Project) -> dict[str, Claim]:
    """Return every declared claim by its id."""
    return {
        name: claim
        for claim_set in project.claim_sets.values()
        for name, claim in claim_set.claims.items()
    }


def published_claims(tables: PublishedTables, project: Project) -> pd.DataFrame:
    """Return the judged rows of every declared claim, of all papers.

    A number counts for the declaration that its run had. A claim that was declared anew since, or
    was never run, or with fewer than half of its seeds, has a primary row without a number: it
    keeps its place among the claims of its paper, and no other number stands in for its own.
    """
    rows = []
    for paper, names in project.papers.items():
        primary, others = (
            tables[name] if (name := f"{kind}_{paper}") in tables else pd.DataFrame()
            for kind in ("verdicts", "other_regimes")
        )
        named = {entry.claim_id: entry for entry in primary.itertuples()}
        current = {}
        for claim_set in (project.claim_sets[name] for name in names):
            for name, claim in claim_set.claims.items():
                entry, remark = named.get(name), ANEW if name in named else WAITING
                if entry and entry.verdict in TESTED and entry.n < LEAST_SHARE * claim.seeds:
                    entry, remark = None, FEWER.format(claim.seeds, entry.n)
                if entry and entry.declaration == claim.declaration:
                    current[name] = claim
                    remark = getattr(entry, "remark", "")
                    remark = remark if isinstance(remark, str) else ""
                else:
                    study, axes = claim.primary
                    point = claim_set.format_place(axes)
                    entry = pd.Series({"study": study, "point": point, "verdict": NOT_YET})
                rows.append(measured_row(claim, entry, primary=True, remark=remark))
        rows += [
            measured_row(current[entry.claim_id], entry, primary=False, remark="")
            for entry in others.itertuples()
            if entry.claim_id in current and entry.role == "regime"
        ]
    judged = verdicts(pd.DataFrame(rows))
    return judged.assign(
        verdict=judged["verdict"].where(judged["testable"], judged["published_verdict"])
    )


def measured_row(claim: Claim, entry: Any, primary: bool, remark: str) -> dict:
    """Return a row as `verdicts` needs it, from a published row and the declaration."""
    low, high = claim.region
    point = entry.point if isinstance(entry.point, str) else ""
    return {
        "claim_id": claim.id, "group": claim.group, "paper": claim.paper, "source": claim.source,
        "statement": claim.statement, "study": entry.study, "point": point, "primary": primary,
        "role": "regime", "estimate": getattr(entry, "estimate", math.nan),
        "error": getattr(entry, "error", math.nan), "freedom": int(getattr(entry, "freedom", 1)),
        "n": int(getattr(entry, "n", 0)),
        "required_low": low, "required_high": high, "least": claim.least,
        "resolution": claim.resolution, "kind": claim.kind, "check": claim.check,
        "lowest": claim.bounds[0], "highest": claim.bounds[1], "remark": remark,
        "testable": entry.verdict in TESTED, "published_verdict": entry.verdict,
    }  # fmt: skip
