"""What a kind of study declares of itself, for the workflow, the provenance and the report, which know no study by name."""

import importlib
import importlib.util
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from rarefeat.config.cells import Cell, path_of
from rarefeat.config.images import ImageStudy
from rarefeat.config.section import Section, told
from rarefeat.config.study import Study, merged, sharing
from rarefeat.run.job import Job, job

Parts = Mapping[str, Any]
"""Sections of the config by name."""


@dataclass(frozen=True)
class Stage:
    """A stage of the cells of a study: each cell and block of seeds is a job, with files of its own.

    What follows from it: its rule, what its jobs are told, what they came through, and what who reads its files expects.
    """

    function: str
    """MODULE:FUNCTION of what it reads and the job (run/make.py), which gives what is in each of `files`."""
    study: type
    """What its studies are: those of the kind that are of this type run through it."""
    told: Callable[[Any, Cell], Parts | None]
    """What of the config the job of a cell is told, from the study; None where the cell has no such job."""
    files: tuple[str, ...]
    """FOLDER.SUFFIX of each file of a cell and block, the folder below that of results."""
    after: tuple["Stage", ...] = ()
    """Stages whose files of the same cell it reads."""
    unread: tuple[str, ...] = ()
    """What of `told` a reader does not compare: a file may hold more arms than the reader's part of the grid has."""
    axes: tuple[str, ...] | None = None
    """Axes of the cells that its files are of, in the order of their paths: some, where cells share a file; none, where a study
    has one. To be said where another stage of cells reads its files, unless the order is that of the alphabet."""
    rule: str = ""
    """Name of its rule; the function's if not given."""
    mem_mb: int = 2000
    runtime: int = 60
    """Minutes, and megabytes, of the first try."""

    @property
    def name(self) -> str:
        """Name of its rule."""
        return self.rule or self.function.partition(":")[2]

    def shared(self, at: Cell) -> Cell:
        """What a cell has in common with those that it shares a file with."""
        if self.axes is None:
            return at
        found = tuple((axis, at[axis]) for axis in self.axes if axis in at.values)
        return Cell(found, at.arms if len(found) == len(at.axes) else ())

    def of(self, at: Cell, block: str) -> dict[str, Any]:
        """The cell and seeds that its file says that it is of; neither, where a study has one file."""
        return {} if self.axes == () else {"cell": self.shared(at).values, "seeds": block}

    def path(self, folder: str, name: str, at: Cell, block: str) -> str:
        """Its file in a folder, of a study's cell and block, below the folder of results."""
        suffix = self.folders[folder]
        return f"{folder}/{name}.{suffix}" if self.axes == () else path_of(folder, name, self.shared(at), block, suffix)

    @property
    def folders(self) -> dict[str, str]:
        """The suffix of its files by their folder."""
        return dict(one.split(".") for one in self.files)

    @property
    def through(self) -> tuple[str, ...]:
        """The stages that a file of it came through: those before it, and itself."""
        return (*through(self.after), self.function)

    def job(
        self,
        name: str,
        study: Any,
        at: Cell | None = None,
        block: str = "",
        more: Parts | None = None,
        accepted: Iterable[Mapping[str, Any]] = (),
    ) -> Job:
        """The job of a cell and block of a study; more: what files of the user's hold. accepted: as `run.job.job` has it."""
        config = {**(self.told(study, at) or {}), **(more or {})}
        read = {folder: one.function for one in self.after for folder in one.folders}
        return job(self.function, through(self.after), config, name, at, block, "run.make", files=read, accepted=accepted)

    def files_of(self, name: str, study: Any, folder: str) -> Iterator[tuple[Cell, str, str]]:
        """Every file of a study in a folder, below that of results, with the first cell and block that it is of."""
        seen = set()
        for cell in study.cells():
            if self.told(study, cell) is not None:
                for block in study.blocks():
                    path = self.path(folder, name, cell, block)
                    if path not in seen:
                        seen.add(path)
                        yield cell, block, path

    def unsaid(self, study: Any) -> tuple[str, str]:
        """A stage before it that is to say its axes, and these: a job knows those of a cell in the order of the alphabet alone."""
        orders = {tuple(cell.values) for cell in study.cells()} if any(one.axes is None for one in self.after) else set()
        order = next((order for order in orders if list(order) != sorted(order)), ())
        return next(((one.name, ", ".join(order)) for one in self.after if order and one.axes is None), ("", ""))

    def compared(self, study: Any, cell: Cell) -> dict[str, Any]:
        """What of the config a file of a cell must say that it was told."""
        return {name: told(part) for name, part in (self.told(study, cell) or {}).items() if name not in self.unread}


def through(stages: Iterable[Stage]) -> tuple[str, ...]:
    """The stages that files of some stages came through, each once."""
    return tuple(dict.fromkeys(name for stage in stages for name in stage.through))


