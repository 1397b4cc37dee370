"""Arguments of the public interface, and the study of the config that they change.

Every function here is given its caller's name, with which the message of a RarefeatError begins.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rarefeat.api.entry_points import entry_point
from rarefeat.errors import RarefeatError
from rarefeat.model import own_code, own_files
from rarefeat.model.arms import ARMS, is_arm
from rarefeat.training.choices import BUILT_IN
from rarefeat.workflow.config.model import BIAS_RULES, Arm, Data, Training
from rarefeat.workflow.config.names import check_name, shorten_repr, suggest
from rarefeat.workflow.config.section import (
    Section,
    check_distinct,
    dump_config,
    format_validation_error,
)
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
    (Sequence,): "a sequence",
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
        check_type("load_config", "path", path, str, Path)
    base = resolve_path(DEFAULT)
    return load(base, *(place for path in paths if (place := resolve_path(path)) != base))


def check_type(caller: str, name: str, value: Any, *kinds: type) -> Any:
    """Return an argument that is of one of some types of TYPE_NAMES, where a bool is no number."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise RarefeatError(
            f"{caller}: {name}: must be {TYPE_NAMES[kinds]}, got {shorten_repr(value)}"
        )
    return value


def to_python_scalar(value: Any) -> Any:
    """Convert arrays, tensors and their numbers to Python's, also within lists and mappings."""
    if isinstance(value, Mapping):
        return {key: to_python_scalar(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_python_scalar(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def check_number(caller: str, name: str, value: Any) -> float:
    """Return an argument that is a number of Python, numpy or torch."""
    return check_type(caller, name, to_python_scalar(value), float, int)


def check_finite(caller: str, name: str, value: Any) -> float:
    """Return an argument that is a finite number of Python, numpy or torch."""
    if not math.isfinite(number := check_number(caller, name, value)):
        raise RarefeatError(f"{caller}: {name}: must be a finite number, got {shorten_repr(value)}")
    return number


def check_int(caller: str, name: str, value: Any) -> int:
    """Return an argument that is a whole number of Python, numpy or torch."""
    return check_type(caller, name, to_python_scalar(value), int)


def check_seeds(caller: str, seed: Any) -> list[int]:
    """Return one seed, or those of an iterable, none twice."""
    values = to_list(list(seed) if isinstance(seed, Iterator | Set) else seed)
    seeds = [check_int(caller, "seed", value) for value in values]
    check_values(caller, "seed", seeds)
    return seeds


def check_study_name(caller: str, name: str, value: Any) -> str:
    """Return an argument that may be the name of a study."""
    try:
        return check_name(check_type(caller, name, value, str))
    except ValueError as error:
        raise RarefeatError(f"{caller}: {name}: {error}") from error


def check_values(caller: str, name: str, values: Sequence[Any]) -> None:
    """Raise RarefeatError for no value on an axis, and for one twice (to six digits)."""
    if not values:
        raise RarefeatError(f"{caller}: {name}: must be a value or several, got none")
    try:
        check_distinct([axis_label(value) for value in values])
    except ValueError as error:
        raise RarefeatError(f"{caller}: {name}: {error}") from error


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


def rules_in(arms: Iterable[Any], biases: Iterable[Any] = ()) -> list[Callable]:
    """List the functions among arms, and among settings of the bias."""
    values = [arm.get("arm") if isinstance(arm, Mapping) else arm for arm in arms]
    values += [bias.get("rule") for bias in biases if isinstance(bias, Mapping)]
    return list({id(value): value for value in values if callable(value)}.values())


def register_rules(caller: str, arms: Iterable[Any], biases: Iterable[Any] = ()) -> None:
    """Register the functions among arms and settings of the bias, by their names.

    Two of one name are refused, and names that are missing or those of a built-in rule.
    """
    names: dict[str, Callable] = {}
    for rule in rules_in(arms, biases):
        name = own_code.register_function(rule, (*ARMS, *BIAS_RULES))
        if names.setdefault(name, rule) is not rule:
            raise RarefeatError(
                f"{caller}: two rules are called {name}; give each a name of its own"
            )


def build_study(
    caller: str,
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
    project = load_config() if config is None else check_type(caller, "config", config, Project)
    own_files.FOLDERS[:] = project.merged.get("own_folders", ())
    original = find_encoder_study(caller, project, study)
    axes = {
        axis: [check_number(caller, axis, value) for value in values]
        for axis, values in points.items()
    }
    changes = normalise_changes(caller, changes)
    sections: dict[str, dict[str, Any]] = {
        section: {key: changes[key] for key in keys if key in changes}
        for section, keys in ARGUMENT_SECTIONS.items()
    }
    arm_changes = sections.pop("arm")
    chosen = []
    for arm in arms:
        keys = arm_config(caller, original.arms, study, arm)
        applicable = applicable_changes(keys, arm_changes) if len(arms) > 1 else arm_changes
        if isinstance(arm, Mapping) and (twice := [key for key in arm if key in applicable]):
            raise RarefeatError(f"{caller}: {twice[0]}: given twice, in arm as well")
        chosen.append(merge_configs(keys, applicable))
    study_changes = sections.pop("study")
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
        line = format_validation_error(error, Study)
        line = SECTION_RE.sub(r"\1", line).replace("first_seed: ", "seed: ")
        raise RarefeatError(f"{caller}: {line}") from error


def arm_config(caller: str, arms: list[Arm], study: str, arm: ArmArgument) -> dict[str, Any]:
    """Return the keys of an arm, with the ratio that the arms of its study share."""
    if isinstance(arm, Mapping):
        if not isinstance(name := arm.get("arm"), str) and not callable(name):
            example = '{"arm": "pruned_neuron", "alpha": 0.3}'
            raise RarefeatError(
                f"{caller}: arm: must name one, as in {example}, got {shorten_repr(dict(arm))}"
            )
        return dict(to_python_scalar(arm)) | {"arm": axis_label(name)}
    if not isinstance(arm, str) and not callable(arm):
        raise RarefeatError(
            f"{caller}: arm: must be a name, a function or a mapping, got {shorten_repr(arm)}"
        )
    name = axis_label(arm)
    if not is_arm(name) or (ARMS[name].trained and name in {item.arm for item in arms}):
        return dump_config(find_arm(caller, arms, study, name))
    ratios = {item.alpha for item in arms if item.alpha}
    has_ratio = ARMS[name].ratio is not False and len(ratios) == 1
    return {"arm": name} | ({"alpha": ratios.pop()} if has_ratio else {})


def applicable_changes(arm: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return those changes of arms that one of them can have."""
    spec = ARMS[arm["arm"]] if is_arm(arm["arm"]) else ARMS["dense"]
    return {
        key: value
        for key, value in changes.items()
        if spec.rule and (key != "alpha" or spec.ratio is not False)
    }


def normalise_changes(caller: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes by their keys of the config; RarefeatError for an unknown key."""
    check_keys(caller, changes)
    values = {
        "lambda" if key == "lambda_" else key: to_python_scalar(value)
        for key, value in changes.items()
    }
    if isinstance(bias := values.get("bias"), Mapping) and callable(bias.get("rule")):
        values["bias"] = dict(bias) | {"rule": axis_label(bias["rule"])}
    return values


def check_keys(caller: str, changes: Mapping[str, Any], arguments: Iterable[str] = ()) -> None:
    """Raise RarefeatError for a change whose key is unknown, or given under two names.

    A misspelt key may mean one of `arguments`, too.
    """
    allowed = [name for keys in ARGUMENT_SECTIONS.values() for name in keys]
    if unknown := [key for key in changes if key not in (*allowed, "lambda_")]:
        hint = suggest(unknown[0], [*arguments, *allowed])
        if unknown[0] in OTHER_NAMES:
            hint = f" (it is called {OTHER_NAMES[unknown[0]]!r} here)"
        elif unknown[0] in LEARNER_KEYS:
            hint = " (it is an argument of train_learners)"
        raise RarefeatError(
            f"{caller}: {unknown[0]}: unknown key{hint}; allowed are {', '.join(allowed)}"
        )
    if {"lambda", "lambda_"} <= set(changes):
        raise RarefeatError(f"{caller}: lambda: given twice, as lambda_ as well")


def argument_names(function: Callable) -> list[str]:
    """List the arguments that a function names."""
    parameters = inspect.signature(inspect.unwrap(function)).parameters.values()
    return [item.name for item in parameters if item.kind is not item.VAR_KEYWORD]


def section_keys(section: type[Section]) -> list[str]:
    """List the keys of a section as the config has them."""
    return [field.alias or name for name, field in section.model_fields.items()]


OTHER_NAMES = {
    "lr": "eta",
    "learning_rate": "eta",
    "weight_decay": "lambda_",
    "temperature": "tau",
    "batch_size": "K",
    "steps": "T",
}
"""Keys of `train` by what torch and others call them."""
LEARNER_KEYS = {*BUILT_IN, *(f"{kind.removesuffix('_law')}_options" for kind in BUILT_IN)}
ARGUMENT_SECTIONS = {
    "study": ["simulator", "draws"],
    "data": section_keys(Data),
    "training": section_keys(Training),
    "arm": [name for name in section_keys(Arm) if name != "arm"],
}
"""Sections of a study that have the keys of `train`; no two have the same key."""
SECTION_RE = re.compile(r"(?:^|(?<=; ))(?:data|training|grid\.point|arms\.\d+)\.(\w+)(?:\.\d+)?")
"""A key at the start of a message, with the section that the user has not written."""


def find_encoder_study(caller: str, config: Project, name: str) -> Study:
    """Return a study of the contrastive encoder by its name."""
    studies = {study: item for study, item in config.studies.items() if isinstance(item, Study)}
    if check_type(caller, "study", name, str) not in studies:
        raise RarefeatError(
            f"{caller}: study: {name!r} is no study of the contrastive encoder in this config"
            f"{suggest(name, studies)}"
        )
    return studies[name]


def find_arm(caller: str, arms: list[Arm], study: str, name: str) -> Arm:
    """Return a trained arm by its label, or by its name if one arm alone has it."""
    trained = [item for item in arms if item.trained]
    matches = [item for item in trained if item.label == name]
    matches = matches or [item for item in trained if item.arm == name]
    if len(matches) != 1:
        labels = [item.label for item in trained]
        number, hint = ("several", "") if matches else ("none", suggest(name, labels))
        raise RarefeatError(
            f"{caller}: arm: {name!r} is {number} of the trained arms of the study {study}{hint};"
            f" there are {', '.join(labels)}"
        )
    return matches[0]
