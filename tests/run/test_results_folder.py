"""One name for a folder of results, and what its files say of themselves."""

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from conftest import job_path, refusal
from hypothesis import given
from hypothesis import strategies as st

from rarefeat.config.cells import cell
from rarefeat.core.errors import RarefeatError
from rarefeat.run.job import job
from rarefeat.run.metadata import build_origin
from rarefeat.run.results_folder import OF_THE_PROJECT, other_job, usable
from rarefeat.storage.sealed_files import KEY, write_table

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A project's folder with results, a link to them, a file and a loop of links."""
    place = tmp_path / "project"
    (place / "results/t/x").mkdir(parents=True)
    (place / "linked").symlink_to("results")
    (place / "loop").symlink_to("loop")
    (place / "notes.txt").write_text("notes")
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize(
    "spelling",
    ["results/t", "results/t/", "./results/t", "results//t", "results/./t", "results/t/x/..", "{here}/results/t",
     "../project/results/t", "{here}//results/t/", "/{here}/results/t", "linked/../results/t"],
)  # fmt: skip
def test_a_folder_has_one_name(here, spelling):
    assert usable(spelling.replace("{here}", str(here))) == "results/t"


@pytest.mark.parametrize(
    "folder", ["r", "my results", "Ergebnisse/für mich", "linked/t", "new/a/b"]
)
def test_a_usable_name_is_left_as_it_is(here, folder):
    assert usable(folder) == folder


def test_a_folder_elsewhere_has_its_whole_path(here, tmp_path):
    assert usable("../other/r") == usable(f"{tmp_path}//other/r/") == f"{tmp_path}/other/r"


@given(st.lists(st.sampled_from(["a", "b", ".", ".."]), min_size=1, max_size=5).map("/".join))
def test_a_name_names_the_same_folder_and_itself(tmp_path_factory, spelling):
    try:
        found = usable(spelling)
    except RarefeatError:
        return
    assert Path(found).resolve() == Path(spelling).resolve()
    assert usable(found) == found


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("", "must be a folder of its own"), (".", "must be a folder of its own"), ("/", "must be a folder of its own"),
        ("..", "must be a folder of its own"), ("results/..", "must be a folder of its own"), ("src", "none of the project's"),
        ("config/mine", "none of the project's"), ("./src/../src", "none of the project's"), (".git", "none that is hidden"),
        (".snakemake/r", "none that is hidden"), ("-x", "none that begins with -"), ("~/r", "none that begins with - or ~"),
        ("notes.txt", "'notes.txt': it is no folder"), ("notes.txt/r", "'notes.txt': it is no folder"),
        ("loop", "'loop': Too many levels of symbolic links"), ("loop/r", "Too many levels of symbolic links"),
        ("a{b}", "must be without"), ("a'b", "must be without"), ("a\nb", "must be without '\\n'"), ("a$b", "must be without"),
        ("a\x00b", "must be without '\\x00'"), ("x" * 300, "File name too long"),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_is_one_line(here, folder, says):
    assert says in refusal(usable, folder)


def test_the_project_s_folders_are_known():
    there = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."} - {
        "results",
        "site",
    }
    assert there == set(OF_THE_PROJECT)


# What files say

TOLD = job(
    "chain.pretrain:stage",
    (),
    {"eta": 0.1, "study": {"seeds_per_block": 5}},
    "mine",
    cell(eps_min=0.5),
    "1-2",
)
ROWS = pa.table({"a": [1]})


def of_snakemake(told, *paths) -> SimpleNamespace:
    """A job as Snakemake has it."""
    return SimpleNamespace(
        params={"job": job_path(told)} if told else {}, output=[str(path) for path in paths]
    )


@pytest.fixture
def rows(tmp_path) -> Path:
    write_table(tmp_path / "rows.parquet", ROWS, {KEY: TOLD.text})
    return tmp_path / "rows.parquet"


@pytest.fixture
def product(tmp_path) -> Path:
    write_table(tmp_path / "product.parquet", ROWS, {KEY: json.dumps(build_origin(TOLD))})
    return tmp_path / "product.parquet"


CHANGED = [
    TOLD.model_copy(update={"config": TOLD.config | {"eta": 0.2}}),
    TOLD.model_copy(update={"code": {"chain.pretrain:stage": "0"}}),
    TOLD.model_copy(update={"config": TOLD.config | {"size": "quick"}}),
]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("kind", ["rows", "product"])
def test_a_file_of_today_s_job_is_trusted_and_one_of_another_is_not(request, kind, recorded):
    path = request.getfixturevalue(kind)
    assert other_job(of_snakemake(TOLD, path), recorded) is None
    for changed in CHANGED:
        found, before, now = other_job(of_snakemake(changed, path), recorded)
        assert found == str(path)
        assert json.loads(before) != json.loads(now)
        # What a product does not say is not given as a reason.
        assert kind == "rows" or "seeds_per_block" not in now


def test_how_seeds_are_cut_is_no_other_table(product, rows):
    """As its origin has it (run/metadata.py); an intermediate file holds a block of them."""
    cut = TOLD.model_copy(update={"config": TOLD.config | {"study": {"seeds_per_block": 7}}})
    assert other_job(of_snakemake(cut, product), recorded=True) is None
    assert other_job(of_snakemake(cut, rows), recorded=True)


def test_a_file_that_says_nothing_needs_a_record(tmp_path):
    (tmp_path / "page.md").write_text("# A page")
    for told in (TOLD, None):
        assert other_job(of_snakemake(told, tmp_path / "page.md"), recorded=True) is None
        assert other_job(of_snakemake(told, tmp_path / "page.md"), recorded=False)


def test_a_file_that_is_not_there_says_nothing(rows, tmp_path):
    for recorded in (False, True):
        assert other_job(of_snakemake(TOLD, tmp_path / "absent.parquet"), recorded) is None
        assert other_job(of_snakemake(TOLD, tmp_path / "absent.parquet", rows), recorded) is None
