"""A study in one file: points of a grid, a function that measures one, and what its columns mean.

`STUDY = Experiment(__name__, ...)` makes the rest: the section of the config, the stage, the table
with its schema, means with intervals, the measured claims and the page. Import torch, pandas' users
and seaborn inside of functions: a plan reads this file, and needs none of them.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field, create_model

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import SeedSettings
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.code_hashes import settings_read
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    collected_table,
)

if TYPE_CHECKING:
    import pandas as pd
    import pandera.pandas as pa

    from rarefeat.claims.measurements import Measurement


class Column(NamedTuple):
    """A column of a table: its meaning, its bounds, its unit and where it is from."""

    meaning: str
    bounds: Mapping[str, float] = {}
    unit: str = "1"
    source: str = ""
    missing: bool = False
    kind: Any = float

    def schema(self) -> "pa.Column":
        """Return its schema; shares may exceed 1 by the rounding of float32."""
        from rarefeat.workflow.files import schema

        low, high = self.bounds.get("ge"), self.bounds.get("le")
        check = schema.SHARE if (low, high) == (0, 1) else schema.within(low, high)
        kind = {int: "int64", float: float, bool: bool}.get(self.kind, str)
        return schema.column(kind, check, self.unit, self.meaning, self.source, self.missing)


SHARE, SIZE, AT_MOST_1 = {"ge": 0, "le": 1}, {"ge": 0}, {"le": 1}
"""Bounds of columns: a share, a size, and R^2."""


def column(
    meaning: str, bounds: Mapping[str, float] | None = None, unit: str = "1", source: str = "",
    missing: bool = False, kind: type = float,
) -> Column:  # fmt: skip
    """Declare a column of numbers, or of texts if `kind` is str or a Literal."""
    return Column(meaning, bounds or {}, unit, source, missing, kind)


text = partial(column, unit="", kind=str)
"""Declare a column of texts."""


@dataclass(frozen=True)
class TableColumns:
    """A table: what a row is, its columns, and those that tell rows apart."""

    name: str
    rows: str
    columns: Mapping[str, Column | str]
    """By name; a text is MODULE:MAPPING of columns by name."""
    keys: Sequence[str]

    @cached_property
    def schema(self) -> "pa.DataFrameSchema":
        """Its schema, for whoever makes or reads the table; a plan needs none."""
        from rarefeat.workflow.files import schema

        columns = {
            name: load_function(item)[name] if isinstance(item, str) else item.schema()
            for name, item in self.columns.items()
        }
        return schema.schema(self.name, self.rows, columns, list(self.keys))


def meanings(names: Mapping[str, str]) -> str:
    """Join the meanings of some names to one text."""
    return "; ".join(f"{name}: {text}" for name, text in names.items())


def setting(kind: Any, meaning: str, **bounds: float) -> Any:
    """Declare a key of the config: its type, its meaning and its bounds, as `ge=0`."""
    return kind, Field(description=meaning, **bounds)


DIVERGED = {"diverged"}
"""Column of a replica that has run away: 0 or 1."""
SEED = Column("seed of the replica", SIZE, "", kind=int)
POINT = dict.fromkeys(("eps_min", "sigma"), "stages.tables:POINT")
ARM = dict.fromkeys(("arm", "alpha", "onset", "pruned_update"), "stages.tables:ARM")
"""Keys of the tables of an encoder study."""


class PointStudy(SeedSettings):
    """A section of the config with points: every combination of the values of each block."""

    def cells(self) -> list[Cell]:
        """Return a cell for each point of the blocks, each once, in the order of values."""
        blocks = [vars(block) for block in self.points.values()]
        points = {point for axes in blocks for point in itertools.product(*axes.values())}
        return [cell(**dict(zip(blocks[0], point, strict=True))) for point in sorted(points)]


@dataclass(frozen=True)
class Pick:
    """What a claim looks at: a column of one arm, at every point, minus that of another arm."""

    column: str
    arm: Mapping[str, str] = field(default_factory=dict)
    minus: Mapping[str, str] = field(default_factory=dict)
    apply: Callable[["pd.Series", Any], Any] = lambda values, section: values
    counts_diverged: bool = False  # a runaway has a value here, and leaves no row out


@dataclass(frozen=True)
class Experiment:
    """A study of one grid whose replicas are rows of one table."""

    module: str
    """`__name__` of its file."""
    title: str
    question: str
    axes: Mapping[str, Column]
    """The grid: keys of the blocks under `points`, each a list of values within the bounds."""
    columns: Mapping[str, Column]
    """What `measure` returns of a replica, beside axes, arms and seed."""
    measure: Callable[..., list[dict]]
    """Called with `cell`, `seeds`, `label` and the settings that its parameters name; rows."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the section, by `setting`, or a type."""
    arms: Mapping[str, Column | str] = field(default_factory=dict)
    """Columns that tell arms of one seed apart; texts as in TableColumns."""
    study: str = ""
    """Name of the study in paths; that of the file by default."""
    table: str = ""
    """Name of the table; that of the file with `_replicas` by default."""
    base: Mapping[str, str] = field(default_factory=dict)
    """The arm that the others are held against."""
    changed: Sequence[str] = ()
    """Columns of which the change from it is taken, at the same seed."""
    derive: Callable[["pd.DataFrame"], "pd.DataFrame"] = lambda table: table
    """Adds columns to the table."""
    after: Callable[["pd.DataFrame"], "pd.DataFrame"] = lambda table: table
    """Adds columns to the changes."""
    means: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Columns that the published table has means of: of the `base`, and of the `changes`."""
    published: str = ""
    """Name of the published table, if there is one."""
    picks: Mapping[str, Pick] = field(default_factory=dict)
    """What each claim of the YAML file looks at."""
    figures: Mapping[str, str] = field(default_factory=dict)
    """Caption by the function of the file that draws it."""

    @property
    def name(self) -> str:
        """Name of the study kind: that of its file."""
        return self.module.rpartition(".")[2]

    @property
    def table_name(self) -> str:
        """Name of the table."""
        return self.table or f"{self.name}_replicas"

    @property
    def keys(self) -> list[str]:
        """Columns that tell rows apart, but for the seed."""
        return [*self.axes, *self.arms]

    @cached_property
    def section(self) -> type[PointStudy]:
        """The section of the config, and its only study."""
        points = grid_section(self.axes)
        named = Field(min_length=1, description="named blocks; what several hold is computed once")
        fields = {
            name: item if isinstance(item, tuple) else (item, ...)
            for name, item in self.settings.items()
        }
        blocks = {"points": (dict[Name, points], named)}
        base = {"__base__": PointStudy, "__doc__": self.question}
        return create_model(self.name.title().replace("_", ""), **base, **fields, **blocks)

    @cached_property
    def schema(self) -> "pa.DataFrameSchema":
        """The schema of its table."""
        columns = {**self.axes, **self.arms, "seed": SEED, **self.columns}
        keys = [*self.keys, "seed"]
        return TableColumns(self.table_name, f"a row per ({', '.join(keys)})", columns, keys).schema

    def changes(self, table: "pd.DataFrame") -> "pd.DataFrame":
        """Return the rows of all other arms, `changed` columns minus the base's at the seed."""
        table, changed = self.derive(table), list(self.changed)
        others, base = table[~is_arm(table, self.base)], select(table, self.base)
        return self.after(others.assign(**minus(others, base, [*self.axes, "seed"], changed)))

    def summary(self, table: "pd.DataFrame") -> "pd.DataFrame":
        """Return mean, interval and number of seeds of the base, and of all changes from it."""
        parts = {"base": select(table, self.base), "changes": self.changes(table)}
        tables = [
            means_by(parts[which], self.keys, names, DIVERGED & self.columns.keys())
            for which, names in self.means.items()
        ]
        import pandas as pd

        return pd.concat(tables, ignore_index=True)

    def measure_claims(
        self, tables: Mapping[str, "pd.DataFrame"], job: Any
    ) -> Iterator["Measurement"]:
        """Yield the measurement of every claim at every point."""
        from rarefeat.claims.measurements import measurement

        (table,), section = tables.values(), job.config_section(self.name, self.section)
        changes = self.changes(table) if self.changed else table
        points = [dict(iter(part.groupby(list(self.axes)))) for part in (table, changes)]
        for values, (claim, pick) in itertools.product(points[0], self.picks.items()):
            rows = points[pick.arm != self.base][values]
            of = [select(rows, arm).set_index("seed") for arm in (pick.arm, pick.minus) if arm]
            of = of or [rows.set_index("seed")]
            numbers = of[0][pick.column] - (of[1][pick.column] if pick.minus else 0.0)
            kept = pick.counts_diverged or pick.arm == self.base or not DIVERGED & {*rows}
            lost = 0 if kept else int(sum(one["diverged"].sum() for one in of))
            point = dict(zip(self.axes, values, strict=True))
            yield measurement(
                claim, self.study_name, point, pick.apply(numbers, section), diverged=lost
            )

    @property
    def study_name(self) -> str:
        """Name of the study in paths."""
        return self.study or self.name

    @property
    def published_tables(self) -> dict[str, tuple[tuple[str, ...], Callable]]:
        """The published table: the table that it is made of, and its summary."""
        return {self.published: ((self.table_name,), self.summary)} if self.published else {}

    @cached_property
    def kind(self) -> StudyKind:
        """The declaration of its stage, table, figures, page and claims."""
        module = f"studies.{self.name}"
        function = f"{module}:{self.measure.__name__}"
        stage = Stage(function, self.section, ("probes.parquet",))

        def outputs(section: PointStudy) -> StudyOutputs:
            name, schema = self.table_name, f"{module}:STUDY.schema"
            table = collected_table(schema, stage, "probes", self.study_name, section)
            figures = {key: Figure((name,), text, module) for key, text in self.figures.items()}
            shown = (name, f"{self.name}_measured") if self.picks else (name,)
            page = Page(self.title, shown, tuple(figures), self.question)
            return StudyOutputs({name: table}, figures, {self.name: page})

        self.check(function)
        return StudyKind(
            self.name, self.title, self.section, outputs,
            studies=lambda section: {self.study_name: section}, stages=(stage,),
            inherits=tuple(k for k in SHARED_TRAINING_KEYS if k in self.section.model_fields),
            by_default=False, question=self.question,
            claim_inputs=self.claim_inputs,
        )  # fmt: skip

    def check(self, function: str) -> None:
        """Raise RarefeatError where a part of it names another part that is not there."""
        is_plain = self.derive is Experiment.derive and self.after is Experiment.after
        picked = [pick.column for pick in self.picks.values() if is_plain]
        settings = [*dir(self.section), *self.section.model_fields]
        for what, names, known in (
            ("parameter", settings_read(function), settings),
            ("figure", self.figures, dir(sys.modules[self.module])),
            ("column of a pick", picked, self.columns),
        ):
            if unknown := [name for name in names if name not in known]:
                raise RarefeatError(f"{what} {unknown[0]}: there is none")

    def claim_inputs(self, section: PointStudy) -> ClaimInputs | None:
        """Return what its claims are measured on, each with its pick."""
        if not self.picks:
            return None
        from rarefeat.claims.declarations import load_claims

        declared = load_claims(self.name)
        for claim in sorted(declared.claims.keys() | self.picks.keys()):
            if claim not in declared.claims or claim not in self.picks:
                raise declared.error(claim, "it needs an entry here and one in `picks`")
            if (study := declared.claims[claim].primary.study) != self.study_name:
                raise declared.error(claim, f"primary.study is {study}, not {self.study_name}")
        function = f"studies.{self.name}:STUDY.measure_claims"
        return ClaimInputs((self.table_name,), {self.name: section}, function)


