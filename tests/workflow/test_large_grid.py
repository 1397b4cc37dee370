"""A grid of ten thousand cells is planned in seconds, which a user waits at every start."""

import re
from pathlib import Path

import pytest
import yaml
from whole_project import ROOT, execute, snakemake, succeed

pytestmark = pytest.mark.cluster
ARMS = ["dense", "pruned_neuron", "initial", "ideal"]
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, timeout=300)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def plan_grid(folder: Path, n: int) -> tuple[int, float, float]:
    """Return probes, processor seconds and kilobytes of a plan of n values of eps_min."""
    # The paper's own blocks have three more values of eps_min, and sigma up to 0.1.
    axes = {"eps_min": [i / 50 for i in range(1, n + 1)]}
    axes["sigma"] = [i / 1000 for i in range(1, 51)]
    study = {"studies": {"paper": {"grid": {"large": axes | {"arms": ARMS}}}}}
    config = {"seeds_per_block": 100, "results": str(folder), "imbalance": study}
    path = folder / f"{n}.yaml"
    path.write_text(yaml.safe_dump(config))
    target = f"{folder}/tables/paper_grid.parquet"
    options = "--dry-run", "--quiet", "host", "--", target
    # In a process of its own: a child's memory counts that of its parent before exec.
    command = "python", "-c", MEASURE, *snakemake(ROOT, *options, configs=[str(path)])
    text = succeed(execute(ROOT, *command))
    seconds, kilobytes = map(float, re.search(r"^([\d.]+) (\d+)$", text, re.M).groups())
    return int(re.search(r"^probe +(\d+)$", text, re.M)[1]), seconds, kilobytes


def test_ten_thousand_cells_are_planned_in_500_mb(tmp_path):
    """In units of a plan of one eps_min, nearly all of it Snakemake's start."""
    jobs, seconds, kilobytes = plan_grid(tmp_path, 50)
    fewer, start, _ = plan_grid(tmp_path, 1)
    print(f"{seconds:.1f} s and {start:.1f} s, {kilobytes / 1e3:.0f} MB")
    assert jobs >= 10_000 / len(ARMS)
    assert fewer < jobs / 10
    assert seconds < 8 * start
    assert kilobytes < 500_000
