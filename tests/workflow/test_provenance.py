"""What a result depends on: the metadata of tables and figures, and what verification makes of them and of intermediates."""

import dataclasses
import importlib
import json
import re
import shutil
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import some_damage
from PIL import Image
from whole_project import ROOT, python, succeeded

from rarefeat.core.errors import RarefeatError
from rarefeat.figures.save import save
from rarefeat.kind import PROBE as OF_PROBES
from rarefeat.manage import provenance
from rarefeat.manage.provenance import Line, verify, verify_intermediate, write_record
from rarefeat.project import Project, load
from rarefeat.run import job as run_job
from rarefeat.run import metadata
from rarefeat.run.digests import code
from rarefeat.run.job import Job, without_blocks
from rarefeat.run.metadata import made_from, read_origin, read_product, write_page, write_product
from rarefeat.storage.files import SEAL, read_table, write_table
from rarefeat.storage.origin import KEY
from rarefeat.storage.tensors import write_tensors
from rarefeat.studies.long_tail.choose import REGIMES

CONFIG = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
DEFAULT = set(CONFIG.default)
TABLE = pd.DataFrame({"seed": [100, 101], "value": [0.25, float("nan")], "name": ["a", "\u03b5 (b)"]})


PROBE = OF_PROBES.function
JOB = Job(stage="chain.pretrain:stage", study="s", cell={"eps_min": 0.5}, seeds="1-2")
INTERMEDIATE = ("s/eps_min=0.5/seeds=1-2",)


def with_study(name: str, **changes) -> Project:
    """The quick config with other values of one study of imbalance."""
    section = CONFIG.sections["imbalance"]
    study = section.studies[name]
    changed = type(study).model_validate(study.model_dump(by_alias=True) | changes)
    other = section.model_copy(update={"studies": section.studies | {name: changed}})
    return dataclasses.replace(CONFIG, sections={**CONFIG.sections, "imbalance": other})


def test_the_origin_changes_with_config_code_and_seeds_and_not_with_blocks():
    def of(project: Project) -> dict:
        return made_from(project.table_job("paper_grid"))

    base = of(CONFIG)
    assert base == of(with_study("paper", seeds_per_block=3))
    assert base["seeds"] == {"paper": "100-103"}
    stages = {*OF_PROBES.through, "chain.aggregate:aggregate_grid"}
    assert set(base["code"]) >= stages | {"core.arms:ARMS[dense]", "core.arms:ARMS[oracle_all]"}
    assert {name for name in base["code"] if not name.endswith("]")} == stages
    more = of(with_study("paper", seeds=11))
    assert more["seeds"] == {"paper": "100-110"}
    assert more["config"] != base["config"]
    job = CONFIG.table_job("paper_grid")
    other = made_from(job.model_copy(update={"code": job.code | {"chain.pretrain:stage": "another"}}))
    assert provenance.stale(base, other) == ["code of chain.pretrain:stage"]


def test_blocks_of_seeds_are_left_out_at_every_depth():
    job = CONFIG.table_job("theory_measured")
    assert "seeds_per_block" in job.text
    assert "seeds_per_block" not in json.dumps(made_from(job))


def test_a_table_and_a_figure_carry_their_origin_and_show_damage(tmp_path):
    """And are read as ever: the metadata is in the format's own place."""
    table, job = tmp_path / "heatmap_grid.parquet", CONFIG.table_job("heatmap_grid")
    write_product(table, TABLE, made_from(job))
    figure, ax = plt.subplots(figsize=(1, 1))
    ax.plot([1, 2], label="(x)")
    outputs = [tmp_path / f"figure.{suffix}" for suffix in ("png", "pdf")]
    drawn = CONFIG.figure_job("arms")
    save(figure, outputs, drawn, [table])
    pd.testing.assert_frame_equal(read_table(table).to_pandas(), TABLE)
    texts = [pq.read_schema(table).metadata[b"rarefeat"], Image.open(outputs[0]).text["rarefeat"]]
    for path, text in zip([table, outputs[0]], texts, strict=True):
        assert json.loads(text) == read_origin(path)
    assert b"/Keywords (" in outputs[1].read_bytes()
    assert read_origin(outputs[0]) == read_origin(outputs[1])
    found = read_origin(outputs[1])
    assert read_origin(table)["config"] == {"heatmap": without_blocks(job.config["heatmap"])}
    # A figure says of which size its run is.
    assert found["config"] == read_origin(table)["config"] | {"size": "quick"}
    assert found["tables"] == {"heatmap_grid": metadata.file_hash(table)}
    assert set(found["code"]) == {*drawn.code, *job.code}
    assert {"studies.imbalance.figures:arms", PROBE} <= set(found["code"])
    assert {"torch", "rarefeat"} <= set(found["packages"])
    assert set(found["machine"]) == {"system", "processor", "instructions", "python"}
    for path in (table, *outputs):
        content = path.read_bytes()
        for damaged in some_damage(content, 200):
            path.write_bytes(damaged)
            with pytest.raises(RarefeatError, match="it is damaged"):
                read_origin(path)
        path.write_bytes(content)


