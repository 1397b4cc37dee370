"""What gives each feature its own neuron, and does better augmentation help a rare one?

The dial of augmentations of Wen & Li 2021 on synthetic data (measure.py), their learner from labels
(supervised_baseline.py), and views of images (representations.py); tables.py says what is measured.
"""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    import pandas as pd

QUESTION = "What gives each feature its own neuron, and does better augmentation help a rare one?"
TITLE, PACKAGE = "Augmentation and feature decoupling", "studies.augmentation"
SUPERVISE = Stage(f"{PACKAGE}.supervised_baseline:supervise_encoders", Augmentation, ())
OF_SAMPLES = (
    "augmentation",
    "augmentation_course",
    "augmentation_neurons",
    "augmentation_embedding",
)
OF_IMAGES = ("augmentation_images", "augmentation_images_units", "augmentation_images_embedding")
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
        OF_IMAGES[:1],
        "Images under several kinds of views: what probes read of the features, how far the classes"
        " lie apart, and how far a crop or a change of intensity moves the features, beside the"
        " network before training.",
    ),
    "augmentation_embeddings": (
        OF_IMAGES[1:],
        "Images under several kinds of views: how often units fire, by layer, and t-SNE of the"
        " features of the test images of the first seed.",
    ),
}
PUBLISHED = (
    "growth_over_closed_form", "pull_features", "lucky_above_threshold_at_T1", "lucky_focus_at_T2",
    "share_features", "share_colour", "covered_features", "features_per_neuron", "noise_cosine",
    "bias_share", "likeness_to_supervised", "regression_error",
)  # fmt: skip


def means(table: "pd.DataFrame", *keys: str) -> "pd.DataFrame":
    """Return mean, interval within the metric's range, and n of the values, by group."""
    # Planning needs none of these.
    from rarefeat.figures.labels import quantity
    from rarefeat.studies.experiment import means_by

    found = means_by(table, [*keys, "metric"], ["value"]).drop(columns="quantity")
    low, high = ([quantity(name).range[end] for name in found["metric"]] for end in (0, 1))
    ends = {end: found[end].clip(low, high) for end in ("ci_low", "ci_high")}
    return found.assign(**ends)[found["n"] > 0].reset_index(drop=True)


def augmentation(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return what the page shows of each study: dense at equal frequencies, the most labels."""
    chosen = table["metric"].isin(PUBLISHED) & table["labels"].isin([0, table["labels"].max()])
    trained = (table["arm"] == "dense") & (table["encoder"] == "trained")
    equal = ~table["study"].str.startswith("imbalance")
    return means(table[chosen & trained & equal], "study")


def crossing(claims: "pd.DataFrame") -> "pd.DataFrame":
    """Return the claims about a rare feature under a mask, beside noise, and under pruning."""
    columns = ["claim_id", "study", "point", "estimate", "ci_low", "ci_high", "n", "verdict"]
    chosen = claims["claim_id"].isin(["crossing-mask", "crossing-pruning"])
    return claims.loc[chosen, columns].reset_index(drop=True)


def image_views(
    table: "pd.DataFrame", units: "pd.DataFrame", coloured: bool = False
) -> "pd.DataFrame":
    """Return means of metrics of grey images, and of the firing rates of the last block."""
    import pandas as pd

    last = units[units["layer"] == units.loc[units["layer"] != "stem", "layer"].max()]
    rates = last.groupby(["study", "network", "seed"])["firing_rate"].mean()
    of_colour = table.loc[table["metric"] == "colour_invariance", "study"].unique()
    rows = pd.concat([table, rates.reset_index(name="value").assign(metric="firing_rate")])
    return means(rows[rows["study"].isin(of_colour) == coloured], "study", "network")


def photograph_views(table: "pd.DataFrame", units: "pd.DataFrame") -> "pd.DataFrame":
    """Return the same of images with colour."""
    return image_views(table, units, coloured=True)


TABLES = {
    "augmentation": (("augmentation",), augmentation),
    "crossing": (("claims_wen_li_feature_decoupling",), crossing),
    "image_views": (OF_IMAGES[:2], image_views),
    "photograph_views": (OF_IMAGES[:2], photograph_views),
}


def tables_of(
    function: str, tables: tuple[str, ...], study: str, sections: dict[str, Any],
    files: dict[str, Stage], *upstream: Stage,
) -> dict[str, Table]:  # fmt: skip
    """Return the tables of one study that a function makes at once, by the rule of its name."""
    rule = function.partition(":")[2]
    options = {"study": study, "upstream": upstream, "rule": rule}
    return {
        f"{study}.{table}": Table(
            schema(table), f"{PACKAGE}.{function}", sections, files, **options
        )
        for table in tables
    }


def build_outputs(section: Augmentation) -> StudyOutputs:
    """Return tables of each study and each kind of image views, those of all, and the figures."""
    tables, views = {}, section.images.studies()
    sizes = {"labels": section.labels, "tests": section.tests, "gradients": section.gradients}
    encoders, function = {"encoders": PRETRAIN}, "measure:measure_augmentation"
    for name, study in section.studies.items():
        compared = {"supervised": section.supervised} if section.like_supervised(name) else {}
        sections = {name: study, **sizes, **compared}
        tables |= tables_of(function, OF_SAMPLES, name, sections, encoders, SUPERVISE)
    images = {"images": IMAGE_DATA, "splits": IMAGE_SPLITS, "encoders": IMAGE_PRETRAIN}
    for name, study in views.items():
        sections = {name: study, "embedded": section.images.embedded}
        function = "representations:measure_image_views"
        tables |= tables_of(function, OF_IMAGES, name, sections, images)
    for names, studies in ((OF_SAMPLES, section.studies), (OF_IMAGES, views)):
        for table in names:
            sources = [f"{name}.{table}" for name in studies]
            tables[table] = joined_table(schema(table), sources)
    kinds = {"kinds": list(views)}
    figures = FIGURES | {
        name: Figure(read, see, sections=kinds) for name, (read, see) in IMAGE_FIGURES.items()
    }
    page = Page(TITLE, OF_IMAGES[:1], tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"augmentation": page})


def schema(table: str) -> str:
    """Return where the schema of a table is."""
    return f"{PACKAGE}.tables:{table.upper()}"


KIND = StudyKind(
    "augmentation",
    TITLE,
    Augmentation,
    build_outputs,
    Augmentation.every_study,
    (SUPERVISE,),
    inherit=inherit,
    claim_inputs=lambda section: ClaimInputs(("augmentation",), {"augmentation": section}),
)
