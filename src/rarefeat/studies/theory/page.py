"""What docs/studies/theory.md is filled in from."""

import pandas as pd

QUOTED = ["3.1a-linear", "33-d1", "33-log", "33-eta", "33-d", "60-eta", "60-d", "60-eps"]
"""Claims whose estimates the page quotes."""
BASE = ["stages", "stages_without_bias"]
"""Of studies with many variants, the paper's regime and the one without a bias."""
MEASURED = ["claim_id", "study", "point", "estimate", "ci_low", "ci_high", "n", "verdict"]


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each claim: the verdict of its primary regime, and in how many of the regimes where it was tested it holds."""
    found = []
    for claim_id, part in table.groupby("claim_id", sort=False):
        held, tested = part["verdict"] == "supported", part["verdict"].isin(["supported", "contradicted", "undecided"])
        first = part[part["primary"]].iloc[0]
        found.append(
            {
                "claim_id": claim_id,
                **first[["group", "statement", "source", "quantity", "verdict"]],
                "holds_in": int(held.sum()),
                "tested_in": int(tested.sum()),
            }
        )
    return pd.DataFrame(found)


def quoted(table: pd.DataFrame) -> pd.DataFrame:
    """Estimates that the page quotes."""
    base = table["study"].isin(BASE) | ~table["study"].str.startswith("stages")
    return table.loc[table["claim_id"].isin(QUOTED) & base, MEASURED].reset_index(drop=True)


TABLES = {
    "claims": (("claims_imbalance_and_pruning",), verdicts),
    "theory_quoted": (("claims_imbalance_and_pruning",), quoted),
}
