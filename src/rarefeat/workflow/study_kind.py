"""Declarations of a study kind: its stages, tables, figures, pages and claims.

The workflow, the report and the docs read these declarations and know no study by name. The kinds
that exist are in `registry.py`; what the declarations of one config add up to is in `project.py`.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, get_args

from rarefeat.workflow.config.cells import Cell, cell_path
from rarefeat.workflow.config.images import ImageStudy
from rarefeat.workflow.config.section import Section, dump_config
from rarefeat.workflow.config.study import Study, merge_configs, share_defaults
from rarefeat.workflow.run.code_hashes import PACKAGE, find_file, settings_read
from rarefeat.workflow.run.job import Job, make_job

ConfigSections = Mapping[str, Any]
"""Sections of the config by name."""


@dataclass(frozen=True)
class Stage:
    """A pipeline stage: one job, with files of its own, for each cell and seed block of a study."""

    function: str
    """MODULE:FUNCTION, called with what its parameters name; it returns the content of each of
    `files`."""
    study: type
    """Type of the studies that run through this stage."""
    files: tuple[str, ...]
    """FOLDER.SUFFIX of each file, the folder below that of results."""
    upstream: tuple["Stage", ...] = ()
    """Stages whose files of the same cell the job reads."""
    not_compared: tuple[str, ...] = ()
    """Settings that a reader does not compare: a file may hold more arms than the reader's grid
    block has."""
    axes: tuple[str, ...] | None = None
    """Axes in the path of its files, in order: fewer than the cell's where cells share a file, none
    where a study has one."""
    needs: str = ""
    """Setting without which a cell has no such job."""
    by_block: bool = True
    """Whether each seed block has a file; else all of them share one."""

    @property
    def settings(self) -> tuple[str, ...]:
        """Names of the settings that its files depend on: those of the stages upstream, its own."""
        names = (name for function in self.lineage for name in settings_read(function))
        return tuple(dict.fromkeys(names))

    def config_of(self, study: Any, cell: Cell | None) -> ConfigSections | None:
        """Return the settings of the job of a cell; None where the cell has no such job."""
        config = settings_of(study, cell, self.settings)
        return None if self.needs and not config[self.needs] else config

    @property
    def folders(self) -> dict[str, str]:
        """Suffix of its files by their folder."""
        return dict(file.split(".") for file in self.files)

    @property
    def lineage(self) -> tuple[str, ...]:
        """Functions that a file of this stage depends on: those upstream, and its own."""
        return (*lineage(self.upstream), self.function)

    def shared_cell(self, cell: Cell) -> Cell:
        """Return what a cell has in common with those that it shares a file with."""
        if self.axes is None:
            return cell
        axes = tuple((axis, cell[axis]) for axis in self.axes if axis in cell.values)
        return Cell(axes, cell.arms if len(axes) == len(cell.axes) else ())

    def identify(self, cell: Cell, block: str) -> dict[str, Any]:
        """Return the cell and seeds that a file says; nothing where a study has one file."""
        says = {"cell": self.shared_cell(cell).values, "seeds": self.by_block and block}
        return {name: value for name, value in says.items() if value}

    def path(self, folder: str, name: str, cell: Cell, block: str) -> str:
        """Return the path of a file, below the folder of results."""
        block = block if self.by_block else ""
        return cell_path(folder, name, self.shared_cell(cell), block, self.folders[folder])

    def job(
        self,
        name: str,
        study: Any,
        cell: Cell | None = None,
        block: str = "",
        extra: ConfigSections | None = None,
    ) -> Job:
        """Return the job of a cell and seed block."""
        config = {**(self.config_of(study, cell) or {}), **(extra or {})}
        files = {folder: stage.function for stage in self.upstream for folder in stage.folders}
        upstream = lineage(self.upstream)
        return make_job(self.function, upstream, config, name, cell, block, files=files)

    def files_of(self, name: str, study: Any, folder: str) -> Iterator[tuple[Cell, str, str]]:
        """Yield the first cell, the seed block and the path of each file of a study in a folder.

        The block is empty where all share a file.
        """
        paths = set()
        for cell in study.cells():
            if self.config_of(study, cell) is not None:
                for block in study.blocks() if self.by_block else [""]:
                    path = self.path(folder, name, cell, block)
                    if path not in paths:
                        paths.add(path)
                        yield cell, block, path

    def expected_config(self, study: Any, cell: Cell) -> dict[str, Any]:
        """Return the config values that the file of a cell must have been made with."""
        config = self.config_of(study, cell) or {}
        return {
            name: dump_config(section)
            for name, section in config.items()
            if name not in self.not_compared
        }


def settings_of(study: Any, cell: Cell | None, names: Iterable[str]) -> dict[str, Any]:
    """Return the settings with some names: of a cell, `study.settings(cell)`, or of the study."""
    of_cell = study.settings(cell) if cell and cell.axes and hasattr(study, "settings") else {}
    return {name: of_cell[name] if name in of_cell else getattr(study, name) for name in names}


def lineage(stages: Iterable[Stage]) -> tuple[str, ...]:
    """Return the functions that files of some stages depend on, each once."""
    return tuple(dict.fromkeys(name for stage in stages for name in stage.lineage))


@dataclass(frozen=True)
class Table:
    """A table, `tables/NAME.parquet`."""

    schema: str
    """MODULE:NAME of its schema."""
    function: str
    """MODULE:FUNCTION, called with `(inputs, job)`; it returns the table, or all tables of its rule
    by name."""
    sections: ConfigSections = field(default_factory=dict)
    """What of the config the job is given."""
    files: Mapping[str, Stage] = field(default_factory=dict)
    """Stage of the cell files that it is made from, by folder."""
    tables: tuple[str, ...] = ()
    """Tables that it is made from."""
    study: str = ""
    """The study that it belongs to; empty for a table of several studies."""
    upstream: tuple[Stage, ...] = ()
    """Stages of other files that it is made from."""
    rule: str = "tabulate"
    """Name of its rule; another one is of the kind's own file of rules, or makes all tables that
    name it at once."""

    @property
    def cells_of(self) -> Any:
        """The study whose cell files it is made from, or a block of its grid."""
        return self.sections.get(self.study) or next(iter(self.sections.values()))

    @property
    def lineage(self) -> tuple[str, ...]:
        """Functions upstream of its own, and what it is given by name: a schema, a function."""
        named = (self.sections[key] for key in ("schema", "measure") if key in self.sections)
        return (*lineage((*self.files.values(), *self.upstream)), *named)

    def job(self, tables: Mapping[str, str]) -> Job:
        """Return the job that writes it."""
        return make_job(
            self.function,
            self.lineage,
            self.sections,
            self.study,
            # A job that writes several tables checks each itself.
            table_schema=self.schema if self.rule == "tabulate" else "",
            tables=tables,
            files={folder: stage.function for folder, stage in self.files.items()},
        )


@dataclass(frozen=True)
class Figure:
    """A figure, `figures/NAME.png` and `.pdf`: its tables, and the function that draws it.

    The function is called with `(tables, job)` and returns a matplotlib figure.
    """

    tables: tuple[str, ...]
    caption: str
    """What is plotted and what to look at, for the report."""
    module: str = ""
    """Module of the function; `figures` of the kind by default."""
    function: str = ""
    """Name of the function; that of the figure by default."""
    sections: ConfigSections = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A page of a run: `NAME.md`, and `pages/NAME.html` for the report (workflow/pages.py)."""

    title: str
    tables: tuple[str, ...]
    """Tables that the report shows; of claims there is a line each in the text, too."""
    figures: tuple[str, ...] = ()
    about: str = ""
    """Paragraph below the title, as the question that a study asks."""


