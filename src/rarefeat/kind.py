"""What a kind of study declares of itself, for the workflow, the provenance and the report, which know no study by name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from rarefeat.config.section import Section
from rarefeat.config.study import Study, sharing

Parts = Mapping[str, Any]
"""Sections of the config by name."""


@dataclass(frozen=True)
class Table:
    """A table, `tables/NAME.parquet`: the stage that writes it, what of the config it is made from, and from which tables."""

    schema: str
    """MODULE:NAME of its schema."""
    stage: str
    """Module whose command line writes it."""
    parts: Parts = field(default_factory=dict)
    through: tuple[str, ...] = ()
    """Stages that the files came through which it is made from, but for those of tables."""
    tables: tuple[str, ...] = ()
    study: str = ""
    """The study that it is a table of; empty for one of several studies."""
    runs: str = ""
    """Module whose command line runs the stage, where that is another."""


@dataclass(frozen=True)
class Figure:
    """A figure, `figures/NAME.png` and `.pdf`: the tables that it is drawn from, and the function that draws it.

    The function has the figure's name, or `function`; it takes the tables by name, then the config's parts by name.
    """

    tables: tuple[str, ...]
    caption: str
    """What it shows and what to see in it, in the report."""
    module: str = ""
    """Module of the function: the kind's `figures` if not given."""
    function: str = ""
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A page of Markdown, `NAME.md`: what it is, and the tables that it is written from."""

    title: str
    stage: str
    tables: tuple[str, ...]
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True)
class Browsed:
    """Tables that the report shows on one page, to sort and to filter."""

    about: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """What a kind of study makes, by name."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    pages: Mapping[str, Page] = field(default_factory=dict)
    browsed: Mapping[str, Browsed] = field(default_factory=dict)


@dataclass(frozen=True)
class Claimed:
    """The claims of a kind of study: `claims` of the kind is the module, with `CLAIMS` and `measure(evidence, parts)`."""

    paper: str
    """Claims of one paper are tested together."""
    groups: tuple[str, ...]
    """Parts of the theory that they belong to, each with a figure."""
    tables: tuple[str, ...]
    parts: Parts = field(default_factory=dict)


def nothing_claimed(section: Any) -> None:
    """Of a kind without claims."""
    return


@dataclass(frozen=True)
class Kind:
    """A kind of study: the folder `studies/NAME`, `config/studies/NAME.yaml` and `workflow/rules/NAME.smk`."""

    name: str
    title: str
    """For people."""
    section: type[Section]
    """Its section of the config."""
    made: Callable[[Any], Made]
    """What it makes, from its section."""
    studies: Callable[[Any], Mapping[str, Any]] = lambda section: section.studies
    """The studies of its section by name, each with cells() and blocks()."""
    inherit: Callable[[Any, dict], Any] | None = None
    """Its raw section with what is shared at the top level of the config; if not given, each of `studies`, where there are some, gets the keys it has."""
    claimed: Callable[[Any], Claimed | None] = nothing_claimed
    by_default: bool = True
    """Whether a plain `snakemake` makes it."""

    def module(self, name: str) -> str:
        """A module of its folder, from the package's root."""
        return f"studies.{self.name}.{name}"

    def inherited(self, raw: Any, shared: dict) -> Any:
        """Its raw section with what is shared."""
        if self.inherit:
            return self.inherit(raw, shared)
        studies = self.section.model_fields.get("studies")
        return sharing(raw, shared, get_args(studies.annotation)[1]) if studies else raw


def joined(schema: str, tables: Iterable[str]) -> Table:
    """The tables of several studies in one."""
    return Table(schema, "chain.join", {"schema": schema}, (schema.partition(":")[0],), tuple(tables))


TRAINED = ("chain.synthesise", "chain.pretrain")
"""Stages of an encoder."""
PROBED = (*TRAINED, "chain.probe")


def chain_tables(name: str, study: Study) -> dict[str, Table]:
    """The tables that the chain makes of a study, and of each block of its grid as STUDY.BLOCK_..."""
    found = {}
    for prefix, part in {name: study, **{f"{name}.{block}": study.of_block(block) for block in study.grid}}.items():
        for table in ("grid", "summary", "trends"):
            schema = f"chain.tables:{table.upper()}"
            found[f"{prefix}_{table}"] = Table(schema, "chain.aggregate", {prefix: part.plain()}, PROBED, study=name)
        found[f"{prefix}_trajectories"] = trajectories(name, part, prefix)
    return found


def trajectories(name: str, study: Study, part: str = "") -> Table:
    """What the neurons of a study did during training; part: its name in the config that the table remembers."""
    parts = {part or name: study.plain()}
    return Table("chain.tables:TRAJECTORIES", "chain.aggregate", parts, TRAINED, study=name)
