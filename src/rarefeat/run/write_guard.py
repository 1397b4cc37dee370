"""Refuse to run a job with code that was edited after its run was planned."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

from rarefeat.core.errors import RarefeatError
from rarefeat.run.code_hashes import PACKAGE, USER_PREFIX, accepted_hash, code_hash

PLANNED = "RAREFEAT_SOURCE"
"""Variable with the `source_state` of when the run was planned."""
ACCEPTING = "RAREFEAT_ACCEPTING"
"""Variable that is set where other code makes a sample again (manage/accept.py)."""


def source_state() -> str:
    """Return a hash of the names, sizes and times of the package's source files."""
    files = [(path, path.stat()) for path in sorted(PACKAGE.rglob("*.py"))]
    states = [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in files]
    return hashlib.sha256(repr(states).encode()).hexdigest()[:16]


def check_code(hashes: Mapping[str, str], accepted: Iterable[Mapping[str, Any]]) -> None:
    """Raise RarefeatError if the code is not that with the hashes that a job names."""
    same_source = os.environ.get(PLANNED) == source_state()
    for name, planned in () if os.environ.get(ACCEPTING) else hashes.items():
        if same_source and not name.startswith(f"{USER_PREFIX}."):
            continue
        try:
            current = accepted_hash(code_hash(name), name, accepted)
        except (LookupError, SyntaxError, OSError):
            current = ""
        if current != planned:
            raise RarefeatError(
                f"the code of {name} was edited after this run was planned; run snakemake again"
            )