def test_written_twice_they_have_the_same_bytes(tmp_path):
    contents = []
    for name in ("a", "b"):
        table = tmp_path / name / "paper_grid.parquet"
        write_product(table, TABLE, made_from(CONFIG.table_job("paper_grid")))
        figure, _ = plt.subplots(figsize=(1, 1))
        outputs = [tmp_path / name / f"figure.{suffix}" for suffix in ("png", "pdf")]
        save(figure, outputs, CONFIG.figure_job("arms"), [table])
        contents.append([path.read_bytes() for path in (table, *outputs)])
    assert contents[0] == contents[1]


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    """What the quick config makes by default, tables of two rows and figures of nothing."""
    results = tmp_path_factory.mktemp("planted")
    figure, _ = plt.subplots(figsize=(0.3, 0.3))

    def paths(tables) -> list[Path]:
        return [results / f"tables/{name}.parquet" for name in tables]

    for name, table in CONFIG.tables.items():
        if f"tables/{name}.parquet" in DEFAULT:
            write_product(*paths([name]), TABLE, made_from(CONFIG.table_job(name), paths(table.tables)))
    for name, item in CONFIG.figures.items():
        outputs = [results / f"figures/{name}.{suffix}" for suffix in ("png", "pdf")]
        if f"figures/{name}.png" in DEFAULT:
            save(figure, outputs, CONFIG.figure_job(name), paths(item.tables))
    pages = {f"{name}.md": (CONFIG.page_job(name), paths(page.tables)) for name, page in CONFIG.pages.items()}
    pages |= {f"pages/{name}_text.html": (CONFIG.text_page_job(name), []) for name in CONFIG.pages}
    pages |= {f"pages/{name}.html": (CONFIG.browsed_job(name), paths(item.tables)) for name, item in CONFIG.browsed.items()}
    for page in DEFAULT & set(pages):
        write_page(results / page, "# A page\n", *pages[page])
    for name in INTERMEDIATE:
        for kind in ("encoders", "splits"):
            write_tensors(results / f"{kind}/{name}.safetensors", {"w": torch.ones(9)}, JOB.text)
        write_table(results / f"probes/{name}.parquet", pa.table({"a": [1, 2, 3]}), {KEY: JOB.text})
    write_record(results)
    return results


@pytest.fixture
def results(planted, tmp_path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(planted, tmp_path / "results"))


def not_current(results: Path, config=CONFIG) -> dict[str, Line]:
    return {line.path: line for line in verify(results, config) if line.state != "current"}


def test_what_the_config_and_code_would_make_is_current(planted):
    lines = verify(planted, CONFIG)
    assert {line.state for line in lines} == {"current"}
    assert {line.path for line in lines} == DEFAULT | {"provenance.json"}
    assert not any(line.why for line in lines)


