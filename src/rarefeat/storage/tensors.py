"""Tensors in safetensors files, apart from files.py so that what needs no tensor need not import torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from rarefeat.storage.files import BLANK, SEAL, unreadable, verify, write_file
from rarefeat.storage.origin import KEY, refuse_another


def write_tensors(path: str | Path, tensors: dict[str, Tensor], origin: str = "") -> None:
    """Write named tensors as safetensors; origin: what wrote them, for who reads them."""
    metadata = {SEAL: BLANK, **({KEY: origin} if origin else {})}
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata=metadata)
    write_file(path, in_order(content), sealed=True)


def in_order(content: bytes) -> bytes:
    """A safetensors file with its metadata in order: the library writes them in another order in each process."""
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    head["__metadata__"] = dict(sorted(head["__metadata__"].items()))
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def read_tensors(path: str | Path, *names: str, expected: Mapping[str, Any] | None = None) -> list[Tensor]:
    """Read the named tensors of a file of write_tensors.

    Args:
        expected: what the file must be (storage/origin.py); None to read any.

    Raises:
        RarefeatError: where it is missing, damaged, another than expected, or lacks one of them.
    """
    verify(path)
    try:
        with safe_open(path, framework="pt") as handle:
            if expected is not None:
                refuse_another(path, (handle.metadata() or {}).get(KEY), expected)
            return [handle.get_tensor(name) for name in names]
    except (SafetensorError, OSError) as error:
        raise unreadable(path, error) from error