def grid_section(axes: Mapping[str, Column]) -> type[Section]:
    """Return a section of the config that has a list of values for each axis."""
    fields = {
        name: (Distinct[one_of(axis)], Field(min_length=1, description=axis.meaning))
        for name, axis in axes.items()
    }
    return create_model("Points", __base__=Section, __doc__="Points of a grid.", **fields)


def one_of(axis: Column) -> Any:
    """Return the type of a value of an axis."""
    return Annotated[axis.kind, Field(**axis.bounds)]


def is_arm(rows: "pd.DataFrame", where: Mapping[str, Any]) -> "pd.Series":
    """Return which rows have these values."""
    import pandas as pd

    return (rows[list(where)] == pd.Series(where, dtype=object)).all(axis=1)


def select(rows: "pd.DataFrame", where: Mapping[str, Any]) -> "pd.DataFrame":
    """Return the rows with these values."""
    return rows[is_arm(rows, where)]


def minus(rows: "pd.DataFrame", base: "pd.DataFrame", keys: list[str], columns: Any) -> Any:
    """Return a column or columns of rows, minus those of the base's row with the same keys."""
    of_base = base.set_index(keys)[columns].loc[rows.set_index(keys).index]
    return rows[columns] - of_base.to_numpy()


def means_by(
    table: "pd.DataFrame", keys: Sequence[str], columns: Iterable[str], shares: Iterable[str] = ()
) -> "pd.DataFrame":
    """Return mean, 95 % interval (exact for shares) and n of columns, by group."""
    import pandas as pd

    from rarefeat.statistics import fraction_interval, student_interval

    rows = []
    for values, group in table.groupby(list(keys)):
        for name in columns:
            mean, _, low, high, n = student_interval(group[name].to_numpy())
            rows.append((*values, name, mean, low, high, n))
        for name in shares:
            ends = fraction_interval(group[name].to_numpy())
            rows.append((*values, name, group[name].mean(), *ends, len(group)))
    return pd.DataFrame(rows, columns=[*keys, "quantity", "mean", "ci_low", "ci_high", "n"])


def means_of(
    table: "pd.DataFrame", keys: Sequence[str], column: str = "value",
    inside: Callable[[str], tuple[float, float]] | None = None,
) -> "pd.DataFrame":  # fmt: skip
    """Return mean, sd, 95 % interval and n of a column, by group.

    `inside` is the range of what the last key names, to which an interval is clipped.
    """
    import pandas as pd

    from rarefeat.statistics import UNBOUNDED, student_interval

    rows = []
    for key, group in table.groupby(list(keys)):
        ends = inside(key[-1]) if inside else UNBOUNDED
        rows.append((*key, *student_interval(group[column].to_numpy(), inside=ends)))
    return pd.DataFrame(rows, columns=[*keys, "mean", "sd", "ci_low", "ci_high", "n"])
