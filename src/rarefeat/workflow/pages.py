"""Pages of a run: figures, tables and claims in fixed words, as Markdown and for the report.

For the report each is one file of HTML that needs no network, with tables that a reader can sort
and filter. Large tables, with a row for each replica or step, stay Parquet.
"""

import html
import re
from importlib.resources import files
from pathlib import Path

import pandas as pd
from itables import options, to_html_datatable
from itables.javascript import generate_init_offline_itables_html
from markdown_it import MarkdownIt

from rarefeat.claims.page import claims_table
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

# The library's list of types does not have the texts of conditions, and would warn.
options.warn_on_unexpected_option_type = False

ROWS = 15
"""Rows of a table that are shown at first."""
STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #1f2933; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p, ul { max-width: 60rem; } nav a { margin-right: 1rem; }
.prose img { max-width: 100%; } .prose table { border-collapse: collapse; }
.prose td, .prose th { padding: 0.2rem 0.6rem; border-bottom: 1px solid #ccd; }
table.dataTable { font-size: 12px; } table.dataTable td { max-width: 28rem; white-space: normal; }
tfoot input { width: 100%; min-width: 4rem; box-sizing: border-box; font-weight: normal; }
details { margin: 0.5rem 0; max-width: 60rem; } dt { font-weight: 600; } dd { margin-left: 1.5rem; }
"""


def document(title: str, body: str) -> str:
    """Return a whole page of HTML with its style."""
    title = html.escape(title)
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    content = f"<body>\n<h1>{title}</h1>\n{body}\n</body>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{content}</html>\n'


def interactive_table(name: str, table: pd.DataFrame) -> str:
    """Return a table with a search, conditions on columns, and a filter under each column."""
    identifier = "table_" + re.sub(r"\W", "_", name)
    with pd.option_context("display.float_format", "{:.4g}".format):
        return to_html_datatable(
            table,
            table_id=identifier,
            connected=False,
            display_logo_when_loading=False,
            maxBytes=0,
            showIndex=False,
            column_filters="footer",
            classes="display compact stripe",
            style="width:100%",
            layout={
                "top1": "searchBuilder",
                "topEnd": "search",
                "bottomStart": "info",
                "bottomEnd": "paging",
            },
            language={
                "searchBuilder": {
                    "title": {"0": "", "_": "%d conditions"},
                    "add": "Add a condition on a column",
                }
            },
            text_in_header_can_be_selected=False,
            pageLength=ROWS,
            lengthMenu=[ROWS, 50, 200],
        )


def column_descriptions(schema: str) -> str:
    """Return the descriptions of the columns of a schema, MODULE:NAME, to unfold."""
    entries = []
    for column, item in load_function(schema).columns.items():
        unit = f" ({html.escape(item.metadata['unit'])})" if item.metadata["unit"] else ""
        entries.append(f"<dt>{column}</dt><dd>{html.escape(item.description)}{unit}</dd>")
    return f"<details><summary>What the columns are</summary><dl>{''.join(entries)}</dl></details>"


def table_section(name: str, schema: str, table: pd.DataFrame) -> str:
    """Return a headed table with the descriptions of its columns."""
    name = html.escape(name)
    about = f"{len(table):,} rows, from <code>{name}.parquet</code>. {column_descriptions(schema)}"
    return f'<h2 id="{name}">{name}</h2>\n<p>{about}</p>\n{interactive_table(name, table)}'


def page(inputs: JobInputs, job: Job) -> tuple[str, str]:
    """Return a page as Markdown, and as HTML with its figures linked and its tables below."""
    title, about, captions = (job.config[key] for key in ("title", "about", "captions"))
    note = [f"**{job.size_note[0].upper()}{job.size_note[1:]}.**"] if job.size_note else []
    figures = [f"![{name}](figures/{name}.png)\n\n{text}" for name, text in captions.items()]
    claims = [claims_table(table) for table in inputs.values() if "statement" in table]
    names = ", ".join(f"`{name}`" for name in inputs)
    parts = [*note, about, *figures, *claims, f"Tables: {names}." if names else ""]
    text = "\n\n".join(filter(None, parts)) + "\n"
    prose = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    # Chromium shows no page of over 2 MiB from inside a report, so the figures stay files.
    prose = prose.replace('src="figures/', 'src="../figures/')
    schemas = job.config["schemas"]
    sections = [table_section(name, schemas[name], table) for name, table in inputs.items()]
    if sections:  # The script that sorts and filters, which a page needs once.
        bundle = Path(str(files("itables") / "html" / "dt_bundle.js"))
        sections.insert(0, generate_init_offline_itables_html(bundle))
    body = f'<div class="prose">{prose}</div>' + "".join(sections)
    return f"# {title}\n\n{text}", document(title, body)
