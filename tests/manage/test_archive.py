"""The archive of finished tables with which a long run goes on on another machine."""

import io
import json
import lzma
import os
import tarfile

import pyarrow as pa
import pytest

from rarefeat.core.errors import RarefeatError
from rarefeat.manage.archive import pack, read_archive, unpack
from rarefeat.storage.origin import KEY
from rarefeat.storage.sealed_files import read_table, write_table

PATHS = [
    f"{kind}/{study}/arm=dense/seeds={seed}-{seed}.parquet"
    for kind in ("probes", "trajectories")
    for study in "ab"
    for seed in (1, 2)
]
TIMES = [f"logs/probe/{study}/arm=dense/seeds=1-1.log.tsv" for study in "ab"]
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
    # Of a training that has not ended there is no file of times yet, or an old one.
    for path in [*TIMES, "logs/probe/a/arm=dense/seeds=3-3.log.tsv", "logs/aggregate/a.log.tsv"]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("s\tmax_rss\tcpu_time\n2.0\t100.0\t1.5\n", encoding="utf-8")
    (folder / "encoders/a/arm=dense").mkdir(parents=True)
    (folder / "encoders/a/arm=dense/seeds=1-1.safetensors").write_bytes(b"0" * 1000)
    return folder


def test_archive_roundtrip_per_study(results, tmp_path):
    archive, other = tmp_path / "kept.tar.xz", tmp_path / "other"
    assert pack(results, archive) == (len(PATHS), [])
    tables = [path for path in PATHS if "/a/" in path]
    assert unpack(archive, other, "a") == len(tables)
    files = {
        path.relative_to(other).as_posix(): path for path in other.rglob("*.*") if path.is_file()
    }
    assert set(files) == {*tables, TIMES[0]}
    assert all(path.read_bytes() == (results / name).read_bytes() for name, path in files.items())
    assert unpack(archive, other, "none") == 0


def test_pack_adds_tables_and_names_replaced_ones(results, tmp_path):
    first, second = tmp_path / "first.tar.xz", tmp_path / "second.tar.xz"
    for archive in (first, second, second):
        pack(results, archive)
    assert first.read_bytes() == second.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    for path in (PATHS[0], "probes/a/arm=dense/seeds=3-3.parquet"):
        write_table(elsewhere / path, pa.table({"value": [-1]}))
    assert pack(elsewhere, first) == (len(PATHS) + 1, [PATHS[0]])


def test_unpack_keeps_other_files_and_dates_equal_ones(results, tmp_path):
    archive = tmp_path / "kept.tar.xz"
    pack(results, archive)
    same, another = results / PATHS[0], results / PATHS[1]
    os.utime(same, ns=(0, 0))
    write_table(another, pa.table({"value": [-1]}))
    unpack(archive, results, "a")
    assert same.stat().st_mtime_ns > 0
    assert read_table(another).to_pydict() == {"value": [-1]}


def write_archive(path, name, content):
    with tarfile.open(path, "w:xz") as opened:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        opened.addfile(member, io.BytesIO(content))


def test_damaged_table_is_neither_packed_nor_unpacked(results, tmp_path):
    archive, other = tmp_path / "kept.tar.xz", tmp_path / "other"
    (results / PATHS[0]).write_bytes(damaged := (results / PATHS[0]).read_bytes()[:-1])
    with pytest.raises(RarefeatError, match=r"seeds=1-1\.parquet"):
        pack(results, archive)
    assert not archive.exists()
    write_archive(archive, PATHS[0], damaged)
    with pytest.raises(
        RarefeatError, match=r"kept\.tar\.xz: probes/a/arm=dense/seeds=1-1\.parquet is damaged"
    ):
        unpack(archive, other, "a")
    assert not list(other.rglob("*.parquet*"))


@pytest.mark.parametrize("name", OUTSIDE)
def test_unpack_refuses_paths_elsewhere(name, tmp_path):
    write_archive(tmp_path / "kept.tar.xz", name, b"")
    with pytest.raises(RarefeatError, match="is no table of a cell"):
        unpack(tmp_path / "kept.tar.xz", tmp_path / "results", "a")


def test_missing_and_broken_archive_are_one_line(tmp_path):
    with pytest.raises(RarefeatError, match=r"kept\.tar\.xz is not there"):
        unpack(tmp_path / "kept.tar.xz", tmp_path / "results", "a")
    broken = tmp_path / "broken.tar.xz"
    write_archive(broken, PATHS[0], b"0" * 5000)
    for content in (b"", b"text", lzma.compress(b"text" * 999), broken.read_bytes()[:99]):
        broken.write_bytes(content)
        with pytest.raises(
            RarefeatError, match=r"^cannot read .*broken\.tar\.xz: it is no whole archive"
        ):
            read_archive(broken)
