"""Schemas of the tables of claims: measurements, verdicts, and changes by varied settings."""

import pandera.pandas as pa

from rarefeat.workflow.files.schema import at_least, column, schema

VERDICTS = (
    "supported", "contradicted", "undecided", "too few seeds", "premise not met", "diverged",
    "not testable", "check passed", "check failed",
)  # fmt: skip
CHANGES_FOUND = ("the same", "changed", "undecided")


def text(description: str, among: tuple[str, ...] = ()) -> pa.Column:
    """Return a column of texts, of some values or of any."""
    return column(str, pa.Check.isin(among) if among else None, unit="", description=description)


def count(description: str, unit: str = "replicas", least: int | None = 0) -> pa.Column:
    """Return a column of whole numbers."""
    check = None if least is None else at_least(least)
    return column("int64", check, unit=unit, description=description)


def flag(description: str) -> pa.Column:
    """Return a column of yes and no."""
    return column(bool, None, unit="", description=description)


def size(description: str, positive: bool = False, nullable: bool = False) -> pa.Column:
    """Return a column in the unit of the claim's quantity."""
    check = at_least(0) if positive else None
    return column(float, check, unit="of the quantity", description=description, nullable=nullable)


def chance(description: str) -> pa.Column:
    """Return a column of p-values; a row that is not tested has none."""
    check = pa.Check.in_range(0, 1)
    return column(float, check, unit="1", description=description, nullable=True)


ROW = {
    "claim_id": text("id of the claim"),
    "group": text("part of the theory that it belongs to"),
    "paper": text("the paper, whose primary rows are tested together"),
    "source": text("theorem, lemma and equation"),
    "statement": text("the statement in one line"),
    "quantity": text("what was measured"),
    "study": text("study that it was measured on"),
    "point": text("point or range in it; of a varied row, what was varied before it"),
    "primary": flag("whether this is the regime that the claim declares"),
    "role": text("varied: a setting at half or double its value", ("regime", "varied")),
    "estimate": size("mean over seeds, or a fitted exponent", nullable=True),
    "error": size("its standard error", positive=True, nullable=True),
    "freedom": count("degrees of freedom of that", "", least=None),
    "n": count("seeds with a value, or points of a fit"),
    "test": text("kind of test", ("superiority", "non-inferiority", "equivalence")),
    "required": text("what the quantity must be, with the margin"),
    "reason": text("why that follows from the statement"),
    "control": text("what would show the same without the claim being true"),
    "required_low": size("lower end of that; infinite where open"),
    "required_high": size("upper end"),
    "least": size("smallest effect of interest: a smaller one contradicts", positive=True),
    "resolution": size(
        "difference that the seeds must tell, margin or least; 0 where any counts", positive=True
    ),
    "check": flag("whether it holds by construction and is not counted"),
    "declaration": text("hash of what was declared and decides the verdict"),
    "kind": text("kind of quantity; 0 or 1 is tested as a share of replicas"),
    "lowest": size("end of its range, which its interval does not leave"),
    "highest": size("other end; infinite where it has none"),
    "tolerance": size("a change of a varied row that is none", positive=True),
    "diverged": count("replicas whose training has diverged"),
    "testable": flag("whether it is tested"),
    "remark": text("why it is not tested, or what to know of it"),
}

MEASURED = schema(
    "{kind}_measured",
    "a row per (claim, study, point), before its verdict",
    ROW
    | {
        "change": size("of a varied row: less the study's own, by seed", nullable=True),
        "change_error": size("its standard error", positive=True, nullable=True),
        "change_n": count("seeds with a change"),
    },
    unique=["claim_id", "study", "point"],
)

CLAIMS = schema(
    "claims_{paper}",
    "a row per (claim, study, point)",
    ROW
    | {
        "ci_low": size("lower end of its own 95 % interval; none where all agree", nullable=True),
        "ci_high": size("upper end", nullable=True),
        "p_supported": chance("of the test that it lies where it must"),
        "p_contradicted": chance("of the test that it lies elsewhere"),
        "adjusted_p_supported": chance(
            "adjusted: Holm over the primary rows of a paper, Benjamini-Hochberg over the others of"
            " a claim"
        ),
        "adjusted_p_contradicted": chance("adjusted in the same way"),
        "decided_low": size("lower end of the interval that decides, corrected", nullable=True),
        "decided_high": size("upper end", nullable=True),
        "verdict": text("read off the numbers by rarefeat.claims.verdict", VERDICTS),
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
        "varied": text("the setting and its value"),
        "point": text("point or range in the study"),
        "change": size("less the study's own row at this point"),
        "ci_low": size("lower end of the 95 % interval; none where all agree", nullable=True),
        "ci_high": size("upper end", nullable=True),
        "tolerance": ROW["tolerance"],
        "found": text("shown to lie within the tolerance, beyond it, or neither", CHANGES_FOUND),
    },
    unique=["claim_id", "study", "varied", "point"],
)
