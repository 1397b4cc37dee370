"""Do subclasses as labels keep features that coarse labels lose? Hong et al., step by step.

Networks on hierarchical samples with coarse, fine and other labels (two simulators), contrastive
encoders on the same samples, and networks on images that are pretrained with labels of different
granularity. The config's sections are here, in config.py and in granularity.py; columns and
means in tables.py. Definitions, equations and sections are those of hong_fine_grained_labels.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from rarefeat.studies.fine_labels.config import (
    COARSE,
    ContrastiveSettings,
    Count,
    CrossingArm,
    Detectors,
    HierarchicalData,
    Labels,
    Learner,
    LinearHeadSettings,
    Noise,
    Pair,
    Size,
    fine,
)
from rarefeat.studies.fine_labels.granularity import Digits, Granularity, Photographs
from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.names import Name, merge_unique
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import Replicas, SeedsPerBlock, seed_blocks
from rarefeat.workflow.study_kind import (
    IMAGE_DATA,
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    Table,
    collected_table,
)

QUESTION = "Do subclasses as labels keep features that coarse labels lose?"
SCALAR, DIRECT, CROSSING, DIGITS = (
    f"fine_labels_{name}" for name in ("scalar", "direct", "crossing", "digits")
)
"""Studies: networks of the scalar simulator, networks of both, contrastive encoders, digits."""
RIDGE = 0.1
"""Penalty of the linear heads in claims and figures."""


class DirectSimulatorSettings(Section):
    """The direct simulator beside the scalar one."""

    seeds: int = Field(ge=1, description="replicas")
    k: Distinct[Count] = Field(min_length=1, description="subclasses of a superclass")
    N: int = Field(ge=2, description="samples of a batch")


class Crossing(Section):
    """The contrastive encoder on the hierarchical data, at every k."""

    seeds: int = Field(ge=1, description="replicas")
    seeds_per_block: SeedsPerBlock = Field(description="replicas of one job, one after the other")
    arms: dict[Pair, Annotated[Distinct[CrossingArm], Field(min_length=1)]] = Field(
        min_length=1,
        description="arms by positive pair: views of a sample, samples of a subclass or superclass",
    )
    training: ContrastiveSettings


class FineLabels(Replicas):
    """The section `fine_labels`: coarse and fine labels at every k, other labels at one k."""

    k: Distinct[Count] = Field(min_length=1, description="subclasses of a superclass")
    s_dag: Distinct[Size] = Field(min_length=1, description="s_dag, which training does not see")
    hierarchy: HierarchicalData = Field(
        description="the data, with k and s_dag of the primary regime"
    )
    learner: Learner = Field(description="the network and its training")
    coarse: Detectors = Field(description="detectors of the two superclasses")
    fine: Detectors = Field(description="detectors of more than two labels; m is for each label")
    labels: list[Labels] = Field(description="other labels, at the primary k")
    finetuning: int = Field(ge=1, description="steps of fine-tuning of the fine network")
    tests: int = Field(ge=2, description="number of easy, and of hard, test samples")
    heads: LinearHeadSettings = Field(description="linear heads on the trained detectors")
    noise: Noise = Field(description="samples for linear models on patches, at the primary k")
    direct: DirectSimulatorSettings = Field(description="the direct simulator")
    crossing: Crossing = Field(description="the contrastive encoder on the same data")
    digits: Digits = Field(description="the granularity sweep on the digits")
    photographs: dict[Name, Photographs] = Field(
        default={}, description="granularity sweeps on other images, by name of the study"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        primary = self.hierarchy.k
        if primary not in self.k:
            raise ValueError(f"hierarchy.k must be one of k = {self.k}, got {primary}")
        if (least := 2 * self.hierarchy.s_star) > self.noise.P:
            raise ValueError(f"noise.P must be at least 2 s_star = {least:g}, got {self.noise.P}")
        for s_dag in self.s_dag:
            self.hierarchy.at(s_dag=s_dag)
        for labels in self.labels:
            labels.check(primary)
        sizes = {
            "learner.N": (self.k, self.learner.N),
            "tests": (self.k, self.tests),
            "heads.samples": (self.k, self.heads.samples),
            "crossing.training.K": (self.k, self.crossing.training.K),
            "direct.N": (self.direct.k, self.direct.N),
            "noise.samples": ([primary], self.noise.samples),
            "noise.tests": ([primary], self.noise.tests),
        }
        for key, (subclasses, n) in sizes.items():
            for k in subclasses:
                self.hierarchy.at(k=k)
                if n % (2 * k):
                    raise ValueError(f"{key} must be a multiple of 2 k = {2 * k}, got {n}")
        return self

    def studies(self) -> dict[str, "SectionStudy | Granularity"]:
        """Return the studies by name."""
        size, crossing = self.seeds_per_block, self.crossing
        own = {
            SCALAR: NetworkStudy(self, self.seeds, size),
            DIRECT: SimulatorComparison(self, self.direct.seeds, size),
            CROSSING: ContrastiveStudy(self, crossing.seeds, crossing.seeds_per_block),
        }
        return merge_unique("studies", own, self.sweeps)

    @property
    def sweeps(self) -> dict[str, Granularity]:
        """Granularity sweeps by name of the study."""
        return merge_unique("studies", {DIGITS: self.digits}, self.photographs)


@dataclass(frozen=True)
class SectionStudy:
    """A study of the section, with a number of replicas of its own."""

    section: FineLabels
    seeds: int
    seeds_per_block: SeedsPerBlock

    def blocks(self) -> dict[str, list[int]]:
        """Return the seed blocks by name, FIRST-LAST."""
        return seed_blocks(self.section.first_seed, self.seeds, self.seeds_per_block)

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the section's settings, with the data at the k of a cell and its detectors."""
        section, coarse = self.section, cell.values.get("labels") == COARSE.label
        data = section.hierarchy.at(k=cell["k"])
        detectors = section.coarse if coarse else section.fine
        return dict(section) | {"hierarchy": data, "data": data.easy, "detectors": detectors}


