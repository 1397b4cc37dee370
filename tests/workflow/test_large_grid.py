"""A grid of ten thousand cells is planned in seconds: what a user waits for at every start."""

import re
from pathlib import Path

import pytest
import yaml
from whole_project import ROOT, python, snakemake

pytestmark = pytest.mark.cluster
ARMS = ["dense", "pruned_neuron", "initial", "ideal"]
MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, timeout=300)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


def planned(folder: Path, values: int) -> tuple[int, float, float]:
    """Probes, seconds of the processor and kilobytes of the plan of a grid of so many values of eps_min and 50 of sigma."""
    # The paper's own blocks have three more values of eps_min, at 0.05 and so on, and sigma up to 0.1.
    grid = {
        "eps_min": [i / 50 for i in range(1, values + 1)],
        "sigma": [i / 1000 for i in range(1, 51)],
        "arms": ARMS,
    }
    config = folder / f"{values}.yaml"
    studies = {"studies": {"paper": {"grid": {"large": grid}}}}
    config.write_text(
        yaml.safe_dump({"seeds_per_block": 100, "results": str(folder), "imbalance": studies})
    )
    target = f"{folder}/tables/paper_grid.parquet"
    command = snakemake(ROOT, "--dry-run", "--quiet", "host", "--", target, configs=[str(config)])
    # By a process of its own: a child's peak of memory counts that of its parent before exec, here of all other tests.
    done = python(ROOT, "-c", MEASURED, *command)
    log = done.stdout + done.stderr
    assert done.returncode == 0, log
    seconds, kilobytes = map(float, log.splitlines()[-1].split())
    return int(re.search(r"^probe +(\d+)$", log, re.MULTILINE).group(1)), seconds, kilobytes


def test_ten_thousand_cells_are_planned_in_eight_starts_and_500_mb(tmp_path):
    # In units of a plan of one value of eps_min, nearly all of it Snakemake's start: slow machines have both slower.
    jobs, seconds, kilobytes = planned(tmp_path, 50)
    fewer, start, _ = planned(tmp_path, 1)
    print(f"{seconds:.1f} s and {start:.1f} s, {kilobytes / 1e3:.0f} MB")
    assert jobs >= 10_000 / len(ARMS)
    assert fewer < jobs / 10
    assert seconds < 8 * start
    assert kilobytes < 500_000
