"""The digest of a stage: edits that set numbers change it, edits that set none do not."""

import ast
import fnmatch
import re
import shutil
from pathlib import Path

import pytest

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
MEANINGS = described(loss="the loss", rate="a rate")


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


def far(point: Point) -> float:
    return point.norm()


def hidden(r):
    return half(math.pi) * r**2


def main() -> None:
    """Its start."""
    from rarefeat.tools import inner

    data, table = Data(), unused_name
    if data.area < 0:
        raise ValueError(f"too small: {data.area}")
    for item in [1]:
        table = [half for half in (1, 2)]
    column(float, unit="1", description="a number")
    getattr(data, "said")
    write_table(Net()(hidden(item)), far(data, description="far"), tools.twice(late.third(MEANINGS)), inner)


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
    "stage.py": STAGE,
    "tools.py": TOOLS,
    "late.py": "from .tools import half\n\n\ndef third(x):\n    return half(x) / 1.5\n",
    "moved.py": "def half(x):\n    return x / 2\n",
    "config/__init__.py": "",
    "config/section.py": "class Section(BaseModel):\n    pass\n",
}
SAME = {
    "a constant's docstring": ("stage.py", "What it means.", "Metres."),
    "layout": ("stage.py", "return half(math.pi) * r**2", "return (\n        half(math.pi)\n        * r ** 2\n    )"),
    "the order of definitions": ("stage.py", "SCALE = 2.0\n", ""),
    "a property that nothing asks for": ("stage.py", '"a label"', '"another label"'),
    "a method that nothing asks for": ("stage.py", "return 1.0", "return 2.0"),
    "what pydantic is told": ("stage.py", "model_config = 1", "model_config = 2"),
    "a meaning": ("stage.py", 'loss="the loss"', 'loss="InfoNCE"'),
    "how a helper is imported": ("stage.py", "tools.twice(", "rarefeat.tools.twice("),
    "where a helper is": ("tools.py", "def half(x):\n    return x / 2\n", "from .moved import half\n"),
    "a program's start": ("stage.py", "    main()\n", "    main() or main()\n"),
}
OTHER = {
    "a constant's type": ("stage.py", "SCALE = 2.0", "SCALE = 2"),
    "a default": ("stage.py", "def hidden(r)", "def hidden(r=1)"),
    "a constant of a section": ("stage.py", "MOST: ClassVar[int] = 1", "MOST: ClassVar[int] = 2"),
    "a field of a tuple": ("stage.py", "y: float = 0.0", "y: float = 1.0"),
    "a method that torch calls": ("stage.py", "return x + 1", "return x + 2"),
    "a method asked for by a text": ("stage.py", "return 3.0", "return 4.0"),
    "a description that is read": ("stage.py", 'far(data, description="far")', 'far(data, description="near")'),
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
        ("tools.twice(", "sys.modules['rarefeat.tools'].twice("),
        ("tools.twice(", "operator.methodcaller('twice', 1)("),
        ("data.area", "operator.attrgetter('area')(data)"),
        ("data.area", "data.__dict__['area']"),
    ],
)
def test_a_name_that_cannot_be_followed_is_found(tmp_path, old, new):
    assert not digest(tmp_path).dynamic
    assert digest(tmp_path, [("stage.py", old, new)]).dynamic


@pytest.mark.parametrize("name", ["name", 'f"ne{name}"'])
def test_a_name_that_is_computed_asks_for_every_method(tmp_path, name):
    computed = ("stage.py", "column(float", f"getattr(data, {name})(float")
    changed = ("stage.py", "return 1.0", "return 2.0")
    assert digest(tmp_path, [computed]).digest != digest(tmp_path, [computed, changed]).digest


@pytest.mark.parametrize("entry", ["stage:absent", "absent", "stage:math", "tools"])
def test_what_is_no_stage_is_refused(tmp_path, entry):
    with pytest.raises(LookupError, match="no definition"):
        Reach(digest(tmp_path).source, entry)


# The stages of the workflow

RUNNERS = {"chain.join:join", "report.browse:meanings"}
"""What these import stands in the job, and so in its digests or those of the tables that it reads."""


def stages() -> set[str]:
    project = load("config/config.yaml")
    found = {stage.function for stage in (*SHARED_STAGES, *(one for kind in kinds().values() for one in kind.stages))}
    for kind in ("table", "figure", "page", "browsed"):
        for name in getattr(project, kind if kind == "browsed" else f"{kind}s"):
            found |= set(getattr(project, f"{kind}_job")(name).code)
    return found | {"report.browse", "report.browse:claims_page"}


@pytest.fixture(scope="module")
def reached() -> dict[str, Reach]:
    source = Source(PACKAGE)
    return {stage: Reach(source, stage) for stage in sorted(stages())}


