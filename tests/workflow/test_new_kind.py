"""A study of a new kind is a folder, a config file, a file of rules, and its name in the registry."""

import filecmp
import shutil
from pathlib import Path

import pytest
from whole_project import RESULTS, ROOT, copy_of_the_project, python, run

from rarefeat.claims.tables import CLAIMS, VERDICTS
from rarefeat.run.metadata import read_origin
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import checked

TOY = Path(__file__).parent / "toy"
PLACES = {"toy.yaml": "config/studies", "toy.smk": "workflow/rules"}


@pytest.fixture(scope="module")
def with_a_toy(tmp_path_factory) -> Path:
    """A copy of the project with the toy's folder beside the other studies, and its results."""
    folder = copy_of_the_project(tmp_path_factory.mktemp("toy"))
    for path in TOY.iterdir():
        if path.is_file():
            place = folder / PLACES.get(path.name, "src/rarefeat/studies/toy")
            place.mkdir(exist_ok=True)
            shutil.copy(path, place)
    registry = folder / "src/rarefeat/registry.py"
    registry.write_text(registry.read_text().replace('    "exact_results",\n)', '    "exact_results",\n    "toy",\n)'))
    done = run(folder, "toy", "claims_toy")
    assert done.returncode == 0, done.stdout + done.stderr
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


def test_it_touches_one_line_of_the_registry(with_a_toy):
    own = {f"{PLACES.get(path.name, 'src/rarefeat/studies/toy')}/{path.name}" for path in TOY.iterdir() if path.is_file()}
    found = {path for inside in ("src", "workflow", "config") for path in differing(with_a_toy, ROOT, inside)}
    assert found == own | {"src/rarefeat/registry.py"}
    before, now = ((root / "src/rarefeat/registry.py").read_text().splitlines() for root in (ROOT, with_a_toy))
    assert [line for line in now if line not in before] == ['    "toy",']
    assert [line for line in now if line in before] == before


def test_it_makes_a_table_a_figure_a_verdict_and_pages(with_a_toy):
    results = with_a_toy / RESULTS
    table = read_table(results / "tables/toy_study_accuracy.parquet").to_pandas()
    assert table.groupby("samples")["seed"].nunique().to_dict() == {30: 6, 300: 6}
    assert table["accuracy"].between(0.4, 1).all()
    assert read_origin(results / "figures/learning_curve.pdf")["tables"].keys() == {"toy_study_accuracy"}
    claims = checked(CLAIMS, read_table(results / "tables/claims_toy.parquet").to_pandas())
    (verdict,) = claims["verdict"]
    wide = table.pivot(index="seed", columns="samples", values="accuracy")
    assert claims["estimate"].item() == pytest.approx((wide[300] - wide[30]).mean())
    assert verdict in VERDICTS[:3]
    assert "more samples help" in (results / "claims_toy.md").read_text()
    assert (results / "pages/toy_tables.html").exists()
    done = python(with_a_toy, "-m", "rarefeat.run.provenance", "verify", RESULTS, "--configfile", "config/quick.yaml")
    of_toy = [line.split() for line in done.stdout.splitlines() if "toy" in line or "learning" in line]
    assert {state for state, *_ in of_toy} == {"current"}
    assert {"tables/toy_study_accuracy.parquet", "figures/learning_curve.png"} <= {path for _, path, *_ in of_toy}


def test_it_is_in_the_report(with_a_toy):
    done = run(with_a_toy, "--report", "report.html", "--", "toy", "claims_toy")
    assert done.returncode == 0, done.stdout + done.stderr
    page = (with_a_toy / "report.html").read_text()
    for entry in ("figures/learning_curve.png", "pages/toy_tables.html", "pages/claims_toy.html"):
        assert str(RESULTS / entry) in page
    assert "See whether it climbs." in page


def test_a_cell_of_another_study_is_refused(with_a_toy, tmp_path):
    """What the author gets for nothing: what reads the cells checks what they are."""
    folder = Path(shutil.copytree(with_a_toy, tmp_path / "project", symlinks=True))
    few, many = (folder / RESULTS / f"learned/toy_study/samples={n}/seeds=100-102.parquet" for n in (30, 300))
    few.write_bytes(many.read_bytes())
    done = run(folder, "--", str(RESULTS / "tables/toy_study_accuracy.parquet"))
    assert done.returncode != 0
    assert (
        f"error: {few.relative_to(folder)} is not the file that its name says: it has another cell" in done.stdout + done.stderr
    )
