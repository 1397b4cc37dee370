"""A study of a new kind is a file, a YAML beside it, and its name in the registry: typed as CONTRIBUTING says."""

import filecmp
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from whole_project import (
    RESULTS,
    ROOT,
    blocks_of,
    copy_of_the_project,
    environment,
    run,
    run_block,
    succeeded,
    verified,
)

from rarefeat.claims.tables import CLAIMS, VERDICTS
from rarefeat.run.metadata import page_text, read_origin
from rarefeat.storage.schema import validate
from rarefeat.storage.sealed_files import read_table

OWN = {"src/rarefeat/studies/mine.py", "src/rarefeat/studies/mine.yaml"}
(RECIPE,) = (
    text
    for language, text in blocks_of(ROOT / "CONTRIBUTING.md")
    if language == "bash" and "registry" in text
)


@pytest.fixture(scope="module")
def with_mine(tmp_path_factory) -> Path:
    """A copy of the project after the recipe."""
    folder = copy_of_the_project(tmp_path_factory.mktemp("mine"))
    shutil.copytree(ROOT / "tests/workflow/toy", folder / "tests/workflow/toy")
    run_block("bash", RECIPE, folder)
    return folder


def differing(one: Path, other: Path, inside: str) -> set[str]:
    """Paths below `inside` that are only in one of two folders, or differ."""
    paths = {
        str(path.relative_to(root))
        for root in (one, other)
        for path in (root / inside).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    same = filecmp.cmpfiles(one, other, paths, shallow=False)[0]
    return paths - set(same)


def test_it_is_short_and_touches_one_line_of_the_registry(with_mine):
    assert sum(len((with_mine / path).read_text().splitlines()) for path in OWN) <= 120
    found = {
        path
        for inside in ("src", "workflow", "config")
        for path in differing(with_mine, ROOT, inside)
    }
    assert found == OWN | {"src/rarefeat/registry.py"}
    before, now = (
        (root / "src/rarefeat/registry.py").read_text().splitlines() for root in (ROOT, with_mine)
    )
    assert [line for line in now if line not in before] == ['    "mine",']
    assert [line for line in now if line in before] == before


def test_it_makes_a_table_a_figure_verdicts_and_pages(with_mine):
    results = with_mine / RESULTS
    table = read_table(results / "tables/mine_accuracy.parquet").to_pandas()
    assert table.groupby("samples")["seed"].nunique().to_dict() == {10: 6, 100: 6}
    assert table["accuracy"].between(0.3, 1).all()
    assert read_origin(results / "figures/learning_curve.pdf")["tables"].keys() == {"mine_accuracy"}
    claims = validate(CLAIMS, read_table(results / "tables/claims_mine.parquet").to_pandas())
    wide = table.pivot(index="seed", columns="samples", values="accuracy")
    assert claims["estimate"].tolist() == pytest.approx([(wide[100] - wide[10]).mean()] * 2)
    assert set(claims["verdict"]) <= set(VERDICTS[:3])
    assert "More samples help" in (results / "claims_learning.md").read_text()
    assert "- More samples change the accuracy by " in page_text(results / "mine.md")
    succeeded(verified(with_mine))


def test_it_is_in_the_report(with_mine):
    succeeded(run(with_mine, "--report", "report.html", "--", "mine", "claims_mine"))
    page = (with_mine / "report.html").read_text()
    for entry in ("figures/learning_curve.png", "pages/mine_text.html", "pages/claims_mine.html"):
        assert str(RESULTS / entry) in page
    assert "See whether it climbs." in page


@pytest.fixture(scope="module")
def documented(with_mine) -> Path:
    """The copy with the rest of the project: its docs are rendered, its run is published, and they are rendered again."""
    for path in (
        *filter(Path.is_file, ROOT.iterdir()),
        ROOT / "docs",
        ROOT / "tests",
        ROOT / "benchmarks",
    ):
        if path.is_dir():
            shutil.copytree(
                path,
                with_mine / path.name,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        elif path.name != "Snakefile":
            shutil.copy(path, with_mine)
    shipped = "src/rarefeat/shipped"
    shutil.rmtree(with_mine / shipped)
    shutil.copytree(ROOT / shipped, with_mine / shipped, symlinks=True)
    # As `make docs publish`, but that no picture of other studies is drawn again.
    script = f"""
from pathlib import Path
from rarefeat.report import drawn, pages, published, reference
reference.main()
pages.write_pages()
of_run, run, docs = published.Published(), Path({str(RESULTS)!r}), Path("docs")
published.publish(run, of_run)
published.publish_claims(run, docs / "claims")
published.publish_figures(run, docs)
(docs / "figures/verdicts.svg").write_text(drawn.mosaic(of_run))
pages.write_pages()
"""
    run_block("python", script, with_mine)
    return with_mine


def test_it_is_in_the_documentation_and_in_its_indexes(documented):
    pages = {path: (documented / path).read_text() for path in (
        "README.md", "docs/studies/index.md", "docs/studies/mine.md", "docs/claims/index.md",
        "docs/reference/config_studies.md", "docs/reference/tables/index.md", "docs/reference/claims/index.md",
        "docs/reference/claims/learning.md",
    )}  # fmt: skip
    found = "More samples change the accuracy by "
    assert (
        f"| [A mine](docs/studies/mine.md) | Do more samples help? | {found}" in pages["README.md"]
    )
    assert (
        f"| [A mine](mine.md) | Do more samples help? | {found}" in pages["docs/studies/index.md"]
    )
    assert f"**{found}" in pages["docs/studies/mine.md"]
    assert "![Learning curve](../figures/learning_curve.png)" in pages["docs/studies/mine.md"]
    assert "[learning](claims_learning.md)" in pages["docs/claims/index.md"]
    assert "## `mine`: A mine" in pages["docs/reference/config_studies.md"]
    assert "[A mine](mine.md)" in pages["docs/reference/tables/index.md"]
    assert "[learning](learning.md)" in pages["docs/reference/claims/index.md"]
    assert "they help by a tenth" in pages["docs/reference/claims/learning.md"].lower()


def test_lint_and_the_tests_of_docs_and_config_pass_with_it(documented):
    tests = (
        "-m pytest -q --numprocesses 2 -p no:cacheprovider tests/docs/test_pages.py tests/config"
    )
    for command in (
        "ruff check .",
        "ruff format --check .",
        "snakefmt --check Snakefile workflow",
        "lint-imports",
        tests,
    ):
        tool, *words = command.split()
        start = sys.executable if tool == "-m" else Path(sys.executable).parent / tool
        done = subprocess.run(
            [start, *([tool, *words] if tool == "-m" else words)],
            cwd=documented, env=environment(documented), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_cell_in_the_place_of_another_is_made_again(with_mine, tmp_path):
    """What the author gets for nothing: a file says what it is."""
    folder = Path(shutil.copytree(with_mine, tmp_path / "project", symlinks=True))
    few, many = (
        folder / RESULTS / f"learned/mine_study/samples={n}/seeds=100-102.parquet"
        for n in (10, 100)
    )
    before = few.read_bytes()
    few.write_bytes(many.read_bytes())
    succeeded(run(folder, "--", str(RESULTS / "tables/mine_accuracy.parquet")))
    assert few.read_bytes() == before
