"""A whole config, typed: the sections of all kinds of study, and what they make. Values and their reasons are in config/."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, create_model

from rarefeat.claims.claim import Regime
from rarefeat.claims.declared import Declared, declared, page_of
from rarefeat.config.names import RULE, differing, named, near, short
from rarefeat.config.yaml_reader import read_yaml
from rarefeat.config.section import Section, one_line
from rarefeat.config.study import SHARED, merged
from rarefeat.core.errors import RarefeatError
from rarefeat.kind import Browsed, Claimed, Figure, Made, Page, Stage, Table
from rarefeat.registry import kinds
from rarefeat.run.code_hashes import read_accepted
from rarefeat.run.job import Job, job

SHIPPED = Path(__file__).parent / "shipped"
"""The config and the workflow that come with the package."""
DEFAULT = Path("config/config.yaml")
STUDIES = Path("config/studies")
OF_FILES = Path(__file__).parent / "studies"
LAST_SEED = 2**31 - 1
MOST_SEEDS = 100_000
LONGEST_MADE = 200
LEFT_OUT = "is a study or a block of its grid left out?"
SEE_CLAIMS = (
    "Claims of one part of the theory, at most ten, first those that are not supported: the declared regime with the interval"
    " that decides, the others as small marks, shaded where they must lie. See which lie within the shade."
)


class Top(Section):
    """The top level of the config, beside a section for each kind of study."""

    results: str = Field(min_length=1, description="folder of everything that is computed")
    size: str = Field(
        default="", description="an entry of `sizes` of the studies' files, laid over each that has it; empty for none"
    )
    most_seeds: int = Field(default=0, ge=0, description="no study has more seeds than this, whatever it says; 0 for no limit")
    stale_in_report: bool = Field(
        default=False, description="show in a report what is of another config or code, and say so; else there is none"
    )
    store_gb: float = Field(
        default=10, ge=0, description="room for what earlier configs made, so that to change back costs nothing; 0 for none"
    )


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
    stale_in_report: bool = False
    store_gb: float = 10
    """Room for what earlier configs have made."""

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
    def declared(self) -> dict[str, Declared]:
        """The claims of each of these kinds as they are declared."""
        return {name: declared(name) for name in self.claimed}

    @cached_property
    def papers(self) -> dict[str, list[str]]:
        """The kinds with claims of each paper."""
        found: dict[str, list[str]] = {}
        for name, known in self.declared.items():
            found.setdefault(known.paper, []).append(name)
        return found

    @property
    def parts(self) -> dict[str, str]:
        """The paper of each part of a theory that claims belong to."""
        return {group: known.paper for known in self.declared.values() for group in known.groups}

    @property
    def papers_by_default(self) -> dict[str, list[str]]:
        """Of these, the papers of which a kind is made by default: what `make claims` measures; each other one is asked for."""
        return {paper: names for paper, names in self.papers.items() if any(kinds()[name].by_default for name in names)}

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every table by its name, after those that it is made from."""
        found = unique("table", {name: made.tables for name, made in self.made.items()})
        of_claims = {}
        for kind, claimed in self.claimed.items():
            of_claims[f"{kind}_measured"] = Table(
                "claims.tables:MEASURED",
                f"{kinds()[kind].module('claims')}:measure",
                {**claimed.parts, "claims": self.declared[kind].digest},
                tables=claimed.tables,
                runs="claims.measure",
            )
        for paper, of_paper in self.papers.items():
            measured = tuple(f"{kind}_measured" for kind in of_paper)
            of_claims[f"claims_{paper}"] = Table("claims.tables:CLAIMS", "claims.table:claims", tables=measured)
            of_claims[f"sensitivity_{paper}"] = Table("claims.tables:CHANGES", "claims.table:sensitivity", tables=measured)
        return self._ordered(differing("tables", found, of_claims))

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Every figure by its name; RarefeatError where one needs a table that no study makes."""
        of_claims = {
            page_of(group): Figure((f"claims_{paper}",), SEE_CLAIMS, "claims.figure", "group", {"group": group})
            for group, paper in self.parts.items()
        }
        found = differing("figures", unique("figure", {name: made.figures for name, made in self.made.items()}), of_claims)
        for name, figure in found.items():
            self._need(f"the figure {name}", figure.tables)
        return found

    @cached_property
    def pages(self) -> dict[str, Page]:
        """Every page of Markdown by its name."""
        of_papers = {
            f"claims_{paper}": Page(f"claims of {paper}", "claims.page:page", (f"claims_{paper}",)) for paper in self.papers
        }
        of_groups = {
            page_of(group): Page(f"claims: {group}", "claims.page:page", (f"claims_{paper}",), {"group": group})
            for group, paper in self.parts.items()
        }
        found = unique("page", {name: made.pages for name, made in self.made.items()})
        found = differing("pages", found, of_papers, of_groups)
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

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The files of each figure and table by its name, and of a figure by the first word that it alone has, as figure1."""
        words = [name.partition("_")[0] for name in self.figures]
        short = {word: [name] for word, name in zip(words, self.figures, strict=True) if words.count(word) == 1}
        drawn = short | {name: [name] for name in self.figures}
        tables, figures = {name: files([name], []) for name in self.tables}, {name: files([], of) for name, of in drawn.items()}
        return {name: found for name, found in (figures | tables).items() if name not in self.targets}

    @property
    def default(self) -> list[str]:
        """The files of a plain `snakemake`."""
        return [path for name, kind in kinds().items() if kind.by_default for path in self.targets[name]]

    @cached_property
    def accepted(self) -> list[dict[str, Any]]:
        """Digests of code that stand for others in its folder of results (manage/accept.py)."""
        return read_accepted(Path(self.results))

    @cached_property
    def _table_jobs(self) -> dict[str, tuple[Job, str]]:
        return {}

    def _table_job(self, name: str) -> tuple[Job, str]:
        # Of the tables that are asked for alone: the digests of all take seconds.
        if name not in self._table_jobs:
            table = self.tables[name]
            found = table.job(self.identities(table.tables), self.accepted)
            self._table_jobs[name] = found, found.identity
        return self._table_jobs[name]

    def run_through(self, stage: Stage) -> list[str]:
        """The studies whose cells run through a stage."""
        return [name for name, study in self.studies.items() if isinstance(study, stage.study)]

    def table_job(self, name: str) -> Job:
        """What the job that writes a table is told."""
        return self._table_job(name)[0]

    def identities(self, tables: Iterable[str]) -> dict[str, str]:
        """The identity of the job of each of some tables, for who reads them."""
        return {name: self._table_job(name)[1] for name in tables}

    def _job(self, stage: str, parts: Mapping[str, Any], tables: Iterable[str], runs: str = "run.make") -> Job:
        return job(stage, (), parts, runs=runs, tables=self.identities(tables), accepted=self.accepted)

    def figure_job(self, name: str) -> Job:
        """What the job that draws a figure is told."""
        figure = self.figures[name]
        module = figure.module or kinds()[self.kind_of[name]].module("figures")
        return self._job(f"{module}:{figure.function or name}", {**figure.parts, **self.said}, figure.tables, "figures.draw")

    def page_job(self, name: str) -> Job:
        """What the job that writes a page is told."""
        page = self.pages[name]
        return self._job(page.stage, {**page.parts, **self.said}, page.tables)

    def browsed_job(self, name: str) -> Job:
        """What the job that writes a page of tables of the report is told."""
        browsed = self.browsed[name]
        schemas = {table: self.tables[table].schema for table in browsed.tables}
        return self._job(browsed.stage, {"about": browsed.about, "schemas": schemas, **browsed.parts}, browsed.tables)

    def claims_page_job(self, paper: str) -> Job:
        """What the job that writes the page of a paper's claims in the report is told."""
        return self._job("report.browse:claims_page", {}, [f"claims_{paper}"])

    def text_page_job(self, name: str) -> Job:
        """What the job that shows a page of Markdown in the report is told."""
        return job("report.browse", (), {}, tables={f"{name}.md": self.page_job(name).identity}, accepted=self.accepted)

    @property
    def said(self) -> dict[str, str]:
        """What figures and pages say of the run: its size, where that is not the default or a larger one."""
        return {"size": self.size} if self.size not in ("", "full") else {}

    @property
    def of_this_run(self) -> str:
        """What the report says of the run, in a sentence or two; empty where there is nothing to warn of."""
        seeds = f" No study has more than {self.most_seeds} seeds." if self.most_seeds else ""
        return (f"A run of size {self.size}, not of the default size." if self.said else "") + seeds

    def check_claims(self, left_out: Callable[[str], Iterable[Claimed]]) -> "Project":
        """Itself; RarefeatError for a claim whose primary regime nothing has, or whose id or part clashes with another's.

        Args:
            left_out: what the claims of a kind are read from in configurations that this one may be a part of.
        """
        owners: dict[str, str] = {f"claims_{paper}": f"the paper {paper}" for paper in self.papers}
        ids: dict[str, str] = {}
        for kind, known in self.declared.items():
            for group in known.groups:
                if page_of(group) in owners:
                    raise RarefeatError(
                        f"{known.file}: groups.{group}: its page is that of {owners[page_of(group)]}; give it another name"
                    )
                owners[page_of(group)] = f"the part {group} of {known.file}"
            for name, claim in known.claims.items():
                if name in ids:
                    raise known.error(name, f"{ids[name]} has a claim of this id, too")
                ids[name] = known.file
                wrong = missing(claim.primary, self.claimed[kind].regimes)
                if wrong and all(missing(claim.primary, other.regimes) for other in left_out(kind)):
                    raise known.error(name, f"primary: {wrong}")
        return self

    def check(self) -> "Project":
        """Itself; RarefeatError for a name that two things have, or that no path can have, and for seeds that are too many."""
        for name, study in self.studies.items():
            try:
                named(getattr(study, "draws", "none"))
            except ValueError as error:
                raise RarefeatError(f"config: {self.kind_of[name]}: draws of the study {name}: {error}") from error
            seeds, first = study.seeds, getattr(study, "first_seed", 0)
            if seeds > MOST_SEEDS:
                raise RarefeatError(f"config: the study {name}: seeds must be at most {MOST_SEEDS:,}, got {short(seeds)}")
            if first + seeds - 1 > LAST_SEED:
                raise RarefeatError(
                    f"config: the study {name}: first_seed + seeds - 1 must be at most {LAST_SEED:,}, got {first + seeds - 1:,}"
                )
        for stage in (stage for kind in kinds().values() for stage in kind.stages):
            for before, axes in (stage.unsaid(self.studies[name]) for name in self.run_through(stage)):
                if before:
                    raise RarefeatError(f"the stage {before}, whose files {stage.name} reads, must say its axes: {axes}")
        rules = [{stage.name: stage} for kind in kinds().values() for stage in kind.stages]
        functions = dict.fromkeys(table.stage for table in self.tables.values() if table.made)
        differing("rules", *rules, *({function.partition(":")[2]: function} for function in functions))
        claims = {f"claims_{paper}": paper for paper in self.papers}
        differing("targets", kinds(), self.studies, claims)
        for what, names in {"table": self.tables, "figure": self.figures, "page": self.pages}.items():
            differing(f"{what}s", names)
            if odd := [name for name in names if "/" in name or len(name) > LONGEST_MADE]:
                raise RarefeatError(f"config: the {what} {short(odd[0])} is too long for a file; {RULE}")
        texts = {f"{page}_text": page for page in self.pages}
        differing("pages of the report", self.browsed, texts, claims, {"run_times": ""})
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


