"""Functions as a notebook defines them: of no file, and of the module `__main__`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rarefeat.model.pruning import mask_smallest


def define(text: str, name: str = "rule", **values: Any) -> Callable:
    """Return a function that a cell of a notebook defines, among some global values."""
    names = {"np": np, "torch": torch, "mask_smallest": mask_smallest, **values}
    names["__name__"] = "__main__"
    exec(compile(text, "<cell>", "exec"), names)
    return names[name]
