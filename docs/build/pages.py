"""Pages with numbers, from templates and the tables of docs/tables.

docs/templates/X.md.j2 becomes docs/X.md (X.html.j2 docs/X.html), and README.md.j2 README.md. A kind of study without a
template has the page of study.j2, which shows figures and tables and concludes nothing. Words are written by people: a
paragraph that concludes something names with `rests_on` the claims it rests on and the verdicts it
was written for. Where a verdict is another one by now, no page is rendered until the paragraph is
written for it.
"""

import argparse
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import jinja2
import pandas as pd

from claim_records import anchor, claim_records, claims_html
from doc_figures import papers, render_doc_figures
from explorer import page_from_published
from formatting import (
    interval,
    number,
    records,
    select_rows,
    single_row,
)
from late_learning import (
    count_right,
    critical_pairs,
    dose,
    large_pushes,
    silent_pairs,
    theorem_share,
)
from mask_comparisons import compare_masks, count_masks
from published_claims import all_claims, published_claims
from published_tables import table_reductions
from rarefeat.claims.page import ABOUT, format_effect
from rarefeat.claims.verdict import WORDS
from rarefeat.errors import RarefeatError
from rarefeat.figures.labels import PARAMETER_WORDS, arm_name
from rarefeat.statistics import holm
from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.project import DEFAULT, Project, load
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.run.cli_helpers import run_main
from tables_long_tail import TABLE_2

TEMPLATES = Path("docs/templates")
INTERACTIVE_PAGE = Path("docs/play.html")
CLAIMS = Path("docs/claims")
SHOWN_ELSEWHERE = ("scaling", "pruning_premise", "exact_results")
"""Kinds of study that have a part of the page of another one."""


def seeds_of(origin: Mapping) -> str:
    """Return the ranges of seeds of a table, each with its studies."""
    seeds = origin.get("seeds", {})
    if isinstance(seeds, str):
        return seeds
    ranges: dict[str, list[str]] = {}
    for study, first in seeds.items():
        if isinstance(first, str):
            ranges.setdefault(first, []).append(study)
    return "; ".join(
        f"{first} ({', '.join(names) if len(names) < 5 else f'{len(names)} studies'})"
        for first, names in ranges.items()
    )


def template_environment(
    tables: PublishedTables, project: Project, root: Path = Path(".")
) -> jinja2.Environment:
    """Return the environment of the templates.

    A template can use the functions in the tuple below, and:

    - `table(name)` and `origins`: published tables, and the runs they are from;
    - `config`: sections of the config by kind of study;
    - `declared`: declarations of all claims by id;
    - `claims(*papers)`: primary rows of the claims of some papers, or of all, judged as of today;
    - `rests_on(claim, verdict)`: nothing, or an error where the claim's verdict is another one;
    - `drawn(name)`: suffix of a figure in docs, empty if there is none;
    - `other_kinds`: kinds of study without a template, by name;
    - `about_claims`, `table_2`: how verdicts are read, and the paper's Table 2;
    - `parameter_words`: names of hyper-parameters.
    """
    judged = cache(lambda: published_claims(tables, project))

    def claims(*papers: str) -> pd.DataFrame:
        rows = judged()[judged()["primary"] & ~judged()["check"]]
        ids = [
            claim
            for item in project.claim_sets.values()
            if not papers or item.paper in papers
            for claim in item.claims
        ]
        return rows[rows["claim_id"].isin(ids)].replace({"verdict": WORDS}).reset_index(drop=True)

    def rests_on(claim: str, verdict: str) -> str:
        published = single_row(judged(), claim_id=claim, primary=True)["verdict"]
        published = WORDS.get(published, published)
        if published != verdict:
            raise RarefeatError(f"{claim} is {published}, and a text was written for {verdict}")
        return ""

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(root / TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    functions = (
        select_rows,
        single_row,
        records,
        number,
        interval,
        anchor,
        arm_name,
        seeds_of,
        compare_masks,
        count_masks,
        format_effect,
        holm,
        dose,
        large_pushes,
        count_right,
        theorem_share,
        critical_pairs,
        silent_pairs,
    )
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals |= {
        "table": tables.__getitem__,
        "origins": tables.origins,
        "config": project.sections,
        "declared": all_claims(project),
        "claims": claims,
        "rests_on": rests_on,
        "drawn": lambda name: next(
            (end for end in ("svg", "png") if (root / "docs/figures" / f"{name}.{end}").exists()),
            "",
        ),
        "other_kinds": {
            name: kind
            for name, kind in kinds().items()
            if name not in SHOWN_ELSEWHERE
            and not (root / TEMPLATES / "studies" / f"{name}.md.j2").exists()
        },
        "about_claims": ABOUT,
        "table_2": TABLE_2,
        "parameter_words": PARAMETER_WORDS,
    }
    return environment


def render_default_page(
    name: str, environment: jinja2.Environment, tables: PublishedTables, project: Project
) -> str:
    """Render the page of a kind of study that has no template of its own."""
    template = environment.get_template(
        "study.j2", globals={"name": name, "kind": kinds()[name], "outputs": project.outputs[name]}
    )
    published = [table for table in table_reductions(name) if table in tables]
    return template.render(claims=project.claim_sets.get(name), published=published)


def page_path(template: Path, root: Path) -> Path:
    """Return the path of the page of a template: README.md at the top, any other one in docs/."""
    name = template.with_suffix("")
    return root / name if str(name) == "README.md" else root / "docs" / name


def pages(root: Path = Path(".")) -> dict[Path, str]:
    """Render every page."""
    templates = root / TEMPLATES
    tables, project = PublishedTables(root / "docs/tables"), load(root / DEFAULT)
    environment = template_environment(tables, project, root)
    texts = {}
    for path in sorted([*templates.rglob("*.md.j2"), *templates.rglob("*.html.j2")]):
        template = path.relative_to(templates)
        try:
            page = page_path(template, root)
            texts[page] = link_tables(
                environment.get_template(template.as_posix()).render(), page.relative_to(root)
            )
        except (jinja2.TemplateError, KeyError, RarefeatError) as error:
            raise RarefeatError(f"{path}: {' '.join(str(error).split())}") from error
    for name in environment.globals["other_kinds"]:
        page = root / "docs/studies" / f"{name}.md"
        text = render_default_page(name, environment, tables, project)
        texts[page] = link_tables(text, page.relative_to(root))
    records = claim_records(published_claims(tables, project), all_claims(project))
    table = environment.get_template("claims/table.j2").render(table=claims_html(records, papers()))
    texts[root / CLAIMS / "table.html"] = table
    texts[root / CLAIMS / "claims.json"] = json.dumps(records, indent=0, ensure_ascii=False) + "\n"
    texts[root / INTERACTIVE_PAGE] = page_from_published(tables, project.studies)
    return texts


def write_pages() -> None:
    """Write every page with numbers."""
    for path, text in pages().items():
        write_file(path, text)


def link_tables(text: str, page: Path) -> str:
    """Make mentions of published tables in a page links to them."""
    prefix = "docs/" if page.parts[0] != "docs" else "../" * (len(page.parts) - 2)
    return re.sub(r"`docs/(tables/\w+\.csv)`", rf"[`docs/\1`]({prefix}\1)", text)


def main() -> None:
    """Write every figure of published tables, and every page with numbers."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, content in render_doc_figures(PublishedTables(Path("docs/tables"))).items():
        write_file(Path("docs/figures", name), content)
    write_pages()


if __name__ == "__main__":
    run_main(main)