@dataclass(frozen=True)
class Table:
    """A table, `tables/NAME.parquet`: what makes it, and from what of the config, which files of cells and which tables."""

    schema: str
    """MODULE:NAME of its schema."""
    stage: str
    """MODULE:FUNCTION of what it reads and the job (run/make.py); or a module with a command line, and a rule of its own."""
    parts: Parts = field(default_factory=dict)
    files: Mapping[str, Stage] = field(default_factory=dict)
    """The stage of the files of cells that it is made from, by folder."""
    tables: tuple[str, ...] = ()
    study: str = ""
    """The study that it is a table of; empty for one of several studies."""
    after: tuple[Stage, ...] = ()
    """Stages of other files that it is made from."""
    runs: str = ""
    """Module whose command line runs the stage, where that is another."""

    @property
    def of(self) -> Any:
        """The study whose files of cells it is made from, or a block of the grid of that."""
        return self.parts.get(self.study) or next(iter(self.parts.values()))

    @property
    def through(self) -> tuple[str, ...]:
        """The stages that the files came through which it is made from, but for those of tables; and a schema that it is told."""
        return (*through((*self.files.values(), *self.after)), *((self.schema,) if "schema" in self.parts else ()))

    @property
    def made(self) -> bool:
        """Whether a function makes it, so that it needs no rule of its own."""
        return ":" in self.stage and not self.runs

    def job(self, tables: Mapping[str, str], accepted: Iterable[Mapping[str, Any]] = ()) -> Job:
        """The job that writes it; tables: those that it reads, with the identities of their jobs."""
        read = {folder: stage.function for folder, stage in self.files.items()}
        runs = "run.make" if self.made else self.runs
        of = self.through, self.parts, self.study
        return job(self.stage, *of, runs=runs, tables=tables, files=read, accepted=accepted)


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
    """Tables that the report shows on one page, to sort and to filter, or as a page of a function of its own."""

    about: str
    tables: tuple[str, ...]
    stage: str = "report.browse:tables_page"
    parts: Parts = field(default_factory=dict)
    category: str = "Tables"
    """Where the report's menu has it."""


@dataclass(frozen=True)
class Made:
    """What a kind of study makes, by name."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    pages: Mapping[str, Page] = field(default_factory=dict)
    browsed: Mapping[str, Browsed] = field(default_factory=dict)


@dataclass(frozen=True)
class Claimed:
    """What the claims of a kind of study are read from.

    They are declared in the file `claims.yaml` of its folder; `measure(tables, job)` of its module `claims` measures them.
    """

    tables: tuple[str, ...]
    parts: Parts = field(default_factory=dict)
    regimes: Mapping[str, Mapping[str, Collection[str | float]]] = field(default_factory=dict)
    """By study what there is on its axes, so that a primary regime which is misspelt is seen; an axis that is not here has anything."""


STUDIES = Path(__file__).parent / "studies"
IN_ONE_FILE = ("kind", "config", "tables", "figures", "claims", "page")
"""What a kind of study that is one file has in it."""


@dataclass(frozen=True)
class Kind:
    """A kind of study: the folder `studies/NAME` and `config/studies/NAME.yaml`, or both in `studies/NAME.py` and `NAME.yaml`.

    `workflow/rules/NAME.smk` is for rules of its own, where it has some.
    """

    name: str
    title: str
    """For people."""
    section: type[Section]
    """Its section of the config."""
    made: Callable[[Any], Made]
    """What it makes, from its section."""
    studies: Callable[[Any], Mapping[str, Any]] = lambda section: section.studies
    """The studies of its section by name, each with cells() and blocks()."""
    stages: tuple[Stage, ...] = ()
    """Those of their cells, beside the chain's and the images'."""
    inherits: tuple[str, ...] = ()
    """What its section, or each of its `studies` where it has some, takes from the top level of the config unless it says so."""
    inherit: Callable[[Any, dict], Any] | None = None
    """Its raw section with what is shared at the top level, where it is not `studies` that share."""
    claimed: Callable[[Any], Claimed | None] = lambda section: None
    by_default: bool = True
    """Whether a plain `snakemake` makes it."""
    question: str = ""
    """Which question it answers, for the lists of studies, where it has no page in docs/templates/studies."""
    answer: str = ""
    """The answer in a few words; if not given, the first sentence of what was found."""

    def module(self, name: str) -> str:
        """A module of its folder, from the package's root; itself of a kind that is a file, which may have NAME_files.py beside it."""
        if not (STUDIES / f"{self.name}.py").is_file():
            return f"studies.{self.name}.{name}"
        return f"studies.{self.name}" if name in IN_ONE_FILE else f"studies.{self.name}_{name}"

    def load(self, name: str) -> ModuleType | None:
        """A module of its folder; None where it has none of this name."""
        found = f"rarefeat.{self.module(name)}"
        return importlib.import_module(found) if importlib.util.find_spec(found) else None

    def inherited(self, raw: Any, shared: dict) -> Any:
        """Its raw section with what is shared."""
        if self.inherit:
            return self.inherit(raw, shared)
        if studies := self.section.model_fields.get("studies"):
            return sharing(raw, shared, get_args(studies.annotation)[1], self.inherits)
        return merged({key: shared[key] for key in self.inherits if key in shared}, raw) if isinstance(raw, dict) else raw


