"""Contents of the files of the studies of images."""

from file_schemas import FileEntry, FileSchema

TITLE = "Studies of images"
AXES = {
    "N, N'": "training and test images",
    "H, W": "their height and width in pixels",
    "C": "classes, numbered 0 to C - 1 in the order of their labels",
    "n": "images of a list",
    "E": "recorded epochs so far",
}
SPLIT = "rho={rho}/split={split}"
CELL = f"{SPLIT}/arm={{arm}}"
SEED = FileEntry("seed", "int64", "replica")
EPOCH, METRIC, VALUE = (
    FileEntry("epoch", "int64", "epochs that are done"),
    FileEntry(
        "metric",
        "string",
        "loss, learning_rate, alignment, uniformity, knn_accuracy, few_shot_accuracy or"
        " effective_rank",
    ),
    FileEntry("value", "float64", "of the metric"),
)

IMAGES = FileSchema(
    "images/{study}.safetensors",
    "images.datasets",
    "The images of a data set.",
    (
        FileEntry("train", "uint8", "training images, RGB", ("N", "3", "H", "W")),
        FileEntry("train_labels", "int64", "their classes", ("N",)),
        FileEntry("test", "uint8", "test images", ("N'", "3", "H", "W")),
        FileEntry("test_labels", "int64", "their classes", ("N'",)),
        FileEntry(
            "listed",
            "int64",
            "how many of the last training images are those of data.pretrain_list",
            (),
        ),
    ),
)
SPLITS = FileSchema(
    f"splits/{{study}}/{SPLIT}/seeds={{block}}.safetensors",
    "images.splits",
    "Which training images each replica sees: lists are sorted indices into `train`.",
    (
        FileEntry("{seed}/pool", "int64", "images that anything is drawn from", ("n",)),
        FileEntry("{seed}/pretrain", "int64", "the list that is pretrained on", ("n",)),
        FileEntry("{seed}/few_shot", "int64", "the list of the few-shot probe", ("n",)),
        FileEntry(
            "{seed}/class_order",
            "int64",
            "classes by decreasing count in the long-tailed list",
            ("C",),
        ),
        FileEntry(
            "{seed}/counts",
            "int64",
            "images of each class in the list that is pretrained on",
            ("C",),
        ),
    ),
)
ENCODERS = FileSchema(
    f"encoders/{{study}}/{CELL}/seeds={{block}}.safetensors",
    "images.pretrain",
    "The state of the network (`images/network.py`) of each replica, by PyTorch's names, with its"
    " dense weights and the statistics of its batch norms over the images that it was pretrained"
    " on.",
    (
        FileEntry(
            "{seed}/{norm}.num_batches_tracked",
            "int64",
            "batches that the statistics of a batch norm were taken over",
            (),
        ),
        FileEntry(
            "{seed}/{weight}",
            "float32",
            "a weight, or a running mean or variance, in the shape that PyTorch gives it",
            None,
        ),
    ),
)
COURSES = FileSchema(
    f"trajectories/{{study}}/{CELL}/seeds={{block}}.parquet",
    "images.pretrain",
    "A row for each seed, recorded epoch and metric.",
    (SEED, EPOCH, METRIC, VALUE),
)
PROBES = FileSchema(
    f"probes/{{study}}/{CELL}/seeds={{block}}.parquet",
    "images.probe",
    "A row for each seed, probe and class.",
    (
        SEED,
        FileEntry("probe", "string", "balanced, balanced_sgd, long_tailed, few_shot or knn"),
        FileEntry("class", "int64", "0 to C - 1"),
        FileEntry(
            "rank", "int64", "of the class by its count in the long-tailed list, 0 for the largest"
        ),
        FileEntry("count", "int64", "images of the class that were pretrained on"),
        FileEntry("accuracy", "float64", "on the test images of the class"),
    ),
)
CHECKPOINTS = FileSchema(
    f"checkpoints/{{study}}/{CELL}/seeds={{block}}.seed={{seed}}.safetensors",
    "images.pretrain",
    "What an interrupted training of one replica goes on from; deleted once it is done.",
    (
        FileEntry(
            "identity",
            "uint8",
            "SHA-256 of config, every image and label, and code; another one is refused",
            ("32",),
        ),
        FileEntry("step", "int64", "the next step", ()),
        FileEntry(
            "records",
            "float64",
            "epoch, then the seven metrics of the course in their order",
            ("E", "8"),
        ),
        FileEntry(
            "weight/{weight}",
            "float32",
            "a trained weight, in the shape that PyTorch gives it",
            None,
        ),
        FileEntry("momentum/{weight}", "float32", "its momentum", None),
        FileEntry(
            "mask/{weight}",
            "bool",
            "what is pruned of it in this epoch; for the arms with a mask",
            None,
        ),
    ),
)
RECORDS = FileSchema(
    f"checkpoints/{{study}}/{CELL}/seeds={{block}}.seed={{seed}}.csv",
    "images.pretrain",
    "The records of a training that goes on, to look at; deleted with its checkpoint.",
    (EPOCH, METRIC, VALUE),
)
FILES = (IMAGES, SPLITS, ENCODERS, COURSES, PROBES, CHECKPOINTS, RECORDS)
