"""A whole config, typed: the sections of all kinds of study, and what they make. Values and their reasons are in config/."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, create_model

from rarefeat.config.section import Section, one_line
from rarefeat.config.study import SHARED, merged
from rarefeat.core.errors import RarefeatError
from rarefeat.kind import Browsed, Claimed, Figure, Made, Page, Table
from rarefeat.registry import kinds
from rarefeat.run.job import Job, job

DEFAULT = Path("config/config.yaml")
STUDIES = Path("config/studies")
NAME = re.compile(r"[A-Za-z_][\w=.+-]*")
CLAIMS = "claims.table"
LEFT_OUT = "is a study or a block of its grid left out?"
SEE_CLAIMS = (
    "The claims of one part of the theory, a row for each: the declared regime with its 95 % interval, the other regimes as"
    " small marks, shaded where they must lie; colour and marker are the verdict. See which lie within the shade."
)


class Top(Section):
    """The top level of the config, beside a section for each kind of study."""

    results: str = Field(min_length=1, description="folder of everything that is computed")
    size: str = Field(
        default="", description="an entry of `sizes` of the studies' files, laid over each that has it; empty for none"
    )
    most_seeds: int = Field(default=0, ge=0, description="no study has more seeds than this, whatever it says; 0 for no limit")


@dataclass(frozen=True)
class Project:
    """What one config is and makes. Names of studies, tables, figures and pages are unique, and so are those of targets."""

    results: str
    sections: Mapping[str, Any]
    """By the kind's name."""
    size: str = ""
    """Of the run; empty for the default one."""
    most_seeds: int = 0
    """Of a study; 0 for no limit."""

    @cached_property
    def studies(self) -> dict[str, Any]:
        """Every study by its name, each with cells() and blocks()."""
        return unique("study", {kind.name: kind.studies(self.sections[kind.name]) for kind in kinds().values()})

    @cached_property
    def made(self) -> dict[str, Made]:
        """What each kind makes."""
        return {name: kind.made(self.sections[name]) for name, kind in kinds().items()}

    @cached_property
    def kind_of(self) -> dict[str, str]:
        """The kind of every table, figure, page and study."""
        parts = ("tables", "figures", "pages", "browsed")
        found = {item: kind for kind, made in self.made.items() for part in parts for item in getattr(made, part)}
        return found | {name: kind.name for kind in kinds().values() for name in kind.studies(self.sections[kind.name])}

    @cached_property
    def claimed(self) -> dict[str, Claimed]:
        """The claims of each kind that has some."""
        found = {name: kind.claimed(self.sections[name]) for name, kind in kinds().items()}
        return {name: claimed for name, claimed in found.items() if claimed}

    @cached_property
    def papers(self) -> dict[str, list[str]]:
        """The kinds with claims of each paper."""
        found: dict[str, list[str]] = {}
        for name, claimed in self.claimed.items():
            found.setdefault(claimed.paper, []).append(name)
        return found

    @property
    def papers_by_default(self) -> dict[str, list[str]]:
        """Of these, the papers of which a kind is made by default: what `make claims` measures; each other one is asked for."""
        return {paper: names for paper, names in self.papers.items() if any(kinds()[name].by_default for name in names)}

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every table by its name, after those that it is made from."""
        found = unique("table", {name: made.tables for name, made in self.made.items()})
        for kind, claimed in self.claimed.items():
            found[f"{kind}_measured"] = Table(
                "claims.tables:MEASURED",
                kinds()[kind].module("claims"),
                claimed.parts,
                tables=claimed.tables,
                runs="claims.measure",
            )
        for paper, of_paper in self.papers.items():
            found[f"claims_{paper}"] = Table(
                "claims.tables:CLAIMS", CLAIMS, {}, (), tuple(f"{kind}_measured" for kind in of_paper)
            )
            found[f"sensitivity_{paper}"] = Table(
                "claims.tables:CHANGES", CLAIMS, {}, (), tuple(f"{kind}_measured" for kind in of_paper)
            )
        return self._ordered(found)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Every figure by its name; RarefeatError where one needs a table that no study makes."""
        found = unique("figure", {name: made.figures for name, made in self.made.items()})
        for claimed in self.claimed.values():
            for group in claimed.groups:
                figure = Figure((f"claims_{claimed.paper}",), SEE_CLAIMS, "claims.figure", "group", {"group": group})
                found[f"claims_{group.replace(' ', '_')}"] = figure
        for name, figure in found.items():
            self._need(f"the figure {name}", figure.tables)
        return found

    @cached_property
    def pages(self) -> dict[str, Page]:
        """Every page of Markdown by its name."""
        found = unique("page", {name: made.pages for name, made in self.made.items()})
        for paper in self.papers:
            found[f"claims_{paper}"] = Page(f"claims of {paper}", "claims.page", (f"claims_{paper}",))
        for claimed in self.claimed.values():
            for group in claimed.groups:
                table = (f"claims_{claimed.paper}",)
                found[f"claims_{group.replace(' ', '_')}"] = Page(f"claims: {group}", "claims.page", table, {"group": group})
        for name, page in found.items():
            self._need(f"the page {name}.md", page.tables)
        return found

    @cached_property
    def browsed(self) -> dict[str, Browsed]:
        """Every page of tables of the report by its name."""
        return unique("page of tables", {name: made.browsed for name, made in self.made.items()})

    @cached_property
    def targets(self) -> dict[str, list[str]]:
        """The files below the folder of results by target: each kind of study, each study, and the claims of each paper.

        A kind's are all that it makes, with its pages of the report; a study's are its own tables, and the figures and pages
        that are made from these alone.
        """
        found = {}
        for kind, made in self.made.items():
            reported = [*made.browsed, *(f"{page}_text" for page in made.pages)]
            found[kind] = [*files(made.tables, made.figures), *(f"{page}.md" for page in made.pages), *html(reported)]
        for name in self.studies:
            own = [table for table, item in self.tables.items() if item.study == name]
            drawn = [figure for figure, item in self.figures.items() if item.tables and set(item.tables) <= set(own)]
            written = [f"{page}.md" for page, item in self.pages.items() if item.tables and set(item.tables) <= set(own)]
            found.setdefault(name, [*files(own, drawn), *written])
        for paper in self.papers:
            own = f"claims_{paper}"
            drawn = [name for name, figure in self.figures.items() if figure.tables == (own,)]
            # The index, and a page for each part.
            written = [f"{name}.md" for name, page in self.pages.items() if page.tables == (own,)]
            found[own] = [*files([own], drawn), *written, *html([own])]
        return found

    @property
    def default(self) -> list[str]:
        """The files of a plain `snakemake`."""
        return [path for name, kind in kinds().items() if kind.by_default for path in self.targets[name]]

    def table_job(self, name: str) -> Job:
        """What the job that writes a table is told."""
        table = self.tables[name]
        return job(table.stage, table.through, table.parts, table.study, runs=table.runs)

    def figure_job(self, name: str) -> Job:
        """What the job that draws a figure is told."""
        figure = self.figures[name]
        module = figure.module or f"studies.{self.kind_of[name]}.figures"
        return job(module, (), {**figure.parts, **self.said}, runs="figures.draw")

    def page_job(self, name: str) -> Job:
        """What the job that writes a page is told."""
        page = self.pages[name]
        return job(page.stage, (), {**page.parts, **self.said})

    @property
    def said(self) -> dict[str, str]:
        """What figures and pages say of the run: its size, where that is not the default or a larger one."""
        return {"size": self.size} if self.size not in ("", "full") else {}

    @property
    def of_this_run(self) -> str:
        """What the report says of the run, in a sentence or two; empty where there is nothing to warn of."""
        seeds = f" No study has more than {self.most_seeds} seeds." if self.most_seeds else ""
        return (f"A run of size {self.size}, not of the default size." if self.said else "") + seeds

    def check(self) -> "Project":
        """Itself; RarefeatError for a name that two things have, or that a file or a target cannot have."""
        seen: dict[str, str] = {}
        parts = {"kind of study": kinds(), "study": self.studies, "figure": self.figures, "page": self.pages}
        for what, names in parts.items():
            for name in names:
                if not NAME.fullmatch(name):
                    raise RarefeatError(
                        f"config: the {what} {name!r} must begin with a letter and hold letters, digits and _ = . + - alone"
                    )
                if name in seen and {what, seen[name]} <= {"kind of study", "study"}:
                    raise RarefeatError(
                        f"config: the {what} {name} has the name of a {seen[name]}; each needs a name of its own"
                    )
                seen.setdefault(name, what)
        assert self.tables is not None
        return self

    def _need(self, what: str, tables: Iterable[str]) -> None:
        if missing := [table for table in tables if table not in self.tables]:
            raise RarefeatError(f"config: {what} needs the table {missing[0]}, which no study makes: {LEFT_OUT}")

    def _ordered(self, tables: dict[str, Table]) -> dict[str, Table]:
        found: dict[str, Table] = {}

        def add(name: str, wanted_by: str) -> None:
            if name not in tables:
                raise RarefeatError(f"config: the table {wanted_by} needs the table {name}, which no study makes: {LEFT_OUT}")
            for other in tables[name].tables:
                if other not in found:
                    add(other, name)
            found[name] = tables[name]

        for name in tables:
            add(name, name)
        return found


