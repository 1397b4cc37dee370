"""The quick grid, computed once for all tests of a session, in whichever process they run."""

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from whole_project import copy_project, run, succeed


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """A project folder with the quick grid computed. Tests may plan in it, not compute.

    The environment variable RAREFEAT_FINISHED may name a folder to keep for the next session,
    which computes what has changed.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = Path(os.environ.get("RAREFEAT_FINISHED") or shared / "finished")
    with FileLock(shared / "finished.lock"):
        if not (shared / "finished.done").exists():
            folder.mkdir(parents=True, exist_ok=True)
            succeed(run(copy_project(folder)))
            (shared / "finished.done").touch()
    return folder


@pytest.fixture
def project(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "project", symlinks=True))
