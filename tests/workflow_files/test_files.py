"""Files are whole or absent, and damage is one line."""

import errno
import subprocess
import sys

import pandas as pd
import pandera.pandas as pandera
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.schema import schema, validate, validate_sorted
from rarefeat.workflow.files.sealed_files import (
    DamagedFileError,
    atomic_write,
    read_table,
    write_table,
)
from rarefeat.workflow.files.tensors import read_tensors, write_tensors


def test_tables_and_tensors_roundtrip(tmp_path):
    table = pa.table({"a": [1, 2], "b": [None, 0.5]})
    write_table(tmp_path / "t.parquet", table, {"rarefeat.seeds": "1-2"})
    back = read_table(tmp_path / "t.parquet")
    assert back.to_pydict() == table.to_pydict()
    assert back.schema.metadata[b"rarefeat.seeds"] == b"1-2"
    # A table that was read and is written again is sealed again.
    write_table(tmp_path / "t.parquet", back.slice(1))
    assert read_table(tmp_path / "t.parquet").to_pydict() == {"a": [2], "b": [0.5]}
    tensors = {"w": torch.arange(6.0).view(2, 3).mT, "b": torch.ones(1)}
    write_tensors(tmp_path / "t.safetensors", tensors)
    w, b = read_tensors(tmp_path / "t.safetensors", "w", "b")
    assert torch.equal(w, tensors["w"])
    assert torch.equal(b, tensors["b"])
    with pytest.raises(RarefeatError, match="bias"):
        read_tensors(tmp_path / "t.safetensors", "bias")


@pytest.mark.parametrize(
    "error", [RuntimeError(), OSError(errno.ENOSPC, "No space left on device")]
)
def test_failed_write_leaves_the_old_file_alone(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail_half_way():
        with atomic_write(path) as temporary:
            assert temporary.match(".file.txt.*.rarefeat-tmp.txt")
            temporary.write_text("half")
            raise error

    with pytest.raises((RuntimeError, RarefeatError)) as caught:
        fail_half_way()
    if isinstance(error, OSError):
        assert str(caught.value) == f"cannot write {path}: No space left on device"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["table", "tensors"])
def test_no_damage_goes_unseen(tmp_path, kind):
    """Every byte of a small file, one bit of it flipped, and every length below the whole."""
    path = tmp_path / "file"
    if kind == "table":
        write_table(
            path, pa.table({"a": [1.5, None, 3.0], "b": ["x", "y", "y"]}), {"rarefeat.seeds": "1-2"}
        )
    else:
        write_tensors(path, {"w": torch.arange(6.0), "b": torch.ones(2, dtype=torch.int8)})
    content = path.read_bytes()
    read = read_table if kind == "table" else lambda path: read_tensors(path, "w", "b")
    for index, byte in enumerate(content):
        flipped = content[:index] + bytes([byte ^ 1 << index % 8]) + content[index + 1 :]
        for damaged in (flipped, content[:index]):
            path.write_bytes(damaged)
            with pytest.raises(
                DamagedFileError,
                match=r"cannot read .*/file: it is damaged.*; delete it and run snakemake again",
            ):
                read(path)
    path.write_bytes(content + b"0")
    with pytest.raises(DamagedFileError):
        read(path)
    path.write_bytes(content)
    read(path)


def test_other_and_missing_files_are_one_line(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    with pytest.raises(DamagedFileError, match=r"t\.parquet"):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(
        RarefeatError, match=r"cannot read .*absent: No such file or directory$"
    ) as caught:
        read_table(tmp_path / "absent")
    assert not isinstance(caught.value, DamagedFileError)


def test_files_have_the_same_bytes_in_every_process(tmp_path):
    """The safetensors library orders several keys of metadata anew in each."""
    script = (
        "import sys, pyarrow, torch\n"
        "from rarefeat.workflow.files.sealed_files import write_table\n"
        "from rarefeat.workflow.files.tensors import write_tensors\n"
        "write_tensors(sys.argv[1] + '.safetensors', {'w': torch.ones(3)}, 'x')\n"
        "write_table(sys.argv[1] + '.parquet', pyarrow.table({'a': [1]}), {'rarefeat': 'x'})\n"
    )
    for number in range(2):
        subprocess.run([sys.executable, "-c", script, tmp_path / str(number)], check=True)
    for suffix in ("safetensors", "parquet"):
        assert len({path.read_bytes() for path in tmp_path.glob(f"*.{suffix}")}) == 1


def test_schema_refuses_other_columns_and_values():
    kind = schema(
        "t",
        "a row",
        {"a": pandera.Column(int), "b": pandera.Column(float, pandera.Check.le(1))},
        ["a"],
    )
    table = pd.DataFrame({"b": [0.5, 1.0], "a": [2, 1]})
    assert list(validate(kind, table)) == ["a", "b"]
    assert list(validate_sorted(kind, table)["a"]) == [1, 2]
    for wrong, words in (
        (table.assign(c=1), "table t: unknown column c"),
        (table.drop(columns="b"), "table t: column b is missing"),
        (table.assign(b=2.0), "table t: column b: less_than_or_equal_to"),
    ):
        with pytest.raises(RarefeatError, match=words):
            validate(kind, wrong)
