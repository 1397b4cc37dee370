"""Origins of intermediate files: the job of each stands in its metadata, and readers check it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rarefeat.errors import RarefeatError

KEY = "rarefeat"
"""Key of the metadata of every file that is written here."""


NEUTRAL = ("seeds_per_block", "kernel")
"""Keys of a config that set how a result is computed, and not which it is."""


def drop_neutral_keys(section: Any) -> Any:
    """Return a section of the config without the keys that make no result anew."""
    if isinstance(section, dict):
        return {
            key: drop_neutral_keys(value) for key, value in section.items() if key not in NEUTRAL
        }
    return [drop_neutral_keys(value) for value in section] if isinstance(section, list) else section


def check_origin(path: str | Path, text: str | bytes | None, expected: Mapping[str, Any]) -> None:
    """Raise RarefeatError unless the metadata of a file are the expected ones."""
    try:
        origin = json.loads(text or "")
    except ValueError:
        origin = None
    if not isinstance(origin, dict):
        raise RarefeatError(f"{path} does not say what it is; delete it and run snakemake again")
    pairs = {
        key: (origin.get(key), expected[key])
        for key in ("study", "cell", "seeds")
        if key in expected
    }
    for section in ("config", "code"):
        values = origin.get(section) or {}
        for key, value in expected.get(section, {}).items():
            both = drop_neutral_keys(values.get(key)), drop_neutral_keys(value)
            pairs[f"{section}.{key}"] = both
    for key, (value, right) in pairs.items():
        if value != right:
            texts = [json.dumps(value), json.dumps(right)]
            both = f" {texts[0]} instead of {texts[1]}" if max(map(len, texts)) <= 60 else ""
            raise RarefeatError(
                f"{path} is not the file that its name says: it has another {key}{both};"
                " delete it and run snakemake again"
            )
