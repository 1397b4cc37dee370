"""Stage 4 of the claims: every claim measured, tested and given its verdict, as a table and as a page."""

import argparse
from pathlib import Path

import pandas as pd

from rarefeat.claims import (
    convergence,
    decoupling,
    figures_1_to_4,
    imbalance,
    initialisation,
    long_tail,
    pruning,
    stage_one,
    stage_two,
)
from rarefeat.claims.claim import LEVEL, Measured, claims_table, overall
from rarefeat.claims.evidence import Evidence
from rarefeat.command import run, section
from rarefeat.config import Augmentation, Claims, Study
from rarefeat.files import read_table, replacing
from rarefeat.metadata import made_from, write_product
from rarefeat.pages import row
from rarefeat.tables import VERDICTS

# Maps of claims.maps, by the group that they stand with.
MAPS = {"pruning": ("overlap", "pruning"), "imbalance": ("phase",)}


def measure(evidence: Evidence, claims: Claims, paper: Study, augmentation: Augmentation) -> list[Measured]:
    """Every claim in every regime that the evidence has."""
    studies = claims.every_study()
    shown = {name: (block.eps_min, block.sigma) for name, block in paper.grid.items()}
    return [
        *initialisation.measure(evidence, studies),
        *stage_one.measure(evidence, studies),
        *stage_two.measure(evidence, studies),
        *convergence.measure(evidence),
        *figures_1_to_4.measure(evidence, shown),
        *pruning.measure(evidence, studies, paper),
        *imbalance.measure(evidence),
        *long_tail.measure(evidence),
        *decoupling.measure(evidence, augmentation.studies),
    ]


def number(value: float) -> str:
    """Three digits; empty where there is none."""
    return "" if value != value else f"{value:.3g}"


def page(table: pd.DataFrame, claims: Claims) -> str:
    """docs/claims.md: the verdicts first, then the rows they are read from."""
    summary = [(part.iloc[0], overall(part), part) for _, part in table.groupby("claim_id", sort=False)]
    counts = pd.Series([verdict for _, verdict, _ in summary]).value_counts()
    lines = [
        "# Every claim, measured",
        "",
        "Rendered from `results/tables/claims.parquet` by `make claims`; nothing here is written by hand. What each quantity",
        "must be for its statement to hold stands beside the statement in `src/rarefeat/claims/`, and was fixed before the",
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
    lines += sensitivity(table, claims)
    for group, members in table.groupby("group", sort=False):
        lines += ["", f"## {group[0].upper()}{group[1:]}", "", f"![](figures/claims_{group.replace(' ', '_')}.png)"]
        lines += [f"![](figures/claims_map_{name}.png)" for name in MAPS.get(group, ())]
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


def sensitivity(table: pd.DataFrame, claims: Claims) -> list[str]:
    """What half and double of each open hyper-parameter change: verdicts at the same points as in the study that is varied."""
    base = claims.sensitivity.study
    tested = table[table["verdict"] != VERDICTS[3]].copy()
    parts = tested["regime"].str.split(": ", n=1)
    tested["study"] = parts.str[0]
    whole = (parts.str.len() == 1) | tested["regime"].str.contains(" to ")
    tested["point"] = parts.str[-1].mask(whole, "every point")
    tested["holds"] = tested["verdict"].isin(VERDICTS[:2])
    keys = ["claim_id", "point"]
    known = tested[tested["study"] == base].set_index(keys)["holds"]
    lines = ["", "## Sensitivity", ""]
    lines += [
        f"Verdicts of the study `{base}` that change with one hyper-parameter at a time. Fewer seeds show less: a verdict"
    ]
    lines += ["is lost only where the whole interval lies on the other side.", ""]
    lines += [row("varied", "compared", "lost", "gained"), row("---", "---:", "---", "---")]
    for name in (name for name in claims.every_study() if name not in claims.studies):
        varied = tested[tested["study"] == name].set_index(keys)
        both = varied.join(known.rename("before"), how="inner")
        contradicted = ~both["holds"] & both["condition"].str.startswith("the interval")
        lost, gained = both[both["before"].astype(bool) & contradicted], both[~both["before"].astype(bool) & both["holds"]]
        counts = [", ".join(dict.fromkeys(part.index.get_level_values("claim_id"))) for part in (lost, gained)]
        lines.append(row(name.removeprefix(f"{base}_"), str(len(both)), *counts))
    return lines


def anchor(claim_id: str) -> str:
    """The anchor of a heading in rendered Markdown."""
    return "".join(letter for letter in claim_id.lower() if letter.isalnum() or letter in "-_")


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=section(Claims), required=True, help="the section `claims`, as YAML or JSON")
    parser.add_argument("--paper", type=section(Study), required=True, help="the study `paper`, likewise")
    parser.add_argument(
        "--augmentation", type=section(Augmentation), required=True, help="the section `augmentation`, likewise"
    )
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables that claims are read from")
    parser.add_argument("--output", required=True, nargs=2, help="Parquet file and Markdown page to write")
    args = parser.parse_args()

    tables: list[Path] = []

    def named(name: str) -> pd.DataFrame:
        tables.append(args.tables / f"{name}.parquet")
        return read_table(tables[-1]).to_pandas()

    evidence = Evidence(
        **{kind: {name: named(f"{name}_{kind}") for name in names} for kind, names in args.claims.tables().items()},
        grid=named("paper_grid"),
        exponents=named("scaling_exponents"),
        longtail=named("longtail"),
        augmentation=named("augmentation"),
    )
    table = claims_table(measure(evidence, args.claims, args.paper, args.augmentation))
    parts = {"claims": args.claims, "paper": args.paper, "augmentation": args.augmentation}
    write_product(args.output[0], table, made_from("claims", parts, tables))
    with replacing(args.output[1]) as temporary:
        temporary.write_text(page(table, args.claims))


if __name__ == "__main__":
    run(main)
