"""Which statements of the theory hold, and where?

A study has a role, which says what is read from it: of its encoders (encoders.py) neurons at the
milestones of training, and one step with and without the mask of Theorem 3.2; or trajectories. One
study is varied, a hyper-parameter at a time. Claims are those of claims.py and pruning_claims.py;
the paper's grid and the scaling study are measured, too.
"""

import itertools
from functools import partial
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from rarefeat.studies.experiment import (
    ARM,
    POINT,
    SEED,
    SHARE,
    SIZE,
    TableColumns,
    column,
    meanings,
    text,
)
from rarefeat.workflow.config.names import Name, merge_unique, suggest
from rarefeat.workflow.config.section import Distinct, Section, format_validation_error
from rarefeat.workflow.config.study import SHARED_STUDY_KEYS, Study, merge_configs
from rarefeat.workflow.study_kind import (
    PRETRAIN,
    ClaimInputs,
    Figure,
    Page,
    StudyKind,
    StudyOutputs,
    Table,
    trajectories_table,
)

QUESTION = "Which statements of the theory hold, and where?"
PACKAGE = "studies.theory"
Role = Literal["stages", "T1_d1", "T1_eta", "T1_d", "T1_C", "T5", "pruning", "phase"]
HISTORY = ("stages", "T1_d1", "T1_eta", "T1_d", "T1_C", "T5")
"""Roles whose claims are read from the neurons' history."""
VARIED = "_"
"""Between a study and what is varied of it, in the name of a varied study."""


class TheoryStudy(Study):
    """A study with the claims that are read from it."""

    role: Role = Field(
        description="stages: milestones of training, and one step with the assumed mask; T1_...: a"
        " law in what varies; T5: the oracles' masks to the end of Theorem 3.2; pruning: Algorithm"
        " 1 with its controls; phase: the onset"
    )

    @model_validator(mode="after")
    def _kept(self) -> "TheoryStudy":
        if self.training.history != (wanted := self.role in HISTORY):
            wanted = str(wanted).lower()
            raise ValueError(f"training.history must be {wanted} for the role {self.role}")
        return self


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


class Theory(Section):
    """The studies on which claims of the theory are measured."""

    studies: dict[Name, TheoryStudy] = Field(min_length=1, description="by name")
    sensitivity: Sensitivity = Field(description="which verdicts depend on what is chosen here")

    @model_validator(mode="after")
    def _known(self) -> "Theory":
        if (study := self.sensitivity.study) not in self.studies:
            raise ValueError(
                f"sensitivity.study: {study!r} is none of studies{suggest(study, self.studies)}:"
                f" {', '.join(self.studies)}"
            )
        self.every_study()  # for its errors
        return self

    def varied(self, name: str) -> tuple[str, str]:
        """Return the study that a study varies, and its setting: its own name and "" for none."""
        start = self.sensitivity.study + VARIED
        if name in self.studies or not name.startswith(start):
            return name, ""
        return self.sensitivity.study, name.removeprefix(start).replace("=", " = ")

    def studies_with_role(self, *roles: Role) -> dict[str, TheoryStudy]:
        """Return the studies with one of some roles."""
        return {name: study for name, study in self.every_study().items() if study.role in roles}

    def settings(self) -> list[tuple[str, float]]:
        """Return the key and the factor of each varied study, in the order of every_study()."""
        return list(itertools.product(self.sensitivity.keys, self.sensitivity.factors))

    def every_study(self) -> dict[str, TheoryStudy]:
        """Return the studies, and those varied, which share the draws of the study they vary."""
        wanted = self.sensitivity
        base = self.studies[wanted.study].model_dump(by_alias=True)
        base |= {"seeds": wanted.seeds, "seeds_per_block": wanted.seeds}
        points = {"eps_min": wanted.eps_min}
        base["grid"] = {name: block | points for name, block in base["grid"].items()}
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
            name = f"{wanted.study}{VARIED}{last}={number:g}"
            try:
                varied[name] = TheoryStudy.model_validate(changed)
            except ValidationError as error:
                raise ValueError(
                    f"sensitivity: {path} = {number:g}: {format_validation_error(error)}"
                ) from error
        return merge_unique("studies", self.studies, varied)


