"""A study of the contrastive encoder.

A named grid of cells, what is the same at all of them, and how studies share it.
"""

import itertools
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rarefeat.model.arms import ARMS
from rarefeat.workflow.config.cells import Arms, Cell
from rarefeat.workflow.config.model import Arm, ArmName, Data, Training, Views
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Distinct, Section, check_distinct
from rarefeat.workflow.config.seeds import SeedSettings

AXES = ("eps_min", "sigma")
LOST_IN_NOISE = 2.0**24
"""Of sigma^2 d1, the squared norm of a token's noise, beside which float32 does not see the 1 of a
feature."""


class Grid(Section):
    """A block of the grid: every eps_min with every sigma and every named arm."""

    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max, in (0, 1]"
    )
    sigma: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="standard deviation of the noise sigma"
    )
    arms: Distinct[ArmName] = Field(min_length=1, description="arms of the study, by name")


def serves_native_step(simulator: str, device: str, data: Data, m: int) -> bool:
    """Return whether `training.step.make_kernel` has native functions for a study."""
    # As the reduced simulator, which imports torch, rounds up: a test holds both together.
    coordinates = data.d + m + -(data.d + m) % 8
    return (
        simulator == "reduced"
        and device == "cpu"
        and data.balance != "reweighted"
        and data.d1 >= coordinates + m
    )


class Study(SeedSettings):
    """A named chain synthesise -> pretrain -> probe -> aggregate over one grid."""

    simulator: Literal["direct", "reduced"] = Field(
        description="every token in R^d1; or the same law at a cost that does not know d1, for"
        " masks by neuron (reduced.md)"
    )
    data: Data = Field(description="the data model and the sizes of its samples")
    training: Training = Field(description="the encoder, the loss and the schedule")
    arms: Arms[Arm] = Field(
        min_length=1, description="what is compared; no arm twice with the same keys"
    )
    grid: dict[Name, Grid] = Field(
        min_length=1, description="named blocks; what several blocks hold is computed once"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Study":
        check_distinct([arm.label for arm in self.arms])
        names = {arm.arm for arm in self.arms}
        for name, block in self.grid.items():
            if missing := set(block.arms) - names:
                raise ValueError(
                    f"grid.{name}.arms: {', '.join(sorted(missing))} not among the study's arms:"
                    f" {', '.join(sorted(names))}"
                )
            for arm in self.arms:
                if arm.arm in block.arms and (
                    wrong := arm.without_effect(self.training, self.data)
                ):
                    raise ValueError(f"arm {arm.label} of grid.{name}: {wrong}")
            if self.simulator == "reduced" and (
                wrong := [arm for arm in block.arms if ARMS[arm].single_weights]
            ):
                raise ValueError(
                    f"grid.{name}.arms: {wrong[0]} masks single weights, which the simulator"
                    f" reduced does not have; "
                    "leave it out, or say simulator: direct"
                )
            for sigma in block.sigma:
                if sigma * sigma * self.data.d1 >= LOST_IN_NOISE:
                    raise ValueError(
                        f"grid.{name}.sigma: sigma^2 d1 = {sigma * sigma * self.data.d1:.3g} at"
                        f" sigma = {sigma:g} must be below"
                        f" {LOST_IN_NOISE:.3g}: float32 loses features beside such noise; lower"
                        f" sigma, or data.d1"
                    )
        for axis in AXES:
            try:
                check_distinct(
                    sorted(
                        {value for block in self.grid.values() for value in getattr(block, axis)}
                    )
                )
            except ValueError as error:
                raise ValueError(f"grid, {axis} of all blocks: {error}") from error
        if self.simulator == "reduced" and self.data.views != Views():
            raise ValueError("data.views needs every coordinate of a token; say simulator: direct")
        if self.simulator == "reduced" and self.training.attention != "fixed":
            raise ValueError(
                f"training.attention: {self.training.attention} needs every coordinate of a token;"
                " say simulator: direct"
            )
        if self.training.kernel == "native" and not serves_native_step(
            self.simulator, self.training.device, self.data, self.training.m
        ):
            raise ValueError(
                "training.kernel: native is for simulator: reduced on device: cpu, with d1 of at"
                " least m more than d + m rounded up to a multiple of 8, and without data.balance:"
                " reweighted; say kernel: auto"
            )
        for name in ("N", "test_pairs"):
            if (pairs := getattr(self.data, name)) < self.training.K:
                raise ValueError(
                    f"training.K must not exceed data.{name} = {pairs}, got {self.training.K}"
                )
        return self

    def cells(self) -> list[Cell]:
        """Return the cells of all grid blocks, each once, with the arms of its blocks."""
        names: dict[tuple[float, float], set[str]] = {}
        for block in self.grid.values():
            for point in itertools.product(block.eps_min, block.sigma):
                names.setdefault(point, set()).update(block.arms)
        return [
            Cell(
                (("eps_min", eps_min), ("sigma", sigma)),
                tuple(arm for arm in self.arms if arm.arm in names[eps_min, sigma]),
            )
            for eps_min, sigma in sorted(names)
        ]

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings that a cell has, and not its study."""
        return {"arms": cell.trained, "untrained": cell.untrained}

    def as_plain_study(self) -> "Study":
        """The study without what a kind of study adds to it, as the chain reads it."""
        return Study.model_construct(**{name: getattr(self, name) for name in Study.model_fields})


SHARED_STUDY_KEYS = (
    "simulator",
    "seeds",
    "first_seed",
    "seeds_per_block",
    "data",
    "training",
    "arms",
)
"""Keys at the top level that studies may take from there."""
SHARED_TRAINING_KEYS = ("seeds", "first_seed", "seeds_per_block", "data", "training")
"""Those of a training with arms of its own."""


def inherit_defaults(shared: dict, studies: dict) -> dict:
    """Return the studies that are not null with what they share; each draws by its name."""
    return {
        name: {"draws": name} | merge_configs(shared, study) if isinstance(study, dict) else study
        for name, study in studies.items()
        if study is not None
    }


def merge_configs(base: dict, changes: dict) -> dict:
    """`base` with `changes`, mapping by mapping; lists are replaced."""
    result = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merge_configs(result[key], value) if both else value
    return result


def share_defaults(
    raw: Any,
    shared: dict,
    study: type[Section] = Study,
    inherits: Iterable[str] = SHARED_STUDY_KEYS,
    under: str = "studies",
) -> Any:
    """Give the studies of a section of the config, under a key of it, what they share."""
    if not isinstance(raw, dict) or not isinstance(raw.get(under), dict):
        return raw
    keys = {field.alias or name for name, field in study.model_fields.items()}
    of_all = {key: raw[key] for key in raw if key in keys}
    rest = {key: value for key, value in raw.items() if key not in keys}
    shared = {key: shared[key] for key in inherits if key in shared}
    return rest | {under: inherit_defaults(merge_configs(shared, of_all), raw[under])}
