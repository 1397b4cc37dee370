"""Functions of a notebook: which edits move their hash, and what has no certain hash."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import refusal
from session_code import define

from rarefeat.api import session_functions
from rarefeat.api.session_functions import hash_function
from rarefeat.core.pruning import mask_smallest

CELL = """
LEVEL = 0.3
LEVELS = {"a": [1, 2.0], "b": (None, "text")}
WEIGHTS = torch.arange(4.0)
TABLE = np.eye(2)
UNUSED = 1

def rule(context, cut=0.5, *, keep=(1, 2)):
    \"\"\"A rule.\"\"\"
    # A comment.
    inner = lambda x: x + LEVEL
    return helper(context) < inner(cut) + WEIGHTS.sum() + TABLE[0, 0] + LEVELS["a"][0] + made(1)

def helper(context):
    return deeper(context)

def deeper(context):
    return context.norms if context else rule(context)

def unused():
    return 1

def make(share):
    def scaled(x):
        return share * x
    return scaled

made = make(2)
rule.threshold = 0.1
"""
EDITS = [
    ("LEVEL = 0.3", "LEVEL = 0.4", True),
    ("[1, 2.0]", "[1, 2.5]", True),
    ("[1, 2.0]", "(1, 2.0)", True),
    ('"text"', '"texts"', True),
    ("torch.arange(4.0)", "torch.arange(5.0)", True),
    ("torch.arange(4.0)", "torch.arange(4.0).double()", True),
    ("torch.arange(4.0)", "torch.arange(4.0).reshape(2, 2)", True),
    ("np.eye(2)", "2 * np.eye(2)", True),
    ("np.eye(2)", "np.eye(2, dtype=np.float32)", True),
    ("cut=0.5", "cut=0.6", True),
    ("keep=(1, 2)", "keep=(1, 3)", True),
    ("x + LEVEL", "x - LEVEL", True),
    ("deeper(context)\n", "-deeper(context)\n", True),
    ("return context.norms if", "return context.weights if", True),
    ("share * x", "share + x", True),
    ("make(2)", "make(3)", True),
    ("rule.threshold = 0.1", "rule.threshold = 0.2", True),
    ("LEVELS = {", "LEVELS = {'c': 1, ", True),
    ("# A comment.", "# Another comment.", False),
    ("UNUSED = 1", "UNUSED = 2", False),
    ("return 1", "return 2", False),
    ("\nLEVEL = 0.3", "\n\n\nLEVEL = 0.3", False),
]


@pytest.mark.parametrize(("old", "new", "moves"), EDITS)
def test_hash_moves_with_everything_that_is_reached(old, new, moves):
    assert old in CELL
    first, again = hash_function(define(CELL)), hash_function(define(CELL))
    assert first == again
    assert (hash_function(define(CELL.replace(old, new))) != first) == moves


def test_hash_is_the_same_in_another_session(tmp_path):
    text = CELL.replace("context.norms if", "'x' in {'x', 'y', 'z'} and context.norms if")
    path = tmp_path / "script.py"
    head = "import numpy as np, torch\nfrom rarefeat.api.session_functions import hash_function\n"
    path.write_text(head + text + "print(hash_function(rule))\n")
    hashes = {
        subprocess.check_output(
            [sys.executable, path], text=True, env=os.environ | {"PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    }
    assert hashes == {hash_function(define(text)) + "\n"}


def test_hash_has_the_versions_of_packages(monkeypatch):
    rule = define("def rule(context):\n    return torch.relu(context.norms) > 0\n")
    smallest = define("def rule(context):\n    return mask_smallest(context.norms, 0.1)\n")
    before = hash_function(rule), hash_function(smallest)
    monkeypatch.setattr(torch, "__version__", "0.0")
    assert hash_function(rule) != before[0]
    monkeypatch.setattr(session_functions, "package_hash", lambda: "edited")
    assert hash_function(smallest) != before[1]


BODY = "def rule(context):\n    return {}\n"
ACCEPTED = {
    "builtin": BODY.format("len(context.norms)"),
    "alias of a builtin": "f = len\n" + BODY.format("f(context.norms)"),
    "function of torch": "f = torch.relu\n" + BODY.format("f(context.norms)"),
    "function of numpy": "f = np.exp\n" + BODY.format("f(context.norms)"),
    "module within a package": "import torch.nn.functional as F\n" + BODY.format("F.relu(1)"),
    "standard library": "import math\n" + BODY.format("math.pi"),
    "import within the function": "def rule(context):\n    import math\n    return math.pi\n",
    "own name of a builtin": "def open(x):\n    return x\n" + BODY.format("open(context)"),
    "bfloat16": "x = torch.ones(3, dtype=torch.bfloat16)\n" + BODY.format("x"),
    "number of numpy": "x = np.float32(3)\n" + BODY.format("x"),
    "sets": "x = {1, 2, (3, 'a')}\n" + BODY.format("x"),
    "recursion": BODY.format("rule(context)"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_function_of_certain_hash_is_accepted(name):
    assert hash_function(define(ACCEPTED[name])) == hash_function(define(ACCEPTED[name]))


REFUSED = {
    "class of the session": ("class A:\n    x = 1\n" + BODY.format("A.x"), "uses A, a class"),
    "instance": ("class A:\n    x = 1\na = A()\n" + BODY.format("a.x"), "uses a, of type A"),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\n"
        + BODY.format("A().x"),
        "uses A, a class",
    ),
    "subclass of a list": ("class L(list):\n    x = 1\nl = L()\n" + BODY.format("l"), "of type L"),
    "subclass of a number": ("class N(int):\n    pass\nn = N(2)\n" + BODY.format("n"), "of type N"),
    "named tuple": (
        "from collections import namedtuple\np = namedtuple('P', 'x')(1)\n" + BODY.format("p.x"),
        "uses p, of type P",
    ),
    "bound method": ("f = [3].pop\n" + BODY.format("f()"), "uses f, of type builtin_function_or_m"),
    "path": ("from pathlib import Path\np = Path('a')\n" + BODY.format("p"), "of type PosixPath"),
    "partial": ("from functools import partial\nf = partial(max)\n" + BODY.format("f"), "partial"),
    "generator": ("g = torch.Generator()\n" + BODY.format("g"), "uses g, of type Generator"),
    "array of objects": ("a = np.array([None])\n" + BODY.format("a"), "an array of objects"),
    "sparse": ("a = torch.eye(2).to_sparse()\n" + BODY.format("a"), "an array of torch.float32"),
    "itself": ("a = []\na.append(a)\n" + BODY.format("a"), "uses a value that contains itself"),
    "eval": (BODY.format("eval('x')"), "uses eval, by which it may reach anything"),
    "globals": (BODY.format("globals()"), "uses globals, by which it may reach anything"),
    "open": (BODY.format("open('x')"), "uses open, by which it may reach anything"),
    "sys": ("import sys\n" + BODY.format("sys.modules"), "uses sys, by which it may reach"),
    "import of os": ("def rule(c):\n    import os\n    return os\n", "uses the import of os, by"),
    "empty cell": (
        "def make():\n    def rule(c):\n        return later\n    yield rule\n    later = 1\n"
        "rule = next(make())\n",
        "before the names around it have values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_function_without_certain_hash_is_refused(name):
    text, line = REFUSED[name]
    assert line in refusal(hash_function, define(text))


def test_functions_of_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    text = (
        "def twice(x):\n    return 2 * x\n"
        "def make():\n    def inner(x):\n        return x\n    return inner\n"
    )
    Path("helper_of_test.py").write_text(text)
    Path("folder_of_test").mkdir()
    Path("folder_of_test/deep.py").write_text(text)
    import folder_of_test.deep
    import helper_of_test

    twice = helper_of_test.twice
    edited = "of helper_of_test.py, which may have been edited since it was imported; "
    assert f'is {edited}give it by its name, "helper_of_test:twice"' in refusal(
        hash_function, twice
    )
    assert f"is {edited}define it at the top" in refusal(hash_function, helper_of_test.make())
    for text, line in {
        "twice(context)": f"rule rule: uses twice {edited}write the rule into that file",
        "helper_of_test.twice(context)": "uses helper_of_test, of ",
        "folder_of_test.deep.twice(context)": "uses folder_of_test, of ",
    }.items():
        values = {"helper_of_test": helper_of_test, "folder_of_test": folder_of_test}
        rule = define(BODY.format(text), twice=twice, **values)
        assert line in refusal(hash_function, rule)
    inside = define("def rule(context):\n    import helper_of_test\n    return helper_of_test\n")
    assert "uses the import of helper_of_test, of " in refusal(hash_function, inside)
    monkeypatch.chdir("/")
    assert "put the file into the working directory" in refusal(hash_function, twice)


def test_methods_and_objects_are_no_rules():
    class Rule:
        __name__ = "rule"

        def __call__(self, context):
            return context

        def method(self, context):
            return context

    assert "rule rule: uses itself, of type Rule" in refusal(hash_function, Rule())
    assert "of type method" in refusal(hash_function, Rule().method)


def test_functions_of_packages_are_accepted():
    assert hash_function(mask_smallest) != hash_function(np.mean)
