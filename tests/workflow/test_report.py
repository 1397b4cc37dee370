"""The report: it shows what exists and computes nothing; its pages hold figures and tables."""

import shutil

import pandas as pd
from whole_project import RESULTS, ROOT, run, succeed

from rarefeat.workflow.pages import page
from rarefeat.workflow.project import load
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

QUICK = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
FIGURE = RESULTS / "figures/trajectories.png"


def test_report_shows_what_exists_and_computes_nothing(project):
    (project / FIGURE).unlink()
    shutil.rmtree(project / RESULTS / "encoders")
    (project / "more.yaml").write_text("long_tail: {studies: {digits: {seeds: 1}}}\n")
    configs = {"configs": ("config/quick.yaml", "more.yaml")}
    text = succeed(run(project, "--report", "report.html", "--", "existing_outputs", **configs))
    assert "2 not made yet: figures/trajectories.png, pages/imbalance.html; " in text
    assert "of another config or code: figures/longtail_digits.png, " in text
    assert not (project / FIGURE).exists()
    assert not (project / RESULTS / "encoders").exists()
    report = (project / "report.html").read_text(encoding="utf-8")
    assert "A run of size quick, not of the default size." in report
    assert "2 not made yet: figures/trajectories.png" in report
    assert str(RESULTS / "figures/fate.png") in report
    assert str(RESULTS / "pages/scaling.html") in report
    process = run(project, "--report", "report.html", "--", "existing_outputs", configs=())
    assert process.returncode == 1
    assert "error: results: no figures or pages to report" in process.stderr


SCRIPT = "<script>alert(1)</script>"


def test_page_holds_texts_of_users_as_text(tmp_path):
    """In names of tables, cells, titles and captions; and it loads nothing from outside."""
    name, schema = "a<script>b", QUICK.page_job("scaling").config["schemas"]["lucky_sets"]
    text = f"{SCRIPT}\n\n<img src=x onerror=alert(1)> `{SCRIPT}`\n\n| {SCRIPT} |\n"
    config = {"title": SCRIPT, "about": text, "captions": {"shown": SCRIPT}, "size": "quick"}
    config["schemas"] = {name: schema, "b": schema}
    inputs = JobInputs(Job(stage=""), tmp_path)
    table = pd.DataFrame({"a": [SCRIPT], "ratio": [0.123456789]})
    inputs.update({name: table, "b": table})
    markdown, html = page(inputs, Job(stage="", config=config))
    assert "**A run of size quick, not of the default size.**" in markdown
    assert "![shown](figures/shown.png)" in markdown
    assert 'src="../figures/shown.png"' in html
    assert "script&gt;" in html
    assert "0.1235" in html
    assert not [odd for odd in (SCRIPT, "a<script>b", "<img src=x") if odd in html]
    assert not any(f'{attribute}="http' in html for attribute in ("src", "href"))
