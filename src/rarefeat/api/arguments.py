"""Arguments of the public interface, and the study of the config that they change."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rarefeat.api.entry_points import entry_point
from rarefeat.api.keys import SECTIONS
from rarefeat.errors import RarefeatError
from rarefeat.model import own_code, own_files
from rarefeat.model.arms import ARMS, is_arm
from rarefeat.workflow.config.model import BIAS_RULES, Arm
from rarefeat.workflow.config.names import shorten_repr, suggest
from rarefeat.workflow.config.section import check_distinct, dump_config, format_validation_error
from rarefeat.workflow.config.study import Study, merge_configs
from rarefeat.workflow.project import DEFAULT, Project, load, resolve_path

ArmArgument = str | Callable | Mapping[str, Any]
"""An arm by its name or label, a rule of a session, or the keys of an arm."""

TYPE_NAMES: dict[tuple[type, ...], str] = {
    (str,): "a text",
    (str, Path): "a text or a path",
    (int,): "a whole number",
    (float, int): "a number",
    (Mapping,): "a mapping",
    (Project,): "what load_config returns",
}
"""Names of types in messages."""


@entry_point
def load_config(*paths: str | Path) -> Project:
    """Load the config as typed objects, as the workflow has it.

    Parameters
    ----------
    *paths : str or Path
        Config files, each laid over `config/config.yaml` and those before it, as by
        `snakemake --configfile`. A relative path is looked up in the working directory, then beside
        the config that comes with rarefeat. MODULE:FUNCTION of your own is looked up beside these
        files, the last one's first, then in the working directory.

    Returns
    -------
    Project
        With `studies` by name, `tables`, `figures`, `targets`, and the folder `results`.

    Raises
    ------
    RarefeatError
        If a file cannot be read, or a value is not allowed.

    Examples
    --------
    >>> project = rarefeat.load_config("config/quick.yaml")
    >>> project.results, project.studies["paper"].training.T
    ('results/quick', 60)
    """
    for path in paths:
        check_type("path", path, str, Path)
    base = resolve_path(DEFAULT)
    return load(base, *(place for path in paths if (place := resolve_path(path)) != base))


def check_type(name: str, value: Any, *kinds: type) -> Any:
    """Return an argument that is of one of some types of TYPE_NAMES, where a bool is no number."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise RarefeatError(f"{name}: must be {TYPE_NAMES[kinds]}, got {shorten_repr(value)}")
    return value


