"""What the study of fine labels makes."""

from rarefeat.studies.fine_labels.config import (
    DIGITS,
    DIRECT,
    SCALAR,
    ContrastiveStudy,
    Digits,
    FineLabels,
    NetworkStudy,
    Photographs,
    SimulatorComparison,
)
from rarefeat.study_kind import (
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
CROSSED = ("fine_labels_crossing", "fine_labels_crossing_heads")
FIGURES = {
    "fine_labels_errors": (
        ("fine_labels_errors",),
        "Errors on easy and on hard samples against the number of subclasses k, and of the hard ones against R, which says how much"
        " distractors outweigh what coarse labels learn of subclasses; with the closed forms. See where the coarse errors leave the"
        " fine ones, and whether one R gives one error at every k.",
    ),
    "fine_labels_growth": (
        ("fine_labels_trajectories",),
        "Over training: displacement of subclass over that of common detectors, both displacements at the primary k, and bias over"
        " displacement. See that the ratio starts at its closed form and stays near 1/k with coarse labels.",
    ),
    "fine_labels_probes": (
        ("fine_labels_heads",),
        "Linear heads on the frozen detectors of four kinds of labels, over their penalty, by the share of hard samples that they are"
        " fitted on. See that what coarse labels have learned of subclasses is weak, not absent: what a head finds there depends on its"
        " penalty.",
    ),
    "fine_labels_granularity": (
        ("fine_labels_errors", "fine_labels_heads"),
        "Error on hard samples against the number of classes of a superclass, by linear head and by the maximum rule: too coarse labels,"
        " the subclasses themselves, parts of them, and classes that do not know them. See that more classes help only where they"
        " follow the subclasses.",
    ),
    "fine_labels_crossing": (
        ("fine_labels_heads", *CROSSED),
        "Contrastive encoders between networks with coarse and with fine labels: error of linear heads on hard samples over the number"
        " of subclasses, by positive pair with a bias (a) and without (b), and by mask (c); how alike two embeddings are (d). See to"
        " which of the two supervised curves each kind of positive pair is nearer, and whether a mask or a bias moves it.",
    ),
}
SWEPT = f"{STAGES}.granularity"
TRAIN = Stage(
    f"{STAGES}.train:train_detectors",
    NetworkStudy,
    NetworkStudy.training_config,
    ("detectors.safetensors",),
)
MEASURE = Stage(
    f"{STAGES}.measure:measure_detectors", NetworkStudy, NetworkStudy.measurement_config,
    ("errors.parquet", "trajectories.parquet", "heads.parquet"), (TRAIN,),
)  # fmt: skip
COMPARE = Stage(
    f"{STAGES}.simulator_comparison:compare_simulators",
    SimulatorComparison,
    SimulatorComparison.measurement_config,
    ("simulators.parquet",),
)
CROSS = Stage(
    f"{STAGES}.contrastive_encoder:train_contrastive", ContrastiveStudy, ContrastiveStudy.measurement_config, ("crossing.parquet", "crossing_heads.parquet"),
)  # fmt: skip
SWEEP_DIGITS = Stage(
    f"{SWEPT}.digits:sweep_digits", Digits, Digits.measurement_config, ("sweeps.parquet",)
)
REPRESENT = Stage(
    f"{SWEPT}.simclr_features:represent_photographs", Photographs, Photographs.representation_config, ("features.safetensors",), (IMAGE_DATA,),
    axes=(),
)  # fmt: skip
SWEEP_PHOTOGRAPHS = Stage(
    f"{SWEPT}.photographs:sweep_photographs",
    Photographs,
    Photographs.measurement_config,
    ("sweeps.parquet",),
    (IMAGE_DATA, REPRESENT),
)
SEE_SWEEP = (
    "Error of the coarse task on validation images against the number of classes in pretraining, minus that of the baseline, which is"
    " pretrained on the superclasses themselves; means over seeds with 95 % intervals, and for Table 1 of the paper, last, its"
    " printed standard deviations. See which labels lie below zero, and whether the directions are the paper's; levels are of"
    " other images and networks."
)
SEE_CHECKPOINTS = (
    "The same by epochs of pretraining, after fine-tuning; last, Table 2 of the paper. See whether a late checkpoint is better than an"
    " early one."
)

FOUND = (
    "fine_labels_summary",
    "fine_labels_heads",
    "fine_labels_crossing",
    "fine_labels_crossing_heads",
    "fine_labels_digits_summary",
)
"""Tables that what was found is read from."""


def build_outputs(section: FineLabels) -> StudyOutputs:
    """Tables of the networks, the simulators, the contrastive encoders and the sweeps on images, each with its figures."""
    parts, studies = {"fine_labels": section}, section.studies()
    of_cells = {"errors": MEASURE, "trajectories": MEASURE, "heads": MEASURE, "simulators": COMPARE}
    of_cells |= {"crossing": CROSS, "crossing_heads": CROSS}
    tables = {
        f"fine_labels_{folder}": collected_table(
            f"{SCHEMAS}:{folder.upper()}", stage, folder, name, studies[name]
        )
        for folder, stage in of_cells.items()
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
        name: Figure(read, see, function=name.removeprefix("fine_labels_"), sections=parts)
        for name, (read, see) in FIGURES.items()
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
            f"{SWEPT}.aggregate:sweep_summary",
            tables=(f"{name}_errors",),
            study=name,
        )
        for kind, see in (("granularity", SEE_SWEEP), ("checkpoints", SEE_CHECKPOINTS)):
            drawn = f"{SWEPT}.figures"
            figures[f"{name}_{kind}"] = Figure(
                (f"{name}_errors",), see, drawn, kind, {"sweep": sweep}
            )
    page = Page(
        "fine-grained labels", f"{STAGES}.findings:answer", FOUND, {"fine_labels": section}, shown
    )
    return StudyOutputs(tables, figures, {"fine_labels": page} if set(FOUND) <= set(tables) else {})


def claim_inputs(section: FineLabels) -> ClaimInputs:
    """What Hong et al. prove and predict."""
    tables = ("fine_labels_errors", "fine_labels_heads", "fine_labels_simulators")
    tables += tuple(f"{name}_errors" for name in section.sweeps)
    regimes = {SCALAR: {"k": set(section.k)}, DIRECT: {}} | {name: {} for name in section.sweeps}
    return ClaimInputs(tables, {"fine_labels": section}, regimes)


KIND = StudyKind(
    "fine_labels", "Fine-grained labels", FineLabels, build_outputs, FineLabels.studies,
    (TRAIN, MEASURE, COMPARE, CROSS, SWEEP_DIGITS, REPRESENT, SWEEP_PHOTOGRAPHS), claim_inputs=claim_inputs, by_default=False,
)  # fmt: skip
