"""Schemas of the files of this kind's own stages.

No stage reads this module: it is in no code hash.
"""

from rarefeat.workflow.files.file_schema import FileEntry, FileSchema

TITLE = "Augmentation"
AXES = {"m": "neurons", "d1": "dimension of a token"}
SUPERVISED = FileSchema(
    "supervised.safetensors",
    "studies.augmentation.supervised_baseline",
    "Encoders that learned from labels, of every seed of the study that"
    " `augmentation.supervised.study` names.",
    (
        FileEntry("{seed}/weights", "float32", "w_i, in R^d1", ("m", "d1")),
        FileEntry("{seed}/bias", "float32", "b_i", ("m",)),
    ),
)
FILES = (SUPERVISED,)
