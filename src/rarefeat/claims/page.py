"""The claims of one paper, in Markdown: their verdicts, and the rows that these are read from."""

from pathlib import Path

import pandas as pd

from rarefeat.claims.claim import LEVEL, overall
from rarefeat.claims.tables import VERDICTS
from rarefeat.run.command import run, stage
from rarefeat.run.metadata import write_page
from rarefeat.storage.files import read_table
from rarefeat.storage.markdown import row


def number(value: float) -> str:
    """Three digits; empty where there is none."""
    return "" if value != value else f"{value:.3g}"


def page(table: pd.DataFrame) -> str:
    """The verdicts first, then the rows they are read from."""
    summary = [(part.iloc[0], overall(part), part) for _, part in table.groupby("claim_id", sort=False)]
    counts = pd.Series([verdict for _, verdict, _ in summary]).value_counts()
    lines = [
        "# Every claim, measured",
        "",
        "Rendered by `make claims`; nothing here is written by hand. What each quantity",
        "must be for its statement to hold stands beside the statement in the code, and was fixed before the",
        f"run. Tests are Student's, adjusted by Holm over all {table['adjusted_p_value'].notna().sum()} of them at a level of",
        f"{LEVEL} for the whole table; a bound with an open constant is held to its own interval, and the confirmation of the",
        "search on seeds that it has not seen is a family of its own. Intervals are 95 %, each for itself.",
        "",
        "; ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in VERDICTS) + ".",
        "",
        row("claim", "statement", "source", "verdict", "regimes in which it holds"),
        row("---", "---", "---", "---", "---:"),
    ]
    for first, verdict, part in summary:
        good = part["verdict"].isin(VERDICTS[:2]).sum()
        tested = (part["verdict"] != VERDICTS[3]).sum()
        link = f"[{first['claim_id']}](#{anchor(first['claim_id'])})"
        lines.append(row(link, first["statement"], first["source"], verdict, f"{good} of {tested}"))
    for group, members in table.groupby("group", sort=False):
        lines += ["", f"## {group[0].upper()}{group[1:]}", "", f"![](figures/claims_{group.replace(' ', '_')}.png)"]
        for claim_id, part in members.groupby("claim_id", sort=False):
            first = part.iloc[0]
            lines += ["", f"### {claim_id}", "", f"{first['statement']} ({first['source']}). Measured: {first['quantity']}."]
            lines += ["", row("regime", "estimate", "95 % interval", "n", "must be", "adjusted p", "verdict", "")]
            lines.append(row("---", "---:", "---:", "---:", "---", "---:", "---", "---"))
            for entry in part.itertuples():
                interval = f"{number(entry.ci_low)}, {number(entry.ci_high)}" if entry.ci_low == entry.ci_low else ""
                condition = "" if entry.condition == entry.regime else entry.condition
                required = entry.test.removesuffix(", Student")
                lines.append(
                    row(entry.regime, number(entry.estimate), interval, str(entry.n), required, number(entry.adjusted_p_value),
                        entry.verdict, condition)
                )  # fmt: skip
    return "\n".join(lines) + "\n"


def anchor(claim_id: str) -> str:
    """The anchor of a heading in rendered Markdown."""
    return "".join(letter for letter in claim_id.lower() if letter.isalnum() or letter in "-_")


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs=1, type=Path, required=True, help="the table of claims")
    parser.add_argument("--output", required=True, help="Markdown file to write")
    args = parser.parse_args()
    text = page(read_table(args.tables[0]).to_pandas())
    write_page(args.output, text, args.job)


if __name__ == "__main__":
    run(main)