def made_by(stage: str, parts: Parts | None = None, **more: Any) -> Table:
    """A table whose schema has the name of the function that makes it, in the module `tables` of the kind's folder."""
    module, _, function = stage.partition(":")
    folder = ".".join(module.split(".")[:2])
    return Table(f"{folder}.tables:{function.upper()}", stage, parts or {}, **more)


def joined(schema: str, tables: Iterable[str]) -> Table:
    """The tables of several studies in one."""
    return Table(schema, "chain.join:join", {"schema": schema}, tables=tuple(tables))


def collected(schema: str, stage: Stage, folder: str, name: str, study: Any) -> Table:
    """The rows of every cell and block of a study in one table."""
    return Table(schema, "chain.join:collect", {name: study, "schema": schema}, {folder: stage}, study=name)


def axes_of_cells(study: Any) -> dict[str, set]:
    """What there is on each axis of a study's grid."""
    found: dict[str, set] = {}
    for cell in study.cells():
        for axis, value in cell.values.items():
            found.setdefault(axis, set()).add(value)
    return found


SYNTHESISE = Stage(
    "chain.synthesise:stage", Study, lambda study, cell: {"draws": study.draws, "data": study.data},
    ("latents.safetensors",), axes=("eps_min",), rule="synthesise",
)  # fmt: skip
PRETRAIN = Stage(
    "chain.pretrain:stage", Study, lambda study, cell: study.pretrained(cell) if cell.trained else None,
    ("encoders.safetensors", "trajectories.parquet"), (SYNTHESISE,), unread=("arms",), rule="pretrain",
)  # fmt: skip
PROBE = Stage(
    "chain.probe:stage", Study, Study.probed, ("probes.parquet",), (SYNTHESISE, PRETRAIN), unread=("arms", "untrained"),
    rule="probe",
)  # fmt: skip
IMAGE_DATA = Stage(
    "images.datasets:stage", ImageStudy, lambda study, cell: {"data": study.data}, ("images.safetensors",),
    axes=(), rule="image_data",
)  # fmt: skip
IMAGE_SPLITS = Stage(
    "images.splits:stage", ImageStudy, ImageStudy.images_drawn, ("splits.safetensors",), (IMAGE_DATA,),
    axes=("rho", "split"), rule="image_splits",
)  # fmt: skip
IMAGE_PRETRAIN = Stage(
    "images.pretrain:stage", ImageStudy, ImageStudy.pretrained, ("encoders.safetensors", "trajectories.parquet"),
    (IMAGE_DATA, IMAGE_SPLITS), axes=("rho", "split", "width", "arm"), rule="pretrain_images",
)  # fmt: skip
IMAGE_PROBE = Stage(
    "images.probe:stage", ImageStudy, ImageStudy.probed, ("probes.parquet",), (IMAGE_DATA, IMAGE_SPLITS, IMAGE_PRETRAIN),
    rule="probe_images",
)  # fmt: skip
SHARED_STAGES = (SYNTHESISE, PRETRAIN, PROBE, IMAGE_DATA, IMAGE_SPLITS, IMAGE_PRETRAIN, IMAGE_PROBE)
"""Stages that several kinds run through; their rules are workflow/rules/chain.smk and images.smk."""


def chain_tables(name: str, study: Study) -> dict[str, Table]:
    """The tables that the chain makes of a study, and of each block of its grid as STUDY.BLOCK_..."""
    found: dict[str, Table] = {}
    for prefix, part in {name: study, **{f"{name}.{block}": study.of_block(block) for block in study.grid}}.items():
        for table in ("grid", "summary", "trends"):
            schema = f"chain.tables:{table.upper()}"
            found[f"{prefix}_{table}"] = Table(
                schema, "chain.aggregate:aggregate_grid", {prefix: part.plain()}, {"probes": PROBE}, study=name
            )
        found[f"{prefix}_trajectories"] = trajectories(name, part, prefix)
    return found


def trajectories(name: str, study: Study, part: str = "") -> Table:
    """What the neurons of a study did during training; part: its name in the config that the table remembers."""
    parts, files = {part or name: study.plain()}, {"trajectories": PRETRAIN}
    return Table("chain.tables:TRAJECTORIES", "chain.aggregate:aggregate_trajectories", parts, files, study=name)
