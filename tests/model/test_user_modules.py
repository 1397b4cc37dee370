"""A user's files: which edits move the hash of a function, and that the hashed text runs."""

import os
import pickle
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from rarefeat.errors import RarefeatError
from rarefeat.model import user_modules
from rarefeat.model.user_modules import IMPORTED, hash_user_code, load_user_module

RULES = """
from __future__ import annotations

import importlib
import json
from dataclasses import dataclass

import effects
import numpy
import pkg.sub.deep as deep
from helper import *
from pkg import near

reads = ["declared.csv"]
plugins = [importlib.import_module(f"plugin_{x}") for x in "ab"]
DATA = json.load(open("opened.json"))


@dataclass
class Level:
    value: float = 1


def mine(seen):
    import late

    def within():
        from later.package import value

        return value

    return late.value, within(), twice(near.value), deep.value, eval("by_name()"), plugins[0].value


def by_name():
    return globals()["LEVEL"]


LEVEL = 5
"""
FILES = {
    "rules.py": RULES,
    "helper.py": "def twice(x):\n    return 2 * x\n",
    "effects.py": "import registry\nregistry.ENTRIES.append(1)\n",
    "registry.py": "ENTRIES = []\n",
    "pkg/__init__.py": "",
    "pkg/near.py": "from .relative import value\n",
    "pkg/relative.py": "value = 1\n",
    "pkg/sub/deep.py": "from ..relative import value\n",
    "plugin_a.py": "value = 2\n",
    "plugin_b.py": "value = 3\n",
    "late.py": "from latest import value\n",
    "latest.py": "value = 4\n",
    "later/__init__.py": "",
    "later/package.py": "value = 6\n",
    "declared.csv": "1\n",
    "opened.json": "[1]",
    "unused.py": "value = 7\n",
    "unused.csv": "7\n",
    "site-packages/installed.py": "value = 8\n",
}
UNSEEN = ("unused.py", "unused.csv", "site-packages/installed.py")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A user's working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(sys.modules)
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    yield tmp_path
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


def edit(name: str, old: str, new: str) -> None:
    assert old in Path(name).read_text()
    Path(name).write_text(Path(name).read_text().replace(old, new))


@pytest.mark.parametrize("name", FILES)
def test_hash_is_of_every_file_that_an_import_runs(folder, name):
    before = hash_user_code("rules:mine")
    Path(name).write_text(FILES[name] + "\n")
    assert (hash_user_code("rules:mine") != before) == (name not in UNSEEN)
    Path(name).write_text(FILES[name])
    assert hash_user_code("rules:mine") == before


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def replace_by_link() -> None:
    Path("elsewhere.txt").write_text(FILES["helper.py"])
    Path("helper.py").unlink()
    Path("helper.py").symlink_to("elsewhere.txt")


EDITS = {
    "a comment": (lambda: edit("helper.py", "return", "# twice\n    return"), True),
    "a name that a star import brings": (lambda: edit("helper.py", "twice", "thrice"), True),
    "a declaration": (lambda: edit("rules.py", '["declared.csv"]', "[]"), True),
    "another declaration": (
        lambda: edit("rules.py", '["declared.csv"]', '("declared.csv", "unused.csv")'),
        True,
    ),
    "a package before a module": (
        lambda: write("helper/__init__.py", "def twice(x):\n    return 4 * x\n"),
        True,
    ),
    "another import": (lambda: edit("latest.py", "value", "import unused\nvalue"), True),
    "a link to the same text": (replace_by_link, False),
    "another time": (lambda: os.utime("helper.py", (1, 1)), False),
    "a new file of a package": (lambda: write("pkg/newcomer.py", "value = 1\n"), False),
    "cached bytecode": (lambda: py_compile.compile("helper.py"), False),
    "hidden files": (lambda: write(".git/config", "x"), False),
}


@pytest.mark.parametrize("name", EDITS)
def test_edit_moves_hash(folder, name):
    """In this process, which has imported the files before, and in a new one."""
    change, moves = EDITS[name]
    before = load_user_module("rules")
    change()
    after = load_user_module("rules")
    assert (after.hash != before.hash) == moves
    if moves:
        IMPORTED.clear()
        assert load_user_module("rules").hash == after.hash


