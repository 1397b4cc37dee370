"""The archive of finished tables with which a long run goes on on another machine."""

import io
import json
import lzma
import os
import tarfile

import pyarrow as pa
import pytest
from conftest import some_damage

from rarefeat.core.errors import RarefeatError
from rarefeat.manage.kept import contents, pack, unpack
from rarefeat.storage.files import read_table, write_table
from rarefeat.storage.origin import KEY

PATHS = [
    f"{kind}/{study}/arm=dense/seeds={seed}-{seed}.parquet"
    for kind in ("probes", "trajectories")
    for study in "ab"
    for seed in (1, 2)
]
BENCHMARKS = [f"logs/probe/{study}/arm=dense/seeds=1-1.log.tsv" for study in "ab"]
OUTSIDE = (
    "../a/seeds=1-1.parquet",
    "logs/probe/a/run.sh",
    "logs/probe/../../../a/seeds=1-1.log.tsv",
    "logs/seeds=1-1.log.tsv",
    "probes/a/../../../seeds=1-1.parquet",
    "probes/a/run.sh",
    "seeds=1-1.parquet",
)


@pytest.fixture
def results(tmp_path):
    """Finished tables of two studies, and what is no finished table."""
    folder = tmp_path / "results"
    others = ["tables/a.longtail.parquet", "checkpoints/a/arm=dense/seeds=1-1.seed=1.parquet"]
    for number, path in enumerate([*PATHS, *others]):
        write_table(folder / path, pa.table({"value": [number]}), {KEY: json.dumps({"study": "a"})})
    # Of a training that has not ended there is no benchmark yet, or an old one.
    for path in [*BENCHMARKS, "logs/probe/a/arm=dense/seeds=3-3.log.tsv", "logs/aggregate/a.log.tsv"]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("s\tmax_rss\tcpu_time\n2.0\t100.0\t1.5\n", encoding="utf-8")
    (folder / "encoders/a/arm=dense").mkdir(parents=True)
    (folder / "encoders/a/arm=dense/seeds=1-1.safetensors").write_bytes(b"0" * 1000)
    return folder


def test_what_is_kept_comes_back_study_by_study(results, tmp_path):
    archive, other = tmp_path / "kept.tar.xz", tmp_path / "other"
    assert pack(results, archive) == len(PATHS)
    of_a = [path for path in PATHS if "/a/" in path]
    assert unpack(archive, other, "a") == len(of_a)
    assert sorted(str(path.relative_to(other)) for path in other.rglob("*.parquet")) == sorted(of_a)
    benchmarks = [path for path in BENCHMARKS if "/a/" in path]
    assert [str(path.relative_to(other)) for path in other.rglob("*.tsv")] == benchmarks
    assert all((other / path).read_bytes() == (results / path).read_bytes() for path in of_a + benchmarks)
    assert unpack(archive, other, "none") == 0


def test_the_same_tables_give_the_same_bytes_and_new_ones_are_added(results, tmp_path):
    first, second = tmp_path / "first.tar.xz", tmp_path / "second.tar.xz"
    pack(results, first)
    pack(results, second)
    pack(results, second)
    assert first.read_bytes() == second.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    write_table(elsewhere / "probes/a/arm=dense/seeds=3-3.parquet", pa.table({"value": [0]}))
    assert pack(elsewhere, first) == len(PATHS) + 1


def test_what_is_there_is_dated_anew_where_it_is_the_same_and_stays_where_it_is_not(results, tmp_path):
    archive = tmp_path / "kept.tar.xz"
    pack(results, archive)
    same, another = results / PATHS[0], results / PATHS[1]
    os.utime(same, ns=(0, 0))
    write_table(another, pa.table({"value": [-1]}))
    unpack(archive, results, "a")
    assert same.stat().st_mtime_ns > 0
    assert read_table(another).to_pydict() == {"value": [-1]}


def test_a_damaged_table_is_neither_kept_nor_put_back(results, tmp_path):
    archive = tmp_path / "kept.tar.xz"
    for damaged in some_damage((results / PATHS[0]).read_bytes(), 9):
        (results / PATHS[0]).write_bytes(damaged)
        with pytest.raises(RarefeatError, match=r"seeds=1-1\.parquet"):
            pack(results, archive)
        assert not archive.exists()
        planted(tmp_path / "planted.tar.xz", PATHS[0], damaged)
        with pytest.raises(RarefeatError, match=r"planted\.tar\.xz: probes/a/arm=dense/seeds=1-1\.parquet is damaged"):
            unpack(tmp_path / "planted.tar.xz", tmp_path / "other", "a")
        assert not list((tmp_path / "other").rglob("*.parquet*"))


def planted(archive, name, content):
    with tarfile.open(archive, "w:xz") as opened:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        opened.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_archive_that_reaches_elsewhere_is_refused(name, tmp_path):
    archive = tmp_path / "kept.tar.xz"
    planted(archive, name, b"")
    with pytest.raises(RarefeatError, match="is no table of a cell"):
        unpack(archive, tmp_path / "results", "a")


def test_no_archive_and_a_broken_one_are_one_line(tmp_path):
    with pytest.raises(RarefeatError, match=r"kept\.tar\.xz is not there"):
        unpack(tmp_path / "kept.tar.xz", tmp_path / "results", "a")
    broken = tmp_path / "broken.tar.xz"
    planted(broken, PATHS[0], b"0" * 5000)
    whole = broken.read_bytes()
    for content in (b"", b"text", b"\xfd7zXZ\x00" + b"0" * 100, lzma.compress(b""), lzma.compress(b"text" * 999), whole[:99]):
        broken.write_bytes(content)
        with pytest.raises(RarefeatError, match=r"^cannot read .*broken\.tar\.xz: it is no whole archive"):
            contents(broken)
    with pytest.raises(RarefeatError, match=r"^cannot read .*: Is a directory$"):
        contents(tmp_path)
