"""The pages of the report apart from a browser: what is counted, and a caption for every figure."""

from pathlib import Path

import jinja2
import pandas as pd
import pytest

from rarefeat.browse import PAGES, claims_page, run_times, tables_page, text_page, verdicts
from rarefeat.config import load
from rarefeat.figures import AUGMENTATION_FIGURES, CLAIMS_MAPS, FIGURES
from rarefeat.files import RarefeatError
from rarefeat.metadata import made_from, write_product
from rarefeat.provenance import products
from rarefeat.tables import VERDICTS, checked

ROOT = Path(__file__).parents[1]


def some_claims() -> pd.DataFrame:
    """Claims that nobody has measured: the first holds everywhere, the second in half of its regimes, the third nowhere."""
    names = "estimate", "ci_low", "ci_high", "required_low", "required_high", "p_value", "adjusted_p_value"
    numbers = dict.fromkeys(names, 0.5)
    words = {"group": "pruning", "source": "nowhere", "quantity": "q <b>", "test": "Student", "condition": ""}
    holds, condition, fails, untestable = VERDICTS
    of = {"0": [holds, holds], "1": [condition, fails], "2": [fails, untestable]}
    rows = [
        {"claim_id": name, "statement": f"statement {name}", "regime": f"regime {i}", "n": i, "verdict": verdict}
        for name, found in of.items()
        for i, verdict in enumerate(found * 10)
    ]
    return checked("claims", pd.DataFrame([row | numbers | words for row in rows]))


def test_a_claim_has_one_verdict_and_the_counts_of_its_regimes():
    found = verdicts(some_claims()).set_index("claim_id")
    assert list(found["verdict"]) == [VERDICTS[0], VERDICTS[1], VERDICTS[2]]
    assert list(found["holds in"]) == [20, 10, 0]
    assert list(found["tested in"]) == [20, 20, 10]


def test_pages_hold_every_row_as_text_and_ask_for_nothing_outside(tmp_path):
    table = tmp_path / "claims.parquet"
    write_product(table, some_claims(), made_from("claims", {}))
    page = claims_page(table)
    assert "60 rows" in page
    assert "q &lt;b&gt;" in page
    assert "q <b>" not in page
    exponents = tmp_path / "lucky_sets.parquet"
    write_product(exponents, pd.DataFrame({"d": [9], "ratio": [0.123456789]}), made_from("lucky_sets", {}))
    other = tables_page("About <that>", [exponents])
    assert "0.1235" in other
    assert "About &lt;that&gt;" in other
    for content in (page, other):
        assert not any(f'{attribute}="http' in content for attribute in ("src", "href"))


def test_markdown_becomes_a_page(tmp_path):
    (tmp_path / "page.md").write_text("# Title\n\n| a | b |\n| --- | --- |\n| 1 | <script> |\n")
    page = text_page(tmp_path / "page.md")
    assert "<h1>Title</h1>" in page
    assert "<td>1</td>" in page


def test_run_times_are_counted_by_rule(tmp_path):
    jobs = ("train/a", "2.0", "100"), ("train/b", "4.0", "300"), ("probe", "1.0", "NA"), ("other", "9", "9")
    for name, seconds, memory in jobs:
        path = tmp_path / f"{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"s\tmax_rss\tcpu_time\n{seconds}\t{memory}\t1.5\n")
    found = run_times(tmp_path, {"train": f"{tmp_path}/train/.*", "probe": f"{tmp_path}/probe.tsv"}).set_index("rule")
    assert list(found.index) == ["train", "probe"]
    assert found.loc["train"].to_dict() == {
        "jobs": 2, "median_s": 3.0, "total_s": 6.0, "total_cpu_s": 3.0, "max_memory_mb": 300.0,
    }  # fmt: skip
    with pytest.raises(RarefeatError, match="no benchmark"):
        run_times(tmp_path, {})


def test_a_page_shows_tables_that_there_are():
    known = products(load(ROOT / "config/config.yaml"))
    for page in PAGES.values():
        assert {f"tables/{table}.parquet" for table in page.tables} <= set(known)


@pytest.mark.parametrize(
    ("file", "wildcard", "names"),
    [
        ("figure", "figure", FIGURES),
        ("augmentation", "augmentation_figure", AUGMENTATION_FIGURES),
        ("claims_map", "map", CLAIMS_MAPS),
    ],
)
def test_every_figure_has_a_caption_of_its_own(file, wildcard, names):
    text = (ROOT / f"workflow/report/{file}.rst").read_text()
    template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text)
    captions = {
        template.render(
            snakemake={"wildcards": {wildcard: name}, "input": {"tables": ["r/tables/a.parquet"]}, "config": {"results": "r"}}
        )
        for name in names
    }
    assert len(captions) == len(names)
    assert all(caption.strip().endswith("Drawn from tables/a.parquet.") and len(caption) > 150 for caption in captions)
