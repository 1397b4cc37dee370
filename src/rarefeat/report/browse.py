"""Pages of the report: summary tables that a reader can sort and filter, run times, and what is written in Markdown.

Each is one file of HTML that asks nothing of a network. The large tables, a row for each replica or step, stay Parquet.
"""

import argparse
import html
import importlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pandas as pd
from itables import options, to_html_datatable
from itables.javascript import generate_init_offline_itables_html
from markdown_it import MarkdownIt

from rarefeat.claims.page import effect, primary_verdicts
from rarefeat.claims.tables import VERDICTS
from rarefeat.core.errors import RarefeatError
from rarefeat.run.command import run
from rarefeat.storage.files import read_table, replacing

# The library's own list of types knows no texts of the conditions.
options.warn_on_unexpected_option_type = False


ROWS = 15
STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #1f2933; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p, ul { max-width: 60rem; } nav a { margin-right: 1rem; }
.prose table { border-collapse: collapse; } .prose td, .prose th { padding: 0.2rem 0.6rem; border-bottom: 1px solid #ccd; }
table.dataTable { font-size: 12px; } table.dataTable td { max-width: 28rem; white-space: normal; }
tfoot input { width: 100%; min-width: 4rem; box-sizing: border-box; font-weight: normal; }
details { margin: 0.5rem 0; max-width: 60rem; } dt { font-weight: 600; } dd { margin-left: 1.5rem; }
"""


def document(title: str, body: str) -> str:
    """A page with its style."""
    title = html.escape(title)
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body></html>\n'


def library() -> str:
    """The script that sorts and filters, to stand once in a page."""
    return generate_init_offline_itables_html(Path(str(files("itables") / "html" / "dt_bundle.js")))


def interactive(name: str, table: pd.DataFrame) -> str:
    """A table with a search over all of it, conditions on columns, and a filter under each column."""
    identifier = "table_" + re.sub(r"\W", "_", name)
    with pd.option_context("display.float_format", "{:.4g}".format):
        return to_html_datatable(
            table, table_id=identifier, connected=False, display_logo_when_loading=False, maxBytes=0, showIndex=False,
            column_filters="footer", classes="display compact stripe", style="width:100%",
            layout={"top1": "searchBuilder", "topEnd": "search", "bottomStart": "info", "bottomEnd": "paging"},
            language={"searchBuilder": {"title": {"0": "", "_": "%d conditions"}, "add": "Add a condition on a column"}},
            text_in_header_can_be_selected=False, pageLength=ROWS, lengthMenu=[ROWS, 50, 200],
        )  # fmt: skip


def meanings(reference: str) -> str:
    """What each column of a kind of table is; reference: MODULE:NAME of its schema."""
    module, name = reference.split(":")
    entries = []
    for column, item in getattr(importlib.import_module(f"rarefeat.{module}"), name).columns.items():
        unit = f" ({html.escape(item.metadata['unit'])})" if item.metadata["unit"] else ""
        entries.append(f"<dt>{column}</dt><dd>{html.escape(item.description)}{unit}</dd>")
    return f"<details><summary>What the columns are</summary><dl>{''.join(entries)}</dl></details>"


def section(name: str, about: str, table: pd.DataFrame) -> str:
    """A headed table."""
    rows = f"{len(table):,} rows. {about}"
    return f'<h2 id="{html.escape(name)}">{html.escape(name)}</h2>\n<p>{rows}</p>\n{interactive(name, table)}'


def tables_page(about: str, paths: list[Path], schemas: list[str]) -> str:
    """A page of tables from their Parquet files, with the schema of each."""
    parts, names = [], [path.name.removesuffix(".parquet") for path in paths]
    for name, path, schema in zip(names, paths, schemas, strict=True):
        about_it = f"From <code>{path.name}</code>. {meanings(schema)}"
        parts.append(section(name, about_it, read_table(path).to_pandas()))
    links = "".join(f'<a href="#{name}">{name}</a>' for name in names) if len(paths) > 1 else ""
    return document(about, f"<nav>{links}</nav>{library()}{''.join(parts)}")


def verdicts(claims: pd.DataFrame) -> pd.DataFrame:
    """A row for each claim: the verdict of its primary regime with the effect, and how its other regimes came out."""
    found = primary_verdicts(claims).rename(columns=lambda name: name.replace("_elsewhere", " elsewhere"))
    elsewhere = [f"{verdict} elsewhere" for verdict in VERDICTS[:3]]
    found["effect"] = found.apply(effect, axis=1)
    return found[["claim_id", "group", "verdict", "effect", *elsewhere, "statement", "source"]]


def claims_page(path: Path) -> str:
    """The verdicts, then the rows that they are read from."""
    claims = read_table(path).to_pandas()
    shown = verdicts(claims)
    counts = "; ".join(f"{(shown['verdict'] == verdict).sum()} {verdict}" for verdict in VERDICTS)
    order = ["claim_id", "group", "study", "point", "verdict"]
    rows = claims[order + [name for name in claims if name not in {*order, "statement", "source"}]]
    about = f"A row for each claim and regime, from <code>{html.escape(path.name)}</code>. {meanings('claims.tables:CLAIMS')}"
    body = section("verdicts", f"{html.escape(counts)}.", shown) + section("measured", about, rows)
    return document("Every claim with its verdict, and the rows that it is read from", library() + body)


def run_times(folder: Path, patterns: dict[str, str]) -> pd.DataFrame:
    """A row for each rule: its jobs, their median and summed seconds, their largest memory, from Snakemake's benchmarks."""
    paths = sorted(folder.rglob("*.tsv"))
    rules = [next((rule for rule, pattern in patterns.items() if re.fullmatch(pattern, str(path))), None) for path in paths]
    parts = [pd.read_csv(path, sep="\t").assign(rule=rule) for path, rule in zip(paths, rules, strict=True) if rule]
    if not parts:
        raise RarefeatError(f"no times of a rule in {folder}")
    table = pd.concat(parts, ignore_index=True)
    measured = ["s", "max_rss", "cpu_time"]
    # A job shorter than the first measurement has no memory.
    table[measured] = table[measured].apply(pd.to_numeric, errors="coerce")
    grouped = table.groupby("rule")
    found = pd.DataFrame(
        {
            "jobs": grouped.size(),
            "median_s": grouped["s"].median(),
            "total_s": grouped["s"].sum(),
            "total_cpu_s": grouped["cpu_time"].sum(),
            "max_memory_mb": grouped["max_rss"].max(),
        }
    )
    return found.sort_values("total_s", ascending=False).reset_index()


def run_times_page(folder: Path, patterns: dict[str, str]) -> str:
    """The run times of every rule."""
    table = run_times(folder, patterns)
    about = (
        f"{table['total_s'].sum() / 3600:.2f} hours of jobs in all. Seconds are of the clock, longer where jobs shared cores; "
        "cpu seconds and memory are empty or 0 where a job was shorter than a measurement."
    )
    return document("Run times by rule", library() + section("run_times", about, table))


def text_page(path: Path) -> str:
    """A page of Markdown."""
    text = path.read_text(encoding="utf-8")
    title, _, rest = text.partition("\n")
    return document(title.lstrip("# "), f'<div class="prose">{MarkdownIt("commonmark").enable("table").render(rest)}</div>')


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    tables = commands.add_parser("tables", help="summary tables")
    tables.add_argument("--about", required=True, help="what the page shows")
    tables.add_argument("--tables", nargs="+", type=Path, required=True, help="its tables")
    tables.add_argument("--schemas", nargs="+", required=True, help="MODULE:NAME of the schema of each")
    claims = commands.add_parser("claims", help="the claims and their verdicts")
    claims.add_argument("--table", type=Path, required=True, help="the claims table")
    times = commands.add_parser("run_times", help="run times by rule")
    times.add_argument("--times", type=Path, required=True, help="folder of the logs, beside which jobs write their times")
    times.add_argument(
        "--patterns", type=json.loads, required=True, help="regular expression of each rule's benchmarks, as JSON"
    )
    text = commands.add_parser("text", help="a page of Markdown")
    text.add_argument("--text", type=Path, required=True, help="the Markdown file")
    for part in (tables, claims, times, text):
        part.add_argument("--output", type=Path, required=True, help="HTML file to write")
    args = parser.parse_args()
    match args.command:
        case "tables":
            content = tables_page(args.about, args.tables, args.schemas)
        case "claims":
            content = claims_page(args.table)
        case "run_times":
            content = run_times_page(args.times, args.patterns)
        case "text":
            content = text_page(args.text)
    with replacing(args.output) as temporary:
        temporary.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    run(main)
