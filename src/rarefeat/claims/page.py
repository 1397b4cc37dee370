"""The claims of one paper, in Markdown: an index with a line for each, and for docs a page for each part of the theory."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.declarations import page_of
from rarefeat.claims.tables import VERDICTS
from rarefeat.claims.verdict import ALPHA_LEVEL, describe_split, format_counts
from rarefeat.run.job import Job
from rarefeat.storage.markdown import escape_tags, markdown_table

ABOUT = f"""Rendered from the table of claims; nothing here is written by hand. Each claim declares its quantity, the range that
this must lie in with the reason, one primary regime on seeds of its own, and a control, all before the run. That the quantity
lies there is one test, and that it lies elsewhere another: a claim is **supported** or **contradicted** where one of them is
passed, and **undecided** where neither is. Primary regimes are corrected by Holm over a paper, at {ALPHA_LEVEL} for a false support
anywhere and {ALPHA_LEVEL} for a false contradiction; the other regimes by Benjamini & Hochberg within their claim. Intervals are
95 %, each for itself; figures draw those that decide. Student's test keeps its level for replicas from a normal law; from a
skewed one, as an exponential, it is wrong in the direction against the tail in up to 16 % of cases at n = 5 and 8 % at 100.
Where all replicas agree the sign test says that most do, and nothing of rare others. *Diverged*: weights or loss not finite,
or the unmasked loss above twice log K in some replica."""


def number(value: float) -> str:
    """Three digits; empty where there is none."""
    return "" if value != value else f"{value:.3g}"


def effect(entry: pd.Series) -> str:
    """The estimate with its interval."""
    if entry["estimate"] != entry["estimate"]:
        return ""
    interval = (
        f" [{number(entry['ci_low'])}, {number(entry['ci_high'])}]"
        if entry["ci_low"] == entry["ci_low"]
        else ""
    )
    return number(entry["estimate"]) + interval


def by_claim(table: pd.DataFrame) -> list[tuple[pd.Series, pd.DataFrame]]:
    """Each claim's primary row and its others, in the order of the table."""
    return [
        (part[part["primary"]].iloc[0], part[~part["primary"]])
        for _, part in table.groupby("claim_id", sort=False)
    ]


def primary_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each claim: verdict and number of its primary regime, and how many of the other regimes have which verdict."""
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
    found = pd.DataFrame([primary[columns] for primary, _ in by_claim(table)])
    counts = pd.DataFrame(
        [others["verdict"].value_counts() for _, others in by_claim(table)], index=found.index
    )
    counts = counts.reindex(columns=VERDICTS[:3]).fillna(0).astype(int)
    return found.join(counts.add_suffix("_elsewhere")).reset_index(drop=True)


def other_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each claim and regime but its primary one: verdict and number."""
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


def place(group: str) -> str:
    """The page of a part, beside the index."""
    return f"{page_of(group)}.md"


def index(table: pd.DataFrame, paper: str) -> str:
    """A line for each claim of a paper."""
    claims = by_claim(table)
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
        for primary, others in by_claim(members):
            found = others["verdict"].value_counts()
            tested = [found.get(verdict, 0) for verdict in VERDICTS[:3]]
            other = f"{' / '.join(map(str, tested))} of {sum(tested)}" if len(others) else ""
            table.append(
                (
                    primary["claim_id"],
                    primary["statement"],
                    primary["source"],
                    primary["verdict"],
                    effect(primary),
                    other,
                )
            )
        lines += [f"## {group[0].upper()}{group[1:]}", "", markdown_table(*table), ""]
    return "\n".join(lines)


def part(table: pd.DataFrame, group: str, index_page: str) -> str:
    """The claims of one part: its figure, and each claim with what was declared, found, and where regimes differ."""
    name = place(group).removesuffix(".md")
    rows = table[table["group"] == group]
    figure = (
        []
        if (rows.loc[rows["primary"], "verdict"] == VERDICTS[0]).all()
        else [f"![The declared regime of the claims: {group}](figures/{name}.png)", ""]
    )
    lines = [f"# {group[0].upper()}{group[1:]}", "", *figure]
    lines += [
        f"[All claims, and how to read this]({index_page}). Every row stands in the report, to sort and to filter.",
        "",
    ]
    for primary, others in by_claim(table[table["group"] == group]):
        regime = primary["study"] + (f": {primary['point']}" if primary["point"] else "")
        found, statement = effect(primary), primary["statement"]
        lines += [
            f"## {primary['claim_id']}",
            "",
            f"**{primary['verdict'].capitalize()}.** {statement[0].upper()}{statement[1:]} ({primary['source']}).",
            "",
            f"- Measured: {primary['quantity']}.",
            f"- Required: {primary['required']}, by {primary['test']}; {primary['reason']}.",
            f"- Primary regime: {regime}" + (f": {found}, n = {primary['n']}." if found else "."),
            *([f"- {primary['remark'][0].upper()}{primary['remark'][1:]}."] if primary["remark"] else []),
            f"- Control: {primary['control']}.",
        ]  # fmt: skip
        if len(others):
            lines.append(f"- Other regimes: {format_counts(others['verdict'])}.")
        if where := describe_split(others):
            lines.append(f"- {where}.")
        lines.append("")
    return escape_tags("\n".join(lines))


def anchor(claim_id: str) -> str:
    """The anchor of a heading in rendered Markdown."""
    return "".join(letter for letter in claim_id.lower() if letter.isalnum() or letter in "-_")


def page(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """Return the index of a paper's claims."""
    ((name, table),) = tables.items()
    return index(table, name.removeprefix("claims_"))
