"""What a user gives: arguments checked with one line, and the study of the config that they change."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import ValidationError

from rarefeat.config.model import BIAS_RULES, Arm, Data, Training
from rarefeat.config.names import named, near, short
from rarefeat.config.section import Section, one_line, told
from rarefeat.config.study import Study, merged
from rarefeat.core import own
from rarefeat.core.arms import ARMS, is_arm
from rarefeat.core.errors import RarefeatError
from rarefeat.project import DEFAULT, Project, load, located

Checked = TypeVar("Checked")
WORDS = {
    (str,): "a text", (str, Path): "a text or a path", (int,): "a whole number", (float, int): "a number",
    (Mapping,): "a mapping", (Project,): "what load_config returns",
}  # fmt: skip
"""What an argument must be."""


def load_config(*paths: str | Path) -> Project:
    """The config as typed objects, as the workflow has it.

    Parameters
    ----------
    *paths : str or Path
        Config files, each laid over `config/config.yaml` and those before it, as `snakemake --configfile` does. A relative path
        is looked up in the working directory, then beside the config that comes with rarefeat.

    Returns
    -------
    rarefeat.project.Project
        `studies` by name, `tables`, `figures`, `targets` and `results`, the folder of results.

    Raises
    ------
    RarefeatError
        With one line, where a file cannot be read or a value is not allowed.

    Examples
    --------
    >>> project = rarefeat.load_config("config/quick.yaml")
    >>> project.results, project.studies["paper"].training.T
    ('results/quick', 60)
    """
    for path in paths:
        typed("load_config", "path", path, str, Path)
    base = located(DEFAULT)
    return load(base, *(place for path in paths if (place := located(path)) != base))


def typed(of: str, name: str, value: Checked, *kinds: type) -> Checked:
    """An argument that is of one of these kinds; RarefeatError with one line where it is not."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise RarefeatError(f"{of}: {name}: must be {WORDS[kinds]}, got {short(value)}")
    return value


def plain(value: Any) -> Any:
    """Convert arrays, tensors and their numbers to Python's, also within lists and mappings."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def number(of: str, name: str, value: Any) -> float:
    """An argument that is a number."""
    return typed(of, name, plain(value), float, int)


def whole(of: str, name: str, value: Any) -> int:
    """An argument that is a whole number."""
    return typed(of, name, plain(value), int)


def a_name(of: str, what: str, name: Any) -> str:
    """An argument that is the name of a study."""
    try:
        return named(typed(of, what, name, str))
    except ValueError as error:
        raise RarefeatError(f"{of}: {what}: {error}") from error


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Sums in the order that the workflow's jobs have, for the same bytes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


AnArm = str | Callable | Mapping[str, Any]
"""An arm by its name or label, a rule of a user's own, or the keys of one."""


def study_at(
    config: Project | None,
    study: str,
    points: Mapping[str, Sequence[Any]],
    arms: Sequence[AnArm],
    seeds: Sequence[int],
    changes: Mapping[str, Any],
    of: str,
) -> Study:
    """A study of the config with changes, at some points, with some arms and seeds.

    Args:
        points: values of eps_min and of sigma. changes: see `train`; of several arms, keys of an arm hold for those that can
            have them. of: who asks, for a message.
    """
    of_study = encoder_study(load_config() if config is None else typed(of, "config", config, Project), study, of)
    axes = {axis: [number(of, axis, value) for value in values] for axis, values in points.items()}
    seeds = [whole(of, "seed", seed) for seed in seeds]
    changes = given(changes, of)
    parts: dict[str, dict[str, Any]] = {
        part: {key: changes[key] for key in keys if key in changes} for part, keys in PLACES.items()
    }
    of_arms = parts.pop("arm")
    rules = list(dict.fromkeys(arm for arm in arms if callable(arm)))
    for rule in rules:
        if sum(other.__name__ == rule.__name__ for other in rules) > 1:
            raise RarefeatError(f"{of}: arm: two rules are called {rule.__name__}; give each a name of its own")
    chosen = [keys_of(of_study.arms, study, arm) for arm in arms]
    chosen = [merged(arm, possible(arm, of_arms) if len(arms) > 1 else of_arms) for arm in chosen]
    changed = merged(told(of_study), parts.pop("study") | parts) | {
        "seeds": len(seeds),
        "first_seed": min(seeds),
        "seeds_per_block": 1,
        "arms": chosen,
        "grid": {"point": axes | {"arms": list(dict.fromkeys(arm["arm"] for arm in chosen))}},
    }
    try:
        return Study.model_validate(changed)
    except ValidationError as error:
        said = POINT.sub(r"\1", one_line(error, Study))
        raise RarefeatError(f"{of}: {said}") from error


