"""Pages with numbers, from templates and the tables of docs/tables: docs/templates/X.md.j2 becomes docs/X.md, README.md.j2 README.md."""

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
import pandas as pd

from rarefeat.core.errors import RarefeatError
from rarefeat.project import DEFAULT, Project, load, read
from rarefeat.report.published import Published
from rarefeat.run.command import run
from rarefeat.storage.files import replacing
from rarefeat.storage.markdown import row

TEMPLATES = Path("docs/templates")
FAULTS = Path("tests/faults")


def rows(table: pd.DataFrame, **where) -> pd.DataFrame:
    """The rows with these values; where one is a list, with any of them."""
    for key, value in where.items():
        table = table[table[key].isin(value) if isinstance(value, list) else table[key] == value]
    return table


def one(table: pd.DataFrame, **where) -> dict:
    """The only row with these values; RarefeatError where there is none, or more."""
    found = rows(table, **where)
    if len(found) != 1:
        raise RarefeatError(f"{len(found)} rows have {where}, and the page needs one")
    return found.iloc[0].to_dict()


def each(table: pd.DataFrame) -> list[dict]:
    """Its rows."""
    return table.to_dict("records")


def number(value: float, digits: int = 3, sign: str = "") -> str:
    """A number with so many decimals; empty where there is none."""
    return "" if value is None or math.isnan(value) else f"{value:{sign}.{digits}f}"


ENDS = {"paired_difference": ("paired_ci_low", "paired_ci_high")}


def ends(found: Mapping, of: str) -> tuple[float, float]:
    """The interval of one column of a row."""
    low, high = ENDS.get(of, ("ci_low", "ci_high"))
    return found[low], found[high]


def interval(found: Mapping, of: str = "estimate", digits: int = 3, sign: str = "", times: float = 1) -> str:
    """A value with its interval, `0.50 [0.45, 0.55]`; the value alone where it has no interval, empty where there is none."""
    low, high = (number(times * end, digits, sign) for end in ends(found, of))
    value = number(times * found[of], digits, sign)
    return f"{value} [{low}, {high}]" if value and low else value


def told(found: Mapping, of: str, up: str, down: str, open_: str) -> str:
    """The word for a value whose interval lies above 0, below 0, or holds 0."""
    low, high = ends(found, of)
    return up if low > 0 else down if high < 0 else open_


def pipe(*lines: Sequence[str], right: Sequence[int] = ()) -> str:
    """A Markdown table: its head, then its rows; `right` are the columns of numbers."""
    head, *body = [[str(cell) for cell in line] for line in lines]
    rule = ["---:" if i in right else "---" for i in range(len(head))]
    return "\n".join([row(*head), "|" + "|".join(f" {cell} " for cell in rule) + "|", *(row(*line) for line in body)])


def run_of(published: Published, name: str) -> str:
    """Which run a table is from, in words."""
    origin = published.origins[name]
    return f"{origin['run']} at commit `{origin['commit']}`"


def sources(published: Published, *names: str) -> str:
    """A list of the runs that tables are from, with their seeds."""
    runs: dict[str, list[str]] = {}
    for name in names:
        if name in published:
            seeds = published.origins[name].get("seeds", {})
            which = (
                "; ".join(f"{study} {first}" for study, first in seeds.items() if isinstance(first, str))
                if len(seeds) < 5
                else ""
            )
            runs.setdefault(run_of(published, name) + (f", seeds: {which}" if which else ""), []).append(name)
    return "\n".join(f"- {run}: {', '.join(f'`{name}`' for name in of_run)}." for run, of_run in runs.items())


def environment(published: Published, project: Project, root: Path = Path(".")) -> jinja2.Environment:
    """What a template can use.

    The functions above; `table(name)`, `has(name)`, `run_of(name)` and `sources(*names)` of the published tables; `config`, the sections of the config by
    kind of study; `drawn(name)` and `told_of(paper)`, whether docs has a figure, and the claims of a paper; `faults`, what tests/faults holds the
    project to.
    """
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(root / TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    functions = (rows, one, each, number, interval, told, pipe)
    found.globals |= {function.__name__: function for function in functions}
    found.globals |= {
        "table": published.__getitem__,
        "has": published.__contains__,
        "run_of": lambda name: run_of(published, name),
        "sources": lambda *names: sources(published, *names),
        "config": project.sections,
        "told_of": lambda paper: (root / "docs/claims" / f"claims_{paper}.md").exists(),
        "faults": {name: read(root / FAULTS / f"{name}.yaml") for name in ("inputs", "runs")},
        "drawn": lambda name: (root / "docs/figures" / f"{name}.png").exists(),
    }
    return found


def place(template: Path, root: Path) -> Path:
    """Where a page lies: README.md at the top, every other one in docs/ as its template in docs/templates/."""
    name = template.with_suffix("")
    return root / name if str(name) == "README.md" else root / "docs" / name


def pages(root: Path = Path(".")) -> dict[Path, str]:
    """Every page by its path, filled in; RarefeatError that names the template where a table lacks what it asks for."""
    templates = root / TEMPLATES
    found = environment(Published(root / "docs/tables"), load(root / DEFAULT), root)
    texts = {}
    for path in sorted(templates.rglob("*.md.j2")):
        template = path.relative_to(templates)
        try:
            texts[place(template, root)] = found.get_template(template.as_posix()).render()
        except (jinja2.TemplateError, KeyError, RarefeatError) as error:
            raise RarefeatError(f"{path}: {' '.join(str(error).split())}") from error
    return texts


def main() -> None:
    """Write every page with numbers."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path, text in pages().items():
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
