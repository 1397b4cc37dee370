"""Which jobs run again before code is accepted, and what is not accepted without one."""

import json
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from rarefeat.errors import RarefeatError
from rarefeat.workflow import accept
from rarefeat.workflow.accept import (
    SAMPLE_SIZE,
    CompletedJob,
    changed_stages,
    choose_sample,
    completed_jobs,
)
from rarefeat.workflow.files.origin import KEY
from rarefeat.workflow.files.sealed_files import write_table
from rarefeat.workflow.run.code_hashes import code_hash, read_accepted
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.metadata import build_origin, write_product

DENSE, RANDOM = "model.arms:ARMS[dense]", "model.arms:ARMS[random_neuron]"
PROBE = "stages.probe:stage"


@pytest.fixture
def make_jobs(tmp_path):
    """Five jobs of a stage and study, of which some code is older than today's."""

    def make(stage, study="a", *names, size=0, old=(), n=5) -> list[CompletedJob]:
        code = {name: "old" if name in old else code_hash(name) for name in (stage, *names)}
        jobs = []
        for i in range(n):
            path = tmp_path / f"{stage}-{study}-{''.join(names)}-{i}.parquet"
            path.write_bytes(b" " * (size + i))
            jobs.append(CompletedJob(path, Job(stage=stage, study=study, code=code), [path]))
        return jobs

    return make


def test_sample_has_jobs_of_every_changed_entry(make_jobs):
    """Though the smaller ones of one entry fill the number of the stage and study."""
    old = (DENSE, RANDOM)
    jobs = make_jobs("stages.pretrain:stage", "a", DENSE, old=old)
    jobs += make_jobs("stages.pretrain:stage", "a", RANDOM, size=99, old=old)
    sample = choose_sample(jobs, changed_stages(jobs))
    assert [sum(name in one.job.code for one in sample) for name in old] == [SAMPLE_SIZE] * 2


def test_sample_has_the_smallest_of_every_study(make_jobs):
    first, few = make_jobs(PROBE, "first", old=(PROBE,)), make_jobs(PROBE, "few", old=(PROBE,), n=2)
    sample = choose_sample(first + few + make_jobs("stages.synthesise:stage", "first"), [PROBE])
    assert sorted(one.path for one in sample) == sorted(
        one.path for one in first[:SAMPLE_SIZE] + few
    )


@pytest.mark.parametrize(
    "stage", ["stages.aggregate:aggregate_study", "studies.imbalance.figures:arms"]
)
def test_change_needs_a_job_that_runs_the_code(make_jobs, stage):
    jobs = make_jobs(stage, "a", "stages.pretrain:stage", DENSE, old=(DENSE,))
    with pytest.raises(
        RarefeatError, match=r"cannot accept the change of core\.arms:ARMS\[dense\]"
    ):
        changed_stages(jobs)
    jobs += make_jobs("stages.pretrain:stage", "a", DENSE, old=(DENSE,))
    assert changed_stages(jobs) == {DENSE: ("old", code_hash(DENSE))}


def test_change_of_several_versions_is_refused(make_jobs):
    with pytest.raises(
        RarefeatError, match=f"are of different code of {PROBE}; run snakemake first"
    ):
        changed_stages(make_jobs(PROBE, "a", old=(PROBE,)) + make_jobs(PROBE, "b"))


def test_stage_that_is_gone_is_not_accepted(make_jobs, tmp_path):
    job = Job(stage="gone", code={"gone": "old"})
    assert changed_stages([CompletedJob(tmp_path, job, [tmp_path]), *make_jobs(PROBE)]) == {}


COPY = """
import shutil, sys
from pathlib import Path
job, outputs = Path(sys.argv[2]), sys.argv[4:]
for name in map(Path, outputs):
    (source,) = job.parents[1].rglob(name.name)
    name.parent.mkdir(parents=True)
    shutil.copy(source, name)
    if {differs!r} in name.name:
        name.write_bytes(b"other")
"""


@pytest.fixture
def results(tmp_path) -> Path:
    """The file of a cell, and a table, of two jobs of older code."""
    cell = Job(stage=PROBE, study="a", cell={"eps_min": 0.5}, seeds="0-1", code={PROBE: "old"})
    table = Job(
        stage="stages.aggregate:aggregate_study", code={"stages.aggregate:aggregate_study": "old"}
    )
    (tmp_path / "results/jobs").mkdir(parents=True)
    for i, job in enumerate((cell, table)):
        (tmp_path / f"results/jobs/{i}.json").write_text(job.to_json)
    path = tmp_path / "results/probes/a/eps_min=0.5/seeds=0-1.parquet"
    write_table(path, pa.table({"x": [1]}), {KEY: cell.to_json})
    frame = pd.DataFrame({"x": [1]})
    write_product(tmp_path / "results/tables/a_grid.parquet", frame, build_origin(table))
    write_product(
        tmp_path / "results/tables/b_grid.parquet", frame, build_origin(Job(stage="other"))
    )
    return tmp_path / "results"


def test_completed_jobs_are_found_by_their_outputs(results):
    outputs = [
        [str(path.relative_to(results)) for path in one.outputs] for one in completed_jobs(results)
    ]
    assert outputs == [["probes/a/eps_min=0.5/seeds=0-1.parquet"], ["tables/a_grid.parquet"]]


@pytest.mark.parametrize("differs", ["a_grid", "seeds", "nothing"])
def test_accept_records_what_gives_the_same_bytes(results, monkeypatch, differs):
    monkeypatch.setattr(accept, "EXECUTE", (sys.executable, "-c", COPY.format(differs=differs)))
    if differs != "nothing":
        with pytest.raises(
            RarefeatError, match=f"cannot accept: .*{differs}.*: the new bytes differ"
        ):
            accept.accept(results)
        assert not (results / "accepted.json").exists()
        return
    changes = accept.accept(results)
    assert changes == {
        name: ("old", code_hash(name)) for name in (PROBE, "stages.aggregate:aggregate_study")
    }
    assert [
        (entry["stage"], entry["before"], entry["now"]) for entry in read_accepted(results)
    ] == [(name, *pair) for name, pair in changes.items()]
    record = json.loads((results / "accepted.json").read_text())
    (results / "accepted.json").write_text(json.dumps(record).replace("old", "new"))
    with pytest.raises(RarefeatError, match=r"accepted\.json: it is damaged"):
        read_accepted(results)


def test_accept_refuses_results_without_jobs(tmp_path):
    with pytest.raises(RarefeatError, match=r"cannot accept: no job in .* has outputs"):
        accept.accept(tmp_path)
