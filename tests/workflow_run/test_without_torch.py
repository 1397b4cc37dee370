"""What torch costs to import, a second and more, is for jobs that compute with tensors."""

import json
import subprocess
import sys

from rarefeat.workflow.project import load
from rarefeat.workflow.registry import kinds

TENSORS = {
    "studies.augmentation.measure": "encodes pairs",
    "studies.augmentation.representations": "encodes images",
    "studies.fate.claims": "reads the law of late learning",
    "studies.fate.figures": "reads the law of late learning",
    "studies.fate.learning_times": "reads the law of late learning",
    "studies.long_tail.aggregate": "groups of classes by the function that training uses",
    "studies.scaling.sets": "draws neurons by the million",
    "studies.selection.model_validation": "draws the initial weights that the law reads",
    "studies.theorems.digit_neurons": "a figure beside its measurement",
    "studies.theorems.exact": "reads the files of theorems",
    "studies.theorems.looped_transformer": "a figure beside its measurement",
    "studies.theorems.low_rank_attention": "a figure beside its measurement",
    "studies.theorems.modular_addition": "a figure beside its measurement",
    "studies.theorems.nuclear_norm": "a figure beside its measurement",
    "studies.theorems.plots": "rows of tensors",
    "studies.theorems.spurious_features": "a figure beside its measurement",
    "studies.theorems.task_mixture": "a figure beside its measurement",
    "studies.theory.history": "courses of trained weights",
    "studies.theory.one_step": "steps of trained encoders",
}
"""Modules of tables that compute with tensors, and why."""
BLOCKED = """
import importlib, json, sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            raise ImportError("torch is not to be imported")

sys.meta_path.insert(0, Blocked())
from rarefeat.workflow.project import load
import rarefeat.figures.draw, rarefeat.claims.run_measurements, rarefeat.workflow.run.command

load()
asked = []
for module in sys.argv[1:]:
    try:
        importlib.import_module(f"rarefeat.{module}")
    except ImportError as error:
        assert "torch is not to be imported" in str(error), error
        asked.append(module)
print(json.dumps(asked))
"""


def test_only_tables_of_tensors_import_torch():
    project = load()
    figures = {
        item.module or kinds()[project.kind_of[name]].module("figures")
        for name, item in project.figures.items()
    }
    others = [*project.tables.values(), *project.html_pages.values()]
    modules = sorted(
        figures | {"workflow.pages"} | {item.function.partition(":")[0] for item in others}
    )
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *modules],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert not done.returncode, done.stderr
    assert set(json.loads(done.stdout)) == TENSORS.keys()
