"""A whole config, typed: the sections of all study kinds, and the outputs that they declare.

Values and their reasons are in `config/`; the declarations of the kinds are in
`studies/*/__init__.py`.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationError, create_model

from rarefeat.claims.declarations import ClaimSet, load_claims
from rarefeat.errors import RarefeatError
from rarefeat.images.input_hashes import check_lists, image_hashes, list_hashes
from rarefeat.model import own_files
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.config.names import (
    Name,
    merge_unique,
    shorten_repr,
    suggest,
)
from rarefeat.workflow.config.section import Section, dump_config, format_validation_error
from rarefeat.workflow.config.study import SHARED_STUDY_KEYS, merge_configs
from rarefeat.workflow.config.yaml_reader import read_yaml
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.registry import broken, find_stage, kinds, load_kind
from rarefeat.workflow.run.code_hashes import PACKAGE, user_code
from rarefeat.workflow.run.job import Job, flat, make_job
from rarefeat.workflow.study_kind import (
    SHARED_STAGES,
    STUDIES,
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    Table,
)

PACKAGED_FILES = PACKAGE / "shipped"
"""The config and the workflow that come with the package."""
DEFAULT = Path("config/config.yaml")
MAX_SEED = 2**31 - 1
MAX_SEEDS = 100_000
PROJECT_FOLDERS = ("benchmarks", "config", "docs", "src", "tests", "workflow")


def check_results_path(folder: str) -> str:
    """Return the folder of results; ValueError if a shell misreads it, or the project is in it."""
    if wrong := [
        character
        for character in folder
        if character in "'\"{}*?$`\\" or not character.isprintable()
    ]:
        raise ValueError(
            f"must be without {wrong[0]!r}, which breaks command lines, got {shorten_repr(folder)}"
        )
    path = os.path.normpath(folder)  # what a/../b means
    parts = Path(os.path.relpath(path)).parts or ("",)
    if parts[0] == "..":
        wrong = not os.path.isabs(path) or os.getcwd().startswith(os.path.join(path, ""))
    else:
        wrong = parts[0] in (*PROJECT_FOLDERS, "") or parts[0][0] in ".-~"
    if wrong or "://" in folder:
        raise ValueError(
            f"must be a folder of its own, as results/mine, got {shorten_repr(folder)}"
        )
    return path


class TopLevelConfig(Section):
    """The top level of the config, beside a section for each study kind."""

    results: Annotated[str, AfterValidator(check_results_path)] = Field(
        min_length=1, description="folder of everything that is computed"
    )
    name: Name | Literal[""] = Field(
        default="",
        description="name of the run: its results are in a folder of this name below `results`, and"
        " its figures and pages say it",
    )
    size: str = Field(
        default="",
        description="an entry of `sizes` of the studies' files, laid over each that has it; empty"
        " for none",
    )
    most_seeds: int = Field(
        default=0, ge=0, description="no study has more seeds than this; 0 for no limit"
    )


@dataclass(frozen=True)
class Project:
    """One config and its outputs, of which no two have one name."""

    results: str
    sections: Mapping[str, Any]
    """Section of each kind, by its name."""
    size: str = ""
    """Size of the run; empty for the default one."""
    most_seeds: int = 0
    """Largest number of seeds of a study; 0 for no limit."""
    name: str = ""
    """Name of the run; empty for none."""
    merged: Mapping[str, Any] = field(default_factory=dict)
    """The whole config as plain values, the studies' files in it (`write_merged`)."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with each kind of study that is left out, by its name."""

    def __reduce__(self) -> tuple:
        """Pickle the plain values: sections of studies of one file are made as they are read."""
        return build, (self.merged, self.merged)

    @cached_property
    def kinds(self) -> dict[str, StudyKind]:
        """Its study kinds: all, or for a job those that it needs."""
        return {name: load_kind(name) for name in self.sections}

    @cached_property
    def studies(self) -> dict[str, Any]:
        """Every study by its name, each with `cells()` and `blocks()`."""
        of_kinds = (kind.studies(self.sections[name]) for name, kind in self.kinds.items())
        return merge_unique("studies", *of_kinds)

    @cached_property
    def outputs(self) -> dict[str, StudyOutputs]:
        """Outputs of each kind."""
        return {name: kind.build_outputs(self.sections[name]) for name, kind in self.kinds.items()}

    @cached_property
    def kind_of(self) -> dict[str, str]:
        """Kind of every figure and study."""
        return {
            name: kind.name
            for kind in self.kinds.values()
            for names in (kind.studies(self.sections[kind.name]), self.outputs[kind.name].figures)
            for name in names
        }

    @cached_property
    def claim_inputs(self) -> dict[str, ClaimInputs]:
        """Inputs of the claims of each kind that has some."""
        inputs = {name: kind.claim_inputs(self.sections[name]) for name, kind in self.kinds.items()}
        return {name: item for name, item in inputs.items() if item}

    @cached_property
    def claim_sets(self) -> dict[str, ClaimSet]:
        """Declared claims of each of these kinds."""
        return {name: load_claims(name) for name in self.claim_inputs}

    @cached_property
    def papers(self) -> dict[str, list[str]]:
        """Kinds with claims of each paper."""
        papers: dict[str, list[str]] = {}
        for name, claim_set in self.claim_sets.items():
            papers.setdefault(claim_set.paper, []).append(name)
        return papers

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every table by its name, after those that it is made from."""
        claim_tables = {}
        for kind, inputs in self.claim_inputs.items():
            measure = inputs.function or f"{self.kinds[kind].module('claims')}:measure"
            told = {"claims": {kind: self.claim_sets[kind].digest}, "measure": measure}
            claim_tables[f"{kind}_measured"] = Table(
                "claims.tables:MEASURED",
                "claims.jobs:measured",
                {**inputs.sections, **told},
                tables=inputs.tables,
            )
        for paper, names in self.papers.items():
            sources = tuple(f"{kind}_measured" for kind in names)
            claim_tables[f"claims_{paper}"] = Table(
                "claims.tables:CLAIMS", "claims.jobs:judged", tables=sources
            )
            claim_tables[f"sensitivity_{paper}"] = Table(
                "claims.tables:CHANGES", "claims.jobs:sensitivity", tables=sources
            )
        tables = (outputs.tables for outputs in self.outputs.values())
        return sort_tables(merge_unique("tables", *tables, claim_tables))

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Every figure by its name."""
        return merge_unique("figures", *(outputs.figures for outputs in self.outputs.values()))

    @cached_property
    def pages(self) -> dict[str, Page]:
        """Every page of text by its name."""
        claim_pages = {
            f"claims_{paper}": Page(
                f"Every claim of {paper.replace('_', ' ')}", (f"claims_{paper}",)
            )
            for paper in self.papers
        }
        pages = (outputs.pages for outputs in self.outputs.values())
        return merge_unique("pages", *pages, claim_pages)

    @cached_property
    def targets(self) -> dict[str, list[str]]:
        """Files of each target: a kind, a study, the claims of a paper, or a figure.

        A kind has all its outputs; a study its own tables, and the figures and pages that are made
        from these alone. A figure is called by its name, or by its number in a paper, as figure1.
        """
        targets = {
            kind: paths(outputs.tables, outputs.figures, outputs.pages)
            for kind, outputs in self.outputs.items()
        }
        for name in self.studies:
            tables = {table for table, item in self.tables.items() if item.study == name}
            figures, pages = (
                [key for key, item in items.items() if item.tables and set(item.tables) <= tables]
                for items in (self.figures, self.pages)
            )
            targets.setdefault(name, paths(sorted(tables), figures, pages))
        for paper in self.papers:
            targets[name] = paths([name := f"claims_{paper}"], [], [name])
        for name in self.figures:
            number = re.match(r"figure\d+(?=_)", name)
            for target in (name, number[0]) if number else (name,):
                targets.setdefault(target, paths(figures=[name]))
        return targets

    @property
    def default(self) -> list[str]:
        """Files of a plain `snakemake`."""
        return [
            path
            for name, kind in self.kinds.items()
            if kind.by_default
            for path in self.targets[name]
        ]

    @property
    def default_claims(self) -> list[str]:
        """Files of the claims of each paper of which a plain `snakemake` makes a kind.

        What they are measured on is among them, where it is not made by default.
        """
        of_papers, of_kinds = [], []
        for paper, names in self.papers.items():
            others = [name for name in names if not self.kinds[name].by_default]
            if len(others) < len(names):
                of_papers += self.targets[f"claims_{paper}"]
                of_kinds += [path for name in others for path in self.targets[name]]
        return of_papers + of_kinds

    def studies_of(self, stage: Stage) -> list[str]:
        """Return the studies that run through a stage, itself or upstream of another one."""
        through = [stage, *(item for item in self.stages if stage.function in item.lineage)]
        types = tuple(item.study for item in through)
        return [name for name, study in self.studies.items() if isinstance(study, types)]

    @property
    def stages(self) -> list[Stage]:
        """Stages that kinds share, and those of its kinds."""
        return [*SHARED_STAGES, *(stage for kind in self.kinds.values() for stage in kind.stages)]

    @cached_property
    def measured(self) -> dict[str, Stage]:
        """Stage of each study that measures its cells in one job, which writes their probes."""
        return {
            name: stage
            for kind in self.kinds.values()
            for stage in kind.stages
            if stage.files == ("probes.parquet",) and not stage.upstream
            for name in self.studies_of(stage)
        }

    def tables_of(self, rule: str) -> list[str]:
        """Return the tables of a rule."""
        return [name for name, table in self.tables.items() if table.rule == rule]

    @property
    def parts(self) -> list[str]:
        """Encoder studies, and STUDY.BLOCK for each block of a grid, of which tables are made."""
        grids = (name for name in self.tables_of("aggregate") if name.endswith("_grid"))
        return [name.removesuffix("_grid") for name in grids]

    def title_of(self, name: str) -> str:
        """Return the title of the study kind of a figure or a study."""
        return self.kinds[self.kind_of[name]].title

    def files_of(self, name: str) -> list[str]:
        """Return the cell files that a table is made from, below the folder of results."""
        table = self.tables[name]
        return [
            path
            for folder, stage in table.files.items()
            for *_, path in stage.files_of(table.study, table.cells_of, folder)
        ]

    @cached_property
    def _table_jobs(self) -> dict[str, Job]:
        return {}

    def table_job(self, name: str) -> Job:
        """Return the job that writes a table."""
        # On request: the code hashes of all tables take seconds.
        if name not in self._table_jobs:
            table = self.tables[name]
            self._table_jobs[name] = table.job(self.identities(table.tables))
        return self._table_jobs[name]

    def identities(self, tables: Iterable[str]) -> dict[str, str]:
        """Return the identity of the job of each of some tables, for their readers."""
        return {name: self.table_job(name).identity for name in tables}

    def _job(self, function: str, sections: Mapping[str, Any], tables: Iterable[str]) -> Job:
        return make_job(function, (), sections, tables=self.identities(tables))

    def figure_job(self, name: str) -> Job:
        """Return the job that draws a figure."""
        figure = self.figures[name]
        module = figure.module or self.kinds[self.kind_of[name]].module("figures")
        sections = {**figure.sections, **self.size_section}
        return self._job(f"{module}:{figure.function or name}", sections, figure.tables)

    def page_job(self, name: str) -> Job:
        """Return the job that writes a page, as text and for the report."""
        page = self.pages[name]
        sections = {
            "title": page.title,
            "about": page.about,
            "captions": {figure: self.figures[figure].caption for figure in page.figures},
            "schemas": {table: self.tables[table].schema for table in page.tables},
        }
        return self._job("workflow.pages:page", sections | self.size_section, page.tables)

    @property
    def products(self) -> Iterator[tuple[str, Callable[[str], Job], list[str], tuple[str, ...]]]:
        """Name, maker of the job, paths and source tables of each table, figure and page."""
        for name, table in self.tables.items():
            yield name, self.table_job, paths([name]), table.tables
        for name, figure in self.figures.items():
            yield name, self.figure_job, paths(figures=[name]), figure.tables
        for name, page in self.pages.items():
            yield name, self.page_job, paths(pages=[name]), page.tables

    def product_job(self, function: str, name: str) -> Job:
        """Return the job by which a function makes the table, figure or page of a name."""
        for product, job_of, *_ in self.products:
            if product == name and (job := job_of(name)).stage == function:
                return job
        raise RarefeatError(f"{function} makes no table, figure or page {name}")

    @cached_property
    def cells(self) -> dict[tuple[str, str], Cell]:
        """Every cell by study and path, and what the cells that share a file have in common."""
        return {
            (name, shared.path): shared
            for name, study in self.studies.items()
            for cell in study.cells()
            for depth in range(1, len(cell.axes) + 1)
            for shared in [cell if depth == len(cell.axes) else Cell(cell.axes[:depth])]
        }

    def stage_job(self, stage: Stage, name: str, cell: str = "", seeds: str = "") -> Job:
        """Return the job of a stage for a study, the path of a cell, and a seed block."""
        if cell and (name, cell) not in self.cells:
            raise RarefeatError(f"{name} has no cell {cell}; see its grid in the config")
        study = self.studies.get(name) or self.sections[stage.function.split(".")[1]]
        place = self.cells[name, cell] if cell else None
        return stage.job(name, study, place, seeds, self.user_files(name, seeds))

    def setting_texts(self, stage: Stage) -> dict[tuple[str, str], list[str]]:
        """Return the settings of a stage as texts, by study and path of a cell."""
        texts: dict[tuple[str, str], list[str]] = {}
        for name in self.studies_of(stage):
            study, known = self.studies[name], {}
            for cell in map(stage.shared_cell, self.studies[name].cells()):
                config = None if (name, cell.path) in texts else stage.config_of(study, cell)
                for key, value in (config or {}).items():
                    # What several cells share is one object.
                    if id(value) not in known:
                        known[id(value)] = value, describe_setting(key, value)
                    texts.setdefault((name, cell.path), []).extend(known[id(value)][1])
        return texts

    @cached_property
    def image_studies(self) -> dict[str, Any]:
        """Studies that read images."""
        return {
            name: study
            for name, study in self.studies.items()
            if isinstance(getattr(study, "data", None), ImageData)
        }

    @cached_property
    def _image_hashes(self) -> dict[str, dict[str, str]]:
        return {}

    def check_inputs(self, name: str) -> None:
        """Raise RarefeatError where what a user gives a study does not fit it: options, lists."""
        study = self.studies[name]
        if hasattr(study, "check_options"):
            study.check_options()
        if name in self.image_studies:
            check_lists(study)

    def user_files(self, name: str, seeds: str) -> dict[str, str]:
        """Return the hashes of the user's files that a job of a study of images reads."""
        if name not in self.image_studies:
            return {}
        study = self.image_studies[name]
        if name not in self._image_hashes:
            self._image_hashes[name] = image_hashes(study, self.results, name)
        return self._image_hashes[name] | (
            list_hashes(study, study.blocks()[seeds]) if seeds else {}
        )

    @property
    def size_section(self) -> dict[str, str]:
        """Name of the run, and its size where that is smaller than the default, for figures."""
        size = {"size": self.size} if self.size not in ("", "full") else {}
        return size | ({"run": self.name} if self.name else {})

    @property
    def warning(self) -> str:
        """Warning of the report that this is no run of the default size; empty where it is one."""
        seeds = f" No study has more than {self.most_seeds} seeds." if self.most_seeds else ""
        return (
            f"A run of size {self.size}, not of the default size."
            if "size" in self.size_section
            else ""
        ) + seeds

    def check(self) -> "Project":
        """Return itself; RarefeatError for a name that is taken or wrong, or for too many seeds."""
        for name, study in self.studies.items():
            last = getattr(study, "first_seed", 0) + study.seeds - 1
            if study.seeds > MAX_SEEDS:
                raise RarefeatError(
                    f"config: the study {name}: seeds must be at most {MAX_SEEDS:,}, got"
                    f" {shorten_repr(study.seeds)}"
                )
            if last > MAX_SEED:
                raise RarefeatError(
                    f"config: the study {name}: first_seed + seeds - 1 must be at most"
                    f" {MAX_SEED:,}, got {last:,}"
                )
        claims = {f"claims_{paper}": paper for paper in self.papers}
        # A kind of one study may have its name.
        studies = {
            name: study
            for kind in self.kinds.values()
            for name, study in kind.studies(self.sections[kind.name]).items()
            if name != kind.name
        }
        merge_unique("targets", self.kinds, studies, claims)
        products = {"page": self.pages, "figure": self.figures}
        for label, items in products.items():
            for name, item in items.items():
                check_tables(f"the {label} {name}", item.tables, self.tables)
        ids = [
            (claim, claim_set)
            for claim_set in self.claim_sets.values()
            for claim in claim_set.claims
        ]
        for name, claim_set in ids:
            if len(others := [other.file for claim, other in ids if claim == name]) > 1:
                raise claim_set.error(
                    name,
                    f"its id is in {' and in '.join(others)}; each claim needs an id of its own",
                )
        return self


