"""Contents of the file of a study of augmentation."""

from file_schemas import FileEntry, FileSchema

TITLE = "Augmentation"
AXES = {"m": "neurons", "d1": "dimension of a token"}
SUPERVISED = FileSchema(
    "supervised.safetensors",
    "studies.augmentation.measure",
    "Encoders that learned from labels, of every seed of the study that"
    " `augmentation.supervised.study` names.",
    (
        FileEntry("{seed}/weights", "float32", "w_i, in R^d1", ("m", "d1")),
        FileEntry("{seed}/bias", "float32", "b_i", ("m",)),
    ),
)
FILES = (SUPERVISED,)
