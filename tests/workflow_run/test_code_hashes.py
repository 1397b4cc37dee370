"""Hashes of code: edits that set numbers change them, comments and texts do not."""

import ast

import pytest
from conftest import refusal

from rarefeat.workflow.project import load
from rarefeat.workflow.run import code_hashes
from rarefeat.workflow.run.code_hashes import module_hashes, settings_read

STAGE = '''"""A stage."""

import math

from rarefeat import tools
from rarefeat.section import Section
from rarefeat.far import unused_here

SCALE = 2.0
"""What it means."""


class Data(Section):
    """A section."""

    size: int = Field(default=1, description="a size")

    @field_validator("size")
    def check(cls, value):
        return value

    @property
    def area(self) -> float:
        return self.size * SCALE


def stage(inputs, cell, draws: str, data: Data, most=3) -> None:
    """Its start."""
    from rarefeat.late import third

    if data.area < 0:
        raise ValueError(f"too small: {data.area}")
    print("a note")
    figure = tools.half(hidden(math.pi))
    return third(figure)


def hidden(r):
    return r**2


def figure(tables):
    """Draw."""
    return unused_here(tables)


STUDY = figure
'''
FILES = {
    "__init__.py": "",
    "stage.py": STAGE,
    "tools.py": "REGISTERED = []\nREGISTERED.append(1)\n\n\ndef half(x):\n    return x / 2\n",
    "late.py": "from rarefeat.tools import half\n\n\ndef third(x):\n    return half(x) / 1.5\n",
    "far.py": "def unused_here(x):\n    return x\n",
    "section.py": "class Section:\n    pass\n",
}
SAME = {
    "a comment": ("stage.py", "    if data", "    # a note\n    if data"),
    "a docstring": ("stage.py", '"""Its start."""', '"""Begin."""'),
    "a constant's docstring": ("stage.py", "What it means.", "Metres."),
    "layout": ("stage.py", "return r**2", "return (\n        r ** 2\n    )"),
    "an annotation": ("stage.py", "def hidden(r)", "def hidden(r: float)"),
    "a field of a section": ("stage.py", "default=1", "default=2"),
    "a validator": ("stage.py", "        return value\n", "        return value + 0\n"),
    "the text of an error": ("stage.py", "too small: ", "small: "),
    "what is printed": ("stage.py", '"a note"', '"another"'),
    "a figure in the same file": ("stage.py", "return unused_here(tables)", "return tables"),
    "a module that only the figure reads": ("far.py", "return x", "return 2 * x"),
    "a variable named like a function": ("stage.py", "def figure(tables)", "def figure(t)"),
}
OTHER = {
    "a constant": ("stage.py", "SCALE = 2.0", "SCALE = 2"),
    "a default": ("stage.py", "most=3", "most=4"),
    "a helper": ("stage.py", "return r**2", "return r**3"),
    "a property of a section": ("stage.py", "self.size * SCALE", "self.size + SCALE"),
    "the type of an error": ("stage.py", "raise ValueError(", "raise KeyError("),
    "when an error comes": ("stage.py", "data.area < 0", "data.area < 1"),
    "an imported module": ("tools.py", "return x / 2", "return x / 3"),
    "a module that a function imports": ("late.py", "1.5", "1.25"),
    "what a module does at its import": ("tools.py", "append(1)", "append(2)"),
}


@pytest.fixture
def hashes_of(tmp_path, monkeypatch):
    def hashes(*changes: tuple[str, str, str], function="stage:stage") -> dict[str, str]:
        for name, text in FILES.items():
            for file, old, new in changes:
                if file == name:
                    assert old in text, old
                    text = text.replace(old, new)
            (tmp_path / "rarefeat" / name).write_text(text)
        code_hashes.READ.clear()
        module_hashes.cache_clear()
        return module_hashes(function)

    (tmp_path / "rarefeat").mkdir()
    monkeypatch.setattr(code_hashes, "PACKAGE", tmp_path / "rarefeat")
    monkeypatch.setattr(code_hashes, "AT_START", {})
    monkeypatch.setattr(code_hashes, "READ", {})
    yield hashes
    module_hashes.cache_clear()


@pytest.mark.parametrize("edit", SAME)
def test_hash_ignores_what_sets_no_number(hashes_of, edit):
    assert hashes_of(SAME[edit]) == hashes_of()


@pytest.mark.parametrize("edit", OTHER)
def test_hash_sees_what_sets_numbers(hashes_of, edit):
    after, before = hashes_of(OTHER[edit]), hashes_of()
    assert after.keys() == before.keys()
    (changed,) = [part for part in before if after[part] != before[part]]
    assert changed == {"stage.py": "stage:stage"}.get(OTHER[edit][0], OTHER[edit][0][:-3])