def describe_setting(name: str, value: Any) -> list[str]:
    """Return a setting as texts, one for each key; arms and other lists are one text.

    The hash of a user's own code that it names stands with it.
    """
    plain = dump_config(value)
    texts = flat(plain, name)
    own = [" ".join(item) for item in user_code({name: plain}).items()]
    return [", ".join(texts), *own] if isinstance(plain, list) else texts + own


def check_tables(reader: str, names: Iterable[str], tables: Mapping[str, Table]) -> None:
    """Raise RarefeatError where a table is missing that a table, figure or page needs."""
    if missing := [name for name in names if name not in tables]:
        raise RarefeatError(
            f"config: {reader} needs the table {missing[0]}, which no study makes: is a study or a"
            f" block of its grid left out?"
        )


def sort_tables(tables: dict[str, Table]) -> dict[str, Table]:
    """Return tables, each after those that it is made from; RarefeatError if one is missing."""
    ordered: dict[str, Table] = {}

    def add(name: str) -> None:
        check_tables(f"the table {name}", tables[name].tables, tables)
        for source in tables[name].tables:
            if source not in ordered:
                add(source)
        ordered[name] = tables[name]

    for name in tables:
        add(name)
    return ordered


def paths(
    tables: Iterable[str] = (),
    figures: Iterable[str] = (),
    pages: Iterable[str] = (),
) -> list[str]:
    """Return the paths of outputs below the folder of results."""
    return [
        *(f"tables/{name}.parquet" for name in tables),
        *(f"figures/{name}.{suffix}" for name in figures for suffix in ("pdf", "png")),
        *(path for name in pages for path in (f"{name}.md", f"pages/{name}.html")),
    ]