@dataclass(frozen=True)
class StudyOutputs:
    """Everything that a study kind makes, by name."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    pages: Mapping[str, Page] = field(default_factory=dict)


@dataclass(frozen=True)
class ClaimInputs:
    """Tables that the claims of a study kind are measured on.

    The claims are declared in `claims.yaml` of its folder, or in the YAML file beside its file.
    """

    tables: tuple[str, ...]
    sections: ConfigSections = field(default_factory=dict)
    function: str = ""
    """MODULE:FUNCTION that measures them; `measure` of the module `claims` by default."""


STUDIES = PACKAGE / "studies"


@dataclass(frozen=True)
class StudyKind:
    """A kind of study: `studies/NAME`, a folder or one file, with NAME.yaml for its config.

    `workflow/rules/NAME.smk` holds its rules, where the general ones do not do.
    """

    name: str
    title: str
    section: type[Section]
    """Its section of the config."""
    build_outputs: Callable[[Any], StudyOutputs]
    """Outputs, from its section."""
    studies: Callable[[Any], Mapping[str, Any]] = lambda section: section.studies
    """Studies of its section by name, each with `cells()` and `blocks()`."""
    stages: tuple[Stage, ...] = ()
    """Pipeline stages, beside those that kinds share."""
    inherits: tuple[str, ...] = ()
    """Top-level config keys that its section, or each of its `studies`, takes unless it sets
    them."""
    inherit: Callable[[Any, dict], Any] | None = None
    """Own way to merge the raw section with the top level, where it has no `studies`."""
    claim_inputs: Callable[[Any], ClaimInputs | None] = lambda section: None
    by_default: bool = True
    """Whether a plain `snakemake` makes it."""
    question: str = ""
    """Question for the lists of studies, where it has no page in docs/templates/studies."""
    answer: str = ""
    """Answer in a few words, for the same lists; the question by default."""
    schemas: tuple[str, ...] = ()
    """MODULE:NAME of the schemas of its tables that are not in its module `tables`."""

    @property
    def is_file(self) -> bool:
        """Whether it is a file, and not a folder."""
        return (STUDIES / f"{self.name}.py").is_file()

    def module(self, name: str) -> str:
        """Return the name of one of its modules; where it has none of this name, its own."""
        module = f"studies.{self.name}.{name}"
        return module if find_file(module) else f"studies.{self.name}"

    def load(self, name: str) -> ModuleType:
        """Import one of its modules."""
        return importlib.import_module(f"rarefeat.{self.module(name)}")

    def inherited(self, raw: Any, shared: dict) -> Any:
        """Return its raw section with the values of the top level that it takes."""
        if self.inherit:
            return self.inherit(raw, shared)
        if studies := self.section.model_fields.get("studies"):
            return share_defaults(raw, shared, get_args(studies.annotation)[1], self.inherits)
        taken = {key: shared[key] for key in self.inherits if key in shared}
        return merge_configs(taken, raw) if isinstance(raw, dict) else raw


def joined_table(schema: str, tables: Iterable[str]) -> Table:
    """Return the table of all rows of several others."""
    function = "stages.concat_tables:join"
    return Table(schema, function, {"schema": schema}, tables=tuple(dict.fromkeys(tables)))


def collected_table(schema: str, stage: Stage, folder: str, name: str, study: Any) -> Table:
    """Return the table of all rows of every cell and seed block of a study."""
    return Table(
        schema,
        "stages.concat_tables:collect",
        {name: study, "schema": schema},
        {folder: stage},
        study=name,
    )


SYNTHESISE = Stage(
    "stages.synthesise:stage",
    Study,
    ("latents.safetensors",),
    axes=("eps_min",),
)
PRETRAIN = Stage(
    "stages.pretrain:stage",
    Study,
    ("encoders.safetensors", "trajectories.parquet"),
    (SYNTHESISE,),
    not_compared=("arms",),
    needs="arms",
)
PROBE = Stage(
    "stages.probe:stage",
    Study,
    ("probes.parquet",),
    (SYNTHESISE, PRETRAIN),
    not_compared=("arms", "untrained"),
)
IMAGE_DATA = Stage(
    "images.datasets:stage",
    ImageStudy,
    ("images.safetensors",),
    axes=(),
    by_block=False,
)
IMAGE_SPLITS = Stage(
    "images.splits:stage",
    ImageStudy,
    ("splits.safetensors",),
    (IMAGE_DATA,),
    axes=("rho", "split"),
)
IMAGE_PRETRAIN = Stage(
    "images.pretrain:stage",
    ImageStudy,
    ("encoders.safetensors", "trajectories.parquet"),
    (IMAGE_DATA, IMAGE_SPLITS),
)
IMAGE_PROBE = Stage(
    "images.probe:stage",
    ImageStudy,
    ("probes.parquet",),
    (IMAGE_DATA, IMAGE_SPLITS, IMAGE_PRETRAIN),
)
SHARED_STAGES = (SYNTHESISE, PRETRAIN, PROBE, IMAGE_DATA, IMAGE_SPLITS, IMAGE_PRETRAIN, IMAGE_PROBE)
"""Stages that several kinds run through; their rules are workflow/rules/chain.smk and
images.smk."""


def chain_tables(name: str, study: Study) -> dict[str, Table]:
    """Return the tables of a study, STUDY_TABLE, and of its grid's blocks, STUDY.BLOCK_TABLE."""
    parts = {name: study.as_plain_study()}
    for block, grid in study.grid.items():
        parts[f"{name}.{block}"] = parts[name].model_copy(update={"grid": {block: grid}})
    return {
        f"{part}_{table}": Table(
            f"stages.tables:{table.upper()}",
            "stages.aggregate:aggregate",
            {name: study_of_part},
            {"probes": PROBE, "trajectories": PRETRAIN},
            study=name,
            rule="aggregate",
        )
        for part, study_of_part in parts.items()
        for table in ("grid", "summary", "trends", "trajectories")
    }


def trajectories_table(name: str, study: Study) -> Table:
    """Return the table of what the neurons of a study did during training."""
    sections, files = {name: study.as_plain_study()}, {"trajectories": PRETRAIN}
    return Table(
        "stages.tables:TRAJECTORIES",
        "stages.aggregate:aggregate_trajectories",
        sections,
        files,
        study=name,
    )
