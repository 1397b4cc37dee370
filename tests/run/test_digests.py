"""The digest of a stage: edits that set numbers change it, edits that set none do not."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarefeat.kind import SHARED_STAGES
from rarefeat.project import load
from rarefeat.registry import kinds
from rarefeat.run.digests import PACKAGE, Reach, Source

# A small package, a change of it, and whether the digest of stage:main is another.

STAGE = '''"""A stage."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

import rarefeat.tools as tools
from rarefeat import late
from rarefeat.config.section import Section
from rarefeat.tools import (
    half,
)

SCALE = 2.0
"""What it means."""
UNUSED = 1
MEANINGS = described(loss="the loss", rate="a rate")


class Data(Section):
    """A section."""

    size: int = Field(default=1, description="a size")

    @model_validator(mode="after")
    def _check(self):
        return self

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


def far(point: Point) -> float:
    return point.norm()


def unused():
    return UNUSED


def hidden(r):
    # as at school
    return half(math.pi) * r**2


def main() -> None:
    """Its start."""
    from rarefeat.tools import inner

    data, table = Data(), unused_name
    if data.area < 0:
        raise ValueError(f"too small: {data.area}")
    print("a line")
    for item in progress([1], 1, "items"):
        table = [half for half in (1, 2)]
    column(float, unit="1", description="a number")
    getattr(data, "size")
    write_table(Net()(hidden(item)), far(data), tools.twice(late.third(MEANINGS)), inner)


if __name__ == "__main__":
    main()
'''
TOOLS = '''"""Tools."""

REGISTERED = []
REGISTERED.append(1)


def half(x):
    return x / 2


def twice(x):
    return _by(x, 2)


def _by(x, y):
    return x * y


def inner(x):
    return x


def another(x):
    return -x
