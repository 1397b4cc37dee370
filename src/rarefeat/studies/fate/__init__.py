"""Late learning: is a rare feature that is not learned at once learned later, and why?

Every point of a grid, or of drawn regimes, is trained densely until it has learned the feature
(measure.py, on the pairs of draws.py, with what growth.py does to a step). A row has when that was,
and the growth terms at the step `looked` (growth.py). learning_times.py has the tables of outcomes,
and the quantities of docs/method/fate.md.
"""

import itertools
from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator

from rarefeat.studies.experiment import (
    SEED,
    SHARE,
    SIZE,
    TableColumns,
    column,
    grid_section,
    meanings,
    text,
)
from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.model import Data, Training, Views
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Section
from rarefeat.workflow.config.seeds import SeedSettings
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    Table,
    collected_table,
)

QUESTION = (
    "Is a rare feature that is not learned at once learned later, and on what does that depend?"
)
WAYS = {
    "plain": "as in all other studies",
    "new_signs": "the rare feature's sign is drawn at every visit of a pair",
    "new_tokens": "the tokens that hold each feature are drawn at every visit of a pair",
    "planted_ties": "fresh pairs, with the rare feature's sign tied to others as in N pairs",
    "replacement": "each visit is to a pair that is drawn anew; no epoch is balanced",
    "antithetic": "each pair twice, the second time with the rare feature's sign flipped",
    "apart": "no other feature is active where the rare one is",
    "without_top_5": "at `looked` the 5 pairs that pull a neuron most lose the rare feature",
    "without_other_5": "at `looked` 5 random pairs that hold it beside another feature lose it",
    "without_top_15": "the 15 pairs that pull most lose it",
    "without_other_15": "15 random pairs that hold it beside another feature lose it",
}
"""Ways of drawing the training pairs."""
FRESH = ("plain", "antithetic", "apart")
"""Those that fresh pairs, N = 0, can have."""
PUSHES = {
    "neuron": "every neuron has a push towards the rare feature of its own",
    "feature": "neurons with the same largest feature have one push, with the sign of that feature",
    "direction": "every neuron has a push in a random direction of the span of all features",
    "leak": "every neuron has a leak of its own, while its gate is closed for the feature",
    "none": "the push of each batch is taken out: the mean of the change and of its mirror image",
}
"""What is done to the growth of the rare feature from stage 2 on."""
POSITIVE = {"ge": 1}
AXES = {
    "latents": column(
        f"how training pairs are drawn: {meanings(WAYS)}", unit="", kind=Literal[*WAYS]
    ),
    "N": column("training pairs; 0 for fresh pairs at every step", SIZE, "pairs", kind=int),
    "sigma": column("standard deviation of the noise", SIZE),
    "share": column("bias scale", {"gt": 0}),
    "lambda": column("l2 regularisation", {"gt": 0}),
    "eps_min": column("eps_min / eps_max", {"gt": 0, "le": 1}),
}
TRAINED_TOGETHER = ("share", "lambda")
"""Axes that tokens do not depend on: their values share the tokens of one cell."""


class Push(Section):
    """A change of the growth of the rare feature, the same at every step from stage 2 on."""

    by: Literal[*PUSHES] = Field(description=meanings(PUSHES))
    size: float = Field(
        default=0.0,
        ge=0,
        description="its root mean square, a normal number for each neuron or feature"
        " (1 / (eta steps))",
    )
    until: int | None = Field(default=None, ge=1, description="first step without it; null: T")


