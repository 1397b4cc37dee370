"""The hash of a stage: edits that set numbers change it, comments and texts do not."""

import ast
import fnmatch
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rarefeat.model.arms import ArmSpec
from rarefeat.workflow.project import load
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.run.code_hashes import (
    EXCLUDED_MODULES,
    PACKAGE,
    Definition,
    PackageSource,
    accepted_hash,
    dotted_name,
    is_excluded,
)
from rarefeat.workflow.study_kind import SHARED_STAGES

# A small package, a change of it, and whether the hash of stage:main is another.

STAGE = '''"""A stage."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

import rarefeat.tools as tools
from rarefeat import effects, late, named
from rarefeat.workflow.config.section import Section
from rarefeat.tools import (
    half,
)

SCALE = 2.0
"""What it means."""
MEANINGS = metric_descriptions(loss="the loss", rate="a rate")


class Data(Section):
    """A section."""

    model_config = 1
    MOST: ClassVar[int] = 1
    size: int = Field(default=1, description="a size")

    @property
    def area(self) -> float:
        """Of it."""
        return self.size * SCALE

    @property
    def label(self) -> str:
        return "a label"


class Net(nn.Module):
    def forward(self, x):
        return x + 1


class Point(NamedTuple):
    x: float
    y: float = 0.0

    def norm(self) -> float:
        return math.hypot(self.x, self.y)

    def never(self) -> float:
        return 1.0

    def said(self) -> float:
        return 3.0


class Plain:
    y: float = 3.0


def first(plain: "Plain | None") -> float:
    return plain.y


def far(point: Point) -> float:
    return point.norm()


def hidden(r):
    return half(math.pi) * r**2


def main() -> None:
    """Its start."""
    import rarefeat.inside
    from rarefeat import package
    from rarefeat.tools import inner

    try:
        first(package.plain)
    except KeyError:
        pass
    data, table = Data(), unused_name
    if data.area < 0:
        raise ValueError(f"too small: {data.area}")
    if data.area > 9:
        raise StopIteration(4)
    for item in [1]:
        table = [half for half in (1, 2)]
    column(float, unit="1", description="a number")
    getattr(data, "said")
    write_table(Net()(hidden(item)), far(data, description="far"), tools.twice(late.third(MEANINGS)), inner)
    rarefeat.inside.deep(named.twice(getattr(tools, "another")))


if __name__ == "__main__":
    main()
'''
TOOLS = '''"""Tools."""

REGISTERED = []
REGISTERED.append(1)


def half(x):
    return x / 2


def twice(x):
    return x * 2


def inner(x):
    return x


def another(x):
    return -x
'''
FILES = {
    "__init__.py": "",
    "named.py": "def twice(x):\n    return x * 3\n",
    "effects.py": "import math\nmath.tau = 6\n",
    "stage.py": STAGE,
    "tools.py": TOOLS,
    "late.py": "from .tools import half\n\n\ndef third(x):\n    return half(x) / 1.5\n",
    "moved.py": "def half(x):\n    return x / 2\n",
    "inside.py": "def unused():\n    return 5\n\n\ndef deep(x):\n    return x + 7\n",
    "package/__init__.py": "from . import part\nfrom .part import *\n\nplain = part.plain\n",
    "package/part.py": "plain = 8\n",
    "config/__init__.py": "",
    "workflow/config/section.py": "class Section(BaseModel):\n    pass\n",
}
SAME = {
    "a constant's docstring": ("stage.py", "What it means.", "Metres."),
    "layout": (
        "stage.py",
        "return half(math.pi) * r**2",
        "return (\n        half(math.pi)\n        * r ** 2\n    )",
    ),
    "the order of definitions": ("stage.py", "SCALE = 2.0\n", ""),
    "what pydantic is told": ("stage.py", "model_config = 1", "model_config = 2"),
    "a meaning": ("stage.py", 'loss="the loss"', 'loss="InfoNCE"'),
    "a program's start": ("stage.py", "    main()\n", "    main() or main()\n"),
    "a field of a section": ("stage.py", "default=1,", "default=2,"),
    "the text of an error": ("stage.py", "too small: ", "small: "),
    "a name that nothing uses": (
        "late.py",
        "def third",
        "def fourth():\n    return 4\n\n\ndef third",
    ),
}
OTHER = {
    "a constant's type": ("stage.py", "SCALE = 2.0", "SCALE = 2"),
    "a default": ("stage.py", "def hidden(r)", "def hidden(r=1)"),
    "a constant of a section": ("stage.py", "MOST: ClassVar[int] = 1", "MOST: ClassVar[int] = 2"),
    "a field of a tuple": ("stage.py", "y: float = 0.0", "y: float = 1.0"),
    "a field of a quoted class": ("stage.py", "y: float = 3.0", "y: float = 4.0"),
    "a method that torch calls": ("stage.py", "return x + 1", "return x + 2"),
    "a method asked for by a text": ("stage.py", "return 3.0", "return 4.0"),
    "a description that is read": (
        "stage.py",
        'far(data, description="far")',
        'far(data, description="near")',
    ),
    "by way of a third module": ("late.py", "1.5", "1.25"),
    "an import within a function": ("stage.py", "import inner", "import another as inner"),
    "a module that a function imports": ("inside.py", "x + 7", "x + 8"),
    "a module as a value": ("tools.py", "return -x", "return +x"),
    "a package's own module": ("package/part.py", "plain = 8", "plain = 9"),
    "another helper of the same name": ("named.py", "x * 3", "x * 4"),
    "what a module does at its import": ("tools.py", "append(1)", "append(2)"),
    "what a module does that is only imported": ("effects.py", "math.tau = 6", "math.tau = 7"),
    "another package": ("stage.py", "import math\n", "import cmath as math\n"),
    "another helper by the same name": ("stage.py", "    half,", "    twice as half,"),
    "when an error comes": ("stage.py", "data.area < 0", "data.area < 1"),
    "the type of an error": ("stage.py", "raise ValueError(", "raise KeyError("),
    "a value that an error carries": ("stage.py", "StopIteration(4)", "StopIteration(5)"),
    "a name of a metric": ("stage.py", 'rate="a rate"', 'rates="a rate"'),
    "a unit": ("stage.py", 'unit="1"', 'unit="m"'),
    "what is drawn": ("stage.py", "write_table(", 'write_table("title", '),
}