def test_a_changed_key_is_named_for_tables_and_figures_of_its_study_alone(results):
    training = CONFIG.studies["neighbour"].training
    found = not_current(results, with_study("neighbour", training=training.model_dump(by_alias=True) | {"eta": 0.2}))
    kinds = ("grid", "summary", "trends", "trajectories")
    assert set(found) == {
        *(f"tables/{name}_{kind}.parquet" for kind in kinds for name in ("neighbour", "neighbour.arms")),
        "figures/neighbour_regime.pdf",
        "figures/neighbour_regime.png",
        "pages/imbalance_tables.html",
        "imbalance.md",
        "pages/imbalance_text.html",
    }
    names = ("neighbour", "neighbour.arms")
    why = {line.why for path, line in found.items() if path.startswith(("tables", "figures"))}
    assert why == {f"config: {name}.training.eta {training.eta}, now 0.2" for name in names}


def test_an_edited_stage_is_named(results, monkeypatch):
    """What has gone through the stage is stale, and what is drawn from that."""
    before = provenance.origin
    monkeypatch.setattr(
        provenance, "origin",
        lambda job, tables: before(
            job.model_copy(update={"code": job.code | ({PROBE: "edited"} if PROBE in job.code else {})}), tables
        ),
    )  # fmt: skip
    found = not_current(results)
    assert {line.why for line in found.values()} == {f"code of {PROBE}"}
    assert {"tables/paper_grid.parquet", "figures/arms.png", "tables/cross_check.parquet"} <= set(found)
    assert not {"tables/paper_trajectories.parquet", "tables/scaling.parquet", "tables/augmentation.parquet"} & set(found)


def test_accepted_is_what_was_made_by_code_that_another_stands_for_now(planted, monkeypatch):
    """And nothing that was made anew since, or to whose code somebody went back."""

    def found(*entries):
        project = dataclasses.replace(CONFIG)
        project.__dict__["accepted"] = [{"stage": stage, "before": before, "now": now} for before, now in entries]
        return not_current(planted, project)

    stage, made_by = PROBE, code(PROBE)
    assert found(("first", "second"), (made_by, "third")) == {}
    for module in (provenance, run_job):
        monkeypatch.setattr(module, "code", lambda name: "now" if name == stage else code(name))
    lines = found(("first", "second"), (made_by, "now"))
    assert {(line.state, line.why) for line in lines.values()} == {("accepted", f"by a sample: code of {stage}")}
    assert "tables/paper_grid.parquet" in lines
    assert "tables/paper_trajectories.parquet" not in lines


def test_a_table_edited_under_its_metadata_is_damaged_and_its_figures_are_stale(results):
    path = results / "tables/lucky_sets.parquet"
    table = read_table(path)
    pq.write_table(table.set_column(0, "seed", pa.array([1, 2])), path)
    found = not_current(results)
    assert found["tables/lucky_sets.parquet"].state == "damaged"
    for other in ("tables/scaling.parquet", "figures/scaling.png"):
        assert found[other] == Line("stale", other, "made from another lucky_sets")
    assert found["provenance.json"] == Line("stale", "provenance.json", "it has other bytes of tables/lucky_sets.parquet")
    with pytest.raises(RarefeatError, match="it is damaged"):
        made_from(CONFIG.figure_job("scaling"), [path])


def test_a_table_without_metadata_is_damaged(results):
    write_table(results / "tables/scaling.parquet", pa.Table.from_pandas(TABLE))
    (results / "tables/scaling_exponents.parquet").write_bytes(b"")
    found = not_current(results)
    assert (found["tables/scaling.parquet"].state, found["tables/scaling_exponents.parquet"].state) == ("damaged", "damaged")
    assert found["tables/scaling.parquet"].why.endswith("has no metadata of this workflow")


def test_a_figure_of_older_tables_is_stale(results):
    """The table is what would be made now; the figure is of what it was."""
    path = results / "tables/alignment_heatmap.parquet"
    write_product(path, TABLE.assign(value=1.0), made_from(CONFIG.table_job("alignment_heatmap")))
    found = not_current(results)
    drawn = {"figures/alignment_heatmap.pdf", "figures/alignment_heatmap.png"}
    assert set(found) == drawn | {"provenance.json"}
    assert found["figures/alignment_heatmap.png"].why == "made from another alignment_heatmap"


def test_missing_and_unknown_files_and_a_changed_page_are_reported(results):
    (results / "figures/scaling.pdf").unlink()
    (results / "tables/notes.csv").write_text("mine\n")
    (results / "imbalance.md").write_text("# Another page\n")
    found = not_current(results)
    assert {path: line.state for path, line in found.items()} == {
        "figures/scaling.pdf": "missing", "tables/notes.csv": "unknown", "imbalance.md": "damaged", "provenance.json": "stale",
    }  # fmt: skip


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


