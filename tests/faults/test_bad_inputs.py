"""Bad input, each case through the command line that a user would give it to: exit status, one line, results untouched.

What is wrong and the line stand in inputs.yaml, which docs/reference/refused.md is filled in from. Cases share this process;
some go to Snakemake itself, which prints the same line.
"""

import contextlib
import importlib
import io
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import job_at, tiny_data, tiny_training
from PIL import Image
from whole_project import ROOT, copy_of_the_project, run

from rarefeat.chain.synthesise import synthesise
from rarefeat.config.cells import cell
from rarefeat.config.images import ImageData
from rarefeat.config.model import Arm
from rarefeat.config.reading import read
from rarefeat.config.study import merged
from rarefeat.images.datasets import read_images
from rarefeat.kind import IMAGE_DATA, IMAGE_SPLITS, PRETRAIN, SYNTHESISE
from rarefeat.report.published import FOLDER, Published
from rarefeat.run import command, guard, results_folder
from rarefeat.run.job import job
from rarefeat.storage.tensors import write_tensors

CASES = {
    f"{part}: {case['what']}": case for part, cases in read(Path(__file__).with_name("inputs.yaml")).items() for case in cases
}
STUDY = {"grid": {"g": {"eps_min": [0.5], "sigma": [0.05], "arms": ["dense"]}}}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A project's folder with results, images, latents of a training, and what commands are given."""
    folder = copy_of_the_project(tmp_path_factory.mktemp("project"))
    for path, text in {
        "results/tables/old.parquet": "a table",
        "results/figures/old.png": "\x89PNG",
        "notes.txt": "notes",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="latin-1")
    for name in ("references", "elsewhere/config", "images"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "config/quick.yaml", folder / "elsewhere/config")
    draw = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(draw.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"images/{i}.png")
    (folder / "images/train.txt").write_text("".join(f"{i}.png {i % 2}\n" for i in range(4)), encoding="utf-8")
    (folder / "images/test.txt").write_text("4.png 0\n5.png 1\n", encoding="utf-8")
    latents(folder / "latents.safetensors", CHAIN)
    return folder


@pytest.fixture
def folder(made, monkeypatch) -> Path:
    """The folder, in which the test is, and whose results must be as they were afterwards."""
    monkeypatch.chdir(made)
    before = snapshot(made / "results")
    yield made
    assert snapshot(made / "results") == before


