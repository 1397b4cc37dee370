"""What the study of the fate over time makes."""

from rarefeat.config.study import OF_TRAINING
from rarefeat.kind import Browsed, Claimed, Figure, Kind, Made, Stage, Table, collected
from rarefeat.studies.fate.config import AXES, Course, Fate

PACKAGE = "studies.fate"
MEASURE = Stage(f"{PACKAGE}.measure:measure_fate", Course, Course.trained, ("probes.parquet",))
SEE = (
    "Share of replicas that have learned the rare feature against training step, with exact 95 % intervals. (a) At 0.2 times the"
    " others' frequency and a weight decay of 0.02, by the number of training pairs. (b) The same 8,192 pairs each with the rare"
    " feature's sign flipped as well, with the feature alone in its samples, and without noise. (c, d) By frequency: fresh pairs, and a"
    " stronger decay. (e) The share that has learned at the last step over frequency, by decay. (f) Of those that have not"
    " learned at once, the share that does late, over the border that theory puts at 1: a mark for each point. See that there are"
    " features that come late, and that decay and frequency matter more than how often a sample comes back."
)


def made(section: Fate) -> Made:
    """The table of each course, the shares over time, and the law for the time."""
    tables = {
        f"{name}_fate": collected(f"{PACKAGE}.tables:FATE", MEASURE, "probes", name, course)
        for name, course in section.studies.items()
    }
    shares = tuple(f"{name}_fate" for name in section.of_role("point"))
    tables["fate_shares"] = Table(f"{PACKAGE}.tables:FATE_SHARES", f"{PACKAGE}.times:fate_shares", tables=shares)
    tables["fate_points"] = Table(
        f"{PACKAGE}.tables:FATE_POINTS",
        f"{PACKAGE}.times:fate_points",
        {"courses": section.of_role("point")},
        tables=shares,
    )
    if law := section.of_role("fit", "test"):
        for name, courses in (("fate_late", law), ("fate_step", law | section.of_role("point"))):
            schema, of = f"{PACKAGE}.tables:{name.upper()}", tuple(f"{course}_fate" for course in courses)
            tables[name] = Table(schema, f"{PACKAGE}.step:{name}", {"courses": courses}, tables=of)
        tables["fate_times"] = Table(
            f"{PACKAGE}.tables:FATE_TIMES",
            f"{PACKAGE}.times:fate_times",
            {"courses": law},
            tables=tuple(f"{name}_fate" for name in law),
        )
    figures = {"fate_over_time": Figure(("fate_shares", "fate_points"), SEE)}
    return Made(
        tables,
        figures,
        browsed={"fate_tables": Browsed("The fate over time: shares and points", ("fate_shares", "fate_points"))},
    )


def claimed(section: Fate) -> Claimed:
    """What is stated of late learning."""
    tables = tuple(f"{name}_fate" for name in section.of_role("point"))
    tables += ("fate_times", "fate_late") if section.of_role("fit", "test") else ()
    regimes = {
        name: {} if course.drawn else {axis: {point[axis] for point in course.points()} for axis in AXES}
        for name, course in section.studies.items()
    }
    return Claimed(tables, {"fate": section}, regimes)


# By default once its full run has been made.
KIND = Kind(
    "fate", "At once, late or never", Fate, made, stages=(MEASURE,), inherits=OF_TRAINING, claimed=claimed, by_default=False
)
