"""The border of the interface: torch's settings, tracebacks, former names, examples."""

import doctest
import inspect
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import torch
from conftest import refusal
from session_code import define

import rarefeat
import rarefeat.api
from rarefeat.model.torch_settings import workflow_settings
from rarefeat.workflow.run.code_hashes import module_hashes

SMALL = {"T": 5, "N": 128, "d1": 60, "progress": False}
SOURCE = str(Path(rarefeat.__file__).parents[1])


def test_import_of_the_package_alone_is_fast():
    script = (
        "import sys, rarefeat\n"
        "print({'torch', 'pandas', 'pydantic'} & {*sys.modules}, 'train' in dir(rarefeat))"
    )
    environment = os.environ | {"PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "set() True\n"
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = rarefeat.trian


def test_public_names_are_in_no_code_hash():
    """A new one must not compute anything again."""
    modules = {name.split(".")[0] for name in module_hashes("stages.pretrain:stage")}
    assert "training" in modules
    assert not {"", "api"} & modules


FINDER = doctest.DocTestFinder()
EXAMPLES = [
    example
    for name in rarefeat.__all__
    for example in FINDER.find(getattr(rarefeat, name), f"rarefeat.{name}", module=False)
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_of_docstrings_run(results, example, monkeypatch):
    monkeypatch.chdir(results.parents[1])
    example.globs = {"rarefeat": rarefeat}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    output: list[str] = []
    runner.run(example, out=output.append)
    assert not runner.failures, "".join(output)


def test_every_public_function_has_an_example():
    members = {name: getattr(rarefeat, name) for name in rarefeat.__all__}
    functions = {f"rarefeat.{name}" for name, value in members.items() if inspect.isfunction(value)}
    assert {example.name for example in EXAMPLES} >= functions
    assert all(value.__doc__ for value in members.values())


def test_error_shows_no_frames_of_ours():
    with pytest.raises(rarefeat.RarefeatError) as caught:
        rarefeat.train(T="long")
    files = [Path(frame.filename).name for frame in traceback.extract_tb(caught.tb)]
    assert files == [Path(__file__).name, "entry_points.py"]
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_error_of_a_rule_is_one_line():
    text = "def rule(context):\n    return broken(context)\ndef broken(context):\n    1 / 0\n"
    with pytest.raises(rarefeat.RarefeatError, match="rule: fails: ZeroDivisionError"):
        rarefeat.train(arm=define(text), **SMALL)


@pytest.fixture
def changed_settings():
    """Set of torch what anyone may have set."""
    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_float32_matmul_precision("medium")
    torch.set_flush_denormal(True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield
    torch.set_flush_denormal(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)


def settings_now():
    names = "num_threads", "default_dtype", "default_device", "float32_matmul_precision"
    return [getattr(torch, f"get_{name}")() for name in names]


def test_training_does_not_depend_on_settings(request):
    first = rarefeat.train(simulator="direct", **SMALL)
    pairs = first.sample_pairs(3)
    embeddings = first(pairs)
    request.getfixturevalue("changed_settings")
    before = settings_now()
    second = rarefeat.train(simulator="direct", **SMALL)
    assert second.weights.equal(first.weights)
    assert second.trajectory.equals(first.trajectory)
    assert second.sample_pairs(3).tokens.equal(pairs.tokens)
    assert second(pairs).equal(embeddings)
    assert settings_now() == before


def test_workflow_settings_are_those_of_a_job(changed_settings):
    with workflow_settings():
        assert torch.get_num_threads() == 1
        assert torch.ones(1).dtype == torch.float32
        assert torch.ones(1).device.type == "cpu"
        assert not torch.is_autocast_enabled("cpu")
        assert (torch.tensor([1e-40]) * 0.5).item() > 0


def test_workflow_settings_refuse_a_precision_of_a_backend():
    backend = torch.backends.mkldnn.matmul
    if not hasattr(backend, "fp32_precision"):
        pytest.skip("this version of torch has no precision of a backend")
    backend.fp32_precision = "bf16"
    try:
        assert "fp32_precision: must be ieee" in refusal(rarefeat.train, **SMALL)
    finally:
        backend.fp32_precision = "none"
    assert rarefeat.train(**SMALL).steps
