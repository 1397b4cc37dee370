"""What the study of fine labels makes."""

from rarefeat.kind import Browsed, Claimed, Figure, Kind, Made, Table
from rarefeat.studies.fine_labels.config import CROSSING, DIGITS, DIRECT, SCALAR, FineLabels, Granularity

SCHEMAS, STAGES = "studies.fine_labels.tables", "studies.fine_labels"
TABLES = ("fine_labels_errors", "fine_labels_summary", "fine_labels_trajectories", "fine_labels_heads")
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
        " of subclasses (a, b) and over their penalty (c); how far embeddings tell subclasses and superclasses apart (d). See to"
        " which of the two supervised curves each kind of positive pair is nearer, and whether a mask or a bias moves it.",
    ),
}
SWEPT = f"{STAGES}.granularity"
SEE_SWEEP = (
    "Error of the coarse task on validation images against the number of classes in pretraining, less that of the baseline, which is"
    " pretrained on the superclasses themselves; means over seeds with 95 % intervals, and for Table 1 of the paper, last, its"
    " printed standard deviations. See which labels lie below zero, and whether the directions are the paper's; levels are of"
    " other images and networks."
)
SEE_CHECKPOINTS = (
    "The same by epochs of pretraining, after fine-tuning; last, Table 2 of the paper. See whether a late checkpoint is better than an"
    " early one."
)


def made(section: FineLabels) -> Made:
    """Tables of the networks, the simulators, the contrastive encoders and the sweeps on images, each with its figures."""
    parts, through = {"fine_labels": section}, (f"{STAGES}.train", f"{STAGES}.measure")
    tables = {name: table(name, through, parts, SCALAR) for name in TABLES}
    tables["fine_labels_simulators"] = table("fine_labels_simulators", (f"{STAGES}.compare",), parts, DIRECT)
    tables |= {name: table(name, (f"{STAGES}.crossing",), parts, CROSSING) for name in CROSSED}
    figures = {
        name: Figure(read, see, function=name.removeprefix("fine_labels_"), parts=parts)
        for name, (read, see) in FIGURES.items()
    }
    browsed = Browsed(
        "Coarse, fine and other labels: means over seeds; the two simulators, replica by replica",
        ("fine_labels_summary", "fine_labels_simulators", *(f"{name}_summary" for name in section.sweeps)),
    )
    for name, sweep in section.sweeps.items():
        tables |= {f"{name}_{kind}": swept(name, kind, sweep) for kind in ("errors", "summary")}
        for kind, see in (("granularity", SEE_SWEEP), ("checkpoints", SEE_CHECKPOINTS)):
            drawn = f"{SWEPT}.figures"
            figures[f"{name}_{kind}"] = Figure((f"{name}_errors",), see, drawn, kind, {"sweep": sweep})
    return Made(tables, figures, browsed={"fine_labels_tables": browsed})


def swept(name: str, kind: str, sweep: Granularity) -> Table:
    """A table of a granularity sweep."""
    photographs = ("images.datasets", f"{SWEPT}.represent", f"{SWEPT}.photographs")
    through = (f"{SWEPT}.digits",) if name == DIGITS else photographs
    schema = {"errors": "SWEEP", "summary": "SWEEP_SUMMARY"}[kind]
    return Table(f"{SCHEMAS}:{schema}", f"{SWEPT}.aggregate", {"sweep": sweep}, through, study=name)


def table(name: str, through: tuple[str, ...], parts: dict, study: str) -> Table:
    """A table of one study, from the rows of its cells and blocks."""
    return Table(f"{SCHEMAS}:{name.removeprefix('fine_labels_').upper()}", f"{STAGES}.aggregate", parts, through, study=study)


def claimed(section: FineLabels) -> Claimed:
    """What Hong et al. prove and predict."""
    groups = ("detector growth", "easy and hard errors", "detectors at rest", "other labels", "label granularity on images")
    tables = ("fine_labels_errors", "fine_labels_heads", "fine_labels_simulators")
    tables += tuple(f"{name}_errors" for name in section.sweeps)
    return Claimed("hong_fine_grained_labels", groups, tables, {"fine_labels": section})


KIND = Kind("fine_labels", "Fine-grained labels", FineLabels, made, FineLabels.studies, claimed=claimed, by_default=False)
