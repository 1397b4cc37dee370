"""Which jobs are made anew before code is accepted, and what is not accepted without one."""

import base64
import json
from pathlib import Path

import pytest

from rarefeat.core.errors import RarefeatError
from rarefeat.manage import accept
from rarefeat.manage.accept import LEAST, QUICK, Made, changed, gone, sample
from rarefeat.run.digests import code

DENSE, RANDOM = "core.arms:ARMS[dense]", "core.arms:ARMS[random_neuron]"
SEVERAL = 5


def jobs(stage: str, study: str, *named: str, seconds: float = 60.0, old: tuple[str, ...] = ()) -> list[Made]:
    """Some jobs of a stage and a study, that came through code of which some is older than that of now."""
    told = {name: "old" if name in old else code(name) for name in (stage, *named)}
    job = {"stage": stage, "study": study, "code": told}
    return [Made(f"{stage} {study} {n}", job, [f"{stage}/{study}/{named}/{n}"], seconds + n) for n in range(SEVERAL)]


def test_of_every_entry_that_was_changed_some_jobs_are_made_anew():
    """Though one of them alone fills what is taken of the stage and study, being quicker."""
    old = (DENSE, RANDOM)
    found = jobs("chain.pretrain:stage", "a", DENSE, old=old) + jobs("chain.pretrain:stage", "a", RANDOM, seconds=99, old=old)
    chosen = sample(found, changed(found))
    for name in old:
        assert sum(name in one.job["code"] for one in chosen) == LEAST


def test_some_of_every_study_and_all_quick_ones_are_made_anew():
    stage = "chain.probe:stage"
    slow, few = jobs(stage, "slow", old=(stage,)), jobs(stage, "few", old=(stage,))[: LEAST - 1]
    quick = jobs(stage, "quick", seconds=QUICK - SEVERAL, old=(stage,))
    chosen = sample(slow + few + quick + jobs("chain.synthesise:stage", "slow"), [stage])
    assert sorted(one.outputs for one in chosen) == sorted(one.outputs for one in slow[:LEAST] + few + quick)


@pytest.mark.parametrize("stage", ["chain.aggregate:aggregate_grid", "studies.imbalance.figures:arms"])
def test_a_rule_is_not_proved_by_what_does_not_run_it(stage):
    found = jobs(stage, "a", "chain.pretrain:stage", DENSE, old=(DENSE,))
    with pytest.raises(RarefeatError, match=r"nothing is accepted: core\.arms:ARMS\[dense\] was changed, and no file of a job"):
        changed(found)
    assert changed([*found, *jobs("chain.pretrain:stage", "a", DENSE, old=(DENSE,))]) == {DENSE: ("old", code(DENSE))}


def test_a_schema_is_run_by_what_joins_tables_under_it():
    schema = "chain.tables:GRID"
    found = jobs("chain.join:join", "a", schema, old=(schema,))
    found = [one._replace(job={**one.job, "config": {"schema": schema}}) for one in found]
    assert set(changed(found)) == {schema}
    assert len(sample(found, [schema])) == LEAST


def test_files_of_several_codes_are_refused():
    stage = "chain.probe:stage"
    with pytest.raises(RarefeatError, match=f"is of other code of {stage} than .*; run snakemake first"):
        changed(jobs(stage, "a", old=(stage,)) + jobs(stage, "b"))


def test_a_stage_that_there_is_no_more_is_named_and_not_accepted():
    found = [Made("", {"stage": "gone", "code": {"gone": "old"}}, ["gone"], 1.0), *jobs("chain.probe:stage", "a")]
    assert changed(found) == {}
    assert gone(found) == ["gone"]


def test_results_without_snakemakes_records_are_one_line(tmp_path):
    with pytest.raises(RarefeatError, match=f"nothing is accepted: {tmp_path}/none knows no job of files below {tmp_path}"):
        accept.accept(tmp_path, tmp_path / "none")


@pytest.mark.parametrize("folder", ["results", "résultats~?"])
def test_records_are_read_whatever_the_name_of_the_folder(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "?>~ÿ"):
        (tmp_path / folder).mkdir(exist_ok=True)
        output = f"{folder}/{name}"
        (tmp_path / output).touch()
        record = tmp_path / "records" / base64.urlsafe_b64encode(output.encode()).decode()
        record.parent.mkdir(exist_ok=True)
        (tmp_path / "job.json").write_text("{}")
        command = "python --job job.json --times none"
        record.write_text(json.dumps({"shellcmd": command, "starttime": 1, "endtime": 3}))
    (one,) = accept.made(Path(folder), tmp_path / "records")
    assert sorted(one.outputs) == sorted([f"{folder}/a", f"{folder}/?>~ÿ"])
