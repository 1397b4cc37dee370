"""The pages of the report apart from a browser: what is counted, and a caption for every figure."""

import jinja2
import pandas as pd
import pytest
from rarefeat.report.html_tables import claims_page, tables_page, text_page, verdicts
from whole_project import ROOT

from rarefeat.claims.tables import CLAIMS, VERDICTS
from rarefeat.core.errors import RarefeatError
from rarefeat.project import load
from rarefeat.run.metadata import write_page
from rarefeat.storage.schema import validate_sorted

CONFIG = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")


def some_claims() -> pd.DataFrame:
    """Claims that nobody has measured, of a verdict each in their primary regime, and of two others elsewhere."""
    declared = {
        "group": "pruning", "paper": "none", "source": "nowhere", "quantity": "q <b>", "test": "superiority",
        "required": "more", "reason": "why", "control": "none", "remark": "", "role": "regime", "testable": True,
        "diverged": 0, "freedom": 5, "n": 6, "kind": "mean",
    }  # fmt: skip
    numbers = [
        name
        for name in CLAIMS.columns
        if name.startswith(("p_", "adjusted", "ci_", "required_", "decided_"))
    ]
    numbers = dict.fromkeys(
        [*numbers, "estimate", "error", "tolerance", "lowest", "highest", "least"], 0.5
    )
    rows = [
        {"claim_id": str(index), "statement": f"statement {index}", "study": f"study {place}", "point": "",
         "primary": place == 0, "verdict": verdict if place == 0 else VERDICTS[place % 2]}
        for index, verdict in enumerate(VERDICTS[:3])
        for place in range(20)
    ]  # fmt: skip
    return validate_sorted(CLAIMS, pd.DataFrame([row | numbers | declared for row in rows]))


def test_a_claim_has_the_verdict_of_its_primary_regime_and_the_counts_of_the_others():
    found = verdicts(some_claims()).set_index("claim_id")
    assert list(found["verdict"]) == list(VERDICTS[:3])
    assert list(found["supported elsewhere"]) == [9, 9, 9]
    assert list(found["contradicted elsewhere"]) == [10, 10, 10]
    assert set(found["effect"]) == {"0.5 [0.5, 0.5]"}


def test_pages_hold_every_row_as_text_and_ask_for_nothing_outside():
    page = claims_page({"claims": some_claims()}, CONFIG.claims_page_job("imbalance_and_pruning"))
    assert "60 rows" in page
    assert "q &lt;b&gt;" in page
    assert "q <b>" not in page
    job = CONFIG.browsed_job("scaling_tables")
    job = job.model_copy(update={"config": job.config | {"about": "About <that>"}})
    other = tables_page({"lucky_sets": pd.DataFrame({"d": [9], "ratio": [0.123456789]})}, job)
    assert "0.1235" in other
    assert "About &lt;that&gt;" in other
    for content in (page, other):
        assert not any(f'{attribute}="http' in content for attribute in ("src", "href"))


def test_markdown_becomes_a_page(tmp_path):
    path, job = tmp_path / "imbalance.md", CONFIG.text_page_job("imbalance")
    write_page(
        path,
        "# Title\n\n| a | b |\n| --- | --- |\n| 1 | <script> -- |\n",
        CONFIG.page_job("imbalance"),
    )
    page = text_page(path, job)
    assert "<h1>Title</h1>" in page
    assert "<td>1</td>" in page
    assert "rarefeat" not in page
    write_page(path, "# Another\n", CONFIG.page_job("scaling"))
    with pytest.raises(RarefeatError, match="is of another config"):
        text_page(path, job)


SCRIPT = "<script>alert(1)</script>"


def test_no_text_of_a_user_is_a_part_of_a_page(tmp_path):
    """Neither in a file's name, or a cell, nor in what a page is about, nor in Markdown."""
    name, text, path = "a<script>b", CONFIG.text_page_job("imbalance"), tmp_path / "imbalance.md"
    markdown = f"# {SCRIPT}\n\n{SCRIPT}\n\n<img src=x onerror=alert(1)> `{SCRIPT}`\n\n| {SCRIPT} |\n| --- |\n| {SCRIPT} |\n"
    write_page(path, markdown, CONFIG.page_job("imbalance"))
    table, job = pd.DataFrame({"a": [SCRIPT]}), CONFIG.browsed_job("scaling_tables")
    schemas = dict.fromkeys((name, "b"), job.config["schemas"]["lucky_sets"])
    job = job.model_copy(update={"config": {"about": SCRIPT, "schemas": schemas}})
    for content in (tables_page({name: table, "b": table}, job), text_page(path, text)):
        assert "script&gt;" in content
        assert not [odd for odd in (SCRIPT, "a<script>b", "<img src=x") if odd in content]


def test_a_page_shows_tables_that_there_are():
    assert CONFIG.browsed
    for page in CONFIG.browsed.values():
        assert page.about
        assert set(page.tables) <= set(CONFIG.tables)


def test_every_figure_has_a_caption_of_its_own():
    """But for those of several studies, or of several parts of the theory, in one form."""
    template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(
        (ROOT / "workflow/report/figure.rst").read_text()
    )
    captions = {name: figure.caption for name, figure in CONFIG.figures.items()}
    rendered = {
        name: template.render(
            snakemake={
                "wildcards": {"figure": name},
                "input": ["r/tables/a.parquet"],
                "config": {"results": "r", "captions": captions, "of_this_run": ""},
            }
        )
        for name in captions
    }
    for name, caption in rendered.items():
        assert caption.strip().endswith("Drawn from ``tables/a.parquet``."), name
        assert len(captions[name]) > 100, name
    forms = {(figure.module, figure.function or name) for name, figure in CONFIG.figures.items()}
    assert len(set(captions.values())) == len(forms)
