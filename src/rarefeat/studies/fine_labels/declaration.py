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
CROSSING_TABLES = ("fine_labels_crossing", "fine_labels_crossing_heads")
FIGURES = {
    "fine_labels_errors": (
        ("fine_labels_errors",),
        "(a) Errors on easy and on hard samples against the number of subclasses k, with coarse and"
        " with fine labels. (b) Errors on hard samples against R, the ratio of the responses to"
        " distractors and to subclasses in a coarse network, with the closed form. Compare coarse"
        " with fine labels at each k, and errors of equal R between values of k.",
    ),
    "fine_labels_growth": (
        ("fine_labels_trajectories",),
        "Against training step: ratio of the displacements of subclass and common detectors, both"
        " displacements at the primary k, and bias over displacement. With coarse labels the ratio"
        " starts at its closed form and stays near 1/k.",
    ),
    "fine_labels_probes": (
        ("fine_labels_heads",),
        "Error of linear heads on frozen detectors against their penalty, by the fraction of hard"
        " samples that they are fitted on, for four kinds of labels. With coarse labels the"
        " response to subclasses is weak, not absent: what a head finds depends on its penalty.",
    ),
    "fine_labels_granularity": (
        ("fine_labels_errors", "fine_labels_heads"),
        "Error on hard samples against the number of classes of a superclass, by the maximum rule"
        " and by linear heads: unions of subclasses, the subclasses, parts of them, and classes"
        " that are independent of them. More classes help only where they follow the subclasses.",
    ),
    "fine_labels_crossing": (
        ("fine_labels_heads", *CROSSING_TABLES),
        "Contrastive encoders between networks with coarse and with fine labels. Error of linear"
        " heads on hard samples against the number of subclasses, by positive pair with a bias (a)"
        " and without (b), and by mask (c); mean cosine of two embeddings (d). Compare each kind of"
        " positive pair with both supervised curves, and look for effects of the mask and of the"
        " bias.",
    ),
}
"""Tables and caption of each figure of the networks."""
GRANULARITY = f"{STAGES}.granularity"
TRAIN = Stage(
    f"{STAGES}.train:train_detectors",
    NetworkStudy,
    NetworkStudy.training_config,
    ("detectors.safetensors",),
)
MEASURE = Stage(
    f"{STAGES}.measure:measure_detectors",
    NetworkStudy,
    NetworkStudy.measurement_config,
    ("errors.parquet", "trajectories.parquet", "heads.parquet"),
    (TRAIN,),
)
COMPARE = Stage(
    f"{STAGES}.simulator_comparison:compare_simulators",
    SimulatorComparison,
    SimulatorComparison.measurement_config,
    ("simulators.parquet",),
)
CROSS = Stage(
    f"{STAGES}.contrastive_encoder:train_contrastive",
    ContrastiveStudy,
    ContrastiveStudy.measurement_config,
    ("crossing.parquet", "crossing_heads.parquet"),
)
SWEEP_DIGITS = Stage(
    f"{GRANULARITY}.digits:sweep_digits", Digits, Digits.measurement_config, ("sweeps.parquet",)
)
REPRESENT = Stage(
    f"{GRANULARITY}.simclr_features:represent_photographs",
    Photographs,
    Photographs.representation_config,
    ("features.safetensors",),
    (IMAGE_DATA,),
    axes=(),
)
SWEEP_PHOTOGRAPHS = Stage(
    f"{GRANULARITY}.photographs:sweep_photographs",
    Photographs,
    Photographs.measurement_config,
    ("sweeps.parquet",),
    (IMAGE_DATA, REPRESENT),
)
SWEEP_CAPTIONS = {
    "granularity": (
        "Error of the coarse task on validation images against the number of classes in"
        " pretraining, minus that of the baseline, which is pretrained on the superclasses; means"
        " over seeds with 95 % intervals. The last panel is Table 1 of the paper, with its printed"
        " standard deviations. Look for labels below zero, and compare the directions with the"
        " paper's; its levels are of other images and networks."
    ),
    "checkpoints": (
        "Error of the coarse task after fine-tuning against epochs of pretraining; the last panel"
        " is Table 2 of the paper. Compare late checkpoints with early ones."
    ),
}
"""Caption of each figure of a granularity sweep."""
FINDINGS_TABLES = (
    "fine_labels_summary",
    "fine_labels_heads",
    "fine_labels_crossing",
    "fine_labels_crossing_heads",
    "fine_labels_digits_summary",
)
"""Tables that the findings are computed from."""


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
        for kind, caption in SWEEP_CAPTIONS.items():
            figures[f"{name}_{kind}"] = Figure(
                (f"{name}_errors",), caption, f"{GRANULARITY}.figures", kind, {"sweep": sweep}
            )
    page = Page(
        "fine-grained labels", f"{STAGES}.findings:answer", FINDINGS_TABLES, sections, shown
    )
    pages = {"fine_labels": page} if set(FINDINGS_TABLES) <= set(tables) else {}
    return StudyOutputs(tables, figures, pages)


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
