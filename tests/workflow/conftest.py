"""The quick grid, computed once for all tests of a session, whichever of its processes they run in."""

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from whole_project import copy_of_the_project, run, succeeded


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """A project folder with the quick grid computed. Tests may plan in it, and must not compute.

    Where RAREFEAT_FINISHED names a folder it is kept there, and the next session computes what has changed since.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = Path(os.environ.get("RAREFEAT_FINISHED") or shared / "finished")
    with FileLock(shared / "finished.lock"):
        if not (shared / "finished.done").exists():
            folder.mkdir(parents=True, exist_ok=True)
            succeeded(run(copy_of_the_project(folder)))
            (shared / "finished.done").touch()
    return folder


@pytest.fixture
def project(finished, tmp_path) -> Path:
    """A copy of the finished folder that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "project", symlinks=True))