ENCODERS, PROBES = "encoders/s/eps_min=0.5/seeds=1-2.safetensors", "probes/s/eps_min=0.5/seeds=1-2.parquet"
DAMAGES = {
    "a bit of a table": (lambda results: flip(results / "tables/lucky_sets.parquet"), "tables/lucky_sets.parquet", False),
    "a bit of a figure": (lambda results: flip(results / "figures/arms.png"), "figures/arms.png", False),
    "a bit of a PDF": (lambda results: flip(results / "figures/arms.pdf"), "figures/arms.pdf", False),
    "a bit of encoders": (lambda results: flip(results / ENCODERS), ENCODERS, True),
    "a bit of splits": (lambda results: flip(results / ENCODERS.replace("encoders", "splits")),
                        ENCODERS.replace("encoders", "splits"), True),
    "a bit of probes": (lambda results: (results / PROBES).write_bytes(
        (results / PROBES).read_bytes().replace(b"PAR1", b"PAR2", 1)), PROBES, True),
    "encoders cut": (lambda results: (results / ENCODERS).write_bytes((results / ENCODERS).read_bytes()[:-4]), ENCODERS, False),
    "encoders with more": (lambda results: (results / ENCODERS).open("ab").write(b"more"), ENCODERS, False),
    "probes cut": (lambda results: (results / PROBES).write_bytes((results / PROBES).read_bytes()[:-4]), PROBES, False),
    "encoders empty": (lambda results: (results / ENCODERS).write_bytes(b""), ENCODERS, False),
    "encoders gone": (lambda results: (results / ENCODERS).unlink(), ENCODERS, False),
    "probes gone": (lambda results: (results / PROBES).unlink(), PROBES, False),
    "encoders of another cell": (lambda results: shutil.copytree(results / "encoders/s/eps_min=0.5",
                                                                 results / "encoders/s/eps_min=0.6"),
                                 ENCODERS.replace("0.5", "0.6"), False),
    "a page": (lambda results: flip(results / "imbalance.md"), "imbalance.md", False),
    "words of a page": (lambda results: edit(results / "imbalance.md", "A page", "Another"), "imbalance.md", False),
    "a page of the report": (lambda results: edit(results / "pages/imbalance_text.html", "A page", "Another"),
                             "pages/imbalance_text.html", False),
    "a seal": (lambda results: edit(results / "imbalance.md", SEAL, SEAL.upper()), "imbalance.md", False),
    "the commit": (lambda results: edit(results / "provenance.json", '"commit": "', '"commit": "0'), "provenance.json", False),
    "the record's seal": (lambda results: edit(results / "provenance.json", f'"{SEAL}": "', f'"{SEAL}": "0'),
                          "provenance.json", False),
    "no record": (lambda results: (results / "provenance.json").unlink(), "provenance.json", False),
    "a hidden file": (lambda results: (results / ".hidden").write_text("x"), ".hidden", False),
    "a hidden table": (lambda results: (results / "tables/.mine.parquet").write_text("x"), "tables/.mine.parquet", False),
    "a link": (lambda results: link(results / "tables/scaling.parquet"), "tables/scaling.parquet", False),
    "a link to a folder": (lambda results: (results / "mine").symlink_to(results / "tables"), "mine", False),
    "a table named as what remembers images": (lambda results: write_table(
        results / "tables/x.contents.parquet", pa.table({"a": [1]})), "tables/x.contents.parquet", False),
    "what remembers images of no study": (lambda results: write_table(
        results / "images/x.contents.parquet", pa.table({"a": [1]})), "images/x.contents.parquet", False),
    "a folder with more than the name of logs": (lambda results: write_table(
        results / "logs2/a.parquet", pa.table({"a": [1]})), "logs2/a.parquet", False),
    "a lock that hides encoders": (lambda results: (results / "encoders/.lock").touch(), ENCODERS, False),
    "another table under its name": (lambda results: shutil.copy(
        results / "tables/paper_grid.parquet", results / "tables/direct_grid.parquet"), "tables/direct_grid.parquet", False),
    "another page under its name": (lambda results: shutil.copy(results / "imbalance.md", results / "scaling.md"),
                                    "scaling.md", False),
    "a file beside": (lambda results: (results / "notes.txt").write_text("x"), "notes.txt", False),
    "a folder beside": (lambda results: write_table(results / "mine/a.parquet", pa.table({"a": [1]})), "mine/a.parquet", False),
}  # fmt: skip


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def link(path: Path) -> None:
    shutil.move(path, path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_planted_damage_is_found(results, damage):
    plant, path, deep = DAMAGES[damage]
    plant(results)
    found = {line.path for line in verify(results, CONFIG, deep) if line.state != "current"}
    assert path in found


def test_who_reads_a_table_refuses_another_in_its_place(results):
    job, place = CONFIG.figure_job("scaling"), results / "tables/lucky_sets.parquet"
    assert read_product(place, job.tables).equals(TABLE)
    for other, words in (
        ("scaling", "is not the table that its name says: it is scaling"),
        ("paper_grid", "it is paper_grid"),
    ):
        shutil.copy(results / f"tables/{other}.parquet", place)
        with pytest.raises(RarefeatError, match=words):
            read_product(place, job.tables)
    write_product(place, TABLE, made_from(CONFIG.table_job("paper_grid")))
    with pytest.raises(RarefeatError, match="is of another config, or of other code"):
        read_product(place, job.tables)


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("rarefeat.report.published results docs/tables", "scaling"),
        ("rarefeat.manage.check references", "paper_grid"),
        ("rarefeat.studies.long_tail.choose results", f"{REGIMES[0]}.longtail"),
    ],
)
def test_a_command_refuses_a_table_under_another_name(tmp_path, monkeypatch, command, table):
    monkeypatch.chdir(tmp_path)
    for path, text in {"docs/tables/origin.json": "{}", "references/paper_grid.csv": ""}.items():
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(text)
    Path("config").symlink_to(ROOT / "config")
    write_product("results/tables/another.parquet", TABLE, made_from(CONFIG.table_job("paper_grid")))
    Path("results/tables/another.parquet").rename(f"results/tables/{table}.parquet")
    module, *arguments = command.split()
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(RarefeatError, match=f"/{table}.parquet is not the table that its name says: it is another; delete it"):
        importlib.import_module(module).main()


