"""Tables A.1 to A.6 printed beside measured, and what stands beside them, in Markdown."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from rarefeat.run.command import run, stage
from rarefeat.run.metadata import write_page
from rarefeat.storage.files import read_table
from rarefeat.storage.markdown import number, row
from rarefeat.studies.two_layer.published import COLUMNS, MIXTURES, PRINTED

HEAD = """\
# Two-layer networks: printed beside measured

Rendered from `tables/two_layer_summary.parquet`, `two_layer_closed_forms.parquet` and `two_layer_rates.parquet`. Measured: mean
over seeds with its 95 % interval; accuracies are shares. The arm `network` has rates that were chosen; of the arms only
`network-printed` has the dissertation's steps after the second. Heads are trained by stochastic gradient, and solved by least
squares beside it. What each arm and quantity is: docs/method/two_layer.md and docs/reference/tables/two_layer.md."""
NOTHING = (float("nan"),) * 5
MEASURED = ("train_accuracy", "test_accuracy", "test_accuracy_least_squares", "cosine")
COLUMN_OF = {arm: column for column, arm in COLUMNS.items()}


class Summary:
    """The summary by setting, arm and quantity, at the end unless a step is given."""

    def __init__(self, table: pd.DataFrame):
        self.table = table
        ends = table[table["quantity"] == "test_accuracy"]
        self.T = ends.groupby("setting")["step"].max().to_dict()
        self._rows = {tuple(item[:4]): item[4:] for item in table.itertuples(index=False)}

    def arms(self, setting: str, quantity: str = "test_accuracy") -> list[str]:
        """The arms of a setting that have a quantity at the end."""
        part = self.table[(self.table["setting"] == setting) & (self.table["quantity"] == quantity)]
        return part.loc[part["step"] == self.T[setting], "arm"].tolist()

    def measured(self, setting: str, arm: str, quantity: str, step: int | None = None, digits: int = 3) -> str:
        """A mean with its interval; empty where there is none."""
        mean, low, high, *_ = self._rows.get(
            (setting, arm, self.T[setting] if step is None else step, quantity), [float("nan")] * 3
        )
        if mean != mean:
            return ""
        shown = f"{mean:.{digits}f}" if digits else f"{mean:.2g}"
        ends = [f"{end:.{digits}f}" if digits else f"{end:.2g}" for end in (low, high)]
        return shown if low != low else f"{shown} [{', '.join(ends)}]"

    def printed(self, setting: str, arm: str, quantity: str) -> str:
        """What the dissertation has."""
        return number(self._row(setting, arm, quantity)[4])

    def _row(self, setting: str, arm: str, quantity: str, step: int | None = None) -> tuple:
        return self._rows.get((setting, arm, self.T[setting] if step is None else step, quantity), NOTHING)


def page(summary: pd.DataFrame, forms: pd.DataFrame, rates: pd.DataFrame) -> str:
    """Each part in a section of its own; a part of which the config has no setting is left out."""
    of = Summary(summary)
    names = {}
    for printed in PRINTED:
        if printed.setting in of.T:
            names.setdefault(f"Table {printed.table}", {})[printed.setting] = printed.row
    sections = {title: table_of(of, settings) for title, settings in names.items()}
    sections["Table A.6, whose results are pictures"] = lines(
        ["row", "setting", "test accuracy", "smallest over the corners of the largest cosine"],
        (
            [mixture.row, mixture.setting]
            + [of.measured(mixture.setting, "network-plain", key) for key in ("test_accuracy", "least_coverage")]
            for mixture in MIXTURES
            if mixture.setting in of.T
        ),
    )  # fmt: skip
    known = {printed.setting for printed in PRINTED} | {mixture.setting for mixture in MIXTURES}
    sections["Settings that are not printed"] = table_of(of, dict.fromkeys((name for name in of.T if name not in known), ""))
    sections["A rare relevant pattern"] = rare(of)
    sections["Parts of the network after step 2, trained alone"] = sub_networks(of)
    sections["The head's kernel on the counts, after step 2"] = kernel(of)
    sections["Closed forms beside the printed cosines"] = lines(
        ["table", "row", "column", "printed", "quantity", "value"],
        (
            [item.table, item.row, item.column, number(item.printed), item.quantity, number(item.value)]
            for item in forms.itertuples()
        ),
    )
    sections["The rates of the config, and those that the search chooses"] = lines(
        ["setting", "rate", "configured", "chosen"],
        ([item.setting, item.rate, f"{item.configured:g}", f"{item.chosen:g}"] for item in rates.itertuples()),
    )
    parts = [HEAD, *("\n".join([f"## {title}", "", *table]) for title, table in sections.items() if table)]
    return "\n\n".join(parts) + "\n"


def lines(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A table in Markdown; none without rows."""
    shown = [row(*cells) for cells in rows]
    return [row(*head), row(*["---"] * len(head)), *shown] if shown else []