def read_defaults(kind: StudyKind, *folders: Path) -> dict:
    """Read the YAML file of a kind: that of a project, or that beside the kind's own file."""
    folders = (*(folders or (DEFAULT.parent / "studies",)), STUDIES)
    paths = [folder / f"{kind.name}.yaml" for folder in folders]
    missing = paths[-1 if kind.is_file else 0]
    return read_yaml(next((path for path in paths if path.is_file()), missing))


def merge(raw: dict, *folders: Path) -> dict:
    """Return a config laid over the studies' own files, as one mapping of plain values."""
    of_kinds = kinds()
    allowed = [*TopLevelConfig.model_fields, *SHARED_STUDY_KEYS, "images", *of_kinds]
    if wrong := [error for name, error in broken().items() if name in raw]:
        raise RarefeatError(wrong[0])
    if wrong := sorted(map(str, set(raw) - set(allowed))):
        raise RarefeatError(
            f"config: {shorten_repr(wrong[0])[1:-1]}: unknown key{suggest(wrong[0], allowed)};"
            f" allowed are {', '.join(allowed)}"
        )
    size = raw.get("size")
    merged, sizes = {key: raw[key] for key in allowed if key in raw}, set()
    left_out = merged["left_out"] = {}
    for name, kind in of_kinds.items():
        try:
            defaults = read_defaults(kind, *folders)
        except RarefeatError as error:
            if name in raw or not kind.is_file:
                raise
            left_out[name] = str(error)
            continue
        kind_sizes, changes = defaults.pop("sizes", None) or {}, raw.get(name, {})
        defaults.pop("claims", None)
        sizes |= kind_sizes.keys()
        check_omitted(name, changes, defaults)
        section = (
            merge_configs(defaults, kind_sizes.get(size) or {})
            if isinstance(size, str)
            else defaults
        )
        merged[name] = merge_configs(section, changes) if isinstance(changes, dict) else changes
    if isinstance(size, str) and size and size not in sizes:
        raise RarefeatError(
            f"config: size: unknown size {shorten_repr(size)}{suggest(size, sizes)}; allowed are"
            f" {', '.join(sorted(sizes))}"
        )
    return merged