def test_claims_are_missing_only_where_some_were_made(results):
    assert not any("claims" in path for path in not_current(results))
    claims = "claims_imbalance_and_pruning"
    shutil.copy(results / "tables/scaling.parquet", results / f"tables/{claims}.parquet")
    found = not_current(results)
    assert found[f"tables/{claims}.parquet"].state == "stale"
    assert found["figures/claims_pruning.png"].state == found[f"{claims}.md"].state == "missing"
    assert not any("wen_li" in path for path in found)


def test_other_packages_and_machines_are_told_and_not_stale(planted, monkeypatch):
    monkeypatch.setattr(metadata, "packages", lambda: {"rarefeat": "9.9"})
    lines = {line.path: line for line in verify(planted, CONFIG)}
    line = lines["tables/paper_grid.parquet"]
    assert (line.state, line.why.endswith(", now 9.9")) == ("current", True)


def test_machines_are_told_apart_by_the_instructions_that_round(planted, monkeypatch):
    capability = torch.backends.cpu.get_cpu_capability().lower()
    assert metadata.machine()["instructions"].lower() == capability
    monkeypatch.setattr(metadata, "machine", lambda: {"instructions": "none"})
    lines = {line.path: line for line in verify(planted, CONFIG)}
    assert lines["tables/paper_grid.parquet"].why == f"instructions {capability}, now none"


