"""Schemas of the tables of claims: measurements, verdicts, and changes by varied settings."""

import pandera.pandas as pa

from rarefeat.storage.schema import at_least, column, schema

VERDICTS = (
    "supported", "contradicted", "undecided", "too few seeds", "premise not met", "diverged",
    "not testable", "check passed", "check failed",
)  # fmt: skip
CHANGES_FOUND = ("the same", "changed", "undecided")
P_VALUE = pa.Check.in_range(0, 1)

ROW = {
    "claim_id": column(str, None, unit="", description="id of the claim"),
    "group": column(str, None, unit="", description="part of the theory that it belongs to"),
    "paper": column(
        str, None, unit="", description="the paper, whose primary rows are tested together"
    ),
    "source": column(str, None, unit="", description="theorem, lemma and equation"),
    "statement": column(str, None, unit="", description="the statement in one line"),
    "quantity": column(str, None, unit="", description="what was measured"),
    "study": column(str, None, unit="", description="study that it was measured on"),
    "point": column(
        str,
        None,
        unit="",
        description="point or range in it; of a varied row, what was varied before it",
    ),
    "primary": column(
        bool, None, unit="", description="whether this is the regime that the claim declares"
    ),
    "role": column(
        str,
        pa.Check.isin(["regime", "varied"]),
        unit="",
        description="varied: a setting at half or double its value",
    ),
    "estimate": column(
        float,
        None,
        unit="of the quantity",
        description="mean over seeds, or a fitted exponent",
        nullable=True,
    ),
    "error": column(
        float, at_least(0), unit="of the quantity", description="its standard error", nullable=True
    ),
    "freedom": column("int64", None, unit="", description="degrees of freedom of that"),
    "n": column(
        "int64", at_least(0), unit="replicas", description="seeds with a value, or points of a fit"
    ),
    "test": column(
        str,
        pa.Check.isin(["superiority", "non-inferiority", "equivalence"]),
        unit="",
        description="kind of test",
    ),
    "required": column(
        str, None, unit="", description="what the quantity must be, with the margin"
    ),
    "reason": column(str, None, unit="", description="why that follows from the statement"),
    "control": column(
        str, None, unit="", description="what would show the same without the claim being true"
    ),
    "required_low": column(
        float, None, unit="of the quantity", description="lower end of that; infinite where open"
    ),
    "required_high": column(float, None, unit="of the quantity", description="upper end"),
    "least": column(
        float,
        at_least(0),
        unit="of the quantity",
        description="smallest effect of interest: a smaller one contradicts",
    ),
    "resolution": column(
        float,
        at_least(0),
        unit="of the quantity",
        description="difference that the seeds must tell, margin or least; 0 where any counts",
    ),
    "check": column(
        bool, None, unit="", description="whether it holds by construction and is not counted"
    ),
    "declaration": column(
        str, None, unit="", description="hash of what was declared and decides the verdict"
    ),
    "kind": column(
        str, None, unit="", description="kind of quantity; 0 or 1 is tested as a share of replicas"
    ),
    "lowest": column(
        float,
        None,
        unit="of the quantity",
        description="end of its range, which its interval does not leave",
    ),
    "highest": column(
        float, None, unit="of the quantity", description="other end; infinite where it has none"
    ),
    "tolerance": column(
        float,
        at_least(0),
        unit="of the quantity",
        description="a change of a varied row that is none",
    ),
    "diverged": column(
        "int64", at_least(0), unit="replicas", description="replicas whose training has diverged"
    ),
    "testable": column(bool, None, unit="", description="whether it is tested"),
    "remark": column(str, None, unit="", description="why it is not tested, or what to know of it"),
}

MEASURED = schema(
    "{kind}_measured",
    "a row per (claim, study, point), before its verdict",
    ROW
    | {
        "change": column(
            float,
            None,
            unit="of the quantity",
            description="of a varied row: less the study's own, by seed",
            nullable=True,
        ),
        "change_error": column(
            float,
            at_least(0),
            unit="of the quantity",
            description="its standard error",
            nullable=True,
        ),
        "change_n": column(
            "int64", at_least(0), unit="replicas", description="seeds with a change"
        ),
    },
    unique=["claim_id", "study", "point"],
)

CLAIMS = schema(
    "claims_{paper}",
    "a row per (claim, study, point)",
    ROW
    | {
        "ci_low": column(
            float,
            None,
            unit="of the quantity",
            description="lower end of its own 95 % interval",
            nullable=True,
        ),
        "ci_high": column(
            float, None, unit="of the quantity", description="upper end", nullable=True
        ),
        "p_supported": column(
            float,
            P_VALUE,
            unit="1",
            description="of the test that it lies where it must",
            nullable=True,
        ),
        "p_contradicted": column(
            float,
            P_VALUE,
            unit="1",
            description="of the test that it lies elsewhere",
            nullable=True,
        ),
        "adjusted_p_supported": column(
            float,
            P_VALUE,
            unit="1",
            description="adjusted: Holm over the primary rows of a paper, Benjamini-Hochberg over"
            " the others of a claim",
            nullable=True,
        ),
        "adjusted_p_contradicted": column(
            float,
            P_VALUE,
            unit="1",
            description="adjusted in the same way",
            nullable=True,
        ),
        "decided_low": column(
            float,
            None,
            unit="of the quantity",
            description="lower end of the interval that decides, corrected",
            nullable=True,
        ),
        "decided_high": column(
            float, None, unit="of the quantity", description="upper end", nullable=True
        ),
        "verdict": column(
            str,
            pa.Check.isin(VERDICTS),
            unit="",
            description="read off the numbers by rarefeat.claims.verdict",
        ),
    },
    unique=["claim_id", "study", "point"],
)

CHANGES = schema(
    "sensitivity_{paper}",
    "a row per (claim, study, varied setting, point)",
    {
        "claim_id": ROW["claim_id"],
        "paper": ROW["paper"],
        "study": ROW["study"],
        "varied": column(str, None, unit="", description="the setting and its value"),
        "point": column(str, None, unit="", description="point or range in the study"),
        "change": column(
            float,
            None,
            unit="of the quantity",
            description="less the study's own row at this point",
        ),
        "ci_low": column(
            float, None, unit="of the quantity", description="lower end of the 95 % interval"
        ),
        "ci_high": column(float, None, unit="of the quantity", description="upper end"),
        "tolerance": ROW["tolerance"],
        "found": column(
            str,
            pa.Check.isin(CHANGES_FOUND),
            unit="",
            description="shown to lie within the tolerance, beyond it, or neither",
        ),
    },
    unique=["claim_id", "study", "varied", "point"],
)
