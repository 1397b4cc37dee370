"""Does pruning improve what networks learn from long-tailed images, as Table 2 of the paper says?

images/ trains and probes each arm; aggregate.py makes tables of it. docs/build/staged_protocol.py
runs the photographs in stages, by rules written beforehand.
"""

from functools import partial
from typing import Any

from pydantic import Field

from rarefeat.studies.experiment import SEED, SHARE, SIZE, TableColumns, column, meanings, text
from rarefeat.workflow.config.images import ImageStudy
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Section
from rarefeat.workflow.config.study import inherit_defaults
from rarefeat.workflow.study_kind import (
    IMAGE_PRETRAIN,
    IMAGE_PROBE,
    ClaimInputs,
    Figure,
    Page,
    StudyKind,
    StudyOutputs,
    Table,
    joined_table,
)

TITLE, PACKAGE = "Long-tailed images", "studies.long_tail"
QUESTION = (
    "Does pruning improve what networks learn from long-tailed images, as Table 2 of the paper"
    " says?"
)
SEE = (
    "Long-tailed images: what each mask gains over the dense arm at the same seed, in accuracy of a"
    " linear probe on balanced images over the most frequent third of the classes and over the"
    " rarest. See whether an interval leaves the line of zero. Last, if it was trained, dense on as"
    " many images in equal classes: what there was to gain."
)


class LongTail(Section):
    """Table 2: contrastive pretraining on long-tailed images, without and with pruning."""

    studies: dict[Name, ImageStudy] = Field(min_length=1, description="each one data set, by name")


def inherit(raw: Any, shared: dict) -> Any:
    """Return the section whose studies have what image studies share."""
    if not isinstance(raw, dict) or not isinstance(raw.get("studies"), dict):
        return raw
    return raw | {"studies": inherit_defaults(shared.get("images") or {}, raw["studies"])}


PROBES = {
    "balanced": "linear probe on every training image",
    "balanced_sgd": "the same by the reference implementations' SGD, where the config asks for it",
    "long_tailed": "linear probe on the pretraining images",
    "few_shot": "linear probe on a few images per class",
    "knn": "nearest neighbours among the pretraining images",
}
GROUPS = {
    "accuracy": "mean accuracy of the classes",
    "delta_20": "accuracy of the 20 % most frequent classes less that of the 20 % rarest",
    "many": "accuracy of the most frequent third of the classes, with the remainder",
    "medium": "of the middle third",
    "few": "of the rarest third",
    "group_std": "standard deviation over these three groups",
}
RANGES = {"delta_20": {"ge": -1, "le": 1}, "group_std": {"ge": 0, "le": 0.5}}
AT_LEAST_1 = {"ge": 1}

count = partial(column, kind=int)
ARM = {
    "arm": text(
        "dense, pruned, self_damaging or resampled: what was trained (docs/method/images.md)"
    ),
    "alpha": column("share of the convolutions' weights that is masked", SIZE),
    "pruned_update": text("update under the mask, for `pruned`: unmasked or straight_through"),
    "threshold": text(
        "global, per_layer: magnitudes ranked together or by layer; random: as many of each layer"
        " as global, whatever their magnitude"
    ),
}
IMAGE_KEYS = {
    "dataset": text("image study, as named in the config"),
    "rho": column(
        "images of the largest class over those of the smallest",
        AT_LEAST_1,
        source="imbalance_and_pruning, section 4",
    ),
    "split": text("long_tailed, or balanced: as many images in equal classes"),
    "width": count("of the network's first stage", AT_LEAST_1, "channels"),
} | ARM
REPLICA = IMAGE_KEYS | {"seed": SEED}
VALUES = {
    f"{probe}_{metric}": column(f"{words}: {what}", RANGES.get(metric, SHARE), missing=True)
    for probe, words in PROBES.items()
    for metric, what in GROUPS.items()
}
MEANS = dict.fromkeys(("ci_low", "ci_high", "n"), "stages.tables:INTERVAL") | dict.fromkeys(
    ("paired_difference", "paired_ci_low", "paired_ci_high"), "stages.tables:PAIRED"
)