seeds = partial(column, bounds=SIZE, kind=int, unit="seeds")
value_of = partial(column, unit="of the metric", missing=True)
ONE_STEP = {
    "growth_minority_dense": "relative growth in one step of the pruned neurons along the minority"
    " feature, without the mask",
    "growth_minority_masked": "with it",
    "growth_majority_dense": "the same of the neurons pure in a majority feature, along it, without"
    " the mask",
    "growth_majority_masked": "with it",
    "growth_minority_gain": "growth_minority_masked - growth_minority_dense",
    "growth_majority_gain": "growth_majority_masked - growth_majority_dense",
    "gain_ratio": "growth_majority_gain / growth_minority_gain",
    "gain_in_alpha": "exponent of the gain in the number of pruned neurons: a quarter, a half, all",
    "logit_with_minority": "mean change of the positive logit by the mask on samples with the"
    " minority feature",
    "logit_without_minority": "on the others",
    "logit_leak": "the latter over the former",
    "logit_drop": "its mean drop over all samples",
    "logit_in_alpha": "exponent of that in the number of pruned neurons",
    "similarity_positive": "mean over positive pairs of sum_P h_i(X) h_i(Y)",
    "similarity_negative": "mean over negative pairs, over that",
    "negative_share": "pull of the negatives on the pruned neurons along the minority feature, over"
    " that of the positives",
    "pruned_neurons": "neurons that the oracle prunes",
    "fires_with_its_features": "of the times that neurons fire, the share with a feature of their"
    " N_i, (94)",
    "fires_at_most": "largest Pr(h_i != 0) over C loglog d / d, (95)",
}
MILESTONE_ROWS = TableColumns(
    "{study}_milestones",
    "a row per (eps_min, sigma, arm with its keys, seed, metric) of a study of the claims",
    {
        **POINT,
        **ARM,
        "seed": SEED,
        "metric": "stages.tables:MILESTONE",
        "value": value_of("null where the replica has no such thing"),
    },
    (*POINT, *ARM, "seed", "metric"),
)
ONE_STEP_ROWS = TableColumns(
    "{study}_one_step",
    "a row per (eps_min, sigma, seed, metric) of a study of the claims, dense arm",
    {
        **POINT,
        "seed": SEED,
        "metric": text(meanings(ONE_STEP)),
        "value": value_of("null where neurons are silent or no sample has the feature"),
    },
    (*POINT, "seed", "metric"),
)
HALF_AND_DOUBLE = TableColumns(
    "half_and_double",
    "a row per (hyper-parameter, factor, eps_min) of the study that the sensitivity varies",
    {
        "setting": text("hyper-parameter; empty for the study"),
        "factor": column("multiple of its value", SIZE),
        "value": text("its value"),
        "eps_min": "stages.tables:POINT",
        "learned_share": column("share of replicas with |cos| >= 0.5 to the rare feature", SHARE),
        "ci_low": column("lower end of its exact 95 % interval", SHARE),
        "ci_high": column("upper end", SHARE),
        "n": column("seeds", {"ge": 1}, "replicas", kind=int),
        "more": seeds("seeds that learn it here alone"),
        "fewer": seeds("seeds that learn it in the study alone"),
        "p_value": column("McNemar's exact test of these two, two-sided", SHARE),
    },
    ("setting", "factor", "eps_min"),
)


def of_encoders(columns: str, name: str, studies: dict[str, TheoryStudy]) -> dict[str, Table]:
    """Return the tables STUDY_NAME that a function reads from the encoders of each study."""
    schema, function = f"{PACKAGE}:{columns}.schema", f"{PACKAGE}.encoders:read_{name}"
    files = {"encoders": PRETRAIN}
    return {
        f"{study}_{name}": Table(
            schema, function, {study: section.as_plain_study()}, files, study=study
        )
        for study, section in studies.items()
    }


def build_outputs(section: Theory) -> StudyOutputs:
    """Return the tables of every study, by its role, and figure and page on sensitivity."""
    roles, studies = section.studies_with_role, section.every_study()
    tables = of_encoders("MILESTONE_ROWS", "milestones", roles(*HISTORY))
    tables |= of_encoders("ONE_STEP_ROWS", "one_step", roles("stages", "T1_d"))
    tables |= {
        f"{name}_trajectories": trajectories_table(name, study)
        for name, study in roles("pruning", "phase").items()
    }
    varied = (section.sensitivity.study, *(name for name in studies if name not in section.studies))
    tables["half_and_double"] = Table(
        f"{PACKAGE}:HALF_AND_DOUBLE.schema",
        f"{PACKAGE}.encoders:half_and_double",
        {"theory": section},
        tables=tuple(f"{name}_milestones" for name in varied),
    )
    figure = Figure(
        ("half_and_double",),
        "The share of replicas that learn the rare feature with one hyper-parameter at half or at"
        " double its value, at the middle frequency; the band is that of the study as it is. See"
        " which choices decide it where the feature is learned in part of the seeds.",
    )
    shown = ("half_and_double", "sensitivity_imbalance_and_pruning")
    page = Page("The theory, measured", shown, ("half_and_double",), QUESTION)
    return StudyOutputs(tables, {"half_and_double": figure}, {"theory": page})


def claim_inputs(section: Theory) -> ClaimInputs:
    """Return the inputs of the claims: milestones, one step, and trajectories of every study."""
    tables = (name for name in build_outputs(section).tables if name != "half_and_double")
    return ClaimInputs((*tables, "confirmation_grid", "scaling_exponents"), {"theory": section})


KIND = StudyKind(
    "theory",
    "The theory, measured",
    Theory,
    build_outputs,
    Theory.every_study,
    inherits=SHARED_STUDY_KEYS,
    claim_inputs=claim_inputs,
    by_default=False,
)
