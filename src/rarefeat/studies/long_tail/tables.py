"""Tables of the study of long-tailed images."""

import pandera.pandas as pa

from rarefeat.stages.tables import CORE, INTERVAL, PAIRED, SEED
from rarefeat.workflow.files.schema import (
    SHARE,
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

IMAGE_ARM = {
    "arm": column(
        str,
        pa.Check.isin(["dense", "pruned", "self_damaging", "resampled"]),
        unit="",
        description="what was trained (docs/method/images.md)",
    ),
    "alpha": column(
        float,
        at_least(0),
        unit="1",
        description="share of the convolutions' weights that is masked",
    ),
    "pruned_update": column(
        str,
        pa.Check.isin(["unmasked", "straight_through"]),
        unit="",
        description="update under the mask, for `pruned`",
    ),
    "threshold": column(
        str,
        pa.Check.isin(["global", "per_layer", "random"]),
        unit="",
        description="magnitudes ranked together or by layer; random: as many of each layer as"
        " global, whatever their magnitude",
    ),
}

IMAGE_KEYS = {
    "dataset": column(str, None, unit="", description="image study, as named in the config"),
    "rho": column(
        float,
        at_least(1),
        unit="1",
        description="images of the largest class over those of the smallest",
        source=f"{CORE}, section 4",
    ),
    "split": column(
        str,
        pa.Check.isin(["long_tailed", "balanced"]),
        unit="",
        description="long-tailed, or as many images in equal classes",
    ),
    "width": column(
        "int64", at_least(1), unit="channels", description="of the network's first stage"
    ),
} | IMAGE_ARM

PROBES = metric_descriptions(
    balanced="linear probe on every training image",
    balanced_sgd="the same by the reference implementations' SGD, where the config asks for it",
    long_tailed="linear probe on the pretraining images",
    few_shot="linear probe on a few images per class",
    knn="nearest neighbours among the pretraining images",
)

RECORDED = (
    "loss", "learning_rate", "alignment", "uniformity", "knn_accuracy", "few_shot_accuracy",
    "effective_rank",
)  # fmt: skip

GROUPS = metric_descriptions(
    accuracy="mean accuracy of the classes",
    delta_20="accuracy of the 20 % most frequent classes less that of the 20 % rarest",
    many="accuracy of the most frequent third of the classes, with the remainder",
    medium="of the middle third",
    few="of the rarest third",
    group_std="standard deviation over these three groups",
)

RANGES = {"delta_20": pa.Check.in_range(-1, 1), "group_std": pa.Check.in_range(0, 0.5)}
VALUES = {
    f"{probe}_{metric}": column(
        float, RANGES.get(metric, SHARE), unit="1", description=f"{text}: {words}", nullable=True
    )
    for probe, text in PROBES.items()
    for metric, words in GROUPS.items()
}

LONGTAIL = schema(
    "longtail",
    "a row per (dataset, rho, split, width, arm with its keys, seed) of the image studies",
    IMAGE_KEYS
    | SEED
    | {
        "images": column("int64", at_least(2), unit="images", description="pretraining images"),
        "epochs": column("int64", at_least(1), unit="epochs", description="passes over them"),
        "effective_rank": column(
            float,
            at_least(1),
            unit="1",
            description="exp of the entropy of the shares of the singular values of the test"
            " images' centred features",
            source="Roy & Vetterli 2007; Garrido et al. 2023",
        ),
    }
    | VALUES,
    unique=[*IMAGE_KEYS, "seed"],
)

LONGTAIL_CLASSES = schema(
    "longtail_classes",
    "a row per (row of longtail, probe, class)",
    IMAGE_KEYS
    | SEED
    | {
        "probe": column(
            str, pa.Check.isin(PROBES), unit="", description=format_descriptions(PROBES)
        ),
        "class": column("int64", at_least(0), unit="", description="label"),
        "rank": column(
            "int64",
            at_least(0),
            unit="",
            description="its place in the order of decreasing counts of the long-tailed list",
        ),
        "count": column("int64", at_least(0), unit="images", description="its pretraining images"),
        "accuracy": column(
            float,
            pa.Check.in_range(0, 1),
            unit="1",
            description="share of its test images that the probe gets right",
        ),
    },
    unique=[*IMAGE_KEYS, "seed", "probe", "class"],
)

LONGTAIL_SUMMARY = schema(
    "longtail_summary",
    "a row per (dataset, rho, split, width, arm with its keys, probe, metric)",
    IMAGE_KEYS
    | {
        "probe": column(str, pa.Check.isin(PROBES), unit="", description="as in longtail_classes"),
        "metric": column(str, pa.Check.isin(GROUPS), unit="", description="as in longtail"),
        "mean": column(float, None, unit="1", description="mean over seeds"),
        "sd": column(
            float, None, unit="1", description="standard deviation over seeds", nullable=True
        ),
    }
    | INTERVAL
    | PAIRED,
    unique=[*IMAGE_KEYS, "probe", "metric"],
)

LONGTAIL_TRAJECTORIES = schema(
    "longtail_trajectories",
    "a row per (row of longtail, epoch, metric)",
    IMAGE_KEYS
    | SEED
    | {
        "epoch": column("int64", at_least(1), unit="epochs", description="passes done"),
        "metric": column(
            str,
            pa.Check.isin(RECORDED),
            unit="",
            description="loss: what the arm descends, of the epoch's last batch; alignment and"
            " uniformity (Wang & Isola 2020) of its"
            " projections under the dense weights; of the test images knn_accuracy by 5 neighbours"
            " among the pretraining images, few_shot_accuracy by a linear probe on a few images of"
            " each class, and effective_rank as in longtail",
        ),
        "value": column(float, None, unit="of the metric", description="value of the metric"),
    },
    unique=[*IMAGE_KEYS, "seed", "epoch", "metric"],
)
