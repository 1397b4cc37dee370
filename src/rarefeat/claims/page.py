"""Pages of the claims of a paper: an index of all claims, and for docs a page for each group."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.declarations import page_of
from rarefeat.claims.tables import VERDICTS
from rarefeat.claims.verdict import ALPHA_LEVEL, describe_split, format_counts
from rarefeat.run.job import Job
from rarefeat.storage.markdown import escape_tags, markdown_table

ABOUT = f"""Rendered from the table of claims; nothing here is written by hand. Each claim declares
its quantity, the range that this must lie in with the reason, one primary regime on seeds of its
own, and a control, all before the run. That the quantity lies there is one test, and that it lies
elsewhere another: a claim is **supported** or **contradicted** where one of them is passed, and
**undecided** where neither is. Primary regimes are corrected by Holm over a paper, at {ALPHA_LEVEL}
for a false support anywhere and {ALPHA_LEVEL} for a false contradiction; the other regimes by
Benjamini & Hochberg within their claim. Intervals are 95 %, each for itself; figures draw those
that decide. Student's test keeps its level for replicas from a normal law; from a skewed one, as an
exponential, it is wrong in the direction against the tail in up to 16 % of cases at n = 5 and 8 %
at 100. Where all replicas agree the sign test says that most do, and nothing of rare others.
*Diverged*: weights or loss not finite, or the unmasked loss above twice log K in some replica."""
"""How verdicts are read, for the index."""


def format_number(value: float) -> str:
    """Format a number with three digits; empty for NaN."""
    return "" if value != value else f"{value:.3g}"


def format_effect(entry: pd.Series) -> str:
    """Format the estimate of a row with its interval; empty without an estimate."""
    if entry["estimate"] != entry["estimate"]:
        return ""
    interval = (
        f" [{format_number(entry['ci_low'])}, {format_number(entry['ci_high'])}]"
        if entry["ci_low"] == entry["ci_low"]
        else ""
    )
    return format_number(entry["estimate"]) + interval


def split_by_claim(table: pd.DataFrame) -> list[tuple[pd.Series, pd.DataFrame]]:
    """Return the primary row and the other rows of each claim, in the order of the table."""
    return [
        (rows[rows["primary"]].iloc[0], rows[~rows["primary"]])
        for _, rows in table.groupby("claim_id", sort=False)
    ]


def primary_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Reduce the table of claims to a row for each claim.

    Parameters
    ----------
    table : DataFrame
        Table of claims of a paper.

    Returns
    -------
    DataFrame
        Verdict and estimate of each primary regime, and in columns *_elsewhere the number of
        other regimes with each verdict.
    """
    columns = [
        "claim_id",
        "group",
        "source",
        "statement",
        "verdict",
        "estimate",
        "ci_low",
        "ci_high",
        "n",
        "study",
        "point",
    ]
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
        "claim_id",
        "study",
        "point",
        "role",
        "verdict",
        "estimate",
        "ci_low",
        "ci_high",
        "n",
    ]
    return table.loc[~table["primary"], columns].reset_index(drop=True)


def index_page(table: pd.DataFrame, paper: str) -> str:
    """Render the index of the claims of a paper, a line for each claim."""
    claims = split_by_claim(table)
    counts = pd.Series([primary["verdict"] for primary, _ in claims]).value_counts()
    lines = [f"# Every claim of {paper.replace('_', ' ')}", "", ABOUT, ""]
    lines += [
        "Primary regimes: "
        + ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in VERDICTS)
        + ".",
        "",
    ]
    lines += [
        "supported / contradicted / undecided of n counts the other regimes that were tested.",
        "",
    ]
    for group, members in table.groupby("group", sort=False):
        table = [("claim", "statement", "source", "verdict", "effect", "other regimes")]
        for primary, others in split_by_claim(members):
            other_counts = others["verdict"].value_counts()
            tested = [other_counts.get(verdict, 0) for verdict in VERDICTS[:3]]
            other = f"{' / '.join(map(str, tested))} of {sum(tested)}" if len(others) else ""
            table.append(
                (
                    primary["claim_id"],
                    primary["statement"],
                    primary["source"],
                    primary["verdict"],
                    format_effect(primary),
                    other,
                )
            )
        lines += [f"## {group[0].upper()}{group[1:]}", "", markdown_table(*table), ""]
    return "\n".join(lines)


def group_page(table: pd.DataFrame, group: str, index_file: str) -> str:
    """Render the claims of a group: its figure, and each claim with declaration and result.

    Parameters
    ----------
    table : DataFrame
        Table of claims of a paper.
    group : str
        Part of the theory.
    index_file : str
        Page of all claims, to link to.
    """
    rows = table[table["group"] == group]
    figure = (
        []
        if (rows.loc[rows["primary"], "verdict"] == VERDICTS[0]).all()
        else [f"![The declared regime of the claims: {group}](figures/{page_of(group)}.png)", ""]
    )
    lines = [f"# {group[0].upper()}{group[1:]}", "", *figure]
    lines += [
        f"[All claims, and how to read this]({index_file}). Every row stands in the report, to sort"
        " and to filter.",
        "",
    ]
    for primary, others in split_by_claim(rows):
        regime = primary["study"] + (f": {primary['point']}" if primary["point"] else "")
        effect, statement = format_effect(primary), primary["statement"]
        remark = primary["remark"]
        lines += [
            f"## {primary['claim_id']}",
            "",
            f"**{primary['verdict'].capitalize()}.** {statement[0].upper()}{statement[1:]}"
            f" ({primary['source']}).",
            "",
            f"- Measured: {primary['quantity']}.",
            f"- Required: {primary['required']}, by {primary['test']}; {primary['reason']}.",
            f"- Primary regime: {regime}" + (f": {effect}, n = {primary['n']}." if effect else "."),
            *([f"- {remark[0].upper()}{remark[1:]}."] if remark else []),
            f"- Control: {primary['control']}.",
        ]
        if len(others):
            lines.append(f"- Other regimes: {format_counts(others['verdict'])}.")
        if split := describe_split(others):
            lines.append(f"- {split}.")
        lines.append("")
    return escape_tags("\n".join(lines))


def anchor(claim_id: str) -> str:
    """Return the anchor of a heading in rendered Markdown."""
    return "".join(letter for letter in claim_id.lower() if letter.isalnum() or letter in "-_")


def page(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """Return the index of a paper's claims.

    Parameters
    ----------
    tables : mapping
        The table of claims of the paper.
    job : Job
        Not used.
    """
    ((name, table),) = tables.items()
    return index_page(table, name.removeprefix("claims_"))
