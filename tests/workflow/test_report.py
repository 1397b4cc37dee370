"""The report: it shows what exists and computes nothing; its pages hold tables as text."""

import shutil

import jinja2
import pandas as pd
from whole_project import RESULTS, ROOT, run, succeed

from rarefeat.workflow.pages import render_page
from rarefeat.workflow.project import load

QUICK = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
FIGURE = RESULTS / "figures/arms.png"


def test_report_shows_what_exists_and_computes_nothing(project):
    (project / FIGURE).unlink()
    shutil.rmtree(project / RESULTS / "encoders")
    (project / "more.yaml").write_text("long_tail: {studies: {digits: {seeds: 1}}}\n")
    configs = {"configs": ("config/quick.yaml", "more.yaml")}
    text = succeed(run(project, "--report", "report.html", "--", "existing_outputs", **configs))
    assert "1 not made yet: figures/arms.png; " in text
    assert "of another config or code: figures/longtail_digits.png, " in text
    assert not (project / FIGURE).exists()
    assert not (project / RESULTS / "encoders").exists()
    page = (project / "report.html").read_text(encoding="utf-8")
    assert "A run of size quick, not of the default size." in page
    assert "1 not made yet: figures/arms.png" in page
    assert page.count("data:image/png;base64") >= 3
    assert str(RESULTS / "figures/fate.png") in page
    assert str(RESULTS / "pages/play.html") in page
    process = run(project, "--report", "report.html", "--", "existing_outputs", configs=())
    assert process.returncode == 1
    assert "error: results: no figures or pages to report" in process.stderr


SCRIPT = "<script>alert(1)</script>"


def test_page_holds_texts_of_users_as_text():
    """In names of tables, cells, titles and Markdown; and it loads nothing from outside."""
    job = QUICK.page_job("scaling")
    name, schema = "a<script>b", job.config["schemas"]["lucky_sets"]
    job = job.model_copy(update={"config": job.config | {"schemas": {name: schema, "b": schema}}})
    text = f"# {SCRIPT}\n\n{SCRIPT}\n\n<img src=x onerror=alert(1)> `{SCRIPT}`\n\n| {SCRIPT} |\n"
    table = pd.DataFrame({"a": [SCRIPT], "ratio": [0.123456789]})
    markdown, page = render_page(lambda tables, job: text, {name: table, "b": table}, job)
    assert markdown == text
    assert "script&gt;" in page
    assert "0.1235" in page
    assert not [odd for odd in (SCRIPT, "a<script>b", "<img src=x") if odd in page]
    assert not any(f'{attribute}="http' in page for attribute in ("src", "href"))


def test_small_run_has_numbers_and_no_findings():
    job = QUICK.page_job("scaling").model_copy(update={"config": {"schemas": {}, "size": "quick"}})
    text = "# Title\n\n- A feature is learned.\n- So is another.\n"
    markdown, page = render_page(lambda tables, job: text, {"scaling": pd.DataFrame()}, job)
    assert "learned" not in markdown + page
    assert "Its numbers are in `scaling`." in markdown
    job = job.model_copy(update={"config": {"schemas": {}}})
    assert render_page(lambda tables, job: text, {}, job)[0] == text


def test_figures_have_captions_of_their_own():
    """But for those of several studies, or of several parts of the theory, in one form."""
    text = (ROOT / "workflow/report/figure.rst").read_text()
    template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text)
    captions = {name: figure.caption for name, figure in QUICK.figures.items()}
    for name, caption in captions.items():
        values = {
            "wildcards": {"figure": name},
            "input": ["r/tables/a.parquet"],
            "config": {"captions": captions},
        }
        rendered = template.render(snakemake=values)
        assert rendered.strip().endswith("Drawn from ``r/tables/a.parquet``."), name
        assert len(caption) > 100, name
    forms = {(figure.module, figure.function or name) for name, figure in QUICK.figures.items()}
    assert len(set(captions.values())) == len(forms)


def test_pages_show_tables_that_exist():
    for page in QUICK.pages.values():
        assert set(page.shown) <= set(QUICK.tables)