def test_every_stage_is_looked_at(reached):
    mains, functions = set(), set()
    for path in PACKAGE.rglob("*.py"):
        module, text = ".".join(path.relative_to(PACKAGE).with_suffix("").parts), path.read_text(encoding="utf-8")
        mains |= {module} if "    parser = stage(" in text and "__main__" in text else set()
        functions |= {f"{module}:{name}" for name in re.findall(r"^def (\w+)\(read: Read, job: Job\)", text, re.MULTILINE)}
    assert {"chain.pretrain:stage", "images.probe:stage"} < functions
    # A helper of three of them takes the same.
    assert functions - set(reached) == {"studies.long_tail.aggregate:gathered"}
    # What runs the function of a job reaches none by itself.
    assert mains - set(reached) == {"run.make"}


def test_no_stage_reaches_code_without_its_name(reached):
    found = {place for reach in reached.values() for place in reach.dynamic}
    assert {place for place in found if ":".join(place.split(":")[:2]) not in RUNNERS} == set()


# Edits of the package itself: the file, a text in it and another, and which stages' digests these move, without `studies.`.

IMAGES = "images.pretrain:* fine_labels.granularity.[pr]*"
ENCODERS = "chain.pretrain:* fate.measure:* fine_labels.crossing:* selection.measure:*"
DRAWN = f"""
    chain.[ps]* images.[ps]* {IMAGES} augmentation.measure:* augmentation.representations:* augmentation.supervise:*
    exact_results.*:measured fate.measure:* fine_labels.compare:* fine_labels.crossing:* fine_labels.measure:*
    fine_labels.train:* fine_labels.granularity.digits:* imbalance.alignment_map:* scaling.aggregate:trained_sizes
    scaling.lucky_sets:* selection.digits:* selection.measure:* selection.tested:* theory.milestones:* theory.one_step:*
    two_layer.measure:* two_layer.search:*
"""
MULTIPLIED = f"""
    {ENCODERS} chain.probe:* core.arms:ARMS?oracle_* augmentation.measure:* augmentation.supervise:* imbalance.alignment_map:*
    fine_labels.granularity.digits:* scaling.aggregate:trained_sizes selection.digits:* selection.tested:* theory.claims:*
    theory.milestones:* theory.one_step:* report.play:page
"""
EDITS = {
    "products in bfloat16": ("images/bfloat16.py", "return value.bfloat16().float()", "return value.float()", IMAGES),
    "a property of a section": (
        "studies/fine_labels/config.py", "for name in Easy.model_fields})", "for name in Easy.model_fields if name})",
        "fine_labels.compare:* fine_labels.measure:*",
    ),
    "a method of a section": (
        "studies/fine_labels/config.py", "2 * self.ids)", "3 * self.ids)",
        "fine_labels.compare:* fine_labels.measure:* fine_labels.train:* fine_labels.figures:granularity",
    ),
    "an arm": (
        "core/arms.py", "smallest(-seen.norms, seen.alpha)", "smallest(seen.norms, seen.alpha)",
        "core.arms:ARMS?largest_neuron? selection.measure:*",
    ),
    "a rule that one study has": ("core/arms.py", "].amax(-1), seen", "].amin(-1), seen", "selection.measure:*"),
    "a rule of the bias": (
        "core/bias.py", "2 * math.log(d) / d", "math.log(d) / d",
        "chain.pretrain:* fine_labels.crossing:* selection.measure:*",
    ),
    "the slopes of a step": ("core/training.py", "negatives = whole.views(", "negatives = pruned.views(", ENCODERS),
    "products": ("core/products.py", "if r % COLUMNS and p > 2 * r", "if r % COLUMNS and p > 3 * r", MULTIPLIED),
    "draws": ("core/randomness.py", "digest[:4]", "digest[:8]", DRAWN),
    "views": (
        "core/views.py", "(views.rho or views.mask or views.colour)", "(views.rho or views.colour)",
        "chain.pretrain:* augmentation.measure:* augmentation.supervise:*",
    ),
    "a linear probe": ("core/linear_probe.py", "correction=0", "correction=1", "chain.probe:* selection.measure:*"),
    "a constant": ("core/definitions.py", "PURE = 0.9", "PURE = 0.95", """
        chain.pretrain:* chain.probe:* core.arms:ARMS?oracle_gated? augmentation.measure:* fine_labels.crossing:*
        imbalance.found:* report.play:page scaling.aggregate:trained_sizes selection.measure:* theory.milestones:*
        theory.one_step:*
    """),
    "a measure": ("studies/selection/measure.py", "[..., -1] > PURE", "[..., -1] >= PURE", "selection.measure:*"),
    "a floor": ("studies/fate/training.py", "clamp_min(1e-30)", "clamp_min(1e-20)", "fate.measure:*"),
    "a search": ("studies/two_layer/rates.py", "means.max() - NEAR", "means.max()", "two_layer.rates:*"),
    "a schedule": ("images/trainer.py", "lr * (step + 1)", "lr * step", f"{IMAGES} fine_labels.granularity.digits:*"),
    "what a claim measures": ("studies/two_layer/claims.py", '"cosine", 1) - ', '"cosine", 1) + ', "two_layer.claims:*"),
    "the test of a claim": ("claims/verdict.py", "0.5**n", "0.5 ** (n - 1)", "claims.table:*"),
    "a figure": (
        "studies/imbalance/figures.py", 'f"dense, seed {first}"', 'f"seed {first}"', "imbalance.figures:alignment_heatmap"
    ),
    "a lock": ("storage/files.py", "handle.seek(start)", "handle.seek(int(start))", ""),
    "who may write": ("run/write_guard.py", "found != planned", "planned != found", ""),
    "a bar of progress": ("run/cli_helpers.py", "desc=label)", "desc=label, leave=False)", ""),
    "its label": ("studies/augmentation/supervise.py", '"supervised"):', '"classifiers"):', ""),
    "what is printed": ("images/pretrain.py", "is slow without", "is slower without", ""),
    "a module's docstring": ("core/arms.py", '"""The arms: ', '"""Arms: ', ""),
    "a docstring": ("core/training.py", '"""The replicas after a step', '"""Replicas after a step', ""),
    "a comment": ("core/products.py", "# A tall product", "# Such a product", ""),
    "the text of an error": ("chain/pretrain.py", "masks single weights in R^d1", "masks single weights", ""),
    "an annotation": ("core/statistics.py", "def holm(p_values: np.ndarray)", "def holm(p_values)", ""),
    "one more arm": (
        "core/arms.py", 'NamedArm("initial"', 'NamedArm("one", "", "", random_neurons), NamedArm("initial"', ""
    ),
    "an arm's label": ("core/arms.py", '"random neurons"', '"neurons at random"', ""),
    "a helper's name": ("images/splits.py", "_draw(", "_drawn(", ""),
    "a key's description": ("config/model.py", '"correlation of both', '"the correlation of both', ""),
    "its default, which jobs are told": ("config/images.py", 'default="global"', 'default="per_layer"', ""),
    "a validator": ("config/model.py", "if self.mask and self.rho:", "if self.mask and self.rho > 0:", ""),
    "a column's description": ("studies/selection/tables.py", 'description="', 'description="in other words: ', ""),
    "a caption": ("studies/imbalance/kind.py", '"Neurons whose weights point', '"Reworded: neurons that point', ""),
}  # fmt: skip