def test_the_command_line_says_what_is_current_in_one_line_each(results):
    def command(*arguments):
        return python(ROOT, "-m", "rarefeat.manage.provenance", *arguments)

    quick = "--configfile", "config/quick.yaml"
    done = succeeded(command("verify", results, *quick))
    lines = done.stdout.splitlines()
    assert "current  tables/paper_grid.parquet" in lines
    assert lines[-2] == f"{len(lines) - 2} current"
    assert lines[-1].startswith("not checked: logs, checkpoints, ")
    assert "accepted.json" in lines[-1]
    (results / "quick/.lock").parent.mkdir()
    (results / "quick/.lock").touch()
    assert command("verify", results, *quick).stdout.endswith("; quick, other results\n")
    (results / "figures/arms.png").unlink()
    done = command("verify", results, *quick)
    assert done.returncode == 1
    assert "missing  figures/arms.png" in done.stdout.splitlines()
    shown = command("show", results / "figures/arms.pdf")
    assert set(json.loads(shown.stdout)["tables"]) == set(CONFIG.figures["arms"].tables)
    (results / "provenance.json").write_text("[1]")
    assert "damaged  provenance.json: cannot read " in command("verify", results, *quick).stdout
    done = command("show", ROOT / "README.md")
    assert done.returncode == 1
    assert re.fullmatch(r"error: .*README\.md has no metadata of this workflow.*\n", done.stderr)


def test_the_record_holds_commit_machine_packages_values_and_products(planted):
    found = json.loads((planted / "provenance.json").read_text())
    assert {"commit", "date", "machine", "packages", "config", "products"} <= set(found)
    entry = found["products"]["tables/cross_check.parquet"]
    assert entry["sha256"] == metadata.file_hash(planted / "tables/cross_check.parquet")
    values = {name: found["config"][key] for name, key in entry["config"].items()}
    assert values == read_origin(planted / "tables/cross_check.parquet")["config"]
    assert set(values) == {"paper", "direct"}


def test_a_file_that_lies_in_the_place_of_another_is_damaged(tmp_path):
    """Axes may come in any order."""
    job = Job(stage="chain.pretrain:stage", study="s", cell={"eps_min": 0.5, "sigma": 0.1}, seeds="1-2")
    right = ("s/eps_min=0.5/sigma=0.1/seeds=1-2", "s/sigma=0.1/eps_min=0.5/seeds=1-2")
    wrong = (
        "s/eps_min=0.5/sigma=0.2/seeds=1-2", "s/eps_min=0.5/seeds=1-2", "t/eps_min=0.5/sigma=0.1/seeds=1-2",
        "s/eps_min=0.5/sigma=0.1/seeds=3-4",
    )  # fmt: skip
    for name in (*right, *wrong):
        write_tensors(tmp_path / f"encoders/{name}.safetensors", {"w": torch.ones(1)}, job.text)
        write_table(tmp_path / f"probes/{name}.parquet", pa.table({"a": [1]}), {KEY: job.text})
    for kind, suffix in (("encoders", "safetensors"), ("probes", "parquet")):
        lines = {name: verify_intermediate(tmp_path, f"{kind}/{name}.{suffix}", False, CONFIG) for name in (*right, *wrong)}
        assert {name for name, line in lines.items() if line} == set(wrong)
        assert {line.why for line in lines.values() if line} == {"it is s/eps_min=0.5/sigma=0.1/seeds=1-2"}
    write_tensors(tmp_path / "encoders/s/seeds=1-2.safetensors", {"w": torch.ones(1)})
    line = verify_intermediate(tmp_path, "encoders/s/seeds=1-2.safetensors", False, CONFIG)
    assert line.why == "it does not say what it is"


STAGES = sorted({table.stage for table in CONFIG.tables.values() if ":" not in table.stage} | {
    "figures.draw", "claims.measure", "run.make", "manage.accept", "report.times",
    "manage.provenance", "manage.check", "report.browse",
})  # fmt: skip


def test_every_stage_has_a_command_line():
    """In one process: what takes time is to import them."""
    script = (
        "import runpy, sys\n"
        f"for name in {STAGES}:\n"
        "    sys.argv = [name, '--help']\n"
        "    try:\n"
        "        runpy.run_module(f'rarefeat.{name}', run_name='__main__', alter_sys=True)\n"
        "    except SystemExit as ending:\n"
        "        assert not ending.code, name\n"
    )
    done = succeeded(python(ROOT, "-W", "ignore", "-c", script))
    assert done.stdout.count("usage: ") == len(STAGES) > 5
