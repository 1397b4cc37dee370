"""How the config is read: YAML in which nothing is silently another value, and the values of a command line likewise."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from rarefeat.config.names import short
from rarefeat.config.section import single
from rarefeat.core.errors import RarefeatError

DECIMAL = re.compile(
    r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?|[-+]?\.[0-9]+([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
TRUTH = {"true", "True", "TRUE", "false", "False", "FALSE"}
DIGITS = 300
WHOLE = 2**53
NODES = 1_000_000


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML 1.1, but for what a reader takes for another value, and for a key that is given twice: the last would count."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """A mapping as it is written, before what it merges is laid under it; an anchor's is seen more than once."""
        if not getattr(node, "read", False):
            node.read, seen = True, set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if (key.tag, key.value) in seen:
                    raise refusal(key, f"the key {short(key.value)} is given twice")
                seen.add((key.tag, key.value))
        super().flatten_mapping(node)

    def number(self, node: yaml.ScalarNode) -> int | float:
        """A number in decimal digits: no 0100, which is 64, no 5:00, which is 300, no 1_000 or 0x1F."""
        if not DECIMAL.fullmatch(node.value):
            raise refusal(node, f"{short(node.value)} is no number in plain decimal digits; a text stands in quotes")
        if len(node.value) > DIGITS:
            raise refusal(node, f"a number of {len(node.value)} digits is too long")
        is_whole = node.tag == "tag:yaml.org,2002:int"
        return self.construct_yaml_int(node) if is_whole else self.construct_yaml_float(node)

    def truth(self, node: yaml.ScalarNode) -> bool:
        """True or false in these words: no, off and the like are a text to one reader and a truth value to another."""
        if node.value not in TRUTH:
            raise refusal(node, f"{node.value} is true or false to YAML; write that, or a text in quotes")
        return self.construct_yaml_bool(node)

    def date(self, node: yaml.ScalarNode) -> Any:
        """None: no key has one."""
        raise refusal(node, f"{node.value} is a date to YAML; a text stands in quotes")


for tag, constructor in {"int": Loader.number, "float": Loader.number, "bool": Loader.truth, "timestamp": Loader.date}.items():
    Loader.add_constructor(f"tag:yaml.org,2002:{tag}", constructor)


def refusal(node: yaml.Node, said: str) -> yaml.MarkedYAMLError:
    """An error of our own at its place in the text."""
    return yaml.MarkedYAMLError(problem=said, problem_mark=node.start_mark)


def read(path: Path, what: str = "config") -> dict:
    """A file of YAML; RarefeatError where it cannot be read, has a key twice, or a value that is not what it looks like.

    Args:
        what: what a message calls it.
    """
    try:
        part = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise RarefeatError(f"cannot read {what} {path}: {error.strerror}") from error
    except RecursionError as error:
        raise RarefeatError(f"cannot read {what} {path}: it is nested too deeply") from error
    except (ValueError, yaml.YAMLError) as error:
        raise RarefeatError(f"cannot read {what} {path}: {in_one_line(error)}") from error
    if not isinstance(part, dict):
        raise RarefeatError(f"{what} {path} must be a mapping of keys to values")
    return part


def in_one_line(error: Exception) -> str:
    """What YAML says of a text."""
    return " ".join(str(error).split()).replace(' in "<unicode string>"', "")


def said(entries: Iterable[str]) -> dict[str, Any]:
    """The entries KEY=VALUE of `--config`, read as a config file is: Snakemake has the numbers within `data={N: 64}` as texts.

    Raises:
        RarefeatError: for a value that a config file may not have, or a key that is given twice.
    """
    found: dict[str, Any] = {}
    for entry in entries:
        key, _, text = entry.partition("=")
        if key in found:
            raise RarefeatError(f"--config: the key {key} is given twice")
        try:
            found[key] = yaml.load(text, Loader) if text else None
        except (yaml.scanner.ScannerError, yaml.parser.ParserError):
            found[key] = text
        except (RecursionError, ValueError, yaml.YAMLError) as error:
            raise RarefeatError(f"--config {key}: {in_one_line(error)}") from error
    return found


def sound(raw: Any, of: str = "config") -> Any:
    """Raw values with one zero instead of two, in plain Python types; RarefeatError, by key, for what no number here can be.

    Args:
        of: what has the values, for a message.
    """
    nodes = 0

    def walked(part: Any, place: str) -> Any:
        nonlocal nodes
        nodes += 1
        if nodes > NODES:
            raise RarefeatError(f"{of}: more than {NODES:,} values; is an anchor repeated over and over?")
        if isinstance(part, dict):
            return {key: walked(value, f"{place}.{key}" if place else str(key)) for key, value in part.items()}
        if isinstance(part, list | tuple):
            return [walked(value, place) for value in part]
        if hasattr(part, "dtype") and hasattr(part, "tolist"):
            return walked(part.tolist(), place)
        if isinstance(part, int) and not isinstance(part, bool) and abs(part) > WHOLE:
            raise RarefeatError(f"{of}: {place}: must be at most 2^53, got {short(part)}")
        if isinstance(part, float):
            try:
                return single(part)
            except ValueError as error:
                raise RarefeatError(f"{of}: {place}: {error}") from error
        return part

    try:
        return walked(raw, "")
    except RecursionError as error:
        raise RarefeatError(f"{of}: nested too deeply") from error