def to_python_scalar(value: Any) -> Any:
    """Convert arrays, tensors and their numbers to Python's, also within lists and mappings."""
    if isinstance(value, Mapping):
        return {key: to_python_scalar(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_python_scalar(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def check_number(name: str, value: Any) -> float:
    """Return an argument that is a number of Python, numpy or torch."""
    return check_type(name, to_python_scalar(value), float, int)


def check_int(name: str, value: Any) -> int:
    """Return an argument that is a whole number of Python, numpy or torch."""
    return check_type(name, to_python_scalar(value), int)


def check_seeds(seed: Any) -> list[int]:
    """Return one seed, or those of an iterable, none twice."""
    values = to_list(list(seed) if isinstance(seed, Iterator | Set) else seed)
    seeds = [check_int("seed", value) for value in values]
    check_values("seed", seeds)
    return seeds


def check_values(name: str, values: Sequence[Any]) -> None:
    """Raise RarefeatError for no value on an axis, and for one twice (to six digits)."""
    if not values:
        raise RarefeatError(f"{name}: must be a value or several, got none")
    try:
        check_distinct([axis_label(value) for value in values])
    except ValueError as error:
        raise RarefeatError(f"{name}: {error}") from error


def axis_label(value: Any) -> Any:
    """Return what stands for a value in a column: a text for mappings, lists and functions."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={axis_label(item)}" for key, item in value.items()) or "default"
    if isinstance(value, list | tuple):
        return ", ".join(str(axis_label(item)) for item in value)
    return getattr(value, "__name__", repr(value)) if callable(value) else value


def is_list(value: Any) -> bool:
    """Return whether a value is a list, an array or the like; not a text, mapping or set."""
    if isinstance(value, str | bytes | Mapping) or callable(value):
        return False
    is_sequence = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    return is_sequence and getattr(value, "ndim", 1) > 0


def to_list(value: Any) -> list[Any]:
    """Return one value or several as a list, with numbers of Python."""
    return (
        [to_python_scalar(item) for item in value] if is_list(value) else [to_python_scalar(value)]
    )


def register_rules(arms: Iterable[Any], biases: Iterable[Any] = ()) -> None:
    """Register the functions among arms and settings of the bias, by their names.

    Two of one name are refused, and names that are missing or those of a built-in rule.
    """
    rules = [arm.get("arm") if isinstance(arm, Mapping) else arm for arm in arms]
    rules += [bias.get("rule") for bias in biases if isinstance(bias, Mapping)]
    names: dict[str, Callable] = {}
    for rule in filter(callable, rules):
        name = own_code.register_function(rule, (*ARMS, *BIAS_RULES))
        if names.setdefault(name, rule) is not rule:
            raise RarefeatError(f"two rules are called {name}; give each a name of its own")


def build_study(
    config: Project | None,
    study: str,
    points: Mapping[str, Sequence[Any]],
    arms: Sequence[ArmArgument],
    seeds: Sequence[int],
    changes: Mapping[str, Any],
) -> Study:
    """Build a study from one of the config, with changes, at some points, arms and seeds.

    `changes` are keys of `train`; of several arms, the keys of an arm hold for those that can have
    them. The study has one block of seeds, and one block of its grid, `point`.
    """
    project = load_config() if config is None else check_type("config", config, Project)
    own_files.FOLDERS[:] = project.merged.get("own_folders", ())
    studies = {name: item for name, item in project.studies.items() if isinstance(item, Study)}
    if check_type("study", study, str) not in studies:
        raise RarefeatError(
            f"study: {study!r} is no study of the contrastive encoder in this config"
            f"{suggest(study, studies)}"
        )
    original = studies[study]
    axes = {name: [check_number(name, value) for value in points[name]] for name in points}
    values = {
        "lambda" if key == "lambda_" else key: to_python_scalar(value)
        for key, value in changes.items()
    }
    if isinstance(bias := values.get("bias"), Mapping) and callable(bias.get("rule")):
        values["bias"] = dict(bias) | {"rule": axis_label(bias["rule"])}
    sections: dict[str, dict[str, Any]] = {
        section: {key: values[key] for key in keys if key in values}
        for section, keys in SECTIONS.items()
    }
    arm_changes, study_changes = sections.pop("arm"), sections.pop("study")
    chosen = []
    for arm in arms:
        keys = arm_config(original.arms, study, arm)
        spec = ARMS[keys["arm"]] if is_arm(keys["arm"]) else ARMS["dense"]
        applicable = {
            key: value
            for key, value in arm_changes.items()
            if len(arms) == 1 or (spec.rule and (key != "alpha" or spec.ratio is not False))
        }
        if isinstance(arm, Mapping) and (twice := [key for key in arm if key in applicable]):
            raise RarefeatError(f"{twice[0]}: given twice, in arm as well")
        chosen.append(merge_configs(keys, applicable))
    raw = merge_configs(dump_config(original), study_changes | sections) | {
        "seeds": len(seeds),
        "first_seed": min(seeds),
        "seeds_per_block": 1,
        "arms": chosen,
        "grid": {"point": axes | {"arms": list(dict.fromkeys(arm["arm"] for arm in chosen))}},
    }
    try:
        return Study.model_validate(raw)
    except ValidationError as error:
        line = SECTION_RE.sub(r"\1", format_validation_error(error, Study))
        raise RarefeatError(line.replace("first_seed: ", "seed: ")) from error


SECTION_RE = re.compile(r"(?:^|(?<=; ))(?:data|training|grid\.point|arms\.\d+)\.(\w+)(?:\.\d+)?")
"""A key at the start of a message, with the section that the user has not written."""


def arm_config(arms: list[Arm], study: str, arm: ArmArgument) -> dict[str, Any]:
    """Return the keys of an arm, with the ratio that the arms of its study share."""
    name = arm.get("arm") if isinstance(arm, Mapping) else arm
    if not isinstance(name, str) and not callable(name):
        raise RarefeatError(
            'arm: must be a name, a function, or a mapping as {"arm": "pruned_neuron", "alpha":'
            f" 0.3}}, got {shorten_repr(arm)}"
        )
    name = axis_label(name)
    if isinstance(arm, Mapping):
        return to_python_scalar(arm) | {"arm": name}
    if not is_arm(name) or (ARMS[name].trained and name in {item.arm for item in arms}):
        return dump_config(find_arm(arms, study, name))
    ratios = {item.alpha for item in arms if item.alpha}
    has_ratio = ARMS[name].ratio is not False and len(ratios) == 1
    return {"arm": name} | ({"alpha": ratios.pop()} if has_ratio else {})


def find_arm(arms: list[Arm], study: str, name: str) -> Arm:
    """Return a trained arm by its label, or by its name if one arm alone has it."""
    trained = [item for item in arms if item.trained]
    matches = [item for item in trained if item.label == name]
    matches = matches or [item for item in trained if item.arm == name]
    if len(matches) != 1:
        labels = [item.label for item in trained]
        number, hint = ("several", "") if matches else ("none", suggest(name, labels))
        raise RarefeatError(
            f"arm: {name!r} is {number} of the trained arms of the study {study}{hint};"
            f" there are {', '.join(labels)}"
        )
    return matches[0]
