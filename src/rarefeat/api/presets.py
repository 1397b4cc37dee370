"""The constants of a paper's experiments, as a table of which a script changes what differs."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rarefeat.api.arguments import axis_label, build_study, check_type, load_config
from rarefeat.api.entry_points import entry_point
from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.names import suggest
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.project import Project

PRESETS = {"imbalance": "paper"}
"""Study of each preset; a study of the contrastive encoder is one by its own name, too."""


@dataclass(frozen=True, repr=False)
class Preset:
    """Values of all keys of `train` but those of a point and an arm.

    It prints as a table, and is a mapping: `rarefeat.train(eps_min=0.3, **preset)`.

    Attributes
    ----------
    name : str
        Name of the preset.
    values : dict
        Value of each key, by its name in Python (`lambda_`).
    changed : tuple of str
        Keys whose values are not those of the paper; they are starred in the table.
    """

    name: str
    values: dict[str, Any]
    changed: tuple[str, ...] = ()

    def keys(self) -> Iterator[str]:
        """Return the keys."""
        return iter(self.values)

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def __repr__(self) -> str:
        """Return the table: key, value and meaning."""
        fields = {**Study.model_fields, **Data.model_fields, **Training.model_fields}
        lines = [f"{self.name}, * changed" if self.changed else self.name]
        for key, value in self.values.items():
            meaning = fields[key].description or ""
            star, text = "*" if key in self.changed else "", axis_label(value)
            lines.append(f"{key + star:<16} {text!s:<12} {textwrap.shorten(meaning, 90)}")
        return "\n".join(lines)


@entry_point
def preset(name: str = "imbalance", *, config: Project | None = None, **changes: Any) -> Preset:
    """Return the constants of a paper's experiment, with changes.

    Parameters
    ----------
    name : str
        "imbalance" for Figures 1 to 4 of imbalance_and_pruning; or the name of a study of the
        contrastive encoder, as `direct`.
    config
        As in `train`.
    **changes
        Values that differ, as in `train`.

    Raises
    ------
    RarefeatError
        As `train`; and for a key of an arm.

    Examples
    --------
    >>> shorter = rarefeat.preset("imbalance", T=20, N=512)
    >>> shorter["d"], shorter["T"], shorter.changed
    (9, 20, ('T', 'N'))
    >>> rarefeat.train(eps_min=0.3, **shorter).training.T
    20
    """
    project = load_config() if config is None else check_type("config", config, Project)
    if check_type("name", name, str) not in (names := [*PRESETS, *project.studies]):
        raise RarefeatError(f"name: {name!r} is no preset{suggest(name, names)}")
    study, point = PRESETS.get(name, name), {"eps_min": [1.0], "sigma": [0.0]}
    chosen = build_study(project, study, point, ["dense"], [0], changes)
    values = {"simulator": chosen.simulator, "draws": chosen.draws}
    values |= chosen.data.model_dump() | chosen.training.model_dump()
    changed = ("lambda_" if key == "lambda" else key for key in changes)
    return Preset(name, values, tuple(changed))
