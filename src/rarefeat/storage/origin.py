"""An intermediate file knows what it is: who wrote it stands in its metadata, and who reads it says what it must be."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rarefeat.core.errors import RarefeatError

KEY = "rarefeat"
"""Key of the metadata of every file that is written here."""


def refuse_another(path: str | Path, text: str | None, expected: Mapping[str, Any]) -> None:
    """RarefeatError unless the metadata of a file are those of the one that is expected.

    Args:
        text: what stands in the file. expected: study, cell and seeds are equal; of `config` and `code` what is named is.
    """
    try:
        found = json.loads(text or "")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RarefeatError(f"{path} does not say what it is; delete it and run snakemake again")
    for key in ("study", "cell", "seeds"):
        if key in expected and found.get(key) != expected[key]:
            raise another(path, key, found.get(key), expected[key])
    for part in ("config", "code"):
        there = found.get(part) or {}
        for key, value in expected.get(part, {}).items():
            if there.get(key) != value:
                raise another(path, f"{part}.{key}", there.get(key), value)


def another(path: str | Path, key: str, found: Any, expected: Any) -> RarefeatError:
    """One line that names what differs."""
    texts = [json.dumps(value) for value in (found, expected)]
    values = f" {texts[0]} instead of {texts[1]}" if max(map(len, texts)) <= 60 else ""
    return RarefeatError(
        f"{path} is not the file that its name says: it has another {key}{values}; delete it and run snakemake again"
    )