def files(tables: Iterable[str], figures: Iterable[str]) -> list[str]:
    """Where tables and figures lie below the folder of results."""
    return [
        *(f"tables/{name}.parquet" for name in tables),
        *(f"figures/{name}.{suffix}" for name in figures for suffix in ("pdf", "png")),
    ]


def html(names: Iterable[str]) -> list[str]:
    """Where pages of the report lie below the folder of results."""
    return [f"pages/{name}.html" for name in names]


def unique(what: str, by_kind: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """All that the kinds have, by name; RarefeatError where two have the same."""
    found: dict[str, tuple[str, Any]] = {}
    for kind, items in by_kind.items():
        for name, item in items.items():
            if name in found:
                raise RarefeatError(
                    f"config: {found[name][0]} and {kind} both have a {what} {name}; each needs a name of its own"
                )
            found[name] = kind, item
    return {name: item for name, (_, item) in found.items()}


def parse(raw: dict, *folders: Path) -> Project:
    """The project of a raw config, over the studies' own files.

    Args:
        raw: the top level with what it shares, and whatever of each kind's section differs from its file KIND.yaml.
        folders: where these files lie, of which the first that there is counts; config/studies if not given.

    Raises:
        RarefeatError: with one line that names the keys, what is wrong and what is allowed.
    """
    known = [*Top.model_fields, *SHARED, "images", *kinds()]
    if unknown := set(raw) - set(known):
        raise RarefeatError(f"config: {min(map(str, unknown))}: no such key; known are {', '.join(known)}")
    top = {key: raw[key] for key in Top.model_fields if key in raw}
    shared = {key: raw[key] for key in (*SHARED, "images") if key in raw}
    size, most = raw.get("size"), raw.get("most_seeds")
    sections, known_sizes = {}, set()
    for name, kind in kinds().items():
        places = [folder / f"{name}.yaml" for folder in folders or (STUDIES,)]
        own = read(next((path for path in places if path.is_file()), places[0]))
        sizes = own.pop("sizes", None) or {}
        known_sizes |= set(sizes)
        section = merged(own, sizes.get(size) or {}) if isinstance(size, str) else own
        if name in raw:
            section = merged(section, raw[name]) if isinstance(raw[name], dict) else raw[name]
        sections[name] = capped(kind.inherited(section, shared), most)
    if isinstance(size, str) and size and size not in known_sizes:
        raise RarefeatError(
            f"config: size: {size!r} is an entry of `sizes` in no file of a study; there are {listed(known_sizes)}"
        )
    model = create_model("Config", __base__=Top, **{name: (kind.section, ...) for name, kind in kinds().items()})
    try:
        config = model.model_validate(top | sections)
    except ValidationError as error:
        if (absent := [key for key in SHARED if key not in raw]) and any(item["type"] == "missing" for item in error.errors()):
            raise RarefeatError(
                f"config: {absent[0]} is missing, as is all of {DEFAULT}, which is read in the folder that snakemake is started"
                f" in, {Path.cwd()}; start it in the project's folder, or name that by --directory"
            ) from error
        raise RarefeatError(f"config: {one_line(error)}") from error
    return Project(config.results, {name: getattr(config, name) for name in kinds()}, config.size, config.most_seeds).check()


def listed(names: Iterable[str]) -> str:
    """Names in a message."""
    return ", ".join(sorted(map(str, names)))


def capped(part: Any, most: Any) -> Any:
    """A raw section without more seeds than `most`, where that is a number above 0."""
    if not isinstance(most, int) or most < 1:
        return part
    if isinstance(part, dict):
        return {
            key: min(value, most) if key == "seeds" and isinstance(value, int) else capped(value, most)
            for key, value in part.items()
        }
    return part


def retyped(part: Any) -> Any:
    """What a command line said as `--config data={N: 64}`, of which Snakemake reads the inner values as texts."""
    if isinstance(part, dict):
        return {key: retyped(value) for key, value in part.items()}
    if isinstance(part, list):
        return [retyped(value) for value in part]
    try:
        return yaml.safe_load(part) if isinstance(part, str) else part
    except yaml.YAMLError:
        return part


class Loader(yaml.SafeLoader):
    """YAML whose mappings have no key twice, of which the last would count without a word."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """A mapping as it is written, before what it merges is laid under it."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value} is given twice", problem_mark=key.start_mark)
            seen.add((key.tag, key.value))
        return node


def read(path: Path) -> dict:
    """A config file; RarefeatError where it cannot be read, or has a key twice."""
    try:
        part = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise RarefeatError(f"cannot read config {path}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split()).replace(' in "<unicode string>"', "")
        raise RarefeatError(f"cannot read config {path}: {said}") from error
    if not isinstance(part, dict):
        raise RarefeatError(f"config {path} must be a mapping of keys to values")
    return part


def load(*paths: str | Path, folder: Path | None = None) -> Project:
    """The project of config files, the later ones over the earlier; without any, of config/config.yaml.

    Args:
        folder: of the studies' files; `studies` beside the first file if not given.
    """
    paths = tuple(Path(path) for path in paths) or (DEFAULT,)
    raw: dict = {}
    for path in paths:
        raw = merged(raw, read(path))
    return parse(raw, folder or paths[0].parent / "studies")