def parse(raw: dict, *folders: Path, files: Sequence[Path] = ()) -> Project:
    """Return the project of a raw config; RarefeatError with a line that names the key.

    A user's MODULE:FUNCTION is looked for beside `files`, which are laid over the default config.
    """
    merged = merge(raw, *folders)
    # From the working directory, so that results may move together with the config.
    own = (os.path.relpath(path.parent) for path in reversed(files))
    merged["own_folders"] = [*dict.fromkeys(own)]
    return build(merged, raw)


def build(merged: dict, raw: dict, *only: str) -> Project:
    """Return the project of a merged config, or of some kinds; errors name the keys of `raw`."""
    own_files.FOLDERS[:] = merged.get("own_folders", ())
    of_kinds = {name: load_kind(name) for name in only} or kinds()
    top = {key: merged[key] for key in TopLevelConfig.model_fields if key in merged}
    shared = {key: merged[key] for key in (*SHARED_STUDY_KEYS, "images") if key in merged}
    config, sections = validate_section(TopLevelConfig, top, raw), {}
    left_out = (broken() if not only else {}) | merged["left_out"]
    for name, kind in of_kinds.items():
        if name in left_out:
            continue
        section = kind.inherited(merged[name], shared)
        if config.most_seeds:
            section = limit_seeds(section, config.most_seeds)
        try:
            model = create_model(name, __base__=Section, **{name: (kind.section, ...)})
            sections[name] = getattr(validate_section(model, {name: section}, raw), name)
            kind.build_outputs(sections[name])
            if kind.claim_inputs(sections[name]):
                load_claims(name)
        except RarefeatError as error:
            if name in raw or not kind.is_file:
                raise
            sections.pop(name, None)
            left_out[name] = str(error)
    results = f"{config.results}/{config.name}" if config.name else config.results
    limits = config.size, config.most_seeds, config.name
    return Project(results, sections, *limits, merged, left_out).check()


