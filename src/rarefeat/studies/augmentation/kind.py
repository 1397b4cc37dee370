"""What the study of augmentation makes."""

from rarefeat.kind import TRAINED, Browsed, Claimed, Figure, Kind, Made, Table, joined
from rarefeat.studies.augmentation.config import Augmentation, inherit

TABLES = ("augmentation", "augmentation_course", "augmentation_neurons", "augmentation_embedding")
IMAGE_TABLES = ("augmentation_images", "augmentation_images_units", "augmentation_images_embedding")
IMAGES = ("images.datasets", "images.splits", "images.pretrain")
SEE = {
    "augmentation_stages": (
        "Over training: the share of the weights that lies in the features, and in a dense nuisance, by kind of positive pair; a learned"
        " bias; and the error of linear heads on the final encoders against the number of labels, beside a head on the input and the"
        " oracle. See which pairs make the encoder keep features, and which the nuisance."
    ),
    "augmentation_dial": (
        "The end of training from pairs that share nothing but the features, above, to identical views, below: neurons with one feature,"
        " coverage, activity, and what is left of the noise. The dashed line is the oracle. See whether the order of the rows is that of"
        " the quantity, and what the bias alone does: the last two rows differ in nothing else."
    ),
    "augmentation_representations": (
        "How often neurons fire, and how the embeddings of samples with one feature lie to each other; beside the same neurons trained on"
        " labels. See whether neurons are sparse and samples of one feature lie together."
    ),
    "augmentation_imbalance": (
        "The best alignment of any neuron with a rare feature against its frequency, by arm, under a random mask and under noise of its"
        " own, with a bias and without. See whether a better augmentation saves the rare feature, and whether pruning adds to it."
    ),
}
SEE_IMAGES = (
    "The digits under three kinds of views: none, crops, and crops with a change of intensity. Above: how often units fire, by layer."
    " Middle: t-SNE of the features of the test images. Below: what probes read, how far the classes lie apart, and how far a crop or a"
    " change of intensity moves the features, beside the network before training."
)


def made(section: Augmentation) -> Made:
    """Four tables of each study and three of each kind of views of images; then all of them in one."""
    stage, through = "studies.augmentation.measure", (*TRAINED, "studies.augmentation.supervise")
    images, views = "studies.augmentation.representations", section.images.studies()
    sizes = {"labels": section.labels, "tests": section.tests, "gradients": section.gradients}
    tables = {}
    for table in TABLES:
        for name, study in section.studies.items():
            parts = {name: study, **sizes} | ({"supervised": section.supervised} if section.like_supervised(name) else {})
            tables[f"{name}.{table}"] = Table(schema(table), stage, parts, through, study=name)
        tables[table] = joined(schema(table), (f"{name}.{table}" for name in section.studies))
    for table in IMAGE_TABLES:
        for name, study in views.items():
            tables[f"{name}.{table}"] = Table(schema(table), images, {name: study}, IMAGES, study=name)
        tables[table] = joined(schema(table), (f"{name}.{table}" for name in views))
    figures = {name: Figure(TABLES, text) for name, text in SEE.items()}
    figures["augmentation_images"] = Figure(
        IMAGE_TABLES, SEE_IMAGES, "studies.augmentation.representations_figure", parts={"kinds": list(views)}
    )
    about = "Features of images by kind of augmentation, replica by replica"
    return Made(tables, figures, browsed={"image_views_tables": Browsed(about, ("augmentation_images",))})


def schema(table: str) -> str:
    """Where its schema stands."""
    return f"studies.augmentation.tables:{table.upper()}"


def claimed(section: Augmentation) -> Claimed:
    """What Wen & Li predict."""
    return Claimed("wen_li_feature_decoupling", ("feature decoupling",), ("augmentation",), {"augmentation": section})


KIND = Kind(
    "augmentation", "Augmentation and feature decoupling", Augmentation, made, Augmentation.every_study, inherit, claimed
)
