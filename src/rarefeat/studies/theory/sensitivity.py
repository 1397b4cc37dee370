"""Which verdicts change with what the papers leave open, in Markdown."""

from pathlib import Path

import pandas as pd

from rarefeat.claims.tables import VERDICTS
from rarefeat.run.command import run, stage
from rarefeat.run.metadata import write_page
from rarefeat.storage.files import read_table
from rarefeat.storage.markdown import row
from rarefeat.studies.theory.config import Theory


def sensitivity(table: pd.DataFrame, theory: Theory) -> list[str]:
    """What half and double of each open hyper-parameter change: verdicts at the same points as in the study that is varied."""
    base = theory.sensitivity.study
    tested = table[table["verdict"] != VERDICTS[3]].copy()
    parts = tested["regime"].str.split(": ", n=1)
    tested["study"] = parts.str[0]
    whole = (parts.str.len() == 1) | tested["regime"].str.contains(" to ")
    tested["point"] = parts.str[-1].mask(whole, "every point")
    tested["holds"] = tested["verdict"].isin(VERDICTS[:2])
    keys = ["claim_id", "point"]
    known = tested[tested["study"] == base].set_index(keys)["holds"]
    lines = ["# Sensitivity", ""]
    lines += [
        f"Verdicts of the study `{base}` that change with one hyper-parameter at a time. Fewer seeds show less: a verdict"
    ]
    lines += ["is lost only where the whole interval lies on the other side.", ""]
    lines += [row("varied", "compared", "lost", "gained"), row("---", "---:", "---", "---")]
    for name in (name for name in theory.every_study() if name not in theory.studies):
        varied = tested[tested["study"] == name].set_index(keys)
        both = varied.join(known.rename("before"), how="inner")
        contradicted = ~both["holds"] & both["condition"].str.startswith("the interval")
        lost, gained = both[both["before"].astype(bool) & contradicted], both[~both["before"].astype(bool) & both["holds"]]
        counts = [", ".join(dict.fromkeys(part.index.get_level_values("claim_id"))) for part in (lost, gained)]
        lines.append(row(name.removeprefix(f"{base}_"), str(len(both)), *counts))
    return lines


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs=1, type=Path, required=True, help="the table of claims")
    parser.add_argument("--output", required=True, help="Markdown file to write")
    args = parser.parse_args()
    lines = sensitivity(read_table(args.tables[0]).to_pandas(), args.job.part("theory", Theory))
    write_page(args.output, "\n".join(lines) + "\n", args.job)


if __name__ == "__main__":
    run(main)
