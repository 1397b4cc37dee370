"""The section `theory` of the config."""

import itertools
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from rarefeat.workflow.config.names import Name, merge_unique, suggest
from rarefeat.workflow.config.section import Distinct, Section, format_validation_error
from rarefeat.workflow.config.study import Study, merge_configs

Role = Literal["stages", "T1_d1", "T1_eta", "T1_d", "T1_C", "T5", "pruning", "phase"]


class TheoryStudy(Study):
    """A study with the claims that are read from it."""

    role: Role = Field(
        description="stages: milestones of training, and one step with the assumed mask; T1_...: a"
        " law in what varies;"
        " T5: the oracles' masks to the end of Theorem 3.2; pruning: Algorithm 1 with its controls;"
        " phase: the onset"
    )

    @model_validator(mode="after")
    def _kept(self) -> "TheoryStudy":
        if self.training.history != (self.role in HISTORY):
            raise ValueError(
                f"training.history must be {str(self.role in HISTORY).lower()} for the role"
                f" {self.role}"
            )
        return self


VARIED = "_"
"""Between a study and what is varied of it, in the name of a varied study."""
HISTORY = ("stages", "T1_d1", "T1_eta", "T1_d", "T1_C", "T5")
"""Roles whose claims are read from the neurons' history."""


class Sensitivity(Section):
    """A study of the claims again, with one hyper-parameter at a time multiplied."""

    study: str = Field(description="the study of the claims that is varied")
    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="its points"
    )
    seeds: int = Field(ge=1, description="replicas per point")
    keys: Distinct[str] = Field(
        min_length=1, description="hyper-parameters, by their dotted path in the study"
    )
    factors: Distinct[Annotated[float, Field(gt=0)]] = Field(min_length=1, description="multiples")


class MapSettings(Section):
    """Settings of the maps."""

    overlap: Distinct[str] = Field(
        min_length=1, description="studies with a history whose smallest neurons are mapped"
    )


class Theory(Section):
    """The studies on which claims of the theory are measured.

    The paper's grid and the scaling study are measured, too.
    """

    studies: dict[Name, TheoryStudy] = Field(min_length=1, description="by name")
    sensitivity: Sensitivity = Field(description="which verdicts depend on what is chosen here")
    maps: MapSettings = Field(
        description="which studies the maps show, beside those with the role phase"
    )

    @model_validator(mode="after")
    def _known(self) -> "Theory":
        wanted = {
            "sensitivity.study": [self.sensitivity.study],
            "maps.overlap": self.maps.overlap,
        }
        for key, names in wanted.items():
            if unknown := set(names) - set(self.studies):
                raise ValueError(
                    f"{key}: {min(unknown)!r} is none of"
                    f" studies{suggest(min(unknown), self.studies)}: {', '.join(self.studies)}"
                )
        self.every_study()  # for its errors
        return self

    def varied(self, name: str) -> tuple[str, str]:
        """Return the study that a study of every_study() varies, and its varied setting.

        For a study that varies none these are its own name and an empty text.
        """
        if name in self.studies or not name.startswith(self.sensitivity.study + VARIED):
            return name, ""
        return self.sensitivity.study, name.removeprefix(self.sensitivity.study + VARIED).replace(
            "=", " = "
        )

    def studies_with_role(self, *roles: Role) -> dict[str, TheoryStudy]:
        """Return the studies with one of some roles."""
        return {name: study for name, study in self.every_study().items() if study.role in roles}

    def settings(self) -> list[tuple[str, float]]:
        """Return the key and the factor of each varied study, in the order of every_study()."""
        return list(itertools.product(self.sensitivity.keys, self.sensitivity.factors))

    def every_study(self) -> dict[str, TheoryStudy]:
        """Return the studies with those of the sensitivity analysis.

        These share the draws of the study that they vary.
        """
        wanted = self.sensitivity
        base = self.studies[wanted.study].model_dump(by_alias=True)
        base |= {"seeds": wanted.seeds, "seeds_per_block": wanted.seeds}
        base["grid"] = {
            name: block | {"eps_min": wanted.eps_min} for name, block in base["grid"].items()
        }
        varied = {}
        for path, factor in self.settings():
            *parents, last = path.split(".")
            changed = node = merge_configs(base, {})
            for parent in parents:
                node[parent] = dict(node[parent]) if isinstance(node.get(parent), dict) else {}
                node = node[parent]
            value = node.get(last)
            # A noise level of the grid is a list of one.
            (number,) = value if isinstance(value, list) and len(value) == 1 else (value,)
            if not isinstance(number, int | float):
                raise ValueError(
                    f"sensitivity.keys: {path} is no number of the study {wanted.study}"
                )
            number = round(number * factor) if isinstance(number, int) else number * factor
            node[last] = [number] if isinstance(value, list) else number
            try:
                varied[f"{wanted.study}{VARIED}{last}={number:g}"] = TheoryStudy.model_validate(
                    changed
                )
            except ValidationError as error:
                raise ValueError(
                    f"sensitivity: {path} = {number:g}: {format_validation_error(error)}"
                ) from error
        return merge_unique("studies", self.studies, varied)