def test_modules_are_those_that_the_function_reaches(hashes_of):
    assert list(hashes_of()) == ["late", "section", "stage:stage", "tools"]
    assert list(hashes_of(function="stage:figure")) == ["far", "stage:figure"]


def test_missing_module_and_broken_file_are_one_line(hashes_of):
    assert refusal(lambda: hashes_of(function="absent:stage")) == (
        "absent: the package has no such module; check its rule"
    )
    assert "stage.py, line " in refusal(hashes_of, ("stage.py", "return r**2", "return (r**2"))


def test_code_that_was_accepted_has_the_hashes_of_the_old(hashes_of, monkeypatch):
    before, edit = hashes_of(), ("tools.py", "return x / 2", "return 0.5 * x")
    now = code_hashes.hash_code(hashes_of(edit))
    monkeypatch.setattr(code_hashes, "ACCEPTED", {now: before})
    assert hashes_of(edit) == before
    monkeypatch.setattr(code_hashes, "AT_START", dict(code_hashes.READ))
    code_hashes.check_unedited("stage:stage")  # or no job of accepted code could run
    assert hashes_of(("tools.py", "return x / 2", "return x / 3")) != before


def test_module_edited_during_a_run_is_refused(hashes_of, monkeypatch):
    hashes_of()
    monkeypatch.setattr(code_hashes, "AT_START", dict(code_hashes.READ))
    code_hashes.check_unedited("stage:stage")
    hashes_of(OTHER["a helper"])
    assert refusal(code_hashes.check_unedited, "stage:stage") == (
        "stage was edited after this run began; run snakemake again"
    )
    hashes_of(SAME["a figure in the same file"])
    code_hashes.check_unedited("stage:stage")


def test_own_code_has_one_order_and_is_not_edited_during_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(code_hashes, "AT_START", {})
    arms = [{"arm": f"rule_{i}:mine"} for i in (4, 2, 0, 3, 1, 5)]
    for i in range(6):
        (tmp_path / f"rule_{i}.py").write_text("def mine(context): ...\n")
    assert [*code_hashes.user_code({"arms": arms})] == [f"own.rule_{i}:mine" for i in range(6)]
    code_hashes.check_own_code({"arms": arms})
    (tmp_path / "rule_3.py").write_text("def mine(context): return 1\n")
    assert refusal(code_hashes.check_own_code, {"arms": arms}) == (
        "a file of rule_3:mine was edited after this run began; run snakemake again"
    )


def test_settings_are_the_parameters_that_the_job_itself_does_not_have(hashes_of):
    hashes_of()
    assert settings_read("stage:stage") == ("draws", "data")


def every_function() -> set[str]:
    project = load("config/config.yaml")
    functions = {stage.function for stage in project.stages}
    for output in ("table", "figure", "page"):
        jobs = getattr(project, f"{output}_job")
        functions |= {jobs(name).stage for name in getattr(project, f"{output}s")}
    return functions


def test_every_number_of_a_stage_is_in_its_hash():
    tried = 0
    for part in module_hashes("stages.pretrain:stage", "stages.probe:stage"):
        module, _, name = part.partition(":")
        tree = ast.parse(code_hashes.find_file(module).read_bytes())
        functions = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and name in ("", node.name)
        ]
        before = repr(code_hashes.describe(functions))
        numbers = [
            node
            for function in functions
            for statement in function.body
            for node in ast.walk(statement)
            if type(getattr(node, "value", None)) in (int, float) and not in_text(function, node)
        ]
        for node in numbers:
            node.value += 1
            assert repr(code_hashes.describe(functions)) != before, f"{module}: {node.value}"
            node.value -= 1
            tried += 1
    assert tried > 200


def in_text(function: ast.FunctionDef, number: ast.AST) -> bool:
    texts = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Raise) or code_hashes.sets_no_number(node)
    ]
    texts += [node.annotation for node in ast.walk(function) if isinstance(node, ast.AnnAssign)]
    return any(number is node for text in texts for node in ast.walk(text))


def test_stages_import_nothing_by_a_name_that_is_computed():
    """A module that is imported by a text would be in no hash."""
    for part in module_hashes(*every_function()):
        tree = ast.parse(code_hashes.find_file(part.partition(":")[0]).read_bytes())
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {ast.unparse(function).rpartition("importlib.")[2] for function in called}
        assert not names & {"import_module", "__import__", "exec", "eval"}, part