class LearningStudy(grid_section(AXES), SeedSettings):
    """Dense trainings at every point of a grid, by simulator `reduced` and bias rule `follow`."""

    data: Data
    training: Training
    push: Push | None = Field(default=None, description="what is added to a step; null: nothing")
    every: int = Field(ge=1, description="steps between two evaluations of the rare feature")
    hold: int = Field(
        ge=0,
        description="a replica ends once it has had a cosine above 0.9 for so many steps; 0: none"
        " ends before T",
    )
    looked: int = Field(
        ge=1,
        description="step at which the growth terms are measured on the whole sample; a feature"
        " that is learned after it is learned late",
    )
    passes: int = Field(ge=2, description="passes over the sample that growth terms are means of")
    again: int | None = Field(
        default=None, ge=1, description="step at which they are measured once more; null: never"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "LearningStudy":
        data, training = self.data, self.training
        if training.bias.rule != "follow":
            raise ValueError(f"training.bias.rule must be follow, got {training.bias.rule}")
        plain = data.views == Views() and not data.balance and len(data.minority) == 1
        if not plain or training.history or training.device != "cpu":
            raise ValueError(
                "data.views, data.balance, training.history, training.device and several minority"
                " features are for studies of the chain"
            )
        antithetic = "antithetic" in self.latents
        if small := [N for N in self.N if 0 < N < training.K or (N % 2 and antithetic)]:
            raise ValueError(
                f"N must be 0, or at least training.K = {training.K}, and even for antithetic"
                f" latents, got {small[0]}"
            )
        if 0 in self.N and set(self.latents) - {*FRESH}:
            raise ValueError(
                f"latents must be plain, antithetic or apart for fresh pairs, N = 0, got"
                f" {self.latents}"
            )
        alone = all(len(getattr(self, name)) == 1 for name in TRAINED_TOGETHER)
        if not alone and any(name.startswith("without_") for name in self.latents):
            raise ValueError("latents: without_... needs one share and one lambda")
        for name in ("looked", "again"):
            step = getattr(self, name)
            if step and (step % self.every or step > training.T):
                raise ValueError(
                    f"{name} must be a multiple of every = {self.every} up to T = {training.T},"
                    f" got {step}"
                )
        return self

    def points(self) -> list[Cell]:
        """Return the points of the grid."""
        values = itertools.product(*(sorted(getattr(self, name)) for name in AXES))
        return [cell(**dict(zip(AXES, point, strict=True))) for point in values]

    def cells(self) -> list[Cell]:
        """Return the cells: points without the axes that tokens do not depend on."""
        names = [name for name in AXES if name not in TRAINED_TOGETHER]
        return list(dict.fromkeys(point.restrict_to(*names) for point in self.points()))

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return bias scale and weight decay of every point of a cell, as `regimes`."""
        points = [point for point in self.points() if cell.values.items() <= point.values.items()]
        return {"regimes": [{name: point[name] for name in TRAINED_TOGETHER} for point in points]}


class LateLearning(Section):
    """The section `fate`: studies of late learning by name."""

    studies: dict[Name, LearningStudy] = Field(min_length=1, description="by name")


maybe = partial(column, missing=True)
rate = partial(maybe, unit="1 / (eta steps)")
when = partial(maybe, unit="steps")
step = partial(column, bounds=POSITIVE, unit="steps", kind=int)
replicas = partial(column, unit="replicas", kind=int)
CELL = AXES | {"latents": text("how training pairs are drawn")}
KEYS = {"study": text("entry of fate.studies"), **CELL}
LEARNED_AT = when("evaluation from which on some |cos| to the rare feature is >= 0.5; null: never")
GROWTH = {
    "leak": rate("mean of the leak A_i over neurons, weighted by the squares of <w_i, M_rare>"),
    "kick": rate("largest |k_i| / ||w_i||, the growth without the feature in any weight"),
    "kick_size": rate("root mean square of k_i / ||w_i||, less the noise of ten passes", SIZE),
    "excess": rate("largest A_i - g_i of a neuron, g_i being the growth of its norm"),
    "largest_leak": rate("largest A_i of a neuron"),
    "own_growth": rate("g_i of the neuron of the largest excess"),
    "top_5": maybe("part of the positive leak of that neuron that 5 pairs have", SHARE),
    "top_15": maybe("part that 15 pairs have; null for fresh pairs", SHARE),
    "winner_rank": column(
        "place by A_i - g_i of the neuron that is nearest to the feature at the end, from 1 on",
        POSITIVE,
        kind=int,
    ),
}
"""Growth of the rare feature at the step `looked`; A_i, k_i and g_i are those of growth.py."""
AGAIN = {
    "kick_other": rate("kick_size by the pairs of another seed, in the same neurons", SIZE),
    "kick_kept": maybe("correlation of k_i / ||w_i|| at `looked` and at `again`, closed neurons"),
    "kick_excess": maybe("correlation of |k_i| / ||w_i|| and A_i - g_i at `looked`"),
    "own_growth_change": rate("root mean square of the change of g_i since then", SIZE),
    "own_growth_off": rate("that of g_i - lambda at `again`", SIZE),
}
"""What the theorem assumes of k_i and g_i, of neurons closed for the feature; null without
`again`, or with fewer than three such neurons."""
LOOKED = {"cosine_looked": maybe("largest |cos| to the rare feature at the step `looked`", SHARE)}
LAST = {
    "cosine": maybe("largest |cos| to the rare feature at the last step", SHARE),
    "others": column("mean over the other features of the largest |cos| to each, then", SHARE),
    "count": maybe("training pairs with the rare feature; null for fresh pairs", unit="pairs"),
}
PUSH = {
    "push": column("what is done to the growth of the rare feature; empty: nothing", kind=str),
    "push_size": column("root mean square of what is added", SIZE, "1 / (eta steps)"),
}
OPENED = {
    "opened_trained": maybe(
        "fraction of training samples with the rare feature that open the gate of the neuron"
        " nearest to it, at the last step",
        SHARE,
    ),
    "opened_fresh": maybe("that fraction of fresh samples with the feature", SHARE),
    "opened_without": maybe("that fraction of fresh samples without it", SHARE),
}
FATE = TableColumns(
    "{study}_fate",
    "a row per (cell, seed): when a replica learned the rare feature, and its growth terms",
    {
        **CELL,
        "seed": SEED,
        "T": step("training steps, unless it ends before"),
        "learned_at": LEARNED_AT,
        "pure_at": when("first evaluation from then on at which one is > 0.9; null: never"),
        "ended_at": step("last step: T, or `hold` steps after `pure_at`"),
        "T1": when("step that ended stage 1; -1 for none"),
        **LOOKED,
        **GROWTH,
        **AGAIN,
        **LAST,
        **OPENED,
        **PUSH,
        "diverged": column("1 where a step was not taken", SHARE, ""),
    },
    (*CELL, "seed"),
)
FATE_SHARES = TableColumns(
    "fate_shares",
    "a row per (study, cell, step): the fraction of replicas that have learned the rare feature",
    {
        **KEYS,
        "step": step("training step"),
        "learned": replicas("replicas that have learned it by that step", SIZE),
        "pure": replicas("of these, replicas that have had a cosine above 0.9 by then", SIZE),
        "n": replicas("seeds", POSITIVE),
        "learned_share": column("fraction of replicas that have learned it", SHARE),
        "ci_low": column("lower end of its exact 95 % interval", SHARE),
        "ci_high": column("upper end", SHARE),
    },
    (*KEYS, "step"),
)
FATE_POINTS = TableColumns(
    "fate_points",
    "a row per (study, cell): learning outcomes; medians over replicas of growth terms and cosines,"
    " and means of gate openings over those that learned late",
    {
        **KEYS,
        "n": replicas("seeds", POSITIVE),
        "T": step("training steps"),
        "at_once": replicas("replicas that had learned it by `looked`", SIZE),
        "late": replicas("replicas that learned it after that, by T", SIZE),
        "pure": replicas("replicas that have learned it and had a cosine above 0.9 by T", SIZE),
        **{name: item._replace(kind=float, missing=True) for name, item in GROWTH.items()},
        **LOOKED,
        **AGAIN,
        **LAST,
        **PUSH,
        "neurons": column("neurons of a replica", POSITIVE, "", kind=int),
        "features": column("features beside the rare one", POSITIVE, "", kind=int),
        "threshold": rate(
            "push of which half of the runs have a larger one in some neuron if it lets the"
            " feature in, by the theorem, with the leak of fresh pairs in the same setting",
            SIZE,
        ),
        "critical_N": maybe("N below which pairs have such a push; infinite: any", unit="pairs"),
        "step_quarter": when("step by which a quarter of them has learned it; null for never"),
        "step_half": when("step by which half of them has"),
        **OPENED,
    },
    tuple(KEYS),
)
FIGURES = {
    "fate_over_time": Figure(
        ("fate_shares",),
        "Fraction of replicas that have learned the rare feature (a cosine of at least 0.5) by step"
        " 500 and by the last, with exact 95 % intervals, by the number of training pairs that come"
        " back, at 0.2 times the frequency of the other features and a weight decay of 0.02. Compare"
        " how many learn late.",
    ),
    "fate_push": Figure(
        ("fate_points",),
        "Fraction of replicas that have learned the rare feature by the last step, with exact 95 %"
        " intervals, against the push on a neuron over the one for which the theorem says a half:"
        " fresh pairs with a constant push from stage 2 on, and pairs that come back with their"
        " own, or without it (open marks). Band: the theorem, nothing fitted, between as many"
        " independent pushes as there are neurons, and other features.",
    ),
    "fate_conditions": Figure(
        ("fate_points",),
        "Fraction of replicas that have learned the rare feature by the last step (a cosine of at"
        " least 0.5), with exact 95 % intervals, against its frequency, at each weight decay: fresh"
        " pairs at every step, and pairs that come back.",
    ),
}
PAGE = Page("Late learning", ("fate_shares", "fate_points"), tuple(FIGURES), QUESTION)
PACKAGE = "studies.fate"
MEASURE = Stage(f"{PACKAGE}.measure:measure_fate", LearningStudy, ("probes.parquet",))


def build_outputs(section: LateLearning) -> StudyOutputs:
    """Return the tables of the studies, and of learning outcomes; figures, a page."""
    schema = f"{PACKAGE}:{{}}.schema".format
    tables = {
        f"{name}_fate": collected_table(schema("FATE"), MEASURE, "probes", name, study)
        for name, study in section.studies.items()
    }
    sources, courses = tuple(tables), {"courses": section.studies}
    for name in ("fate_shares", "fate_points"):
        function = f"{PACKAGE}.learning_times:{name}"
        tables[name] = Table(schema(name.upper()), function, courses, tables=sources)
    return StudyOutputs(tables, FIGURES, {"fate": PAGE})


def claim_inputs(section: LateLearning) -> ClaimInputs:
    """Return the tables that the claims on late learning are measured on."""
    return ClaimInputs(tuple(f"{name}_fate" for name in section.studies), {"fate": section})


# A plain `snakemake` makes it once its full run has been made.
KIND = StudyKind(
    "fate",
    "Late learning",
    LateLearning,
    build_outputs,
    stages=(MEASURE,),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=claim_inputs,
    by_default=False,
)
