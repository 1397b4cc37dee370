"""What jobs have made, kept by what it was made from."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from rarefeat.config.cells import cell
from rarefeat.kind import IMAGE_DATA, IMAGE_PRETRAIN, IMAGE_SPLITS, PRETRAIN, PROBE, SYNTHESISE
from rarefeat.project import load
from rarefeat.run import store
from rarefeat.storage.files import write_table
from rarefeat.storage.origin import KEY
from rarefeat.studies.fine_labels.kind import REPRESENT

AT = cell(eps_min=0.2, sigma=0.1)
JOB = {
    "stage": PRETRAIN.function, "study": "paper", "cell": AT.values, "seeds": "1-2", "config": {"lambda": 1},
    "files": {"latents": SYNTHESISE.function},
}  # fmt: skip
LATENTS = f"results/{SYNTHESISE.path('latents', 'paper', AT, '1-2')}"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(store.PLACE, "results/.store")
    monkeypatch.setenv(store.ROOM, "1")


def write(name: str, job: dict, rows: int = 3) -> None:
    write_table(name, pa.table({"value": list(range(rows))}), {KEY: json.dumps(job)})


def run(job: dict, name: str = "results/probes.parquet", rows: int = 3) -> bool:
    """A job that reads one file and writes another, as Snakemake runs it; whether the store had it."""
    Path(name).unlink(missing_ok=True)
    with store.around(["module", "--job", json.dumps(job), "--results", "results", "--output", name]) as done:
        if not done:
            write(name, job, rows)
    return done


def of(value: float) -> dict:
    return JOB | {"config": {"lambda": value}}


def stored() -> list[Path]:
    return sorted(Path("results/.store").glob("*"))


def test_a_job_that_was_done_before_costs_a_link():
    write(LATENTS, JOB)
    assert not run(of(1))
    first = Path("results/probes.parquet").read_bytes()
    assert not run(of(2))
    assert run(of(1))
    assert Path("results/probes.parquet").read_bytes() == first
    assert Path("results/probes.parquet").stat().st_nlink == 2
    assert run(of(2))


def test_what_it_reads_is_part_of_what_it_is_made_from():
    write(LATENTS, JOB)
    run(of(1))
    write(LATENTS, JOB, rows=4)
    assert not run(of(1))


@pytest.mark.parametrize("spoil", [lambda path: flip(path), lambda path: write(str(path), of(3))])
def test_a_stored_file_that_is_damaged_or_another_is_refused_and_made_again(spoil, capsys):
    write(LATENTS, JOB)
    run(of(1))
    first = Path("results/probes.parquet").read_bytes()
    Path("results/probes.parquet").unlink()
    spoil(*stored())
    assert not run(of(1))
    assert "left out of the store and made again" in capsys.readouterr().out
    assert Path("results/probes.parquet").read_bytes() == first
    assert run(of(1))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)


def test_what_says_another_job_than_its_own_is_not_kept():
    words = ["module", "--job", json.dumps(of(1)), "--results", "results", "--output", "results/probes.parquet"]
    with store.around(words):
        write("results/probes.parquet", of(2))
    assert stored() == []


def test_a_job_whose_arguments_do_not_say_what_it_reads_is_not_kept():
    table = {"stage": "chain.aggregate:aggregate_grid", "study": "paper", "files": {"probes": PROBE.function}}
    words = ["module", "--job", json.dumps(table), "--results", "results", "--output", "results/tables/paper.parquet"]
    assert store.places(Path("results/.store"), words) == {}


def test_files_that_cells_or_a_study_share_are_part_of_what_it_is_made_from():
    study = load().studies["digits"]
    first, block = study.cells()[0], next(iter(study.blocks()))
    job = IMAGE_PRETRAIN.job("digits", study, first, block)
    paths = [f"results/{IMAGE_PRETRAIN.path(folder, 'digits', first, block)}" for folder in IMAGE_PRETRAIN.folders]
    words = ["module", "--job", job.text, "--results", "results", "--checkpoints", "results/checkpoints", "--output", *paths]
    shared = [
        f"results/{stage.path(folder, 'digits', first, block)}"
        for stage in (IMAGE_DATA, IMAGE_SPLITS)
        for folder in stage.folders
    ]
    for path in shared:
        write(path, JOB)
    found = [store.places(Path("results/.store"), words)]
    for path in shared:
        write(path, JOB, 4)
        found.append(store.places(Path("results/.store"), words))
    assert all(places.keys() == set(map(Path, paths)) for places in found)
    assert len({places[Path(paths[0])] for places in found}) == len(found)


def test_the_one_job_of_a_study_is_kept():
    write("results/images/mine.safetensors", JOB)
    job = {"stage": REPRESENT.function, "study": "mine", "files": {"images": IMAGE_DATA.function}}
    output = "results/features/mine.safetensors"
    words = [
        "module",
        "--job",
        json.dumps(job),
        "--results",
        "results",
        "--checkpoints",
        "results/checkpoints",
        "--output",
        output,
    ]
    assert set(store.places(Path("results/.store"), words)) == {Path(output)}


def test_what_was_not_used_for_longest_goes_first_and_what_the_results_hold_takes_no_room(monkeypatch):
    write(LATENTS, JOB)
    names = [f"results/{value}.parquet" for value in range(4)]
    for value, name in enumerate(names):
        run(of(value), name)
        os.utime(name, (value, value))
    monkeypatch.setenv(store.ROOM, str(1.5 * Path(names[0]).stat().st_size / 1e9))
    for name in names[:3]:
        Path(name).unlink()
    run(of(4))
    assert not run(of(0), names[0])
    assert not run(of(1), names[1])
    assert run(of(2), names[2])
    assert run(of(3), names[3])
