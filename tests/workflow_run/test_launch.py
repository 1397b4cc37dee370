"""A job starts fast, as the module that its file names; its times are written."""

import os
import subprocess
import sys
from pathlib import Path

from rarefeat.workflow.run import launch


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run a job in a folder, without a server."""
    (folder / "task.py").write_text("import sys\nsys.exit(sys.argv[1] if sys.argv[1:] else None)")
    environment = {key: value for key, value in os.environ.items() if key != launch.SERVER}
    command = [sys.executable, "-m", "rarefeat.workflow.run.launch", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_times_are_written_of_a_job_that_succeeds(tmp_path):
    times = tmp_path / "new/times.tsv"
    assert run(tmp_path, "--times", str(times), "task", "failed").returncode == 1
    assert not times.exists()
    (tmp_path / "task.py").unlink()
    (tmp_path / "work.py").write_text("import time\nwhile time.process_time() < 1: pass\n")
    assert run(tmp_path, "--times", str(times), "work").returncode == 0
    head, row = (line.split("\t") for line in times.read_text().splitlines())
    found = dict(zip(head, map(float, row), strict=True))
    assert list(found) == ["s", "max_rss", "cpu_time"]
    assert 1 <= found["cpu_time"] < 5
    assert 0.5 < found["s"] < 60
    assert 5 < found["max_rss"] < 5000


def test_times_that_cannot_be_written_are_one_line(tmp_path):
    (tmp_path / "work.py").write_text("")
    done = run(tmp_path, "--times", "/proc/times.tsv", "work")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write /proc/times.tsv: ")


def test_launch_imports_nothing_slow(tmp_path):
    slow = ["torch", "numpy", "pandas", "pyarrow", "pydantic", "subprocess"]
    (tmp_path / "work.py").write_text(f"import sys\nprint({{*{slow}}} & {{*sys.modules}})")
    assert run(tmp_path, "work").stdout == "set()\n"