class NetworkStudy(SectionStudy):
    """Networks of the scalar simulator."""

    def cells(self) -> list[Cell]:
        """Return coarse and fine labels at every k, and other labels at the primary k."""
        section = self.section
        pairs = [(k, labels) for k in section.k for labels in (COARSE, fine(k))]
        pairs += [(section.hierarchy.k, labels) for labels in section.labels]
        return list(dict.fromkeys(cell(k=k, labels=labels.label) for k, labels in pairs))

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings of a cell: fine-tuning for fine labels, noise for coarse ones at the
        primary k, and every s_dag for both.
        """
        section, found = self.section, super().settings(cell)
        coarse, is_fine = (cell["labels"] == x.label for x in (COARSE, fine(cell["k"])))
        primary = found["hierarchy"].s_dag
        return found | {
            "finetuning": section.finetuning if is_fine else 0,
            "noise": section.noise if coarse and cell["k"] == section.hierarchy.k else None,
            "s_dag": sorted({primary, *(section.s_dag if coarse or is_fine else [])}),
        }


class SimulatorComparison(SectionStudy):
    """Networks of both simulators, at some k."""

    def cells(self) -> list[Cell]:
        """Return coarse and fine labels at every k."""
        k_of = self.section.direct.k
        return [cell(k=k, labels=labels.label) for k in k_of for labels in (COARSE, fine(k))]

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings of a cell, with the batch of the direct simulator."""
        section = self.section
        learner = section.learner.model_copy(update={"N": section.direct.N})
        return super().settings(cell) | {"learner": learner}


