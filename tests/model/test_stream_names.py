"""Names of random streams are hashed into seeds, so that none of them may change."""

from rarefeat.model import stream_names

NAMES = {
    "BATCHES": "batches", "COLOUR": "colour", "COLOUR_DIRECTIONS": "colour directions",
    "COMPLEMENT": "complement", "DICTIONARY": "dictionary", "MASK": "mask", "NOISE": "noise",
    "OWN_CODE": "own code",
    "OVERSAMPLING": "oversampling", "PROBE": "probe", "PROBE_NOISE": "probe noise",
    "RANDOM_MASK": "random mask", "RULE_PREFIX": "rule ", "TARGET": "target", "TEST": "test",
    "TEST_NOISE": "test noise", "TRAIN": "train", "WEIGHTS": "weights",
}  # fmt: skip


def test_stream_names_are_unchanged():
    names = {name: value for name, value in vars(stream_names).items() if name.isupper()}
    assert names == NAMES
