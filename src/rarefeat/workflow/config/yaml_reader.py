"""Reader of YAML 1.2 files, in which a number is what it looks like and no key stands twice."""

import re
from pathlib import Path

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from rarefeat.errors import RarefeatError

MISREAD = re.compile(r"[-+]?(0[0-7_]+|[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")
"""Numbers that are others in YAML 1.1, which Snakemake reads: 0100 is 64 there, and 5:00 is 300."""


def read_yaml(path: Path, name: str = "config") -> dict:
    """Read a mapping from a YAML file; `name` is what an error message calls the file."""
    try:
        text = path.read_text(encoding="utf-8")
        content = YAML(typ="safe").load(text)
    except (OSError, ValueError, RecursionError, YAMLError) as error:
        problem = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        if isinstance(error, MarkedYAMLError):
            problem = f"line {error.problem_mark.line + 1}: {error.problem}"
        raise RarefeatError(f"cannot read {name} {path}: {problem}") from error
    if not isinstance(content, dict):
        raise RarefeatError(
            f"{name} {path}: must be a mapping of keys to values, got {content!r:.60}"
        )
    for token in yaml.scan(text, Loader=yaml.CSafeLoader):
        if isinstance(token, yaml.ScalarToken) and token.plain and MISREAD.fullmatch(token.value):
            raise RarefeatError(
                f"cannot read {name} {path}: line {token.start_mark.line + 1}: {token.value} is"
                f" {yaml.safe_load(token.value)} to Snakemake; write that, or quotes for a text"
            )
    return content