def missing(regime: Regime, regimes: Mapping[str, Mapping[str, Any]]) -> str:
    """What of a regime is not there, and what is there instead; empty where nothing is missing."""
    if regime.study not in regimes:
        return f"study: {regime.study!r} is none of {listed(regimes)}"
    for axis, value in regime.axes.items():
        there = regimes[regime.study].get(axis)
        if there is None or value in there or (isinstance(value, tuple) and set(value) <= set(there)):
            continue
        return f"{axis}: {regime.study} has no {value!r}, it has {listed(there)}"
    return ""


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
    if unknown := sorted(map(str, set(raw) - set(known))):
        raise RarefeatError(
            f"config: {short(unknown[0])[1:-1]}: no such key{near(unknown[0], known)}; known are {', '.join(known)}"
        )
    top = {key: raw[key] for key in Top.model_fields if key in raw}
    shared = {key: raw[key] for key in (*SHARED, "images") if key in raw}
    size, most = raw.get("size"), raw.get("most_seeds")
    files_of = {}
    for name in kinds():
        places = [*(folder / f"{name}.yaml" for folder in folders or (STUDIES,)), OF_FILES / f"{name}.yaml"]
        files_of[name] = read_yaml(next((path for path in places if path.is_file()), places[0]))

    def section_of(name: str, size: Any, own: Any, shared: dict) -> Any:
        """The raw section of a kind at a size, with what differs from its file and what it shares."""
        section = {key: value for key, value in files_of[name].items() if key not in ("sizes", "claims")}
        sizes = files_of[name].get("sizes") or {}
        section = merged(section, sizes.get(size) or {}) if isinstance(size, str) else section
        refuse_unknown_null(name, section, own)
        section = merged(section, own) if isinstance(own, dict) else own
        return kinds()[name].inherited(section, shared)

    def left_out(name: str) -> Iterator[Claimed]:
        """What a kind's claims would be read from at any size of its file, with what is shared by default."""
        places = (folder.parent / DEFAULT.name for folder in folders or (STUDIES,))
        default = next((path for path in places if path.is_file()), None)
        usual = read_yaml(default) if default else raw
        usual = {key: usual[key] for key in (*SHARED, "images") if key in usual}
        for size in ("", *(files_of[name].get("sizes") or {})):
            # A file that is wrong at another size is an error of that size.
            with contextlib.suppress(ValidationError):
                yield kinds()[name].claimed(kinds()[name].section.model_validate(section_of(name, size, {}, usual)))

    sections = {name: capped(section_of(name, size, raw.get(name, {}), shared), most) for name in kinds()}
    misspelt = next((said for name in kinds() if (said := unlike(raw.get(name), files_of[name]))), "")
    known_sizes = {size for part in files_of.values() for size in part.get("sizes") or {}}
    if isinstance(size, str) and size and size not in known_sizes:
        raise RarefeatError(
            f"config: size: {short(size)} is an entry of `sizes` in no file of a study{near(size, known_sizes)}; there are"
            f" {listed(known_sizes)}"
        )
    for name in known_sizes:
        try:
            named(name)
        except (ValueError, TypeError) as error:
            raise RarefeatError(f"config: sizes: {error}") from error
    model = create_model("Config", __base__=Top, **{name: (kind.section, ...) for name, kind in kinds().items()})
    try:
        config = model.model_validate(top | sections)
    except ValidationError as error:
        if (absent := [key for key in SHARED if key not in raw]) and any(item["type"] == "missing" for item in error.errors()):
            raise RarefeatError(
                f"config: {absent[0]} is missing, as is all of {DEFAULT}, which is read in the folder that snakemake is started"
                f" in, {Path.cwd()}; start it in the project's folder, or name that by --directory"
            ) from error
        is_missing = any(item["type"] == "missing" for item in error.errors())
        raise RarefeatError(f"config: {one_line(error, model, raw)}{misspelt if is_missing else ''}") from error
    sections = {name: getattr(config, name) for name in kinds()}
    project = Project(config.results, sections, config.size, config.most_seeds, config.stale_in_report, config.store_gb)
    return project.check_claims(left_out).check()