def table_of(of: Summary, settings: dict[str, str]) -> list[str]:
    """Some settings, each with its row in the printed table: every arm beside what is printed of it."""
    head = [
        "setting",
        "arm",
        "printed column",
        "train",
        "printed",
        "test",
        "printed",
        "test, least squares",
        "largest cosine",
        "printed",
    ]

    def cells(name: str, arm: str) -> list[str]:
        found = {quantity: of.measured(name, arm, quantity) for quantity in MEASURED}
        printed = {quantity: of.printed(name, arm, quantity) for quantity in MEASURED}
        both = [text for key in MEASURED[:2] for text in (found[key], printed[key])]
        column = COLUMN_OF[arm] if any(printed.values()) else ""
        return [column, *both, found[MEASURED[2]], found[MEASURED[3]], printed[MEASURED[3]]]

    return lines(
        head,
        (
            [f"{name} ({label})" if label else name, arm, *cells(name, arm)]
            for name, label in settings.items()
            # Neither parts of a network nor heads on some random features have a training accuracy.
            for arm in sorted(of.arms(name, "train_accuracy"), key=in_order)
        ),
    )


def in_order(arm: str) -> tuple[int, str]:
    """The printed columns first."""
    columns = list(COLUMN_OF)
    return (columns.index(arm) if arm in columns else len(columns)), arm


def rare(of: Summary) -> list[str]:
    """Accuracies where a rare pattern decides."""

    def cells(name: str, arm: str) -> list[str]:
        at_end = [of.measured(name, arm, key) for key in ("decisive_accuracy", "test_accuracy", "rare_ratio")]
        return [*at_end[:2], of.measured(name, arm, "rare_ratio", 2), at_end[2]]

    head = [
        "setting",
        "arm",
        "accuracy where the rare pattern decides",
        "test accuracy",
        "its weight over the others', step 2",
        "at the end",
    ]
    return lines(
        head,
        (
            [name, arm, *cells(name, arm)]
            for name in of.T
            for arm in of.arms(name, "decisive_accuracy")
            if not arm.startswith("ticket")
        ),
    )


def sub_networks(of: Summary) -> list[str]:
    """Tickets by score and size."""
    tickets = [(name, arm) for name in of.T for arm in of.arms(name) if arm.startswith("ticket")]
    parts = [(name, arm, *arm.split("-")[1:3], *arm.split("-")[3:]) for name, arm in tickets]
    return lines(
        ["setting", "chosen by", "neurons", "class weights", "test accuracy"],
        (
            [name, score, size, "yes" if weights else "", of.measured(name, arm, "test_accuracy")]
            for name, arm, score, size, *weights in sorted(parts, key=lambda part: (part[0], part[2], part[4:], int(part[3])))
        ),
    )


def kernel(of: Summary) -> list[str]:
    """Eigenvalues over their sum."""
    part = of.table[of.table["quantity"].str.startswith("head_kernel_")]
    return lines(
        ["setting", "arm", "eigenvalues over their sum, largest first"],
        (
            [name, arm, "; ".join(of.measured(name, arm, f"head_kernel_{i}", 2, 0) for i in range(1, len(rows) + 1))]
            for (name, arm), rows in part.groupby(["setting", "arm"])
        ),
    )


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs=3, type=Path, required=True, help="the summary, the closed forms and the rates")
    parser.add_argument("--output", required=True, help="Markdown file to write")
    args = parser.parse_args()
    text = page(*(read_table(path).to_pandas() for path in args.tables))
    write_page(args.output, text, args.job)


if __name__ == "__main__":
    run(main)