def validate_section(model: type[Section], values: dict, raw: dict) -> Any:
    """Return a section of values; RarefeatError that names the keys of the raw config."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        if missing := [key for key in SHARED_STUDY_KEYS if key not in raw]:
            raise RarefeatError(
                f"config: {missing[0]}: missing, as is all of {DEFAULT}; start snakemake in the"
                f" project's folder, or name it by --directory"
            ) from error
        raise RarefeatError(f"config: {format_validation_error(error, model, raw)}") from error


MERGED = "config.yaml"
"""File of a folder of results: the whole config of the last run, written as the run begins."""


class PlainDumper(yaml.CSafeDumper):
    """A dumper that writes what occurs twice twice, without YAML's anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: nothing gets an anchor."""
        return True


def write_merged(project: Project) -> None:
    """Write the whole config of a run into its folder of results."""
    text = yaml.dump(dict(project.merged), Dumper=PlainDumper, sort_keys=False)
    write_file(Path(project.results, MERGED), f"# Written by the run; change config/.\n{text}")


def load_merged(results: str, function: str = "", name: str = "") -> Project:
    """Return the project of the last run in a folder of results.

    Where a job's function and name tell its study kind, it has this alone: the import of all
    thirteen takes longer than a short job.
    """
    text = Path(results, MERGED).read_text(encoding="utf-8")
    merged = yaml.load(text, Loader=yaml.CSafeLoader)
    package, *names = function.partition(":")[0].split(".")
    only = names[:1] if package == "studies" else []
    if package == "stages":
        study = re.split(r"[.]|_(?:grid|summary|trends|trajectories)$", name)[0]
        only = [kind for kind in kinds() if study in (merged.get(kind, {}).get("studies") or {})]
    with contextlib.suppress(RarefeatError):
        if only:
            project = build(merged, merged, *only)
            if find_stage(function) or project.product_job(function, name):
                return project
    return build(merged, merged)


