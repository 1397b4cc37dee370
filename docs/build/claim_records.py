"""Every claim as one record, and the records as a table of HTML that a script filters."""

import html
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import betaincinv
from scipy.stats import nct

from rarefeat.claims.claim import Claim
from rarefeat.claims.estimate import Estimate
from rarefeat.claims.measurements import NOT_RUN
from rarefeat.claims.page import format_effect, split_by_claim
from rarefeat.claims.tables import VERDICTS
from rarefeat.claims.verdict import (
    ALPHA_LEVEL,
    BINARY,
    CONTRADICTED,
    PAIRED,
    SUPPORTED,
    WORDS,
    confidence_bounds,
    format_counts,
    p_value_above,
)

POWER = 0.9
"""Power that the detectable effect of a claim is stated for."""
NOT_YET = "not yet run"
ORDER = (
    "contradicted", "undecided", "too few seeds", "premise not met", "diverged", "not testable",
    NOT_YET, "supported", "check failed", "check passed",
)  # fmt: skip
"""Verdicts in the order of the page."""
DETAILS = (
    ("Measured", "quantity"), ("Since", "reason"), ("Premise", "premise"), ("Where", "regime"),
    ("Seeds", "power"), ("Control", "control"), ("Note", "remark"),
    ("Other regimes", "elsewhere_in_words"), ("Of these", "split"),
)  # fmt: skip
"""Headings of an opened row and their keys."""


def primary_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Reduce the table of claims to a row for each claim."""
    columns = [
        "claim_id", "group", "source", "statement", "verdict", "estimate", "error", "freedom",
        "ci_low", "ci_high", "n", "study", "point", "remark", "declaration",
    ]  # fmt: skip
    claims = split_by_claim(table)
    rows = pd.DataFrame([primary[columns] for primary, _ in claims])
    counts = pd.DataFrame(
        [others["verdict"].value_counts() for _, others in claims], index=rows.index
    )
    counts = counts.reindex(columns=VERDICTS[:3]).fillna(0).astype(int)
    return rows.join(counts.add_suffix("_elsewhere")).reset_index(drop=True)


def other_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Return verdict and estimate of each claim in each regime but its primary one."""
    columns = [
        "claim_id", "study", "point", "role", "verdict", "estimate", "error", "freedom", "ci_low",
        "ci_high", "n",
    ]  # fmt: skip
    return table.loc[~table["primary"], columns].reset_index(drop=True)


def anchor(claim_id: str) -> str:
    """Return the anchor of a claim on the page."""
    return "".join(letter for letter in claim_id.lower() if letter.isalnum() or letter in "-_")


def detectable(n: int, kind: str, test: str, level: float, threshold: float = 0.0) -> float:
    """Compute the distance from the edge of its region at which a claim is supported, 9 in 10."""
    power = POWER if test != "equivalence" else (1 + POWER) / 2
    if kind in (BINARY, PAIRED):
        totals = np.arange(n + 1)
        spread = np.sqrt(np.maximum(totals - totals**2 / n, 0) / (n * (n - 1)))
        p = p_value_above(Estimate(totals / n, spread, n - 1, n), threshold, kind)
        if not (p < level).any():
            return np.nan
        least = int(np.argmax(p < level))
        # The share at which `least` or more of n are reached with that power.
        return float(betaincinv(least, n - least + 1, power)) - threshold if least else np.nan
    critical = confidence_bounds(Estimate(0.0, 1.0, n - 1, n), level)[1]

    def excess(distance: float) -> float:
        return float(nct.sf(critical, n - 1, distance * np.sqrt(n))) - power

    return float(brentq(excess, 0, 1e3))


def describe_power(claim: Claim, claims_of_paper: int) -> str:
    """Say what the declared seeds find with a power of 0.9."""
    if not claim.seeds:
        return "a line through sizes, which n counts; its power was not declared"
    level = ALPHA_LEVEL / claims_of_paper
    # Paired replicas have their exact test against a mean of 0.
    edge = claim.threshold if claim.kind == BINARY and claim.side == "above" else 0.0
    distance = detectable(claim.seeds, claim.kind, claim.test, level, edge)
    if distance != distance:
        return f"{claim.seeds} seeds, too few to show it whatever they are"
    unit = "of the seeds" if claim.kind in (BINARY, PAIRED) else "standard deviations between seeds"
    amount = f"{100 * distance:.0f} %" if claim.kind in (BINARY, PAIRED) else f"{distance:.2g}"
    return f"{claim.seeds} seeds, which show a distance of {amount} {unit} nine times in ten"


