"""Tensors in safetensors files, apart from files.py so that what needs no tensor need not import torch."""

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from rarefeat.files import BLANK, SEAL, replacing, seal, unreadable, verify


def write_tensors(path: str | Path, tensors: dict[str, Tensor]) -> None:
    """Write named tensors as safetensors."""
    with replacing(path) as temporary:
        temporary.write_bytes(save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata={SEAL: BLANK}))
        seal(temporary)


def read_tensors(path: str | Path, *names: str) -> list[Tensor]:
    """Read the named tensors of a file of write_tensors; RarefeatError where it is missing, damaged or lacks one."""
    verify(path)
    try:
        with safe_open(path, framework="pt") as handle:
            return [handle.get_tensor(name) for name in names]
    except (SafetensorError, OSError) as error:
        raise unreadable(path, error) from error