def hash_edited(folder: Path, *changes: tuple[str, str, str]) -> str:
    for name, text in FILES.items():
        path = folder / "rarefeat" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, old, new in changes:
            if file == name:
                assert old in text, old
                text = text.replace(old, new)
        path.write_text(text)
    return PackageSource(folder / "rarefeat").hash("stage")


@pytest.mark.parametrize("edit", SAME)
def test_hash_ignores_what_sets_no_number(tmp_path, edit):
    moved = [("stage.py", "if __name__", "SCALE = 2.0\nif __name__")] if "order" in edit else []
    assert hash_edited(tmp_path, SAME[edit], *moved) == hash_edited(tmp_path)


@pytest.mark.parametrize("edit", OTHER)
def test_hash_sees_what_sets_numbers(tmp_path, edit):
    assert hash_edited(tmp_path, OTHER[edit]) != hash_edited(tmp_path)


@pytest.mark.parametrize("entry", ["stage:absent", "absent", "stage:math", "stage:late", "tools"])
def test_hash_refuses_what_is_no_stage(tmp_path, entry):
    hash_edited(tmp_path)
    with pytest.raises(LookupError, match="no definition"):
        PackageSource(tmp_path / "rarefeat").hash(entry)


def test_accepted_hash_follows_the_chain_to_its_start():
    accepted = [
        {"stage": "a", "before": "1", "now": "2"},
        {"stage": "a", "before": "2", "now": "3"},
    ]
    assert [accepted_hash(value, "a", accepted) for value in "1234"] == ["1", "1", "1", "4"]
    assert accepted_hash("3", "b", accepted) == "3"


# The stages of the workflow


def stages() -> set[str]:
    """Return the functions of every job of the default config."""
    project = load("config/config.yaml")
    declared = (*SHARED_STAGES, *(stage for kind in kinds().values() for stage in kind.stages))
    functions = {stage.function for stage in declared}
    for output in ("table", "figure", "page", "html_page"):
        for name in getattr(project, f"{output}s"):
            functions |= set(getattr(project, f"{output}_job")(name).code)
    return functions


@pytest.fixture(scope="module")
def source() -> PackageSource:
    return PackageSource()


@pytest.fixture(scope="module")
def closures(source) -> dict[str, dict]:
    return {stage: source.closure(stage) for stage in sorted(stages())}


def test_stages_are_all_those_of_the_package(closures):
    functions = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and re.fullmatch(
                r"(read|inputs): JobInputs, job: Job", ast.unparse(node.args)
            ):
                functions.add(f"{module}:{node.name}")
    assert {"stages.pretrain:stage", "images.probe:stage"} < functions
    # A helper of three of them takes the same.
    assert functions - set(closures) == {"studies.long_tail.aggregate:gathered"}


DYNAMIC = {"eval", "exec", "globals", "__import__", "importlib.import_module", "sys.modules"}
NAMED_IN_JOBS = {"stages.concat_tables"}
"""What these import has a hash of its own in the job."""


