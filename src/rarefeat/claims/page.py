"""The claims that a run has measured, as a table of its page."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.verdict import ALPHA_LEVEL, BINARY, PAIRED, format_counts, verdicts
from rarefeat.workflow.files.markdown import markdown_table

ABOUT = f"""Each claim declares its quantity, the range that this must lie in with the reason, one
primary regime on seeds of its own, and a control, all before the run. That the quantity lies there
is one test, and that it lies elsewhere another: a claim is **supported** or **contradicted** where
one of them is passed. A claim that passes neither has **too few seeds** if these could not have
shown the smallest difference that it names, and is **inconclusive** otherwise. Where what a
statement assumes is not shown, it is not tested: **premise not met**. What holds by construction is
a **check** and is not counted. Primary regimes are corrected by Holm over a paper, at {ALPHA_LEVEL}
for a false support anywhere and {ALPHA_LEVEL} for a false contradiction; the other regimes by
Benjamini & Hochberg within their claim. Intervals are 95 % ones, each for itself. *Diverged*:
weights or loss not finite, or the unmasked loss above twice log K in some run."""
"""How verdicts are read."""


def format_number(value: float) -> str:
    """Format a number with three digits; empty for NaN."""
    return "" if value != value else f"{value:.3g}"


def format_effect(entry: Mapping) -> str:
    """Format the estimate of a row with its interval; empty without an estimate."""
    if entry["estimate"] != entry["estimate"]:
        return ""
    value, low, high = (format_number(entry[key]) for key in ("estimate", "ci_low", "ci_high"))
    if entry["error"] == 0 and entry["kind"] not in (BINARY, PAIRED):
        return f"{value} in each of {entry['n']}"
    return f"{value} [{low}, {high}]" if low else value


def split_by_claim(table: pd.DataFrame) -> list[tuple[pd.Series, pd.DataFrame]]:
    """Return the primary row and the other rows of each claim, in the order of the table."""
    return [
        (rows[rows["primary"]].iloc[0], rows[~rows["primary"]])
        for _, rows in table.groupby("claim_id", sort=False)
    ]


def claims_table(table: pd.DataFrame) -> str:
    """Return a line for each claim that a run has measured, with its verdict where it is judged.

    It is judged once the claims of all its paper are tested together.
    """
    judged = "verdict" in table
    claims = split_by_claim(table if judged else verdicts(table))
    more = ("verdict", "other regimes") if judged else ()
    lines = [("claim", "statement", "source", "must be", "measured", "n", *more)]
    for primary, others in claims:
        texts = [primary[key] for key in ("claim_id", "statement", "source", "required")]
        found = primary["verdict"], format_counts(others["verdict"]) if len(others) else ""
        found = found if judged else ()
        lines.append((*texts, format_effect(primary), primary["n"] or "", *found))
    return f"{ABOUT}\n\n" * judged + markdown_table(*lines)
