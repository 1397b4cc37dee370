"""Pages of the report: summary tables that a reader can sort and filter, and what is written in Markdown.

Each is one file of HTML that asks nothing of a network. The large tables, a row for each replica or step, stay Parquet.
"""

import html
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pandas as pd
from itables import options, to_html_datatable
from itables.javascript import generate_init_offline_itables_html
from markdown_it import MarkdownIt

from rarefeat.claims.page import effect, primary_verdicts
from rarefeat.claims.tables import VERDICTS
from rarefeat.run.cli_helpers import function_of, run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import page_text, read_origin, stale, write_page

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
    entries = []
    for column, item in function_of(reference).columns.items():
        unit = f" ({html.escape(item.metadata['unit'])})" if item.metadata["unit"] else ""
        entries.append(f"<dt>{column}</dt><dd>{html.escape(item.description)}{unit}</dd>")
    return f"<details><summary>What the columns are</summary><dl>{''.join(entries)}</dl></details>"


def section(name: str, about: str, table: pd.DataFrame) -> str:
    """A headed table."""
    rows = f"{len(table):,} rows. {about}"
    return f'<h2 id="{html.escape(name)}">{html.escape(name)}</h2>\n<p>{rows}</p>\n{interactive(name, table)}'


def tables_page(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """A page of tables, with the schema of each."""
    schemas = job.part("schemas", dict[str, str])
    parts = [
        section(name, f"From <code>{html.escape(name)}.parquet</code>. {meanings(schemas[name])}", table)
        for name, table in tables.items()
    ]
    links = "".join(f'<a href="#{html.escape(name)}">{html.escape(name)}</a>' for name in tables) if len(tables) > 1 else ""
    return document(job.part("about", str), f"<nav>{links}</nav>{library()}{''.join(parts)}")


def verdicts(claims: pd.DataFrame) -> pd.DataFrame:
    """A row for each claim: the verdict of its primary regime with the effect, and how its other regimes came out."""
    found = primary_verdicts(claims).rename(columns=lambda name: name.replace("_elsewhere", " elsewhere"))
    elsewhere = [f"{verdict} elsewhere" for verdict in VERDICTS[:3]]
    found["effect"] = found.apply(effect, axis=1)
    return found[["claim_id", "group", "verdict", "effect", *elsewhere, "statement", "source"]]


def claims_page(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """The verdicts, then the rows that they are read from."""
    ((name, claims),) = tables.items()
    shown = verdicts(claims)
    counts = "; ".join(f"{(shown['verdict'] == verdict).sum()} {verdict}" for verdict in VERDICTS)
    order = ["claim_id", "group", "study", "point", "verdict"]
    rows = claims[order + [name for name in claims if name not in {*order, "statement", "source"}]]
    about = (
        f"A row for each claim and regime, from <code>{html.escape(name)}.parquet</code>. {meanings('claims.tables:CLAIMS')}"
    )
    body = section("verdicts", f"{html.escape(counts)}.", shown) + section("measured", about, rows)
    return document("Every claim with its verdict, and the rows that it is read from", library() + body)


def text_page(path: Path, job: Job) -> str:
    """A page of Markdown; RarefeatError where it is not the one that the job is told of."""
    if read_origin(path)["job"] != job.tables.get(path.name):
        raise stale(path)
    text = page_text(path)
    title, _, rest = text.partition("\n")
    return document(
        title.lstrip("# "), f'<div class="prose">{MarkdownIt("commonmark", {"html": False}).enable("table").render(rest)}</div>'
    )


def main() -> None:
    """Command line of the stage: a page of Markdown as HTML."""
    parser = stage(__doc__)
    parser.add_argument("--text", type=Path, required=True, help="the Markdown file")
    parser.add_argument("--output", type=Path, required=True, help="HTML file to write")
    args = parser.parse_args()
    write_page(args.output, text_page(args.text, args.job), args.job)


if __name__ == "__main__":
    run(main)
