"""What a user gives: arguments checked with one line, and the study of the config that they change."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import ValidationError

from rarefeat.config.model import BIAS_RULES, Arm, Data, Training
from rarefeat.config.names import check_name, shorten_repr, suggest
from rarefeat.config.section import Section, dump_config, format_validation_error
from rarefeat.config.study import Study, merge_configs
from rarefeat.core import user_functions
from rarefeat.core.arms import ARMS, is_arm
from rarefeat.core.errors import RarefeatError
from rarefeat.project import DEFAULT, Project, load, resolve_path

Checked = TypeVar("Checked")
TYPE_NAMES = {
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
        check_type("load_config", "path", path, str, Path)
    base = resolve_path(DEFAULT)
    return load(base, *(place for path in paths if (place := resolve_path(path)) != base))


def check_type(of: str, name: str, value: Checked, *kinds: type) -> Checked:
    """An argument that is of one of these kinds; RarefeatError with one line where it is not."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise RarefeatError(f"{of}: {name}: must be {TYPE_NAMES[kinds]}, got {shorten_repr(value)}")
    return value


def to_python_scalar(value: Any) -> Any:
    """Convert arrays, tensors and their numbers to Python's, also within lists and mappings."""
    if isinstance(value, Mapping):
        return {key: to_python_scalar(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_python_scalar(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def check_number(of: str, name: str, value: Any) -> float:
    """An argument that is a number."""
    return check_type(of, name, to_python_scalar(value), float, int)


def check_int(of: str, name: str, value: Any) -> int:
    """An argument that is a whole number."""
    return check_type(of, name, to_python_scalar(value), int)


def check_study_name(of: str, what: str, name: Any) -> str:
    """An argument that is the name of a study."""
    try:
        return check_name(check_type(of, what, name, str))
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


def build_study(
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
    of_study = find_encoder_study(
        load_config() if config is None else check_type(of, "config", config, Project), study, of
    )
    axes = {
        axis: [check_number(of, axis, value) for value in values] for axis, values in points.items()
    }
    seeds = [check_int(of, "seed", seed) for seed in seeds]
    changes = normalise_changes(changes, of)
    parts: dict[str, dict[str, Any]] = {
        part: {key: changes[key] for key in keys if key in changes}
        for part, keys in ARGUMENT_SECTIONS.items()
    }
    of_arms = parts.pop("arm")
    rules = list(dict.fromkeys(arm for arm in arms if callable(arm)))
    for rule in rules:
        if sum(other.__name__ == rule.__name__ for other in rules) > 1:
            raise RarefeatError(
                f"{of}: arm: two rules are called {rule.__name__}; give each a name of its own"
            )
    chosen = [arm_config(of_study.arms, study, arm) for arm in arms]
    chosen = [
        merge_configs(arm, applicable_changes(arm, of_arms) if len(arms) > 1 else of_arms)
        for arm in chosen
    ]
    changed = merge_configs(dump_config(of_study), parts.pop("study") | parts) | {
        "seeds": len(seeds),
        "first_seed": min(seeds),
        "seeds_per_block": 1,
        "arms": chosen,
        "grid": {"point": axes | {"arms": list(dict.fromkeys(arm["arm"] for arm in chosen))}},
    }
    try:
        return Study.model_validate(changed)
    except ValidationError as error:
        said = GRID_POINT_RE.sub(r"\1", format_validation_error(error, Study))
        raise RarefeatError(f"{of}: {said}") from error


def arm_config(arms: list[Arm], study: str, arm: AnArm) -> dict[str, Any]:
    """The keys of an arm of a study; or of another one, with the ratio that those of the study share."""
    if isinstance(arm, Mapping):
        return to_python_scalar(arm)
    name = (
        user_functions.register_function(arm, ARMS)
        if callable(arm)
        else check_type("arm", "arm", arm, str)
    )
    if not is_arm(name) or (ARMS[name].trained and name in {item.arm for item in arms}):
        return dump_config(find_arm(arms, study, name))
    ratios = {item.alpha for item in arms if item.alpha}
    return {"arm": name} | (
        {"alpha": ratios.pop()} if ARMS[name].ratio is not False and len(ratios) == 1 else {}
    )


def applicable_changes(arm: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Of changes of arms those that one of them can have."""
    named = ARMS[arm["arm"]] if is_arm(arm.get("arm", "")) else ARMS["dense"]
    return {
        key: value
        for key, value in changes.items()
        if named.rule and (key != "alpha" or named.ratio is not False)
    }


def normalise_changes(changes: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Changes by their keys of the config; RarefeatError for a key that there is not, or that is given under two names."""
    allowed = [name for keys in ARGUMENT_SECTIONS.values() for name in keys]
    if unknown := [key for key in changes if key not in (*allowed, "lambda_")]:
        raise RarefeatError(
            f"{of}: {unknown[0]}: no such key{suggest(unknown[0], allowed)}; known are {', '.join(allowed)}"
        )
    if {"lambda", "lambda_"} <= set(changes):
        raise RarefeatError(f"{of}: lambda: given twice, as lambda_ as well")
    found = {
        "lambda" if key == "lambda_" else key: to_python_scalar(value)
        for key, value in changes.items()
    }
    if isinstance(bias := found.get("bias"), Mapping) and callable(bias.get("rule")):
        found["bias"] = dict(bias) | {
            "rule": user_functions.register_function(bias["rule"], BIAS_RULES)
        }
    return found


def keys(section: type[Section]) -> list[str]:
    """The keys of a section as the config has them."""
    return [item.alias or name for name, item in section.model_fields.items()]


ARGUMENT_SECTIONS = {
    "study": ["simulator", "draws"],
    "data": keys(Data),
    "training": keys(Training),
    "arm": [name for name in keys(Arm) if name != "arm"],
}
"""Where in a study the keys of `train` stand; no two sections have the same."""
GRID_POINT_RE = re.compile(r"grid\.point\.(\w+)\.\d+\b")
"""Where the points of `train` and `sweep` stand in their study."""


def find_encoder_study(config: Project, name: str, of: str) -> Study:
    """A study of the contrastive encoder by its name."""
    encoded = {study: item for study, item in config.studies.items() if isinstance(item, Study)}
    if check_type(of, "study", name, str) not in encoded:
        raise RarefeatError(
            f"study {name!r} is none of the contrastive encoder in this config{suggest(name, encoded)}"
        )
    return encoded[name]


def find_arm(arms: list[Arm], study: str, arm: str) -> Arm:
    """A trained arm of a study by its label, or by its name where there is one of that name."""
    trained = [item for item in arms if item.trained]
    found = [item for item in trained if item.label == arm] or [
        item for item in trained if item.arm == arm
    ]
    if len(found) != 1:
        several, labels = "several" if found else "none", [item.label for item in trained]
        meant = "" if found else suggest(arm, labels)
        raise RarefeatError(
            f"arm {arm!r} names {several} of the trained arms of the study {study}{meant}; there are {', '.join(labels)}"
        )
    return found[0]