def edited(folder: Path, before: Source, name: str, old: str, new: str) -> Source:
    """The package with an edit; what other modules are made of is the same, unless this one binds other names or bases."""
    text, module = (PACKAGE / name).read_text(), name.removesuffix(".py").replace("/", ".")
    assert old in text, f"{name} has no {old!r} any more"
    (folder / "edited.py").write_text(text.replace(old, new))
    source = Source(PACKAGE)
    source.files = {**before.files, module: folder / "edited.py"}
    source.bound = {other: found for other, found in before.bound.items() if other != module}
    source.effects = {other: found for other, found in before.effects.items() if other != module}
    for each in (source, before):
        each.read(module)
    if bindings(source, module) == bindings(before, module):
        source.parts = dict(before.parts)
    return source


def bindings(source: Source, module: str) -> list:
    """What other modules see of one: its names, what it imports and the bases of its classes."""
    parts = [(name, part) for name, parts in source.bound[module].items() for part in parts]
    return [
        (name, [ast.dump(base) for base in part.bases] if isinstance(part, ast.ClassDef) else ast.dump(part))
        if isinstance(part, ast.ClassDef | ast.Import | ast.ImportFrom)
        else name
        for name, part in parts
    ]


@pytest.fixture(scope="module")
def digests(reached) -> dict[str, str]:
    return {stage: reach.digest for stage, reach in reached.items()}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_moves_the_digests_of_what_it_sets_and_no_others(tmp_path, reached, digests, edit):
    *change, wanted = EDITS[edit]
    short = {stage: stage.removeprefix("studies.") for stage in reached}
    expected = {name for pattern in wanted.split() for name in fnmatch.filter(short.values(), pattern)}
    source = edited(tmp_path, next(iter(reached.values())).source, *change)
    assert {short[stage] for stage in reached if Reach(source, stage).digest != digests[stage]} == expected


@pytest.mark.parametrize(
    "stage", ["chain.pretrain:stage", "studies.imbalance.figures:figure1_aligned_neurons", "claims.table:claims"]
)
def test_a_digest_does_not_depend_on_what_was_looked_at_before(reached, stage):
    assert Reach(Source(PACKAGE), stage).digest == reached[stage].digest