class ContrastiveStudy(SectionStudy):
    """Contrastive encoders, at every k and for every positive pair."""

    def cells(self) -> list[Cell]:
        """Return a cell for every k and kind of positive pair."""
        return [cell(k=k, pair=pair) for pair in self.section.crossing.arms for k in self.section.k]

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings of a cell, with arms and training of the encoders."""
        own = self.section.crossing
        found = {"arms": own.arms[cell["pair"]], "training": own.training}
        return super().settings(cell) | found


STAGES = "studies.fine_labels"
TRAIN = Stage(f"{STAGES}.networks:train_detectors", NetworkStudy, ("detectors.safetensors",))
MEASURE = Stage(
    f"{STAGES}.networks:measure_detectors",
    NetworkStudy,
    ("errors.parquet", "heads.parquet"),
    (TRAIN,),
)
COMPARE = Stage(
    f"{STAGES}.networks:compare_simulators", SimulatorComparison, ("simulators.parquet",)
)
CROSS = Stage(
    f"{STAGES}.contrastive_encoder:train_contrastive",
    ContrastiveStudy,
    ("crossing.parquet", "crossing_heads.parquet"),
)
SWEEP_DIGITS = Stage(f"{STAGES}.digits:sweep_digits", Digits, ("sweeps.parquet",))
REPRESENT = Stage(
    f"{STAGES}.photographs:represent_photographs",
    Photographs,
    ("features.safetensors",),
    (IMAGE_DATA,),
    axes=(),
    by_block=False,
)
SWEEP_PHOTOGRAPHS = Stage(
    f"{STAGES}.photographs:sweep_photographs",
    Photographs,
    ("sweeps.parquet",),
    (IMAGE_DATA, REPRESENT),
)
COLLECTED = {
    "errors": (SCALAR, MEASURE),
    "heads": (SCALAR, MEASURE),
    "simulators": (DIRECT, COMPARE),
    "crossing": (CROSSING, CROSS),
    "crossing_heads": (CROSSING, CROSS),
}
"""Study and stage of the rows of each table, by the folder of its files."""
SEE_SWEEP = (
    "Error of the coarse task on validation images by the labels of the pretraining, minus that of"
    " the baseline, which is pretrained on the superclasses; means over seeds with 95 % intervals,"
    " beside the nearest rows of Table 1 of the paper, whose levels are of other images and"
    " networks. See which lie on the other side of zero."
)


def build_outputs(section: FineLabels) -> StudyOutputs:
    """Return the tables of networks, simulators, encoders and sweeps; figures; and a page."""
    sections, studies, schemas = {"fine_labels": section}, section.studies(), f"{STAGES}.tables"
    tables = {
        f"fine_labels_{folder}": collected_table(
            f"{schemas}:{folder.upper()}", stage, folder, name, studies[name]
        )
        for folder, (name, stage) in COLLECTED.items()
    }
    tables["fine_labels_summary"] = Table(
        f"{schemas}:SUMMARY", f"{schemas}:summary", tables=("fine_labels_errors",), study=SCALAR
    )
    figures = {
        "fine_labels_errors": Figure(
            ("fine_labels_summary",),
            "Errors on hard samples against the number of subclasses k, with coarse and with fine"
            " labels. Compare coarse with fine labels at each k.",
            function="errors",
            sections=sections,
        )
    }
    shown = ["fine_labels_summary", "fine_labels_simulators"]
    for name, sweep in section.sweeps.items():
        stage = SWEEP_DIGITS if name == DIGITS else SWEEP_PHOTOGRAPHS
        tables[f"{name}_errors"] = collected_table(f"{schemas}:SWEEP", stage, "sweeps", name, sweep)
        tables[f"{name}_summary"] = Table(
            f"{schemas}:SWEEP_SUMMARY",
            f"{schemas}:sweep_summary",
            tables=(f"{name}_errors",),
            study=name,
        )
        shown.append(f"{name}_summary")
        figures[f"{name}_granularity"] = Figure(
            (f"{name}_summary",), SEE_SWEEP, function="granularity"
        )
    page = Page("Fine-grained labels", tuple(shown), tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"fine_labels": page})


def claim_inputs(section: FineLabels) -> ClaimInputs:
    """Return the tables that the claims of Hong et al. are measured on."""
    tables = ("fine_labels_errors", "fine_labels_heads", "fine_labels_simulators")
    tables += tuple(f"{name}_errors" for name in section.sweeps)
    return ClaimInputs(tables, {"fine_labels": section})


KIND = StudyKind(
    "fine_labels",
    "Fine-grained labels",
    FineLabels,
    build_outputs,
    FineLabels.studies,
    (TRAIN, MEASURE, COMPARE, CROSS, SWEEP_DIGITS, REPRESENT, SWEEP_PHOTOGRAPHS),
    claim_inputs=claim_inputs,
    by_default=False,
)
