"""Files are whole or absent, and damage is one line."""

import errno
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rarefeat.core.errors import RarefeatError
from rarefeat.storage.files import DamagedError, read_table, replacing, write_table
from rarefeat.storage.tensors import read_tensors, write_tensors


def test_tables_and_tensors_come_back(tmp_path):
    table = pa.table({"a": [1, 2], "b": [None, 0.5]})
    write_table(tmp_path / "t.parquet", table, {"rarefeat.seeds": "1-2"})
    back = read_table(tmp_path / "t.parquet")
    assert back.to_pydict() == table.to_pydict()
    assert back.schema.metadata[b"rarefeat.seeds"] == b"1-2"
    write_tensors(tmp_path / "t.safetensors", {"w": torch.arange(6.0).view(2, 3).mT, "b": torch.ones(1)})
    w, b = read_tensors(tmp_path / "t.safetensors", "w", "b")
    assert torch.equal(w, torch.arange(6.0).view(2, 3).mT)
    assert torch.equal(b, torch.ones(1))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail_half_way():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_one_line_that_names_the_file(tmp_path):
    path = tmp_path / "file.txt"

    def fill():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RarefeatError, match=r"cannot write .*file.txt: No space left on device"):
        fill()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["table", "tensors"])
def test_no_damage_goes_unseen(tmp_path, kind):
    """Every byte of a small file, one bit of it turned over, and every length below the whole."""
    path = tmp_path / "file"
    if kind == "table":
        write_table(path, pa.table({"a": [1.5, None, 3.0], "b": ["x", "y", "y"]}), {"rarefeat.seeds": "1-2"})
    else:
        write_tensors(path, {"w": torch.arange(6.0), "b": torch.ones(2, dtype=torch.int8)})
    content = path.read_bytes()
    read = read_table if kind == "table" else lambda path: read_tensors(path, "w", "b")
    for at, byte in enumerate(content):
        flipped = content[:at] + bytes([byte ^ 1 << at % 8]) + content[at + 1 :]
        for damaged in (flipped, content[:at]):
            path.write_bytes(damaged)
            with pytest.raises(DamagedError, match=r"cannot read .*/file: it is damaged.*; delete it and run snakemake again"):
                read(path)
    path.write_bytes(content + b"0")
    with pytest.raises(DamagedError):
        read(path)
    path.write_bytes(content)
    read(path)


def test_a_file_of_other_software_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    with pytest.raises(DamagedError, match=r"t\.parquet"):
        read_table(tmp_path / "t.parquet")


def test_the_same_content_has_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        write_table(tmp_path / f"{name}.parquet", pa.table({"a": [1, 2]}), {"rarefeat.seeds": "1-2"})
        write_tensors(tmp_path / f"{name}.safetensors", {"w": torch.ones(2), "b": torch.zeros(1)})
    for suffix in ("parquet", "safetensors"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    # A table that was read and is written again is sealed anew.
    write_table(tmp_path / "two.parquet", read_table(tmp_path / "one.parquet").slice(1))
    assert read_table(tmp_path / "two.parquet").to_pydict() == {"a": [2]}


def test_a_file_that_cannot_be_opened_is_not_called_damaged(tmp_path):
    with pytest.raises(RarefeatError, match=r"cannot read .*absent: No such file or directory$") as caught:
        read_table(tmp_path / "absent")
    assert not isinstance(caught.value, DamagedError)


def test_a_missing_tensor_is_named(tmp_path):
    write_tensors(tmp_path / "t.safetensors", {"w": torch.ones(2)})
    with pytest.raises(RarefeatError, match="bias"):
        read_tensors(tmp_path / "t.safetensors", "bias")


def test_tensors_have_the_same_bytes_in_every_process(tmp_path):
    """The library orders several keys of metadata anew in each."""
    write = "write_tensors(sys.argv[1], {'w': torch.ones(3)}, 'x')"
    script = f"import sys, torch; from rarefeat.storage.tensors import write_tensors; {write}"
    paths = [tmp_path / f"{number}.safetensors" for number in range(4)]
    for path in paths:
        subprocess.run([sys.executable, "-c", script, path], check=True)
    assert len({path.read_bytes() for path in paths}) == 1
