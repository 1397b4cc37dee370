"""The wheel: it trains, and runs the workflow from any folder, without a checkout.

Files and script are those of the wheel; the packages that it needs are those of this environment.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIGURE = "mine.figure1_aligned_neurons.png"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy of what git has, so that nothing of a checkout gets in."""
    folder = tmp_path_factory.mktemp("wheel")
    tracked = ["git", "ls-files", "-co", "--exclude-standard", "src", "config", "workflow"]
    tracked.append("tests/workflow/toy")
    files = subprocess.check_output(tracked, cwd=ROOT, text=True).split()
    for name in ["pyproject.toml", "README.md", "LICENSE", *files]:
        source, target = ROOT / name, folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target, follow_symlinks=False)
    build = [
        sys.executable,
        *["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"],
    ]
    subprocess.run([*build, folder, folder / "source"], check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """Of an environment that has the wheel, and the packages that it needs from this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    (entry,) = importlib.metadata.PathDistribution(
        next(site.glob("rarefeat-*.dist-info"))
    ).entry_points.select(name="rarefeat")
    # As pip writes it.
    script = (
        f"#!{folder}/bin/python\nimport sys\n"
        f"from {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n"
    )
    (folder / "bin/rarefeat").write_text(script, encoding="utf-8")
    (folder / "bin/rarefeat").chmod(0o755)
    here = Path(sysconfig.get_path("purelib"))
    # Without the .pth files of this environment, of which one is for this checkout.
    (site / "needed.pth").write_text(f"{here}\n", encoding="utf-8")
    return folder / "bin/python"


def run(program: Path, folder: Path, *arguments: str) -> str:
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    # Jobs call the command of the wheel, and not that of this checkout.
    environment["PATH"] = f"{program.parent}{os.pathsep}{environment['PATH']}"
    ended = subprocess.run(
        [program, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert not ended.returncode, ended.stdout + ended.stderr
    return ended.stdout


def test_wheel_runs_the_workflow_from_any_folder(python, tmp_path):
    script = (
        "import rarefeat; print(rarefeat.__file__);"
        " print(rarefeat.train(T=2, N=256, kernel='torch', progress=False).steps)"
    )
    output = run(python, tmp_path, "-c", script)
    assert str(ROOT / "src") not in output
    assert "[0, 1, 2]" in output
    assert Path(output.splitlines()[0]).with_name("py.typed").exists()
    command = python.with_name("rarefeat")
    run(command, tmp_path, "new", "rule", "mine")
    study = (tmp_path / "mine.yaml").read_text(encoding="utf-8").replace("[0.3, 0.5, 0.7]", "[0.5]")
    small = (
        "seeds: 2\n      training: {T: 5, kernel: torch}\n"
        "      data: {d1: 60, N: 256, probe_pairs: 60, test_pairs: 128}"
    )
    (tmp_path / "mine.yaml").write_text(study.replace("seeds: 10", small), encoding="utf-8")
    figure, config = f"results/figures/{FIGURE}", ("--configfile", "mine.yaml")
    run(python, tmp_path, "-m", "snakemake", "--cores", "2", figure, *config)
    assert (tmp_path / figure).exists()
    assert "mine:mine" in run(command, tmp_path, "show", "results/tables/mine_grid.parquet")
    run(command, tmp_path, "new", "study", "grown")
    assert {"figure1_aligned_neurons", "grown_curve"} <= {
        *run(command, tmp_path, "list", "figure").split()
    }
