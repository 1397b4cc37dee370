"""The page on half and double of each hyper-parameter that is chosen here, in Markdown."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.tables import CHANGES_FOUND
from rarefeat.studies.theory.config import Theory
from rarefeat.workflow.files.markdown import row
from rarefeat.workflow.run.job import Job


def sensitivity(table: pd.DataFrame, theory: Theory) -> list[str]:
    """Return the page, a line for each varied setting.

    A line says how many effects stay the same, change, or cannot be decided, and which change.
    """
    base = theory.sensitivity.study
    lines = [
        "# Sensitivity",
        "",
        f"Every effect of the study `{base}` again, with one hyper-parameter at half or at double"
        " its value. An effect has",
        "changed where the difference is shown to exceed the tolerance that its claim declares, and"
        " is the same where it is",
        "shown to lie within. These are descriptions, each tested for itself; verdicts come from"
        " the regimes alone.",
        "",
        row("varied", *CHANGES_FOUND, "claims with an effect that changes"),
        row("---", *["---:"] * 3, "---"),
    ]  # fmt: skip
    for varied, changes in table[table["study"] == base].groupby("varied", sort=False):
        counts = changes["found"].value_counts()
        changed = changes.loc[changes["found"] == CHANGES_FOUND[1], "claim_id"].drop_duplicates()
        lines.append(
            row(varied, *(str(counts.get(name, 0)) for name in CHANGES_FOUND), ", ".join(changed))
        )
    return lines


def page(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """Return the page of the table of changes."""
    (table,) = tables.values()
    return "\n".join(sensitivity(table, job.config_section("theory", Theory))) + "\n"
