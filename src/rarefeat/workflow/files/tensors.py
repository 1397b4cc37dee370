"""Tensors in safetensors files; apart from files.py, so that tables need not import torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from rarefeat.workflow.files.origin import KEY, check_origin
from rarefeat.workflow.files.sealed_files import BLANK, SEAL, read_error, verify, write_file


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], origin: str = "") -> None:
    """Write named tensors as a sealed safetensors file."""
    metadata = {SEAL: BLANK, **({KEY: origin} if origin else {})}
    content = save({name: x.contiguous() for name, x in tensors.items()}, metadata=metadata)
    # The library writes the metadata in another order in each process: sort them.
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    head["__metadata__"] = dict(sorted(head["__metadata__"].items()))
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_file(path, len(text).to_bytes(8, "little") + text + content[8 + size :], sealed=True)


def read_tensors(
    path: str | Path, *names: str, expected: Mapping[str, Any] | None = None
) -> list[Tensor]:
    """Read tensors of a sealed file; RarefeatError if it lacks some, or is not as expected."""
    verify(path)
    try:
        with safe_open(path, framework="pt") as handle:
            if expected is not None:
                check_origin(path, (handle.metadata() or {}).get(KEY), expected)
            return [handle.get_tensor(name) for name in names]
    except (SafetensorError, OSError) as error:
        raise read_error(path, error) from error
