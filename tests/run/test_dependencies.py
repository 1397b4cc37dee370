"""The digest of a stage: of everything that Python imports for it, and of what that does."""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarefeat.project import load
from rarefeat.run import dependencies
from rarefeat.run.dependencies import PACKAGE, bare, closure, source_files

MODULE = '''
"""What it is."""

import math

SCALE = 2.0
"""What it means."""
MEANINGS = described(loss="the loss", rate="a rate")


def area(r: float) -> float:
    """Of a circle."""
    # as at school
    return SCALE * math.pi * r**2


COLUMN = column(float, unit="1", description="a number")
'''


def changed(old: str, new: str) -> str:
    assert MODULE.count(old) == 1
    return MODULE.replace(old, new)


@pytest.mark.parametrize(
    "text",
    [
        changed("    # as at school\n", ""),
        changed("# as at school", "# as in Euclid"),
        changed('"""What it is."""\n', ""),
        changed("What it is.", "What else it is."),
        changed('"""What it means."""', '"""Metres."""'),
        changed('    """Of a circle."""\n', ""),
        changed("SCALE * math.pi * r**2", "(\n        SCALE * math.pi\n        * r ** 2\n    )"),
        changed("import math\n\nSCALE", "import math\nSCALE"),
        changed('"1", description="a number"', '"1", description="another text"'),
        changed(', description="a number"', ""),
        changed('loss="the loss"', 'loss="InfoNCE, eq. (1)"'),
        changed('"a rate")', '"a"\n    " rate",\n)'),
    ],
)
def test_what_is_there_for_people_changes_no_digest(text):
    assert bare(text) == bare(MODULE)


@pytest.mark.parametrize(
    "text",
    [
        changed("SCALE = 2.0", "SCALE = 2"),
        changed("SCALE = 2.0", "SCALE = 2.1"),
        changed("r**2", "r**3"),
        changed("r: float", "r: float = 1.0"),
        changed("return SCALE", "return -SCALE"),
        changed('unit="1"', 'unit="m"'),
        changed("column(float", "column(int"),
        changed('rate="a rate"', 'rates="a rate"'),
        changed(', rate="a rate"', ""),
        changed("described(", "dict("),
        changed("import math", "import cmath as math"),
        changed('"""Of a circle."""', 'print("Of a circle.")'),
    ],
)
def test_a_changed_line_changes_the_digest(text):
    assert bare(text) != bare(MODULE)


def test_what_is_drawn_is_no_text_for_people():
    for word in ("title", "label", "xlabel"):
        assert bare(f'ax.set({word}="heads")') != bare(f'ax.set({word}="tails")')


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30))
def test_no_comment_and_no_description_is_seen(text):
    assert bare(MODULE + f"\n# {text}\n" + f"COLUMN = column(description={text!r})") == bare(MODULE + "COLUMN = column()")


