"""What the files of the image studies hold. No stage reads this: it is in no code hash."""

from rarefeat.storage.contents import Contents, Entry

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
SEED = Entry("seed", "int64", "replica")
EPOCH, METRIC, VALUE = (
    Entry("epoch", "int64", "epochs that are done"),
    Entry("metric", "string", "loss, learning_rate, alignment, uniformity, knn_accuracy, few_shot_accuracy or effective_rank"),
    Entry("value", "float64", "of the metric"),
)

IMAGES = Contents(
    "images/{study}.safetensors",
    "images.datasets",
    "The images of a data set.",
    (
        Entry("train", "uint8", "training images, RGB", ("N", "3", "H", "W")),
        Entry("train_labels", "int64", "their classes", ("N",)),
        Entry("test", "uint8", "test images", ("N'", "3", "H", "W")),
        Entry("test_labels", "int64", "their classes", ("N'",)),
        Entry("listed", "int64", "how many of the last training images are those of data.pretrain_list", ()),
    ),
)
SPLITS = Contents(
    f"splits/{{study}}/{SPLIT}/seeds={{block}}.safetensors",
    "images.splits",
    "Which training images each replica sees: lists are sorted indices into `train`.",
    (
        Entry("{seed}/pool", "int64", "images that anything is drawn from", ("n",)),
        Entry("{seed}/pretrain", "int64", "the list that is pretrained on", ("n",)),
        Entry("{seed}/few_shot", "int64", "the list of the few-shot probe", ("n",)),
        Entry("{seed}/class_order", "int64", "classes by decreasing count in the long-tailed list", ("C",)),
        Entry("{seed}/counts", "int64", "images of each class in the list that is pretrained on", ("C",)),
    ),
)
ENCODERS = Contents(
    f"encoders/{{study}}/{CELL}/seeds={{block}}.safetensors",
    "images.pretrain",
    "The state of the network (`images/network.py`) of each replica, by PyTorch's names, with its dense weights and the"
    " statistics of its batch norms over the images that it was pretrained on.",
    (
        Entry("{seed}/{norm}.num_batches_tracked", "int64", "batches that the statistics of a batch norm were taken over", ()),
        Entry(
            "{seed}/{weight}", "float32", "a weight, or a running mean or variance, in the shape that PyTorch gives it", None
        ),
    ),
)
COURSES = Contents(
    f"trajectories/{{study}}/{CELL}/seeds={{block}}.parquet",
    "images.pretrain",
    "A row for each seed, recorded epoch and metric.",
    (SEED, EPOCH, METRIC, VALUE),
)
PROBES = Contents(
    f"probes/{{study}}/{CELL}/seeds={{block}}.parquet",
    "images.probe",
    "A row for each seed, probe and class.",
    (
        SEED,
        Entry("probe", "string", "balanced, balanced_sgd, long_tailed, few_shot or knn"),
        Entry("class", "int64", "0 to C - 1"),
        Entry("rank", "int64", "of the class by its count in the long-tailed list, 0 for the largest"),
        Entry("count", "int64", "images of the class that were pretrained on"),
        Entry("accuracy", "float64", "on the test images of the class"),
    ),
)
CHECKPOINTS = Contents(
    f"checkpoints/{{study}}/{CELL}/seeds={{block}}.seed={{seed}}.safetensors",
    "images.pretrain",
    "What an interrupted training of one replica goes on from; deleted once it is done.",
    (
        Entry("identity", "uint8", "SHA-256 of config, every image and label, and code; another one is refused", ("32",)),
        Entry("step", "int64", "the next step", ()),
        Entry("records", "float64", "epoch, then the seven metrics of the course in their order", ("E", "8")),
        Entry("weight/{weight}", "float32", "a trained weight, in the shape that PyTorch gives it", None),
        Entry("momentum/{weight}", "float32", "its momentum", None),
        Entry("mask/{weight}", "bool", "what is pruned of it in this epoch; for the arms with a mask", None),
    ),
)
RECORDS = Contents(
    f"checkpoints/{{study}}/{CELL}/seeds={{block}}.seed={{seed}}.parquet",
    "images.pretrain",
    "The records of a training that goes on, to look at; deleted with its checkpoint.",
    (EPOCH, METRIC, VALUE),
)
FILES = (IMAGES, SPLITS, ENCODERS, COURSES, PROBES, CHECKPOINTS, RECORDS)
