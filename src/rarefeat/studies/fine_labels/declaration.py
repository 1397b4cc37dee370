"""Declaration of the study of fine labels: its stages, tables, figures, page and claims."""

from rarefeat.studies.fine_labels.config import (
    DIGITS,
    SCALAR,
    ContrastiveStudy,
    Digits,
    FineLabels,
    NetworkStudy,
    Photographs,
    SimulatorComparison,
)
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

SCHEMAS, STAGES = "studies.fine_labels.tables", "studies.fine_labels"
CROSSING_TABLES = ("fine_labels_crossing", "fine_labels_crossing_heads")
FIGURES = {
    "fine_labels_errors": (
        ("fine_labels_summary",),
        "Errors on easy and on hard samples against the number of subclasses k, with coarse and"
        " with fine labels. Compare coarse with fine labels at each k.",
    ),
    "fine_labels_crossing": (
        ("fine_labels_heads", *CROSSING_TABLES),
        "Contrastive encoders between networks with coarse and with fine labels: error of linear"
        " heads on hard samples against the number of subclasses, by positive pair, with a bias and"
        " without. Compare each kind of positive pair with both supervised curves.",
    ),
}
"""Tables and caption of each figure of the networks."""
GRANULARITY = f"{STAGES}.granularity"
TRAIN = Stage(
    f"{STAGES}.train:train_detectors",
    NetworkStudy,
    ("detectors.safetensors",),
    job_config=NetworkStudy.training_config,
)
MEASURE = Stage(
    f"{STAGES}.measure:measure_detectors",
    NetworkStudy,
    ("errors.parquet", "trajectories.parquet", "heads.parquet"),
    (TRAIN,),
    job_config=NetworkStudy.measurement_config,
)
COMPARE = Stage(
    f"{STAGES}.simulator_comparison:compare_simulators",
    SimulatorComparison,
    ("simulators.parquet",),
    job_config=SimulatorComparison.measurement_config,
)
CROSS = Stage(
    f"{STAGES}.contrastive_encoder:train_contrastive",
    ContrastiveStudy,
    ("crossing.parquet", "crossing_heads.parquet"),
    job_config=ContrastiveStudy.measurement_config,
)
SWEEP_DIGITS = Stage(
    f"{GRANULARITY}.digits:sweep_digits",
    Digits,
    ("sweeps.parquet",),
    job_config=Digits.measurement_config,
)
REPRESENT = Stage(
    f"{GRANULARITY}.simclr_features:represent_photographs",
    Photographs,
    ("features.safetensors",),
    (IMAGE_DATA,),
    axes=(),
    job_config=Photographs.representation_config,
)
SWEEP_PHOTOGRAPHS = Stage(
    f"{GRANULARITY}.photographs:sweep_photographs",
    Photographs,
    ("sweeps.parquet",),
    (IMAGE_DATA, REPRESENT),
    job_config=Photographs.measurement_config,
)
SEE_SWEEP = (
    "Error of the coarse task on validation images by the labels of the pretraining, minus that of"
    " the baseline, which is pretrained on the superclasses; means over seeds with 95 % intervals."
    " Open marks are the nearest rows of Table 1 of the paper, whose levels are of other images and"
    " networks. Compare the directions with the paper's."
)


QUESTION = "Do subclasses as labels keep features that coarse labels lose?"


def build_outputs(section: FineLabels) -> StudyOutputs:
    """Return the tables of networks, simulators, encoders and sweeps; figures; and a page."""
    sections, studies = {"fine_labels": section}, section.studies()
    stage_of = {"errors": MEASURE, "trajectories": MEASURE, "heads": MEASURE, "simulators": COMPARE}
    stage_of |= {"crossing": CROSS, "crossing_heads": CROSS}
    tables = {
        f"fine_labels_{folder}": collected_table(
            f"{SCHEMAS}:{folder.upper()}", stage, folder, name, studies[name]
        )
        for folder, stage in stage_of.items()
        for name in studies
        if isinstance(studies[name], stage.study)
    }
    tables["fine_labels_summary"] = Table(
        f"{SCHEMAS}:SUMMARY",
        f"{STAGES}.aggregate:fine_labels_summary",
        tables=("fine_labels_errors",),
        study=SCALAR,
    )
    figures = {
        name: Figure(
            figure_tables, caption, function=name.removeprefix("fine_labels_"), sections=sections
        )
        for name, (figure_tables, caption) in FIGURES.items()
    }
    shown = (
        "fine_labels_summary",
        "fine_labels_simulators",
        *(f"{name}_summary" for name in section.sweeps),
    )
    for name, sweep in section.sweeps.items():
        stage = SWEEP_DIGITS if name == DIGITS else SWEEP_PHOTOGRAPHS
        tables[f"{name}_errors"] = collected_table(f"{SCHEMAS}:SWEEP", stage, "sweeps", name, sweep)
        tables[f"{name}_summary"] = Table(
            f"{SCHEMAS}:SWEEP_SUMMARY",
            f"{GRANULARITY}.aggregate:sweep_summary",
            tables=(f"{name}_errors",),
            study=name,
        )
        figures[f"{name}_granularity"] = Figure(
            (f"{name}_summary",), SEE_SWEEP, f"{GRANULARITY}.figures", "granularity"
        )
    page = Page("Fine-grained labels", shown, tuple(figures), QUESTION)
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