def test_stages_reach_no_code_without_its_name(source, closures):
    for module in {
        name.module for closure in closures.values() for name in closure
    } - NAMED_IN_JOBS:
        text = source.find_file(module).read_text(encoding="utf-8")
        names = {dotted_name(node) for node in ast.walk(ast.parse(text))}
        assert module == "" or not names & DYNAMIC, module


def test_excluded_names_and_texts_are_those_of_the_package(source):
    assert all(source.find_file(name) for name in EXCLUDED_MODULES)
    assert ArmSpec._fields[1:3] == ("label", "description")
    for name in (
        "workflow.files.schema:metric_descriptions",
        "workflow.files.schema:column",
        "workflow.run.cli_helpers:progress",
    ):
        module, _, function = name.partition(":")
        assert hasattr(importlib.import_module(f"rarefeat.{module}"), function)


def for_readers(node: ast.AST) -> Iterator[ast.AST]:
    """Annotations, texts, and arguments of what writes texts."""
    for part in ast.walk(node):
        yield from filter(None, [getattr(part, "annotation", None), getattr(part, "returns", None)])
        if isinstance(part, ast.Raise | ast.JoinedStr):
            yield part
        if isinstance(part, ast.Call) and dotted_name(part.func) in ("print", "progress"):
            yield part


@pytest.mark.parametrize(
    "stage", ["stages.pretrain:stage", "stages.probe:stage", "images.pretrain:stage"]
)
def test_hash_sees_every_number_of_a_stage(stage):
    """Each number in the functions that a stage reaches, one by one."""
    source, tried = PackageSource(), 0
    closure = source.closure(stage)
    for name in [name for name in closure if name.name.isidentifier()]:
        functions = [
            one for one in source.bindings(name.module)[name.name] if type(one) is ast.FunctionDef
        ]
        texts = {
            id(one) for node in functions for part in for_readers(node) for one in ast.walk(part)
        }
        for constant in (
            one for node in functions for one in ast.walk(node) if id(one) not in texts
        ):
            if type(value := getattr(constant, "value", None)) in (int, float):
                constant.value = value + 1
                source.normalised.clear()
                assert source.normalise(name)[0] != closure[name], f"{value} of {name}"
                constant.value = value
                tried += 1
    assert tried > 40


# Edits of the package itself: the file, a text in it and another, and the stages whose hashes it
# must move, without `studies.`.

IMAGES = "images.pretrain:* fine_labels.granularity.[ps]*"
ENCODERS = """
    stages.pretrain:* fate.measure:* fine_labels.contrastive_encoder:* selection.measure:* learners.measure:*
"""
DRAWS = "model.randomness:generator"
"""Stands for the stages that reach this function, among them those of studies that are added."""
MULTIPLIED = f"""
    {ENCODERS} stages.probe:* model.arms:ARMS?oracle_* augmentation.measure:* augmentation.supervised_baseline:* imbalance.alignment_map:*
    fine_labels.granularity.digits:* scaling.aggregate:trained_sizes selection.digits:* selection.model_validation:* theory.claims:*
    theory.milestones:* theory.one_step:* studies.imbalance.explorer:page
"""
EDITS = {
    "products in bfloat16": (
        "images/bfloat16.py",
        "return value.bfloat16().float()",
        "return value.float()",
        IMAGES,
    ),
    "a property of a section": (
        "studies/fine_labels/config.py",
        "for name in EasyData.model_fields})",
        "for name in EasyData.model_fields if name})",
        "fine_labels.simulator_comparison:* fine_labels.measure:*",
    ),
    "a method of a section": (
        "studies/fine_labels/config.py",
        "2 * self.ids)",
        "3 * self.ids)",
        "fine_labels.simulator_comparison:* fine_labels.measure:* fine_labels.train:*"
        " fine_labels.figures:granularity",
    ),
    "an arm": (
        "model/arms.py",
        "(-context.norms, context.alpha)",
        "(context.norms, context.alpha)",
        "model.arms:ARMS?largest_neuron? selection.measure:*",
    ),
    "a rule of the bias": (
        "model/bias.py",
        "2 * math.log(d) / d",
        "math.log(d) / d",
        "stages.pretrain:* fine_labels.contrastive_encoder:* selection.measure:* learners.measure:*"
        " pruning_premise.measure:* theorems.small:*",
    ),
    "the slopes of a step": (
        "train/step.py",
        "negatives = dense.views(",
        "negatives = masked.views(",
        ENCODERS,
    ),
    "products": (
        "model/batch_invariant.py",
        "if r % COLUMNS and p > 2 * r",
        "if r % COLUMNS and p > 3 * r",
        MULTIPLIED,
    ),
    "draws": ("model/randomness.py", "digest[:4]", "digest[:8]", DRAWS),
    "a constant": (
        "model/thresholds.py",
        "PURE_COSINE = 0.9",
        "PURE_COSINE = 0.95",
        """
        stages.pretrain:* stages.probe:* model.arms:ARMS?oracle_gated? augmentation.measure:* fine_labels.contrastive_encoder:*
        imbalance.figures:printed_bias learners.measure:*
        studies.imbalance.explorer:page
        scaling.aggregate:trained_sizes selection.measure:* theory.milestones:* theory.one_step:* fate.measure:* pruning_premise.measure:*
        theorems.small:*
    """,
    ),
    "what a claim measures": (
        "studies/two_layer/claims.py",
        '"cosine", 1) - ',
        '"cosine", 1) + ',
        "two_layer.claims:*",
    ),
    "a lock": (
        "workflow/files/sealed_files.py",
        "handle.seek(start)",
        "handle.seek(int(start))",
        "",
    ),
    "an annotation": (
        "statistics.py",
        "def holm(p_values: np.ndarray)",
        "def holm(p_values)",
        "",
    ),
    "one more arm": (
        "model/arms.py",
        '"random_neuron", "random neurons", ',
        '"one", "", "", mask_random_neurons), ArmSpec("random_neuron", "random neurons", ',
        "",
    ),
    "an arm's label": ("model/arms.py", '"random neurons"', '"neurons at random"', ""),
    "a helper's name": ("images/splits.py", "_draw(", "_drawn(", ""),
    "its default, which jobs are told": (
        "workflow/config/images.py",
        'default="global"',
        'default="per_layer"',
        "",
    ),
    "a validator": (
        "workflow/config/model.py",
        "if self.mask and self.rho:",
        "if self.mask and self.rho > 0:",
        "",
    ),
    "a caption": (
        "studies/imbalance/declaration.py",
        '"Neurons whose weights point',
        '"Reworded: neurons that point',
        "",
    ),
}