'''
FILES = {
    "__init__.py": "",
    "stage.py": STAGE,
    "tools.py": TOOLS,
    "late.py": "from .tools import half\n\n\ndef third(x):\n    return half(x) / 1.5\n",
    "moved.py": "def half(x):\n    return x / 2\n",
    "config/__init__.py": "",
    "config/section.py": "class Section(BaseModel):\n    pass\n",
    "storage/files.py": "def write_table(path):\n    return 1\n",
}
SAME = {
    "a comment": ("stage.py", "    # as at school\n", ""),
    "the module's docstring": ("stage.py", '"""A stage."""', '"""Another."""'),
    "a function's docstring": ("stage.py", '    """Its start."""\n', ""),
    "a constant's": ("stage.py", "What it means.", "Metres."),
    "layout": ("stage.py", "return half(math.pi) * r**2", "return (\n        half(math.pi)\n        * r ** 2\n    )"),
    "the order of definitions": ("stage.py", "SCALE = 2.0\n", ""),
    "a definition that nothing reaches": ("stage.py", "return UNUSED", "return UNUSED + 1"),
    "a constant that nothing reaches": ("stage.py", "UNUSED = 1", "UNUSED = 2"),
    "a property that nothing asks for": ("stage.py", '"a label"', '"another label"'),
    "a method that nothing asks for": ("stage.py", "return 1.0", "return 2.0"),
    "a default of the config": ("stage.py", "default=1", "default=2"),
    "a description": ("stage.py", "a size", "the size"),
    "a validator": ("stage.py", "        return self\n\n    @property", "        return 1 / 0\n\n    @property"),
    "an annotation": ("stage.py", "def far(point: Point) -> float", "def far(point: Point)"),
    "a text of an error": ("stage.py", "too small", "it is too small"),
    "what is printed": ("stage.py", 'print("a line")', 'print("another", "line")'),
    "a label of progress": ("stage.py", '"items"', '"replicas"'),
    "a meaning": ("stage.py", 'loss="the loss"', 'loss="InfoNCE"'),
    "a private helper's name": ("tools.py", "_by", "_times"),
    "how a helper is imported": ("stage.py", "tools.twice(", "rarefeat.tools.twice("),
    "where a helper is": ("tools.py", "def half(x):\n    return x / 2\n", "from .moved import half\n"),
    "file handling": ("storage/files.py", "return 1", "return 2"),
    "a program's start": ("stage.py", "    main()\n", "    main() or main()\n"),
}
OTHER = {
    "a constant": ("stage.py", "SCALE = 2.0", "SCALE = 2.1"),
    "its type": ("stage.py", "SCALE = 2.0", "SCALE = 2"),
    "a line": ("stage.py", "r**2", "r**3"),
    "a default": ("stage.py", "def hidden(r)", "def hidden(r=1)"),
    "a property of a section": ("stage.py", "self.size * SCALE", "self.size + SCALE"),
    "a method": ("stage.py", "math.hypot(self.x, self.y)", "math.hypot(self.y, self.y)"),
    "a field of a tuple": ("stage.py", "y: float = 0.0", "y: float = 1.0"),
    "a method that torch calls": ("stage.py", "return x + 1", "return x + 2"),
    "a helper of another module": ("tools.py", "return x / 2", "return x / 3"),
    "a helper's helper": ("tools.py", "return x * y", "return x + y"),
    "by way of a third module": ("late.py", "1.5", "1.25"),
    "an import within a function": ("stage.py", "import inner", "import another as inner"),
    "what a module does at its import": ("tools.py", "append(1)", "append(2)"),
    "another package": ("stage.py", "import math\n", "import cmath as math\n"),
    "another helper by the same name": ("stage.py", "    half,", "    twice as half,"),
    "when an error comes": ("stage.py", "data.area < 0", "data.area < 1"),
    "a name of a metric": ("stage.py", 'rate="a rate"', 'rates="a rate"'),
    "a unit": ("stage.py", 'unit="1"', 'unit="m"'),
    "what is drawn": ("stage.py", 'write_table(', 'write_table("title", '),
}  # fmt: skip


def digest(folder: Path, changes=()) -> Reach:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in FILES.items():
        path = folder / "rarefeat" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for place, old, new in changes:
            if place == name:
                assert old in text, old
                text = text.replace(old, new)
        path.write_text(text)
    return Reach(Source(folder / "rarefeat"), "stage")


@pytest.mark.parametrize("edit", SAME)
def test_what_sets_no_number_is_not_seen(tmp_path, edit):
    changes = [SAME[edit]]
    if edit == "the order of definitions":
        changes.append(("stage.py", "if __name__", "SCALE = 2.0\nif __name__"))
    if edit == "how a helper is imported":
        changes.append(("stage.py", "import rarefeat.tools as tools", "import rarefeat.tools"))
    assert digest(tmp_path, changes).digest == digest(tmp_path).digest


@pytest.mark.parametrize("edit", OTHER)
def test_what_sets_numbers_is_seen(tmp_path, edit):
    assert digest(tmp_path, [OTHER[edit]]).digest != digest(tmp_path).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tools.twice(", "vars(tools)['twice']("),
        ("tools.twice(", "getattr(tools, 'twice')("),
        ("tools.twice(", "eval('tools.twice')("),
        ("tools.twice(", "importlib.import_module('rarefeat.tools').twice("),
    ],
)
def test_a_name_that_cannot_be_followed_is_found(tmp_path, old, new):
    assert not digest(tmp_path).dynamic
    assert digest(tmp_path, [("stage.py", old, new)]).dynamic


def test_names_that_are_computed_reach_every_method_that_a_text_names(tmp_path):
    computed = ("stage.py", "column(float", 'getattr(data, name)("never", float')
    changed = ("stage.py", "return 1.0", "return 2.0")
    assert digest(tmp_path, [computed]).digest != digest(tmp_path, [computed, changed]).digest


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30))
def test_no_comment_is_seen(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("package")
    assert digest(folder, [("stage.py", "# as at school", f"# {text}")]).digest == digest(folder).digest


@pytest.mark.parametrize("entry", ["stage:absent", "absent", "stage:math", "tools"])
def test_what_is_no_stage_is_refused(tmp_path, entry):
    with pytest.raises(LookupError, match="no definition"):
        Reach(digest(tmp_path).source, entry)


# The stages of the workflow

RUNNERS = {"chain.join:join"}
"""What these import stands in the job, and so in its digests."""


def stages() -> set[str]:
    project = load("config/config.yaml")
    found = {stage.function for stage in (*SHARED_STAGES, *(one for kind in kinds().values() for one in kind.stages))}
    for kind in ("table", "figure", "page"):
        for name in getattr(project, f"{kind}s"):
            found |= set(getattr(project, f"{kind}_job")(name).code)
    return found | {"report.browse"}


@pytest.fixture(scope="module")
def reached() -> dict[str, Reach]:
    source = Source(PACKAGE)
    return {stage: Reach(source, stage) for stage in sorted(stages())}


def test_every_stage_is_looked_at(reached):
    mains = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if "    parser = stage(" in path.read_text() and "__main__" in path.read_text()
    }
    assert len(mains) > 10
    # What runs the function of a job reaches none by itself.
    assert mains - set(reached) == {"run.make"}


def test_no_stage_reaches_code_without_its_name(reached):
    found = {place for reach in reached.values() for place in reach.dynamic}
    assert {place for place in found if ":".join(place.split(":")[:2]) not in RUNNERS} == set()


CHAIN = ["chain.synthesise", "chain.pretrain", "chain.probe", "chain.aggregate:aggregate_grid"]
LOOKED_AT = [
    *CHAIN, "images.pretrain", "studies.selection.measure:measure_selection",
    "studies.fine_labels.train:train_detectors", "studies.imbalance.figures:fate",
    "studies.imbalance.figures:arms", "studies.scaling.figures:scaling",
]  # fmt: skip


@pytest.mark.parametrize(
    "stage", ["chain.pretrain", "studies.imbalance.figures:figure1_aligned_neurons", "claims.table:claims"]
)
def test_a_digest_does_not_depend_on_what_was_looked_at_before(reached, stage):
    assert Reach(Source(PACKAGE), stage).digest == reached[stage].digest
