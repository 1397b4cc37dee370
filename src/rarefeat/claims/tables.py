"""The table of claims."""

import pandera.pandas as pa

from rarefeat.storage.schema import at_least, column, schema

VERDICTS = ("holds", "holds only under a stated condition", "does not hold here", "not testable here")

ROW = {
    "claim_id": column(str, None, unit="", description="id of the claim"),
    "group": column(str, None, unit="", description="part of the theory that it belongs to"),
    "source": column(str, None, unit="", description="paper and equation"),
    "statement": column(str, None, unit="", description="the statement in one line"),
    "regime": column(str, None, unit="", description="study and point that it was measured at"),
    "quantity": column(str, None, unit="", description="what was measured"),
    "estimate": column(float, None, unit="of the quantity", description="mean over seeds, or a fitted exponent", nullable=True),
    "ci_low": column(
        float, None, unit="of the quantity", description="lower end of the 95 % interval (Student)", nullable=True
    ),
    "ci_high": column(float, None, unit="of the quantity", description="upper end", nullable=True),
    "n": column("int64", at_least(0), unit="replicas", description="seeds with a value, or points of a fit"),
    "test": column(str, None, unit="", description="what the quantity must be, and the test; empty where none was made"),
    "required_low": column(
        float, None, unit="of the quantity", description="lower end of what it must be; null where open", nullable=True
    ),
    "required_high": column(float, None, unit="of the quantity", description="upper end", nullable=True),
    "p_value": column(
        float,
        pa.Check.in_range(0, 1),
        unit="1",
        description="of the test, before the correction for their number",
        nullable=True,
    ),
}

MEASURED = schema(
    "{kind}_measured",
    "a row per (claim, regime), before its verdict",
    ROW
    | {
        "bound": column(bool, None, unit="", description="whether the claim is a bound with an open constant"),
        "family": column(str, None, unit="", description="tests that are corrected together"),
        "reason": column(str, None, unit="", description="why nothing was tested; empty where it was"),
    },
    unique=["claim_id", "regime"],
)

CLAIMS = schema(
    "claims_{paper}",
    "a row per (claim, regime)",
    ROW
    | {
        "adjusted_p_value": column(
            float, pa.Check.in_range(0, 1), unit="1", description="adjusted by Holm over the whole table", nullable=True
        ),
        "verdict": column(str, pa.Check.isin(VERDICTS), unit="", description="read off the numbers by rarefeat.claims.claim"),
        "condition": column(
            str,
            None,
            unit="",
            description="the regime for which a claim holds that fails elsewhere; why it fails; why it was not tested",
        ),
    },
    unique=["claim_id", "regime"],
)