def edited(folder: Path, before: PackageSource, name: str, old: str, new: str) -> PackageSource:
    """The package with an edit; other modules mean the same, unless this one binds other names."""
    text, module = (PACKAGE / name).read_text(), name.removesuffix(".py").replace("/", ".")
    assert old in text, f"{name} has no {old!r} any more"
    (folder / "edited.py").write_text(text.replace(old, new))
    source = PackageSource()
    source.find_file = lambda other: (
        folder / "edited.py" if other == module else before.find_file(other)
    )
    source.modules = {other: names for other, names in before.modules.items() if other != module}
    if exports(source, module) == exports(before, module):
        unchanged = {key: value for key, value in before.normalised.items() if key.module != module}
        source.normalised = unchanged
    return source


def exports(source: PackageSource, module: str) -> dict[str, list[str]]:
    """What other modules see of one: its names, what it imports and the bases of its classes."""
    seen = {
        ast.Import: ast.dump,
        ast.ImportFrom: ast.dump,
        ast.ClassDef: lambda node: ast.dump(ast.List(node.bases)),
    }
    names = source.bindings(module)
    return {
        name: [seen.get(type(node), lambda _: "")(node) for node in names[name]] for name in names
    }


MORE = {
    "a property of a section",
    "a method of a section",
    "the slopes of a step",
    "products",
    "a helper's name",
}
"""Edits that rerun more stages than they must, as classes count as a whole."""


@pytest.mark.parametrize("edit", EDITS)
def test_edit_moves_the_hashes_of_what_it_sets(tmp_path, source, closures, edit):
    *change, wanted = EDITS[edit]
    short = {stage: stage.removeprefix("studies.") for stage in closures}
    expected = {
        name for pattern in wanted.split() for name in fnmatch.filter(short.values(), pattern)
    }
    if wanted == DRAWS:
        definition = Definition(*wanted.split(":"))
        expected = {short[stage] for stage in closures if definition in closures[stage]}
        assert expected >= {"stages.synthesise:stage", "images.pretrain:stage"}
    after = edited(tmp_path, source, *change)
    moved = {short[stage] for stage, closure in closures.items() if after.closure(stage) != closure}
    assert moved >= expected
    assert moved == expected or edit in MORE
    assert len(moved - expected) < 30


def test_hash_does_not_depend_on_earlier_ones(closures):
    for stage in (
        "stages.pretrain:stage",
        "studies.imbalance.figures:figure1_aligned_neurons",
        "claims.verdict_tables:claims",
    ):
        assert PackageSource().closure(stage) == closures[stage]
        assert not any(is_excluded(name.module) for name in closures[stage])
