"""Outputs of the study of augmentation."""

from rarefeat.studies.augmentation.config import Augmentation, inherit
from rarefeat.workflow.study_kind import (
    IMAGE_DATA,
    IMAGE_PRETRAIN,
    IMAGE_SPLITS,
    PRETRAIN,
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    Table,
    joined_table,
)

TABLES = ("augmentation", "augmentation_course", "augmentation_neurons", "augmentation_embedding")
IMAGE_TABLES = ("augmentation_images", "augmentation_images_units", "augmentation_images_embedding")
SUPERVISE = Stage(
    "studies.augmentation.supervised_baseline:supervise_encoders",
    Augmentation,
    (),
    job_config=Augmentation.supervise,
)
FIGURES = {
    "augmentation_dial": Figure(
        ("augmentation",),
        "The end of training from pairs that share nothing but the features, above, to identical"
        " views, below: the share of the features with a neuron of their own, and the error of a"
        " linear head, with a bias and without. See whether the order of the rows is that of the"
        " quantity, and what the bias alone does.",
    ),
    "augmentation_representations": Figure(
        ("augmentation_neurons",),
        "How often neurons fire, by kind of positive pair, beside the same neurons trained on"
        " labels. See whether neurons are sparse.",
    ),
}
IMAGE_FIGURES = {
    "augmentation_images": (
        IMAGE_TABLES[:1],
        "Images under several kinds of views: what probes read of the features, how far the classes"
        " lie apart, and how far a crop or a change of intensity moves the features, beside the"
        " network before training.",
    ),
    "augmentation_embeddings": (
        IMAGE_TABLES[1:],
        "Images under several kinds of views: how often units fire, by layer, and t-SNE of the"
        " features of the test images of the first seed.",
    ),
}


QUESTION = "What gives each feature its own neuron, and does better augmentation help a rare one?"


def build_outputs(section: Augmentation) -> StudyOutputs:
    """Return four tables of each study, three of each kind of image views, and figures.

    The tables of all studies are also concatenated.
    """
    stage, images = (
        "studies.augmentation.measure:measure_augmentation",
        "studies.augmentation.representations:measure_image_views",
    )
    views = section.images.studies()
    sizes = {"labels": section.labels, "tests": section.tests, "gradients": section.gradients}
    tables = {}
    for table in TABLES:
        for name, study in section.studies.items():
            sections = {name: study, **sizes} | (
                {"supervised": section.supervised} if section.like_supervised(name) else {}
            )
            tables[f"{name}.{table}"] = Table(
                schema(table),
                stage,
                sections,
                {"encoders": PRETRAIN},
                study=name,
                upstream=(SUPERVISE,),
                rule="measure_augmentation",
            )
    for table in IMAGE_TABLES:
        for name, study in views.items():
            files = {"images": IMAGE_DATA, "splits": IMAGE_SPLITS, "encoders": IMAGE_PRETRAIN}
            tables[f"{name}.{table}"] = Table(
                schema(table),
                images,
                {name: study, "embedded": section.images.embedded},
                files,
                study=name,
                rule="measure_image_views",
            )
    for names, studies in ((TABLES, section.studies), (IMAGE_TABLES, views)):
        tables |= {
            table: joined_table(schema(table), [f"{name}.{table}" for name in studies])
            for table in names
        }
    figures = FIGURES | {
        name: Figure(
            read, see, "studies.augmentation.image_figures", sections={"kinds": list(views)}
        )
        for name, (read, see) in IMAGE_FIGURES.items()
    }
    page = Page(
        "Augmentation and feature decoupling", ("augmentation_images",), tuple(figures), QUESTION
    )
    return StudyOutputs(tables, figures, {"augmentation": page})


def schema(table: str) -> str:
    """Return the place of the schema of a table."""
    return f"studies.augmentation.tables:{table.upper()}"


def claim_inputs(section: Augmentation) -> ClaimInputs:
    """Return the inputs of the claims about the predictions of Wen & Li."""
    return ClaimInputs(("augmentation",), {"augmentation": section})


KIND = StudyKind(
    "augmentation",
    "Augmentation and feature decoupling",
    Augmentation,
    build_outputs,
    Augmentation.every_study,
    (SUPERVISE,),
    inherit=inherit,
    claim_inputs=claim_inputs,
)
