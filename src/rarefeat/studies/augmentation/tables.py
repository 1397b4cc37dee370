"""Tables of the study of augmentation. The declaration is apart: measurements depend on this."""

from functools import partial

import pandera.pandas as pa

from rarefeat.stages.tables import KEYS, POINT, SEED
from rarefeat.workflow.files.schema import (
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

AUGMENTED = metric_descriptions(
    share_features="mean share of ||w_i||^2 in span(M)",
    share_colour="in the span of the colour nuisance",
    share_rest="elsewhere",
    bias_share="mean b_i / ||w_i||",
    norm="mean ||w_i||",
    T1="the step that ended stage 1",
    singletons="neurons with absolute cosine > 0.9 to a feature",
    covered_features="share of the features that have one",
    features_per_neuron="mean number of features with absolute cosine >= 1/sqrt(d)",
    minority_alignment="largest absolute cosine to the last feature",
    minority_singletons="neurons with absolute cosine > 0.9 to it",
    T2="the step at which a neuron has grown d-fold in norm^2 since T1",
    lucky_neurons="mean |M_j^*| at W(0)",
    ordinary_features="mean |N_i| at W(0)",
    shared_ordinary="largest |M_j n M_k| at W(0), over log d",
    lucky_above_threshold_at_T1="share of lucky neurons with |cos(w_i, M_j)| above sqrt(2 log d /"
    " d) at T1",
    others_below_threshold_at_T1="share of neurons outside M_j below it",
    few_strong_features_at_T1="share of neurons with at most d / 2^sqrt(log d) features of"
    " absolute cosine >= log^(1/4) d / sqrt(d)",
    outside_largest_at_T1="largest |cos| to a single direction outside span(M) over sqrt(log d /"
    " d1)",
    lucky_focus_at_T2="mean |cos(w_i, M_j)| of lucky neurons at T2",
    ordinary_over_lucky_at_T2="largest ratio of an ordinary neuron's projection to the best lucky"
    " one's",
    cross_talk="largest |<M_j, (I - 2 D) M_k>| over features and masks D, times sqrt(d1) / log d1",
    pull_features="E[h_i(x') <grad h_i(x), v>] over <w_i, v> p at W(0), without a bias, for v in"
    " span(M)",
    pull_rest="the same off span(M), over <w_i, v> sigma^2",
    likeness_to_supervised="mean over the supervised neurons, by squared norm, of the largest"
    " |cos| to a neuron",
    growth_over_closed_form="growth of the features in stage 1, while the logits are uniform, over"
    " its closed form, both less 1 - eta lambda",
    activity="Pr(h_i(x) != 0), mean over neurons",
    noise_cosine="mean cosine of f(x) and f(xi), xi the noise of x, where z is not 0",
    separation="variance of f(x) between the signed features of samples with one active feature,"
    " over all of it",
    noise_left="mean ||f(x) - f(Mz)|| over mean ||f(Mz)||, where z is not 0",
    silent_signals="share of the samples with z not 0 and f(Mz) = 0",
    regression_error="test MSE of a ridge head for <w*, z> over the variance of the label",
    classification_accuracy="test accuracy of a logistic head for its sign",
)
IMAGE_VIEWED = metric_descriptions(
    linear_accuracy="test accuracy of the linear probe fitted on the pretraining images",
    knn_accuracy="test accuracy by neighbours among them",
    separation="variance of the features between the classes of the test images, over all of it",
    crop_invariance="mean cosine of the features of a test image and of a crop of it, less the"
    " mean feature of all",
    intensity_invariance="the same for a change of brightness and contrast",
    colour_invariance="the same for a change of saturation and hue, and for one image in five made"
    " grey; of images with colour alone",
)


def one_of(values, meaning: str) -> pa.Column:
    """Declare a column of texts, one of some."""
    return column(str, pa.Check.isin(values), "", meaning)


text = partial(column, str, None, "")
index = partial(column, "int64", at_least(0), "")
number = partial(column, float, None)
share = partial(column, float, pa.Check.in_range(0, 1), "1")

STUDY = {"study": text("study of the section `augmentation`")}
REPLICA = STUDY | KEYS | SEED
VIEWS = {
    "study": text("views_KIND, KIND of augmentation.images.kinds"),
    "network": one_of(["trained", "initial"], "after or before its training"),
}

AUGMENTATION = schema(
    "augmentation",
    "a row per (study, eps_min, sigma, arm with its keys, seed, encoder, labels, metric) of the"
    " study of augmentation",
    REPLICA
    | {
        "encoder": one_of(
            ["trained", "supervised", "raw", "oracle"],
            "raw: the input itself; oracle: M^T with a bias, E.10",
        ),
        "labels": column(
            "int64", at_least(0), "labels", "labels of the linear head; 0 for what needs none"
        ),
        "metric": one_of(AUGMENTED, format_descriptions(AUGMENTED)),
        "value": number("of the metric", "null where the replica has no such thing", nullable=True),
    },
    [*REPLICA, "encoder", "labels", "metric"],
)
AUGMENTATION_COURSE = schema(
    "augmentation_course",
    "the same by step, of the trained encoders",
    REPLICA
    | {
        "step": column("int64", at_least(0), "steps", "training step t"),
        "metric": text("share_features, share_colour, share_rest, bias_share or norm"),
        "value": number("of the metric", "value of the metric"),
    },
    [*REPLICA, "step", "metric"],
)
AUGMENTATION_NEURONS = schema(
    "augmentation_neurons",
    "a row per (study, point, arm, seed, encoder, neuron)",
    REPLICA
    | {
        "encoder": one_of(["trained", "supervised"], "whose neuron it is"),
        "neuron": index("index of the neuron"),
        "activity": share("Pr(h_i(x) != 0) over the test samples"),
    },
    [*REPLICA, "encoder", "neuron"],
)
AUGMENTATION_EMBEDDING = schema(
    "augmentation_embedding",
    "a row per (study, point, encoder, test sample)",
    STUDY
    | POINT
    | {
        "encoder": one_of(["trained", "supervised"], "whose f it is"),
        "sample": index("test sample with one active feature, of the first seed and the dense arm"),
        "feature": index("its feature"),
        "x": number("1", "first principal component of f(x), in units of its standard deviation"),
        "y": number("1", "the second"),
    },
    ["study", *POINT, "encoder", "sample"],
)
AUGMENTATION_IMAGES = schema(
    "augmentation_images",
    "a row per (kind of views, network, seed, metric) on images",
    VIEWS
    | SEED
    | {
        "metric": one_of(IMAGE_VIEWED, format_descriptions(IMAGE_VIEWED)),
        "value": number("1", "value of the metric"),
    },
    [*VIEWS, "seed", "metric"],
)
AUGMENTATION_IMAGES_UNITS = schema(
    "augmentation_images_units",
    "a row per (kind of views, network, seed, layer, channel) on images",
    VIEWS
    | SEED
    | {
        "layer": text("stem, or a block by its number"),
        "unit": index("channel"),
        "firing_rate": share("share of test images and places where it is above 0"),
    },
    [*VIEWS, "seed", "layer", "unit"],
)
AUGMENTATION_IMAGES_EMBEDDING = schema(
    "augmentation_images_embedding",
    "a row per (kind of views, test image)",
    {
        "study": VIEWS["study"],
        "image": index("test image; the trained network is that of the first seed"),
        "label": index("its label"),
        "x": number("1", "first coordinate of t-SNE on the features"),
        "y": number("1", "the second"),
    },
    ["study", "image"],
)
OF_SAMPLES = (
    AUGMENTATION, AUGMENTATION_COURSE, AUGMENTATION_NEURONS, AUGMENTATION_EMBEDDING,
)  # fmt: skip
OF_IMAGES = AUGMENTATION_IMAGES, AUGMENTATION_IMAGES_UNITS, AUGMENTATION_IMAGES_EMBEDDING