def snapshot(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Contents and dates of the files of results; a run has a lock there."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != results_folder.LOCK)
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


# Command lines


def called(module: str, *arguments: str) -> tuple[int, str]:
    """Exit status and standard error of `python -m MODULE ARGUMENTS`, in this process."""
    errors = io.StringIO()
    before, sys.argv = sys.argv, [module, *arguments]
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            command.run(importlib.import_module(module).main)
    except SystemExit as ending:
        if isinstance(ending.code, str):
            return 1, f"{errors.getvalue()}{ending.code}\n"
        return ending.code or 0, errors.getvalue()
    finally:
        sys.argv = before
    return 0, errors.getvalue()


def of_snakemake(folder: Path, arguments: str, dry: bool = True) -> tuple[int, str]:
    """Exit status and output of Snakemake."""
    done = run(folder, *(["--dry-run"] if dry else []), *shlex.split(arguments), configs=())
    return done.returncode, done.stdout + done.stderr


def says(output: str, line: str, folder: Path) -> None:
    """The one line of error that an output holds, and no traceback."""
    said = [text for text in output.splitlines() if re.match(r"([\w.-]+: )?error\b", text)]
    assert len(said) == 1, output
    assert "Traceback" not in output
    expected = ".*".join(re.escape(part) for part in line.replace("{folder}", str(folder)).split("..."))
    assert re.fullmatch(f"(.*: )?error: {expected}", said[0]), f"{said[0]!r}\nis not\n{line!r}"


# The parts of a case


def told(case: dict, folder: Path) -> str:
    """The config file of a case."""
    path = folder / "mine.yaml"
    if "bytes" in case:
        path.write_bytes(case["bytes"].encode("latin-1"))
    elif "text" in case:
        path.write_text(case["text"], encoding="utf-8")
    elif "nested" in case:
        path.write_text("data: " + "{d: " * case["nested"] + "5" + "}" * case["nested"], encoding="utf-8")
    elif "digits" in case:
        path.write_text(f"first_seed: {'1' * case['digits']}\n", encoding="utf-8")
    else:
        study = {"imbalance": {"studies": {"mine": merged(STUDY, case["study"])}}} if "study" in case else case["config"]
        path.write_text(yaml.safe_dump(study), encoding="utf-8")
    return path.name


def of_images(case: dict, folder: Path) -> tuple[int, str]:
    """The stage that reads images, and that of the splits where the case has some, on changed lists and images."""
    shutil.copytree("images", "changed", dirs_exist_ok=True)
    for name, content in case.get("files", {}).items():
        path = Path("changed", name)
        match content:
            case None:
                path.unlink()
            case {"copy": other}:
                shutil.copy(path.with_name(other), path)
            case {"bytes": text}:
                path.write_bytes(text.encode("latin-1"))
            case _:
                path.write_text(content, encoding="utf-8")
    keys = {"format": "image_folder", "folder": "changed", "size": 8, "train_list": "train.txt", "test_list": "test.txt"}
    changes = {key: value.replace("{folder}", str(folder)) if isinstance(value, str) else value
               for key, value in case.get("images", {}).items()}  # fmt: skip
    data = ImageData(**keys | changes)
    try:
        made = job(IMAGE_DATA.function, (), {"data": data}, "mine")
        if "splits" not in case:
            return called("rarefeat.run.make", "--job", made.text, "--output", "results/images/mine.safetensors")
        asked = {"rho": 1, "few_shot": 1} | case["splits"]
        write_tensors("images/mine.safetensors", read_images(data), made.text)
        config = {"draws": "mine", "data": data, "few_shot": asked["few_shot"]}
        at = cell(rho=asked["rho"], split="long_tailed")
        split = job_at(IMAGE_SPLITS, config, "mine", at, "1-2")
        return called("rarefeat.run.make", "--job", split.text, "--results", ".", "--output", "results/s.safetensors")
    finally:
        shutil.rmtree("changed")


CHAIN = job_at(SYNTHESISE, {"draws": "mine", "data": tiny_data()}, "mine", cell(eps_min=0.5), "1-1")
DAMAGED = SYNTHESISE.path("latents", "mine", cell(eps_min=0.5), "1-1")
TRAINED = {
    "draws": "mine",
    "simulator": "reduced",
    "data": tiny_data(),
    "training": tiny_training(sigma_0=0.05),
    "arms": [Arm(arm="dense")],
}


def latents(path: Path, of: object) -> None:
    write_tensors(path, synthesise("mine", tiny_data(), 0.5, [1]), of.text if of else "")


def damaged(how: str) -> None:
    """The latents of a training, as `how` says."""
    path, content = Path(DAMAGED), Path("latents.safetensors").read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    changes = {
        "other": {"seeds": "7-7"},
        "config": {"config": CHAIN.config | {"draws": "other"}},
        "code": {"code": {SYNTHESISE.function: "0"}},
    }
    match how:
        case "whole":
            path.write_bytes(content)
        case "flip":
            path.write_bytes(content[:-9] + bytes([content[-9] ^ 4]) + content[-8:])
        case "cut":
            path.write_bytes(content[:-9])
        case "empty":
            path.write_bytes(b"")
        case "gone":
            path.unlink(missing_ok=True)
        case "nameless":
            latents(path, None)
        case _:
            latents(path, CHAIN.model_copy(update=changes[how]))


def trained() -> tuple[int, str]:
    """The stage that trains on the latents."""
    told = job_at(PRETRAIN, TRAINED, "mine", cell(eps_min=0.5, sigma=0.05), "1-1").text
    outputs = "results/encoders.safetensors", "results/trajectories.parquet"
    return called("rarefeat.run.make", "--job", told, "--results", ".", "--output", *outputs)


def synthesised() -> tuple[int, str]:
    return called("rarefeat.run.make", "--job", CHAIN.text, "--output", "results/latents.safetensors")


@contextlib.contextmanager
def small_files(size: int) -> Iterator[None]:
    """No file may become larger, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def taken(folder: Path) -> tuple[int, str]:
    """A run that takes a folder which another process has."""
    there, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        results_folder.lock(Path("results", results_folder.LOCK))
        os.write(there[1], b"1")
        os.read(done[0], 1)
        os._exit(0)
    os.read(there[0], 1)
    try:
        return of_snakemake(folder, "results/latents/paper/eps_min=0.5/seeds=100-119.safetensors", dry=False)
    finally:
        os.write(done[1], b"1")
        os.waitpid(child, 0)


def outcome(case: dict, folder: Path, monkeypatch) -> tuple[int, str]:
    """Exit status and output of a case."""
    match case:
        case {"snakemake": arguments}:
            return of_snakemake(folder, arguments, dry=not case.get("starts"))
        case {"command": words}:
            return called(*shlex.split(words) if "{" not in words else words.split(" "))
        case {"full": True}:
            with small_files(2000):
                return synthesised()
        case {"lock": True}:
            return taken(folder)
        case {"superseded": True}:
            Path("lock").write_text("run 2", encoding="utf-8")
            monkeypatch.setattr(guard, "RUN", "run 1")
            monkeypatch.setattr(guard, "LOCK", "lock")
            return synthesised()
        case {"damage": how}:
            damaged(how)
            return trained()
        case {"images": _} | {"files": _} | {"splits": _}:
            return of_images(case, folder)
        case {"planned": True}:
            return of_snakemake(folder, f"--configfile {told(case, folder)}")
    return called("rarefeat.manage.blocks", "paper", "--configfile", told(case, folder))


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_line_and_touches_nothing(name, folder, monkeypatch):
    case = CASES[name]
    status, output = outcome(case, folder, monkeypatch)
    assert status == case.get("status", 1), output
    says(output, case["says"], folder)
    if case.get("dry_run"):
        status, output = of_snakemake(folder, f"--configfile {told(case, folder)}")
        assert status == 1
        says(output, case["says"], folder)


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("CORES=", "CORES must be one word, got ''"),
        ("CORES=2 3", "CORES must be one word, got '2 3'"),
        ("CORES=$(shell echo)", "CORES must be one word, got ''"),
        ("VENV=", "VENV must be one word, got ''"),
        ("VENV=a b", "VENV must be one word, got 'a b'"),
        ("RESULTS=a b", "RESULTS must be one word, got 'a b'"),
        ('RESULTS=a"b', "RESULTS must be without \", got 'a\"b'"),
        ("UNTIL=", "UNTIL must be one word, got ''"),
        ("KEPT=a`b", "KEPT must be without `, got 'a`b'"),
        ("DATASET=a'b", "DATASET must be without ', got 'a'b'"),
    ],
)
def test_make_refuses_a_variable_that_would_break_a_command(variable, says):
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(["make", "-n", "quick", variable], cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"Makefile:\d+: \*\*\* {re.escape(says)}\.  Stop\.\n", done.stderr)


def test_what_the_cases_change_is_right_without_the_change(folder):
    """So that nothing else is what they are refused for."""
    case = {"study": {}}
    assert called("rarefeat.manage.blocks", "paper", "--configfile", told(case, folder))[0] == 0
    data = ImageData(format="image_folder", folder="images", size=8, train_list="train.txt", test_list="test.txt")
    assert len(read_images(data)["train"]) == 4
    damaged("whole")
    try:
        assert trained()[0] == 0
        assert synthesised()[0] == 0
    finally:
        for path in Path("results").glob("*.*"):
            path.unlink()


def test_what_is_said_of_faults_during_a_run_has_its_tests():
    names = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    for fault, row in read(Path(__file__).with_name("runs.yaml")).items():
        assert row["happens"], fault
        assert row["do"], fault
        assert all(any(part in name for name in names) for part in row["tests"]), (fault, row["tests"])


def test_there_are_enough_cases_and_no_two_are_the_same():
    assert len(CASES) >= 214
    assert len({json.dumps({key: value for key, value in case.items() if key != "says"}) for case in CASES.values()}) == len(
        CASES
    )


def test_a_hundred_inputs_of_other_kinds_have_equal_tables_or_one_line():
    known = read(Path(__file__).with_name("surroundings.yaml"))["surroundings"]
    table = Published(ROOT / FOLDER)["surroundings"].fillna("")
    assert set(table["what"]) <= set(known)
    assert table["what"].nunique() + sum(name.startswith("Odd forms of values: ") for name in CASES) >= 100
    for row in table.to_dict("records"):
        equal, refused = row["equal"] == row["tables"], row["status"] and row["line"]
        assert equal or refused, row
        assert "Traceback" not in row["line"], row
