"""What the files of this kind's own stages hold. No stage reads this: it is in no code hash."""

from rarefeat.storage.contents import Contents, Entry

TITLE = "Augmentation"
AXES = {"m": "neurons", "d1": "dimension of a token"}
SUPERVISED = Contents(
    "supervised.safetensors",
    "studies.augmentation.supervise",
    "Encoders that learned from labels, of every seed of the study that `augmentation.supervised.study` names.",
    (
        Entry("{seed}/weights", "float32", "w_i, in R^d1", ("m", "d1")),
        Entry("{seed}/bias", "float32", "b_i", ("m",)),
    ),
)
FILES = (SUPERVISED,)