def describe_split(rows: pd.DataFrame, max_points: int = 4) -> str:
    """List the regimes that support a claim and those that contradict it."""
    decided = [name for name in (SUPPORTED, CONTRADICTED) if (rows["verdict"] == name).any()]
    if len(decided) < 2:
        return ""
    sentences = []
    for name in decided:
        regimes = []
        for study, regime_rows in rows.groupby("study", sort=False):
            points = regime_rows.loc[regime_rows["verdict"] == name, "point"]
            if len(points) == len(regime_rows):
                regimes.append(study)
            elif len(points) > max_points:
                regimes.append(f"{study} ({len(points)} of {len(regime_rows)} points)")
            elif len(points):
                regimes.append(f"{study} ({'; '.join(points)})")
        sentences.append(f"{name.capitalize()}: {', '.join(regimes)}")
    return ". ".join(sentences)


def claim_records(table: pd.DataFrame, claims: Mapping[str, Claim]) -> list[dict]:
    """Return a record for each claim with all that the page shows, contradicted ones first."""
    counted = pd.Series([claim.paper for claim in claims.values() if not claim.check])
    sizes = counted.value_counts()
    records = []
    for primary, others in split_by_claim(table):
        claim = claims[primary["claim_id"]]
        premise = claim.premise and f"{claim.premise.quantity} is above {claim.premise.above:g}"
        remark = "" if primary["remark"] == NOT_RUN else primary["remark"]
        if 0 < primary["n"] < claim.seeds:
            fewer = f"{primary['n']} of the {claim.seeds} declared seeds have a number"
            remark = "; ".join(filter(None, (remark, fewer)))
        records.append(
            {
                "id": claim.id, "paper": claim.paper, "part": claim.group, "place": claim.source,
                "statement": claim.statement, "verdict": primary["verdict"],
                "measured": format_effect(primary), "n": int(primary["n"]),
                "quantity": claim.quantity, "required": claim.required, "test": claim.test,
                "reason": claim.reason, "premise": premise or "",
                "regime": ": ".join(filter(None, (primary["study"], primary["point"]))),
                "seeds": claim.seeds, "power": describe_power(claim, sizes.get(claim.paper, 1)),
                "control": claim.control, "declaration": claim.declaration,
                "remark": remark,
                "elsewhere": {
                    verdict: int((others["verdict"] == verdict).sum())
                    for verdict in VERDICTS
                    if (others["verdict"] == verdict).any()
                },
                "elsewhere_in_words": format_counts(others["verdict"]) if len(others) else "",
                "split": describe_split(others),
            }
        )  # fmt: skip
    return sorted(records, key=lambda record: ORDER.index(record["verdict"]))


def claims_html(records: list[dict], papers: Mapping[str, str]) -> str:
    """Render records as a table of HTML; a row opens, and `assets/claims.js` filters."""
    verdicts = [name for name in ORDER if any(record["verdict"] == name for record in records)]

    def options(names: Mapping[str, str]) -> str:
        return "".join(
            f'<option value="{html.escape(name)}">{html.escape(text)}</option>'
            for name, text in names.items()
        )

    shown = {
        paper: papers.get(paper, paper) for paper in dict.fromkeys(r["paper"] for r in records)
    }
    lines = [
        '<div id="claim-filter"><input type="search" placeholder="Theorem 3.2, pruning, ..."'
        ' aria-label="Words of a claim"> <select name="paper" aria-label="Paper">'
        f'<option value="">every paper</option>{options(shown)}</select>'
        ' <select name="verdict" aria-label="Verdict"><option value="">every verdict</option>'
        f"{options({name: WORDS.get(name, name) for name in verdicts})}</select>"
        " <output></output></div>",
        '<table id="claims"><thead><tr><th>verdict</th><th>statement</th><th>place</th>'
        "<th>paper</th><th>must be</th><th>is</th><th>n</th></tr></thead><tbody>",
    ]
    for record in records:
        verdict = record["verdict"]
        details = "".join(
            f"<dt>{heading}</dt><dd>{html.escape(record[key])}{strip(record, key)}</dd>"
            for heading, key in DETAILS
            if record[key]
        )
        statement = record["statement"][0].upper() + record["statement"][1:]
        lines.append(
            f'<tr id="{anchor(record["id"])}" data-paper="{record["paper"]}"'
            f' data-verdict="{verdict}"><td>{WORDS.get(verdict, verdict)}</td><td><details>'
            f"<summary>{html.escape(statement)}</summary><dl>{details}</dl></details></td>"
            f"<td>{html.escape(record['place'])} <small>{html.escape(record['id'])}</small></td>"
            f"<td>{html.escape(shown[record['paper']])}</td>"
            f"<td>{html.escape(record['required'])}</td><td>{html.escape(record['measured'])}</td>"
            f"<td>{record['n'] or ''}</td></tr>"
        )
    return "\n".join([*lines, "</tbody></table>"]) + "\n"


def strip(record: dict, key: str) -> str:
    """Return the other regimes as a strip of their verdicts; empty for any other key."""
    if key != "elsewhere_in_words":
        return ""
    segments = (
        f'<i data-verdict="{verdict}" style="flex:{count}" title="{verdict}: {count}"></i>'
        for verdict, count in record["elsewhere"].items()
    )
    return f'<span class="strip">{"".join(segments)}</span>'
