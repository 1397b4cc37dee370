"""A study of replicas in one file: points, a function that measures one, and what its columns mean.

`Experiment(...).kind()` makes the rest: the stage, the table with its schema, means with intervals
for the docs, the measured claims, and a page. What a claim looks at is one line, a `Pick`.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pandera.pandas as pa

from rarefeat.statistics import fraction_interval, student_interval
from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.seeds import SeedSettings
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS
from rarefeat.workflow.files import schema
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    collected_table,
)

BOUNDS = {"share": schema.SHARE, "size": pa.Check.ge(0), "at most 1": pa.Check.le(1), "": None}


def column(
    meaning: str, bounds: str = "", unit: str = "1", source: str = "", missing: bool = False
):
    """Declare a column of numbers: its meaning, and bounds by their name in BOUNDS."""
    return schema.column(float, BOUNDS[bounds], unit, meaning, source, missing)


SEED = schema.column("int64", pa.Check.ge(0), "", "seed of the replica")


@dataclass(frozen=True)
class Pick:
    """What a claim looks at: a column of one arm, at every point, minus that of another arm."""

    column: str
    arm: Mapping[str, str] = field(default_factory=dict)
    minus: Mapping[str, str] = field(default_factory=dict)
    apply: Callable[[pd.Series, Any], Any] = lambda values, section: values
    counts_diverged: bool = False  # a runaway has a value here, and leaves no row out


@dataclass(frozen=True)
class Experiment:
    """A study of one grid whose replicas are rows of one table."""

    name: str
    study: str
    table: str
    title: str
    question: str
    settings: type[SeedSettings]
    axes: Mapping[str, pa.Column]
    arms: Mapping[str, pa.Column]
    columns: Mapping[str, pa.Column]
    measure: Callable[..., list[dict]]  # (inputs, job) -> rows
    job_config: Callable[[Any, Cell], Mapping[str, Any]]
    base: Mapping[str, str] = field(
        default_factory=dict
    )  # the arm that the others are held against
    changed: Sequence[str] = ()  # columns of which the change from it is taken, at the same seed
    derive: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table  # further columns
    after: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table  # and such of the changes
    means: Mapping[str, Sequence[str]] = field(default_factory=dict)  # "base", "changes": columns
    picks: Mapping[str, Pick] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)  # caption by function of the module

    def schema(self) -> pa.DataFrameSchema:
        """Return the schema of its table."""
        keys = [*self.axes, *self.arms, "seed"]
        columns = {**self.axes, **self.arms, "seed": SEED, **self.columns}
        return schema.schema(self.table, f"a row per ({', '.join(keys)})", columns, keys)

    def changes(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of all arms but the base, `changed` columns minus the base's at the
        seed.
        """
        keys, table = [*self.axes, "seed"], self.derive(table)
        is_base = (table[list(self.base)] == pd.Series(self.base)).all(axis=1)
        others, changed = table[~is_base], list(self.changed)
        base = table[is_base].set_index(keys)[changed].loc[pd.MultiIndex.from_frame(others[keys])]
        return self.after(others.assign(**(others[changed] - base.to_numpy())))

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return mean, interval and number of seeds of the base, and of all changes from it."""
        keys = [*self.axes, *self.arms]
        is_base = (table[list(self.base)] == pd.Series(self.base)).all(axis=1)
        rows = []
        for which, part in (("base", table[is_base]), ("changes", self.changes(table))):
            for values, group in part.groupby(keys):
                for name in self.means[which]:
                    mean, _, low, high, n = student_interval(group[name].to_numpy())
                    rows.append((*values, name, mean, low, high, n))
                ends = fraction_interval(group["diverged"].to_numpy())
                rows.append((*values, "diverged", group["diverged"].mean(), *ends, len(group)))
        return pd.DataFrame(rows, columns=[*keys, "quantity", "mean", "ci_low", "ci_high", "n"])

    def claim_rows(self, tables: Mapping[str, pd.DataFrame], job: Any) -> Iterator[Any]:
        """Yield the measurement of every claim at every point."""
        from rarefeat.claims.measurements import measurement

        (table,), section = tables.values(), job.config_section(self.name, self.settings)
        parts = {True: self.changes(table), False: table}
        for claim, pick in self.picks.items():
            for values, rows in parts[pick.arm != self.base].groupby(list(self.axes)):
                of = [select(rows, arm).set_index("seed") for arm in (pick.arm, pick.minus) if arm]
                numbers = of[0][pick.column] - (of[1][pick.column] if pick.minus else 0.0)
                kept = pick.counts_diverged or pick.arm == self.base
                lost = 0 if kept else int(sum(one["diverged"].sum() for one in of))
                point = dict(zip(self.axes, values, strict=True))
                numbers = pick.apply(numbers, section)
                yield measurement(claim, self.study, point, numbers, diverged=lost)

    def page(self, tables: Mapping[str, pd.DataFrame], job: Any) -> str:
        """Return the page of a run: every claim with what was found in its primary regime."""
        (rows,) = tables.values()
        lines = [
            f"- {row.statement}: {row.estimate:.3g} ± {row.error:.2g} ({row.n} seeds),"
            f" must be {row.required}."
            for row in rows[rows["primary"]].itertuples()
        ]
        return "\n".join([f"# {self.title}", "", *lines]) + "\n"

    def kind(self) -> StudyKind:
        """Return the declaration of its stage, table, figures, page and claims."""
        module = f"studies.{self.name}"
        measure = Stage(
            f"{module}:{self.measure.__name__}", self.settings, self.job_config, ("probes.parquet",)
        )

        def outputs(section: SeedSettings) -> StudyOutputs:
            name, measured = self.table, f"{self.name}_measured"
            table = collected_table(f"{module}:SCHEMA", measure, "probes", self.study, section)
            page = Page(self.title, f"{module}:page", (measured,), shown=(name,))
            figures = {key: Figure((name,), text, module) for key, text in self.figures.items()}
            return StudyOutputs({name: table}, figures, {self.name: page})

        return StudyKind(
            self.name, self.title, self.settings, outputs,
            studies=lambda section: {self.study: section}, stages=(measure,),
            inherits=SHARED_TRAINING_KEYS, by_default=False, question=self.question,
            claim_inputs=lambda section: ClaimInputs((self.table,), {self.name: section}),
        )  # fmt: skip


def select(rows: pd.DataFrame, where: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows with these values."""
    return rows[(rows[list(where)] == pd.Series(where)).all(axis=1)]


def grid(blocks: Mapping[str, Any]) -> list[Cell]:
    """Return a cell for every combination of values in some blocks, each once."""
    plain = [block.model_dump(by_alias=True) for block in blocks.values()]
    points = {point for axes in plain for point in itertools.product(*axes.values())}
    return [cell(**dict(zip(plain[0], point, strict=True))) for point in sorted(points)]