def check_omitted(kind: str, changes: Any, defaults: dict) -> None:
    """Raise RarefeatError for a study that is set to null and does not exist."""
    studies = changes.get("studies") if isinstance(changes, dict) else None
    allowed = defaults.get("studies") or {}
    for name, study in studies.items() if isinstance(studies, dict) else ():
        if study is None and name not in allowed:
            raise RarefeatError(
                f"config: {kind}.studies: unknown study {shorten_repr(name)} set to null"
                f"{suggest(name, allowed)}"
            )


def limit_seeds(section: Any, most: int) -> Any:
    """Return a raw section of the config with at most so many seeds."""
    if not isinstance(section, dict):
        return section
    return {
        key: min(value, most)
        if key == "seeds" and isinstance(value, int)
        else limit_seeds(value, most)
        for key, value in section.items()
    }


def resolve_path(path: str | Path) -> Path:
    """Return a file of the working directory, or else of those that come with the package."""
    path = Path(path)
    return PACKAGED_FILES / path if not path.exists() and (PACKAGED_FILES / path).exists() else path


def load(*files: str | Path, folder: Path | None = None) -> Project:
    """Return the project of config files, the later ones over the earlier."""
    files = tuple(map(resolve_path, files or (DEFAULT,)))
    raw: dict = {}
    for path in files:
        raw = merge_configs(raw, read_yaml(path))
    over = [path for path in files if path != resolve_path(DEFAULT)]
    return parse(raw, folder or files[0].parent / "studies", files=over)