@pytest.mark.parametrize(
    ("name", "old", "new", "value"),
    [
        ("plugin_a.py", "2", "9", (4, 6, 2, 1, 5, 9)),
        ("later/package.py", "6", "7", (4, 7, 2, 1, 5, 2)),
        ("rules.py", "LEVEL = 5", "LEVEL = 6", (4, 6, 2, 1, 6, 2)),
    ],
)
def test_edited_text_is_the_text_that_runs(folder, name, old, new, value):
    """Also if it has the size and time of the text that Python has cached."""
    first = load_user_module("rules")
    assert first.module.mine(None) == (4, 6, 2, 1, 5, 2)
    py_compile.compile(name)
    about = Path(name).stat()
    edit(name, old, new)
    os.utime(name, ns=(about.st_atime_ns, about.st_mtime_ns))
    second = load_user_module("rules")
    assert second.module.mine(None) == value
    assert second.hash != first.hash


def test_hash_is_the_same_whatever_was_imported_before(folder):
    value = hash_user_code("rules:mine")
    code = "from rarefeat.model.user_modules import *; print(hash_user_code('rules:mine'))"
    for imports in ("", "import late, pkg.near, numpy, json; ", "import effects, rules; "):
        done = subprocess.run(
            [sys.executable, "-c", imports + code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == value, imports


def test_import_keeps_other_modules_of_the_user(folder):
    sys.path.insert(0, str(folder))
    import unused

    unused.value = "changed in a session"
    module = load_user_module("rules").module
    assert sys.modules["unused"] is unused
    assert pickle.loads(pickle.dumps(module.Level())) == module.Level()
    assert load_user_module("rules").module is module
    Path("unused.py").write_text("")
    assert load_user_module("rules").module is module


BESIDE = {
    "configs/beside.py": "import near_it\n\nreads = ['levels.csv']\n\n\n"
    "def mine():\n    from later_on import value\n\n    return near_it.value, value\n",
    "configs/near_it.py": "value = 1\n",
    "configs/levels.csv": "1\n",
    "later_on.py": "value = 2\n",
}


@pytest.mark.parametrize("name", BESIDE)
def test_module_beside_config_has_its_imports_from_there_and_the_working_directory(
    folder, monkeypatch, name
):
    monkeypatch.setattr(user_modules, "FOLDERS", ["configs"])
    for path, text in BESIDE.items():
        write(path, text)
    before = load_user_module("beside")
    assert before.module.mine() == (1, 2)
    write(name, BESIDE[name] + "\n")
    assert load_user_module("beside").hash != before.hash


def test_module_beside_config_comes_first_and_has_one_hash_from_any_folder(folder, monkeypatch):
    write("configs/alone.py", "value = 1\n")
    write("alone.py", "value = 2\n")
    assert load_user_module("alone").module.value == 2
    monkeypatch.setattr(user_modules, "FOLDERS", ["configs"])
    there = load_user_module("alone")
    assert there.module.value == 1
    monkeypatch.setattr(user_modules, "FOLDERS", [])
    monkeypatch.chdir("configs")
    assert load_user_module("alone").hash == there.hash


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("broken", "1 / 0", r"broken\.py cannot be imported: ZeroDivisionError: division by zero"),
        ("statistics", "x = 1", r"statistics\.py: an installed module is called statistics, too"),
        ("numpy/__init__", "", r"numpy/__init__\.py: an installed module is called numpy, too"),
        ("lists", "reads = ['gone.csv']", r"lists\.py: reads: there is no file gone\.csv in"),
        (
            "lists",
            "reads = sorted([])",
            r"lists\.py: reads: must be a list of file names, got sorted",
        ),
    ],
)
def test_module_that_cannot_be_hashed_is_one_line(folder, name, text, message):
    hash_user_code("rules:mine")
    write(f"{name}.py", text)
    with pytest.raises(RarefeatError, match=message):
        hash_user_code("rules:mine" if name in ("dataclasses", "numpy/__init__") else name)