def keys_of(arms: list[Arm], study: str, arm: AnArm) -> dict[str, Any]:
    """The keys of an arm of a study; or of another one, with the ratio that those of the study share."""
    if isinstance(arm, Mapping):
        return plain(arm)
    name = own.given(arm, ARMS) if callable(arm) else typed("arm", "arm", arm, str)
    if not is_arm(name) or (ARMS[name].trained and name in {item.arm for item in arms}):
        return told(one_arm(arms, study, name))
    ratios = {item.alpha for item in arms if item.alpha}
    return {"arm": name} | ({"alpha": ratios.pop()} if ARMS[name].ratio is not False and len(ratios) == 1 else {})


def possible(arm: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Of changes of arms those that one of them can have."""
    named = ARMS[arm["arm"]] if is_arm(arm.get("arm", "")) else ARMS["dense"]
    return {key: value for key, value in changes.items() if named.rule and (key != "alpha" or named.ratio is not False)}


def given(changes: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Changes by their keys of the config; RarefeatError for a key that there is not, or that is given under two names."""
    allowed = [name for keys in PLACES.values() for name in keys]
    if unknown := [key for key in changes if key not in (*allowed, "lambda_")]:
        raise RarefeatError(f"{of}: {unknown[0]}: no such key{near(unknown[0], allowed)}; known are {', '.join(allowed)}")
    if {"lambda", "lambda_"} <= set(changes):
        raise RarefeatError(f"{of}: lambda: given twice, as lambda_ as well")
    found = {"lambda" if key == "lambda_" else key: plain(value) for key, value in changes.items()}
    if isinstance(bias := found.get("bias"), Mapping) and callable(bias.get("rule")):
        found["bias"] = dict(bias) | {"rule": own.given(bias["rule"], BIAS_RULES)}
    return found


def keys(section: type[Section]) -> list[str]:
    """The keys of a section as the config has them."""
    return [item.alias or name for name, item in section.model_fields.items()]


PLACES = {
    "study": ["simulator", "draws"],
    "data": keys(Data),
    "training": keys(Training),
    "arm": [name for name in keys(Arm) if name != "arm"],
}
"""Where in a study the keys of `train` stand; no two sections have the same."""
POINT = re.compile(r"grid\.point\.(\w+)\.\d+\b")
"""Where the points of `train` and `sweep` stand in their study."""


def encoder_study(config: Project, name: str, of: str) -> Study:
    """A study of the contrastive encoder by its name."""
    encoded = {study: item for study, item in config.studies.items() if isinstance(item, Study)}
    if typed(of, "study", name, str) not in encoded:
        raise RarefeatError(f"study {name!r} is none of the contrastive encoder in this config{near(name, encoded)}")
    return encoded[name]


def one_arm(arms: list[Arm], study: str, arm: str) -> Arm:
    """A trained arm of a study by its label, or by its name where there is one of that name."""
    trained = [item for item in arms if item.trained]
    found = [item for item in trained if item.label == arm] or [item for item in trained if item.arm == arm]
    if len(found) != 1:
        several, labels = "several" if found else "none", [item.label for item in trained]
        meant = "" if found else near(arm, labels)
        raise RarefeatError(
            f"arm {arm!r} names {several} of the trained arms of the study {study}{meant}; there are {', '.join(labels)}"
        )
    return found[0]