# A small package


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in the place of rarefeat, and what its modules depend on by name."""
    folder = tmp_path / "rarefeat"
    texts = {
        "__init__.py": "",
        "stage.py": "import rarefeat.plain\nfrom rarefeat.named import f\nfrom . import sibling\nfrom .sub import deep\n",
        "plain.py": "import torch\n",
        "named.py": "from rarefeat.config.keys import KEY\n\ndef f():\n    from rarefeat.late import x\n",
        "sibling.py": "",
        "late.py": "import rarefeat.other.leaf as leaf\n",
        "alone.py": "import rarefeat.named\n",
        "config/__init__.py": "",
        "config/keys.py": "KEY = 1\n",
        "other/__init__.py": "from .hidden import y\n",
        "other/leaf.py": "from .. import top\nfrom ..sub.deeper import z\n",
        "other/hidden.py": "",
        "top.py": "",
        "sub/__init__.py": "",
        "sub/deep.py": "",
        "sub/deeper.py": "",
        "sub/kind.py": "",
        "unused.py": "import rarefeat.stage\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(dependencies, "PACKAGE", folder)
    monkeypatch.setattr(dependencies, "FRONT", folder / "__init__.py")
    return folder


def names(paths, folder):
    return {str(path.relative_to(folder)) for path in paths}


def test_every_way_to_import_is_seen_and_what_lies_on_the_way(package):
    assert names(closure("stage"), package) == {
        "__init__.py", "stage.py", "plain.py", "named.py", "sibling.py", "late.py", "config/__init__.py", "config/keys.py",
        "other/__init__.py", "other/leaf.py", "other/hidden.py", "top.py", "sub/__init__.py", "sub/deep.py", "sub/deeper.py",
    }  # fmt: skip
    assert names(closure("sub.deep"), package) == {"__init__.py", "sub/__init__.py", "sub/deep.py"}


def test_declarations_are_in_no_digest(package):
    assert names(closure("stage") - set(source_files("stage")), package) == {
        "__init__.py", "config/__init__.py", "config/keys.py"
    }  # fmt: skip
    assert "sub/kind.py" not in names(source_files("sub.kind"), package)


def test_the_digest_of_a_stage_changes_with_any_file_that_it_comes_to_and_with_no_other(package):
    def fresh(stage):
        dependencies.imported.cache_clear()
        return dependencies.code.__wrapped__(stage)

    before = {stage: fresh(stage) for stage in ("stage", "alone", "sibling")}
    assert len(set(before.values())) == 3
    for name, stages in {
        "late.py": {"stage", "alone"},
        "other/__init__.py": {"stage", "alone"},
        "sub/deeper.py": {"stage", "alone"},
        "sub/deep.py": {"stage"},
        "sibling.py": {"stage", "sibling"},
        "config/keys.py": set(),
        "unused.py": set(),
        "sub/kind.py": set(),
        "__init__.py": set(),
    }.items():
        path = package / name
        text = path.read_text()
        path.write_text(text + "\n# a comment\n")
        assert {stage: fresh(stage) for stage in before} == before
        path.write_text(text + "\nANEW = 1\n")
        assert {stage for stage in before if fresh(stage) != before[stage]} == stages, name
        path.write_text(text)


# Every job of the workflow

IMPORTS = """
import importlib, json, sys
found = {}
for name, modules in json.load(sys.stdin).items():
    for known in [known for known in sys.modules if known.partition(".")[0] == "rarefeat"]:
        del sys.modules[known]
    for module in modules:
        importlib.import_module(f"rarefeat.{module}")
    inside = [module for known, module in sys.modules.items() if known.partition(".")[0] == "rarefeat"]
    found[name] = sorted(path for module in inside if (path := getattr(module, "__file__", None)))
json.dump(found, sys.stdout)
"""


@functools.cache
def jobs() -> dict[str, tuple[set[str], set[str]]]:
    """For each job of the workflow, the modules that it imports by name, and those in whose digests they must be."""
    project = load("config/config.yaml")
    found = {}
    for kind in ("table", "figure", "page"):
        for name in getattr(project, f"{kind}s"):
            job = getattr(project, f"{kind}_job")(name)
            by_name = {job.stage, job.runs or job.stage}
            if job.stage == "chain.join":
                by_name.add(project.tables[name].schema.partition(":")[0])
            found[f"{kind} {name}"] = by_name, set(job.code)
    for name, table in project.tables.items():
        found |= {f"table {name}, through {stage}": ({stage}, {stage}) for stage in table.through}
    for rules in Path("workflow/rules").glob("*.smk"):
        for stage in re.findall(r'"((?:chain|images|studies)\.[a-z_.0-9]+)"', rules.read_text()):
            found[f"{rules.stem}: {stage}"] = {stage}, {stage}
    return found


@pytest.fixture(scope="module")
def real():
    """What Python imports for each job, all in one process that forgets rarefeat in between."""
    wanted = {name: sorted(modules) for name, (modules, _) in jobs().items()}
    distinct = {" ".join(modules): modules for modules in wanted.values()}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], input=json.dumps(distinct), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)
    return {name: {Path(path) for path in files[" ".join(modules)]} for name, modules in wanted.items()}


def test_every_stage_of_the_workflow_is_looked_at():
    stages = set().union(*(modules for modules, _ in jobs().values()))
    mains = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^    (parser = stage|measured)\(", path.read_text(), re.MULTILINE) and "__main__" in path.read_text()
    }
    assert len(mains) > 20
    assert mains - stages == set()


def test_the_digests_of_every_job_are_of_the_files_that_python_imports_for_it(real):
    for name, (_, digested) in jobs().items():
        seen = {path for path in real[name] if not dependencies.apart(path)}
        told = {path for stage in digested for path in source_files(stage)}
        assert seen, name
        assert not seen - told, f"{name} imports what is in none of its digests: {sorted(map(str, seen - told))}"


def test_no_digest_of_a_stage_holds_a_file_that_python_does_not_import_for_it(real):
    for name, (modules, _) in jobs().items():
        seen = {path for path in real[name] if not dependencies.apart(path)}
        told = {path for module in modules for path in source_files(module)}
        assert told == seen, name
