"""What gives each feature its own neuron, and does better augmentation help a rare one?

The dial of augmentations of Wen & Li 2021 on synthetic data, beside their learner from labels
(measure.py), and views of images (representations.py).
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from rarefeat.studies.augmentation.config import Augmentation, inherit
from rarefeat.studies.experiment import (
    ARM,
    POINT,
    SEED,
    SHARE,
    SIZE,
    TableColumns,
    column,
    meanings,
    means_of,
    text,
)
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
SUPERVISE = Stage(f"{PACKAGE}.measure:supervise_encoders", Augmentation, ())
AUGMENTED = {
    "share_features": "mean share of ||w_i||^2 in span(M)",
    "share_colour": "in the span of the colour nuisance",
    "share_rest": "elsewhere",
    "bias_share": "mean b_i / ||w_i||",
    "norm": "mean ||w_i||",
    "T1": "the step that ended stage 1",
    "singletons": "neurons with absolute cosine > 0.9 to a feature",
    "covered_features": "share of the features that have one",
    "features_per_neuron": "mean number of features with absolute cosine >= 1/sqrt(d)",
    "minority_alignment": "largest absolute cosine to the last feature",
    "minority_singletons": "neurons with absolute cosine > 0.9 to it",
    "T2": "the step at which a neuron has grown d-fold in norm^2 since T1",
    "lucky_neurons": "mean |M_j^*| at W(0)",
    "ordinary_features": "mean |N_i| at W(0)",
    "shared_ordinary": "largest |M_j n M_k| at W(0), over log d",
    "lucky_above_threshold_at_T1": "share of lucky neurons with |cos(w_i, M_j)| above sqrt(2 log d /"
    " d) at T1",
    "others_below_threshold_at_T1": "share of neurons outside M_j below it",
    "few_strong_features_at_T1": "share of neurons with at most d / 2^sqrt(log d) features of"
    " absolute cosine >= log^(1/4) d / sqrt(d)",
    "outside_largest_at_T1": "largest |cos| to a single direction outside span(M) over sqrt(log d /"
    " d1)",
    "lucky_focus_at_T2": "mean |cos(w_i, M_j)| of lucky neurons at T2",
    "ordinary_over_lucky_at_T2": "largest ratio of an ordinary neuron's projection to the best lucky"
    " one's",
    "cross_talk": "largest |<M_j, (I - 2 D) M_k>| over features and masks D, times sqrt(d1) / log d1",
    "pull_features": "E[h_i(x') <grad h_i(x), v>] over <w_i, v> p at W(0), without a bias, for v in"
    " span(M)",
    "pull_rest": "the same off span(M), over <w_i, v> sigma^2",
    "likeness_to_supervised": "mean over the supervised neurons, by squared norm, of the largest"
    " |cos| to a neuron",
    "growth_over_closed_form": "growth of the features in stage 1, while the logits are uniform, over"
    " its closed form, both less 1 - eta lambda",
    "activity": "Pr(h_i(x) != 0), mean over neurons",
    "noise_cosine": "mean cosine of f(x) and f(xi), xi the noise of x, where z is not 0",
    "separation": "variance of f(x) between the signed features of samples with one active feature,"
    " over all of it",
    "noise_left": "mean ||f(x) - f(Mz)|| over mean ||f(Mz)||, where z is not 0",
    "silent_signals": "share of the samples with z not 0 and f(Mz) = 0",
    "regression_error": "test MSE of a ridge head for <w*, z> over the variance of the label",
    "classification_accuracy": "test accuracy of a logistic head for its sign",
}
IMAGE_VIEWED = {
    "linear_accuracy": "test accuracy of the linear probe fitted on the pretraining images",
    "knn_accuracy": "test accuracy by neighbours among them",
    "separation": "variance of the features between the classes of the test images, over all of it",
    "crop_invariance": "mean cosine of the features of a test image and of a crop of it, less the"
    " mean feature of all",
    "intensity_invariance": "the same for a change of brightness and contrast",
    "colour_invariance": "the same for a change of saturation and hue, and for one image in five made"
    " grey; of images with colour alone",
}

index = partial(column, bounds=SIZE, unit="", kind=int)
STUDY_COLUMN = {"study": text("study of the section `augmentation`")}
REPLICA = {**STUDY_COLUMN, **POINT, **ARM, "seed": SEED}
VIEWS = {
    "study": text("views_KIND, KIND of augmentation.images.kinds"),
    "network": text("trained or initial: after or before its training"),
}
AUGMENTATION = TableColumns(
    "augmentation",
    "a row per (study, eps_min, sigma, arm with its keys, seed, encoder, labels, metric) of the"
    " study of augmentation",
    {
        **REPLICA,
        "encoder": text(
            "trained, supervised; raw: the input itself; oracle: M^T with a bias, E.10"
        ),
        "labels": column(
            "labels of the linear head; 0 for what needs none", SIZE, "labels", kind=int
        ),
        "metric": text(meanings(AUGMENTED)),
        "value": column(
            "null where the replica has no such thing", unit="of the metric", missing=True
        ),
    },
    [*REPLICA, "encoder", "labels", "metric"],
)
AUGMENTATION_NEURONS = TableColumns(
    "augmentation_neurons",
    "a row per (study, point, arm, seed, encoder, neuron)",
    {
        **REPLICA,
        "encoder": text("whose neuron it is: trained or supervised"),
        "neuron": index("index of the neuron"),
        "activity": column("Pr(h_i(x) != 0) over the test samples", SHARE),
    },
    [*REPLICA, "encoder", "neuron"],
)
AUGMENTATION_IMAGES = TableColumns(
    "augmentation_images",
    "a row per (kind of views, network, seed, metric) on images",
    {
        **VIEWS,
        "seed": SEED,
        "metric": text(meanings(IMAGE_VIEWED)),
        "value": column("value of the metric"),
    },
    [*VIEWS, "seed", "metric"],
)
AUGMENTATION_IMAGES_UNITS = TableColumns(
    "augmentation_images_units",
    "a row per (kind of views, network, seed, layer, channel) on images",
    {
        **VIEWS,
        "seed": SEED,
        "layer": text("stem, or a block by its number"),
        "unit": index("channel"),
        "firing_rate": column("share of test images and places where it is above 0", SHARE),
    },
    [*VIEWS, "seed", "layer", "unit"],
)
AUGMENTATION_IMAGES_EMBEDDING = TableColumns(
    "augmentation_images_embedding",
    "a row per (kind of views, test image)",
    {
        "study": VIEWS["study"],
        "image": index("test image; the trained network is that of the first seed"),
        "label": index("its label"),
        "x": column("first coordinate of t-SNE on the features"),
        "y": column("the second"),
    },
    ["study", "image"],
)
OF_SAMPLES = AUGMENTATION, AUGMENTATION_NEURONS
OF_IMAGES = AUGMENTATION_IMAGES, AUGMENTATION_IMAGES_UNITS, AUGMENTATION_IMAGES_EMBEDDING
FIGURES = {
    "augmentation_dial": (
        ("augmentation",),
        "The share of the features with a neuron of their own after training, with a bias and"
        " without, for the kinds of positive pair that have both. See what the bias alone does.",
    ),
    "augmentation_representations": (
        ("augmentation_neurons",),
        "How often neurons fire after training on identical views, without a bias and with one,"
        " beside the same neurons trained on labels. See whether neurons are sparse.",
    ),
    "augmentation_images": (
        ("augmentation_images",),
        "Images under several kinds of views: how often a linear probe of the features is right,"
        " beside the network before training.",
    ),
    "augmentation_embeddings": (
        ("augmentation_images_units", "augmentation_images_embedding"),
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
    # Planning does not need it.
    from rarefeat.figures.labels import quantity

    found = means_of(table, [*keys, "metric"], inside=lambda name: quantity(name).range)
    return found[found["n"] > 0].drop(columns="sd").reset_index(drop=True)


def augmentation(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return what the page shows of each study: dense at equal frequencies, the most labels."""
    chosen = table["metric"].isin(PUBLISHED) & table["labels"].isin([0, table["labels"].max()])
    trained = (table["arm"] == "dense") & (table["encoder"] == "trained")
    equal = ~table["study"].str.startswith("imbalance")
    return means(table[chosen & trained & equal], "study")


