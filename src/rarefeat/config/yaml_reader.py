"""Reader of YAML 1.2 files, in which a number is what it looks like and no key stands twice."""

from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from rarefeat.core.errors import RarefeatError


def read_yaml(path: Path, name: str = "config") -> dict:
    """Read a mapping from a YAML file; `name` is what an error message calls the file.

    Raises
    ------
    RarefeatError
        If the file cannot be read, is not valid YAML, repeats a key, or is not a mapping.
    """
    try:
        content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, YAMLError) as error:
        problem = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        if isinstance(error, MarkedYAMLError):
            problem = f"line {error.problem_mark.line + 1}: {error.problem}"
        raise RarefeatError(f"cannot read {name} {path}: {problem}") from error
    if not isinstance(content, dict):
        raise RarefeatError(
            f"{name} {path}: must be a mapping of keys to values, got {content!r:.60}"
        )
    return content