LONGTAIL = TableColumns(
    "longtail",
    "a row per (dataset, rho, split, width, arm with its keys, seed) of the image studies",
    REPLICA
    | {
        "images": count("pretraining images", {"ge": 2}, "images"),
        "epochs": count("passes over them", AT_LEAST_1, "epochs"),
        "effective_rank": column(
            "exp of the entropy of the shares of the singular values of the test images' centred"
            " features",
            AT_LEAST_1,
            source="Roy & Vetterli 2007; Garrido et al. 2023",
        ),
    }
    | VALUES,
    list(REPLICA),
)
LONGTAIL_CLASSES = TableColumns(
    "longtail_classes",
    "a row per (row of longtail, probe, class)",
    REPLICA
    | {
        "probe": text(meanings(PROBES)),
        "class": count("label", SIZE, ""),
        "rank": count(
            "its place in the order of decreasing counts of the long-tailed list", SIZE, ""
        ),
        "count": count("its pretraining images", SIZE, "images"),
        "accuracy": column("share of its test images that the probe gets right", SHARE),
    },
    [*REPLICA, "probe", "class"],
)
LONGTAIL_SUMMARY = TableColumns(
    "longtail_summary",
    "a row per (dataset, rho, split, width, arm with its keys, probe, metric)",
    IMAGE_KEYS
    | {
        "probe": text("as in longtail_classes"),
        "metric": text("as in longtail"),
        "mean": column("mean over seeds"),
        "sd": column("standard deviation over seeds", missing=True),
    }
    | MEANS,
    [*IMAGE_KEYS, "probe", "metric"],
)
LONGTAIL_TRAJECTORIES = TableColumns(
    "longtail_trajectories",
    "a row per (row of longtail, epoch, metric)",
    REPLICA
    | {
        "epoch": count("passes done", AT_LEAST_1, "epochs"),
        "metric": text(
            "loss: what the arm descends, of the epoch's last batch; learning_rate; alignment and"
            " uniformity (Wang & Isola 2020) of its projections under the dense weights; of the"
            " test images knn_accuracy by 5 neighbours among the pretraining images,"
            " few_shot_accuracy by a linear probe on a few images of each class, and"
            " effective_rank as in longtail"
        ),
        "value": column("value of the metric", unit="of the metric"),
    },
    [*REPLICA, "epoch", "metric"],
)


def tables_of(name: str, study: ImageStudy) -> dict[str, Table]:
    """Return the tables of one data set, by name."""
    of_study = {name: study}
    made_of: dict[str, dict[str, Any]] = {
        "longtail_classes": {"sections": of_study, "files": {"probes": IMAGE_PROBE}},
        "longtail_trajectories": {"sections": of_study, "files": {"trajectories": IMAGE_PRETRAIN}},
        "longtail": {
            "sections": of_study,
            "tables": (f"{name}.longtail_classes", f"{name}.longtail_trajectories"),
        },
        "longtail_summary": {"tables": (f"{name}.longtail",)},
    }
    return {
        f"{name}.{table}": Table(
            schema(table), f"{PACKAGE}.aggregate:{table}", study=name, **sources
        )
        for table, sources in made_of.items()
    }


def build_outputs(section: LongTail) -> StudyOutputs:
    """Return the tables, the figure and the page of each study, and the tables of all of them."""
    tables, figures, pages = {}, {}, {}
    for name, study in section.studies.items():
        tables |= tables_of(name, study)
        summary, figure = (f"{name}.longtail_summary",), f"longtail_{name}"
        if any(arm.arm != "dense" for arm in study.arms):
            figures[figure] = Figure(summary, SEE, function="longtail")
        drawn = (figure,) if figure in figures else ()
        pages[f"long_tail_{name}"] = Page(f"{TITLE}: {name}", summary, drawn, QUESTION)
    for table in ("longtail", "longtail_classes", "longtail_summary", "longtail_trajectories"):
        tables[table] = joined_table(schema(table), [f"{name}.{table}" for name in section.studies])
    pages["long_tail"] = Page(TITLE, ("longtail_summary",), tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, pages)


def schema(table: str) -> str:
    """Return where the schema of a table is."""
    return f"{PACKAGE}:{table.upper()}.schema"


KIND = StudyKind(
    "long_tail",
    TITLE,
    LongTail,
    build_outputs,
    inherit=inherit,
    claim_inputs=lambda section: ClaimInputs(
        ("longtail",), function=f"{PACKAGE}.aggregate:measure"
    ),
)
