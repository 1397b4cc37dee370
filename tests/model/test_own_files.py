"""Files of own code: which edits move the hash of a function, and that the hashed text runs."""

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from rarefeat.errors import RarefeatError
from rarefeat.model import own_files
from rarefeat.model.rooms import SEALED, Room, hash_user_code, run_rooms

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


def mine():
    return twice(near.value), deep.value, eval("by_name()"), plugins[0].value


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
    "declared.csv": "1\n",
    "opened.json": "[1]",
    "unused.py": "value = 7\n",
    "unused.csv": "7\n",
    "site-packages/installed.py": "value = 8\n",
}
UNSEEN = ("unused.py", "unused.csv", "site-packages/installed.py")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
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
    "another import": (lambda: edit("plugin_a.py", "value", "import unused\nvalue"), True),
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
    before = hash_user_code("rules:mine")
    change()
    after = hash_user_code("rules:mine")
    assert (after != before) == moves
    if moves:
        SEALED.clear()
        assert hash_user_code("rules:mine") == after


def value_of(name: str):
    module, _, function = name.partition(":")
    room = Room([name], lambda: [getattr(sys.modules[module], function)()])
    return run_rooms([room])[0].value


@pytest.mark.parametrize(
    ("name", "old", "new", "value"),
    [
        ("plugin_a.py", "2", "9", (2, 1, 5, 9)),
        ("rules.py", "LEVEL = 5", "LEVEL = 6", (2, 1, 6, 2)),
    ],
)
def test_edited_text_is_the_text_that_runs(folder, name, old, new, value):
    """Also if it has the size and time of the text that Python has cached."""
    before = hash_user_code("rules:mine")
    assert value_of("rules:mine") == (2, 1, 5, 2)
    py_compile.compile(name)
    about = Path(name).stat()
    edit(name, old, new)
    os.utime(name, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert value_of("rules:mine") == value
    assert hash_user_code("rules:mine") != before
    assert "rules" not in sys.modules, "this process imports none"


def test_hash_is_the_same_whatever_was_imported_before(folder):
    value = hash_user_code("rules:mine")
    code = "from rarefeat.model.rooms import *; print(hash_user_code('rules:mine'))"
    for imports in ("", "import pkg.near, numpy, effects, rules; "):
        done = subprocess.run(
            [sys.executable, "-c", imports + code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == value, imports


BESIDE = {
    "configs/beside.py": "import later_on, near_it\nreads = ['levels.csv']\n"
    "def mine():\n    return near_it.value, later_on.value\n",
    "configs/near_it.py": "value = 1\n",
    "configs/levels.csv": "1\n",
    "later_on.py": "value = 2\n",
}


@pytest.mark.parametrize("name", BESIDE)
def test_module_beside_config_has_its_imports_from_there_and_the_working_directory(
    folder, monkeypatch, name
):
    monkeypatch.setattr(own_files, "FOLDERS", ["configs"])
    for path, text in BESIDE.items():
        write(path, text)
    before = hash_user_code("beside:mine")
    assert value_of("beside:mine") == (1, 2)
    write(name, BESIDE[name] + "\n")
    assert hash_user_code("beside:mine") != before


def test_module_beside_config_comes_first_and_has_one_hash_from_any_folder(folder, monkeypatch):
    write("configs/alone.py", "def value():\n    return 1\n")
    write("alone.py", "def value():\n    return 2\n")
    assert value_of("alone:value") == 2
    monkeypatch.setattr(own_files, "FOLDERS", ["configs"])
    there = hash_user_code("alone:value")
    assert value_of("alone:value") == 1
    monkeypatch.setattr(own_files, "FOLDERS", [])
    monkeypatch.chdir("configs")
    assert hash_user_code("alone:value") == there


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("broken", "1 / 0", r"broken\.py cannot be imported: ZeroDivisionError: division by zero"),
        ("statistics", "x = 1", r"statistics\.py: another module is called statistics, too"),
        ("lists", "reads = ['gone.csv']", r"lists\.py: reads: there is no file gone\.csv in"),
    ],
)
def test_module_that_cannot_be_hashed_is_one_line(folder, name, text, message):
    hash_user_code("rules:mine")
    write(f"{name}.py", text)
    with pytest.raises(RarefeatError, match=message):
        hash_user_code(f"{name}:mine")