def tables_of(
    function: str, kinds: tuple[TableColumns, ...], study: str, sections: dict[str, Any],
    files: dict[str, Stage], *upstream: Stage,
) -> dict[str, Table]:  # fmt: skip
    """Return the tables of one study that a function makes at once, by the rule of its name."""
    options = {"study": study, "upstream": upstream, "rule": function.partition(":")[2]}
    return {
        f"{study}.{kind.name}": Table(
            schema(kind), f"{PACKAGE}.{function}", sections, files, **options
        )
        for kind in kinds
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
    for kinds, studies in ((OF_SAMPLES, section.studies), (OF_IMAGES, views)):
        for kind in kinds:
            sources = [f"{name}.{kind.name}" for name in studies]
            tables[kind.name] = joined_table(schema(kind), sources)
    found = {name: study.data.views for name, study in section.studies.items()}
    pairs = {name: [views.mask, views.rho] for name, views in found.items()}
    settings = {"kinds": list(views), "pairs": pairs}
    figures = {name: Figure(read, see, sections=settings) for name, (read, see) in FIGURES.items()}
    page = Page(TITLE, ("augmentation_images",), tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"augmentation": page})


def schema(kind: TableColumns) -> str:
    """Return where the schema of a table is."""
    return f"{PACKAGE}:{kind.name.upper()}.schema"


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
