"""Files are whole or absent, and damage is one line."""

import errno
import resource
import subprocess
import sys

import pyarrow as pa
import pytest
import torch

from rarefeat.files import RarefeatError, read_table, replacing, write_table
from rarefeat.tensors import read_tensors, write_tensors


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


def test_a_stage_that_cannot_write_its_output_leaves_nothing(tmp_path):
    # A limit on the size of files stands in for a full disk.
    data = "{d: 9, d1: 60, L: 4, C: 1, minority: [1], N: 4096, probe_pairs: 9, test_pairs: 9, test_seed: 7}"
    output = tmp_path / "latents.safetensors"
    command = [sys.executable, "-m", "rarefeat.synthesise", "--study", "s", "--data", data, "--eps-min", "1"]
    done = subprocess.run(
        [*command, "--seeds", "1-2", "--output", str(output)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot write {output}")
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep", [0, 3, 0.5, 0.99])
def test_a_truncated_file_is_one_line_that_names_it(tmp_path, keep):
    table, tensors = tmp_path / "t.parquet", tmp_path / "t.safetensors"
    write_table(table, pa.table({"a": list(range(1000))}))
    write_tensors(tensors, {"w": torch.ones(50, 50)})
    for path, read in ((table, read_table), (tensors, lambda path: read_tensors(path, "w"))):
        content = path.read_bytes()
        path.write_bytes(content[: int(keep * len(content)) if keep < 1 else keep])
        with pytest.raises(RarefeatError, match=rf"cannot read .*{path.name}.*delete it") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_a_missing_tensor_is_named(tmp_path):
    write_tensors(tmp_path / "t.safetensors", {"w": torch.ones(2)})
    with pytest.raises(RarefeatError, match="bias"):
        read_tensors(tmp_path / "t.safetensors", "bias")
