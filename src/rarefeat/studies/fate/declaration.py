"""What the study of the fate over time makes."""

from collections.abc import Iterable

from rarefeat.config.study import SHARED_TRAINING_KEYS
from rarefeat.studies.fate.config import AXES, LateLearning, LearningStudy
from rarefeat.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    collected_table,
    table_from,
)

PACKAGE = "studies.fate"
MEASURE = Stage(
    f"{PACKAGE}.measure:measure_fate",
    LearningStudy,
    LearningStudy.training_config,
    ("probes.parquet",),
)
SEE = (
    "Share of replicas that have learned the rare feature (a cosine of at least 0.5 that stays) against training step, with exact"
    " 95 % intervals. (a) At 0.2 times the"
    " others' frequency and a weight decay of 0.02, by the number of training pairs. (b) The same 8,192 pairs each with the rare"
    " feature's sign flipped as well, with the feature alone in its samples, and without noise. (c, d) By frequency: fresh pairs, and a"
    " stronger decay. (e) The share that has learned at the last step over frequency, by decay. (f) Of those that have not"
    " learned at once, the share that does late, over the border that theory puts at 1: a mark for each point. See who comes"
    " late, and how this changes with frequency, decay and the sample."
)


def build_outputs(section: LateLearning) -> StudyOutputs:
    """The table of each course, the shares over time, and the law for the time."""
    tables = {
        f"{name}_fate": collected_table(f"{PACKAGE}.tables:FATE", MEASURE, "probes", name, course)
        for name, course in section.studies.items()
    }
    points, law = section.studies_with_role("point"), section.studies_with_role("fit", "test")
    tables["fate_shares"] = table_from(
        f"{PACKAGE}.learning_times:fate_shares", tables=tables_of(points)
    )
    read = {"fate_points": ("learning_times", points)}
    if law:
        read |= {
            "fate_late": ("critical_frequency", law),
            "fate_step": ("critical_frequency", law | points),
            "fate_times": ("learning_times", law),
        }
    for name, (module, courses) in read.items():
        tables[name] = table_from(
            f"{PACKAGE}.{module}:{name}", {"courses": courses}, tables=tables_of(courses)
        )
    shown = ("fate_shares", "fate_points")
    page = Page("late learning", "", (), shown=shown)
    return StudyOutputs(tables, {"fate_over_time": Figure(shown, SEE)}, pages={"fate": page})


def tables_of(courses: Iterable[str]) -> tuple[str, ...]:
    """Of each of some courses."""
    return tuple(f"{name}_fate" for name in courses)


def claim_inputs(section: LateLearning) -> ClaimInputs:
    """What is stated of late learning."""
    tables = tables_of(section.studies_with_role("point"))
    tables += ("fate_times", "fate_late") if section.studies_with_role("fit", "test") else ()
    regimes = {
        name: {}
        if course.drawn
        else {axis: {point[axis] for point in course.points()} for axis in AXES}
        for name, course in section.studies.items()
    }
    return ClaimInputs(tables, {"fate": section}, regimes)


# By default once its full run has been made.
KIND = StudyKind(
    "fate",
    "At once, late or never",
    LateLearning,
    build_outputs,
    stages=(MEASURE,),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=claim_inputs,
    by_default=False,
)
