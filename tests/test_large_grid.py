"""A grid of ten thousand cells is planned in seconds: what a user waits for at every start."""

import os
import re
import subprocess
import tempfile

import pytest
import yaml
from whole_project import ROOT, snakemake

pytestmark = pytest.mark.cluster


def test_ten_thousand_cells_are_planned_within_20_s_and_500_mb(tmp_path):
    large = {"eps_min": [i / 50 for i in range(1, 51)], "sigma": [i / 1000 for i in range(1, 51)],
             "arms": ["dense", "pruned_neuron", "initial", "ideal"]}  # fmt: skip
    config = tmp_path / "large.yaml"
    config.write_text(
        yaml.safe_dump({"seeds_per_block": 100, "results": str(tmp_path), "studies": {"paper": {"grid": {"large": large}}}})
    )
    # The paper's own blocks have three more values of eps_min, at 0.05 and so on, and sigma up to 0.1.
    command = [
        "timeout",
        "300",
        *snakemake(ROOT, "--dry-run", "--quiet", "host", "--", f"{tmp_path}/tables/paper_grid.parquet", configs=(str(config),)),
    ]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        log = output.read()
    assert process.returncode == 0, log
    jobs = int(re.search(r"^probe +(\d+)$", log, re.MULTILINE).group(1))
    assert jobs >= 10_000 / len(large["arms"])
    # Processor time, which a busy machine stretches less than the clock's.
    assert used.ru_utime + used.ru_stime < 20
    assert used.ru_maxrss < 500_000  # kB