def reached(project: Project, seeds: int) -> str:
    """Which studies the shared `seeds` has reached, for who changes it on a command line; empty where it is all of them."""
    found = [name for name, study in project.studies.items() if getattr(study, "seeds", seeds) == seeds]
    if len(found) == len(project.studies):
        return ""
    names = listed(found) or "no study"
    return f"seeds={seeds} reaches {names}; the others say their own seeds, and most_seeds={seeds} limits all"


def listed(names: Iterable[str]) -> str:
    """Names in a message."""
    return ", ".join(sorted(map(str, names)))


def refuse_unknown_null(kind: str, section: dict, own: Any) -> None:
    """RarefeatError for a study that a config leaves out, by null, and that is not there."""
    studies, known = own.get("studies") if isinstance(own, dict) else None, section.get("studies") or {}
    for name in studies if isinstance(studies, dict) else ():
        if studies[name] is None and name not in known:
            raise RarefeatError(
                f"config: {kind}.studies.{short(name)[1:-1]}: null leaves a study out, and there is none of this name"
                f"{near(name, known)}"
            )


def unlike(section: Any, own: dict) -> str:
    """Which of a kind's own studies one that is new beside them may mean, for a message; empty where none is near."""
    studies = section.get("studies") if isinstance(section, dict) else None
    known = own.get("studies") or {}
    new = [name for name in studies if name not in known] if isinstance(studies, dict) else []
    return next((f"; {short(name)} is a new study{meant}" for name in new if (meant := near(name, known))), "")


def capped(part: Any, most: Any) -> Any:
    """A raw section without more seeds than `most`, where that is a number above 0."""
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        return part
    if isinstance(part, dict):
        return {
            key: min(value, most) if key == "seeds" and isinstance(value, int) else capped(value, most)
            for key, value in part.items()
        }
    return part


def located(path: str | Path) -> Path:
    """A file in the working directory, or else of those that come with the package."""
    path = Path(path)
    return SHIPPED / path if not path.exists() and (SHIPPED / path).exists() else path


def load(*paths: str | Path, folder: Path | None = None) -> Project:
    """The project of config files, the later ones over the earlier; without any, of config/config.yaml.

    Args:
        folder: of the studies' files; `studies` beside the first file if not given.
    """
    paths = tuple(map(located, paths or (DEFAULT,)))
    raw: dict = {}
    for path in paths:
        raw = merged(raw, read_yaml(path))
    return parse(raw, folder or paths[0].parent / "studies")
