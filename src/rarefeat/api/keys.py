"""Keys that `train` and its kin take beside their arguments: those of the config."""

from rarefeat.training.choices import BUILT_IN
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.config.section import Section


def section_keys(section: type[Section]) -> list[str]:
    """List the keys of a section as the config has them."""
    return [field.alias or name for name, field in section.model_fields.items()]


SECTIONS = {
    "study": ["simulator", "draws"],
    "data": section_keys(Data),
    "training": section_keys(Training),
    "arm": [name for name in section_keys(Arm) if name != "arm"],
}
"""Sections of a study that have the keys; no two have the same key."""
KEYS = ["lambda_" if key == "lambda" else key for keys in SECTIONS.values() for key in keys]
OPTIONS = [f"{kind.removesuffix('_law')}_options" for kind in BUILT_IN]
LEARNER_KEYS = [*BUILT_IN, *OPTIONS, "fresh", "arm", "study", "config"]
"""Choices of a learner, and what else a sweep of learners may be given a list of."""
OTHER_NAMES = {
    "lr": "eta",
    "learning_rate": "eta",
    "weight_decay": "lambda_",
    "temperature": "tau",
    "batch_size": "K",
    "steps": "T",
}
"""Keys by what torch and others call them."""
