"""The workflow end to end on the quick grid: products, incrementality, interruption, bad input."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from whole_project import RESULTS, ROOT, copy_of_the_project, environment, planned, run, snakemake

from rarefeat.config import load
from rarefeat.figures import FIGURES
from rarefeat.files import read_table
from rarefeat.tables import SCHEMAS, checked


@pytest.fixture
def project(finished, tmp_path) -> Path:
    """A copy of the finished folder that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "project", dirs_exist_ok=True))


def test_every_product_is_there_and_keeps_to_its_schema(finished):
    tables = finished / RESULTS / "tables"
    for study in ("paper", "direct", "neighbour", "without_bias", "heatmap"):
        for name in ("grid", "summary", "trends", "trajectories"):
            table = read_table(tables / f"{study}_{name}.parquet")
            assert table.num_rows
            assert list(table.column_names) == list(SCHEMAS[name].columns)
            checked(name, table.to_pandas())
    heatmap = checked("heatmap", read_table(tables / "alignment_heatmap.parquet").to_pandas())
    assert len(heatmap) == 2 * 4 * 30 * 9
    check = checked("cross_check", read_table(tables / "cross_check.parquet").to_pandas())
    # Three arms at two eps_min, both simulators: four seeds against three.
    assert len(check.drop_duplicates(["eps_min", "arm"])) == 6
    assert (check["n_reduced"] == 4).all()
    assert (check["n_direct"] == 3).all()
    for figure in FIGURES:
        for suffix, magic in (("pdf", b"%PDF"), ("png", b"\x89PNG")):
            content = (finished / RESULTS / "figures" / f"{figure}.{suffix}").read_bytes()
            assert content.startswith(magic)
            assert len(content) > 5000
    record = json.loads((finished / RESULTS / "provenance.json").read_text())
    assert "tables/paper_grid.parquet" in record["products"]
    summary = (finished / RESULTS / "summary.md").read_text()
    assert all(f"## {figure}" in summary for figure in FIGURES if figure != "trajectories")
    assert "nan" not in summary


def test_what_the_workflow_wrote_is_what_verification_expects(finished):
    command = [sys.executable, "-m", "rarefeat.provenance", "verify", str(RESULTS), "--configfile", "config/quick.yaml"]
    done = subprocess.run(command, cwd=finished, env=environment(finished), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_progress_with_time_left_is_in_the_logs(finished):
    logs = list((finished / RESULTS / "logs" / "pretrain").rglob("*.log"))
    assert logs
    assert all(re.search(r"61/61 \[\d+:\d+<", log.read_text()) for log in logs)


def test_the_table_agrees_with_the_stages_called_by_hand(finished):
    """What the workflow stored is what the functions return: no stage sees other arguments than the table's keys say."""
    import torch

    from rarefeat.pretrain import pretrain
    from rarefeat.probe import probe
    from rarefeat.synthesise import synthesise

    torch.set_num_threads(1)
    study = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml").studies["paper"]
    point = next(point for point in study.points() if point.eps_min == 0.2)
    (arm,) = (arm for arm in point.arms if arm.arm == "pruned_neuron")
    latents = synthesise("paper", study.data, point.eps_min, [101])
    parts = "paper", study.simulator, study.data, study.training, [arm], point.sigma, [101]
    encoders, _ = pretrain(*parts, latents["train"])
    (expected,) = probe(*parts, latents, {name: (encoder.weights, encoder.bias) for name, encoder in encoders.items()})
    grid = read_table(finished / RESULTS / "tables" / "paper_grid.parquet").to_pandas()
    row = grid[(grid["eps_min"] == 0.2) & (grid["arm"] == "pruned_neuron") & (grid["seed"] == 101)].iloc[0]
    keys = arm.model_dump()
    assert dict(row[list(keys)]) == keys == {name: expected.pop(name) for name in keys}
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-6, nan_ok=True), name


def test_a_second_run_does_nothing(finished):
    assert planned(finished) == {}


def test_one_more_eps_min_runs_its_own_point_and_what_aggregates_them(finished, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text(yaml.safe_dump({"studies": {"neighbour": {"grid": {"arms": {"eps_min": [0.2, 0.6, 1.0]}}}}}))
    jobs = planned(finished, configs=("config/quick.yaml", str(more)))
    # One more point; the neighbour's tables, the one figure that shows them, the summary, and their pages.
    assert jobs == {
        "synthesise": 1, "pretrain": 1, "probe": 1, "aggregate_grid": 1, "aggregate_trajectories": 1, "plot": 1,
        "summarise": 1, "tables_page": 1, "text_page": 1, "run_times": 1, "provenance": 1,
    }  # fmt: skip


def test_a_changed_hyper_parameter_reruns_only_what_depends_on_it(finished, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text(yaml.safe_dump({"studies": {"heatmap": {"training": {"eta": 0.2}}}}))
    jobs = planned(finished, configs=("config/quick.yaml", str(more)))
    assert "synthesise" not in jobs
    assert (jobs["pretrain"], jobs["probe"], jobs["plot"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("module", "first"),
    [("core/sparse_coding.py", "synthesise"), ("core/contrastive.py", "pretrain"), ("core/linear_probe.py", "probe"),
     ("tables.py", "aggregate_grid"), ("plot.py", "plot")],
)  # fmt: skip
def test_a_changed_module_reruns_its_stage_and_what_follows(project, module, first):
    with open(project / "src" / "rarefeat" / module, "a") as source:
        source.write("\n# a change\n")
    chain = ["synthesise", "pretrain", "probe", "aggregate_grid", "plot"]
    jobs = planned(project)
    assert [rule for rule in chain if rule in jobs] == chain[chain.index(first) :]
    # Every cell of the stage, not just some; those behind the checkpoint are planned only once it has run.
    full = planned(project, "--forceall")
    assert jobs[first] >= full[first]


def test_a_run_killed_half_way_resumes_to_the_same_tables(finished, tmp_path):
    """In other blocks of seeds, too: neither leaves a trace in the bytes."""
    folder = copy_of_the_project(tmp_path)
    blocks = folder / "blocks.yaml"
    blocks.write_text("seeds_per_block: 2\n")
    configs = ("config/quick.yaml", str(blocks))
    target = str(RESULTS / "tables" / "neighbour_grid.parquet")
    process = subprocess.Popen(
        snakemake(folder, target, configs=configs), cwd=folder, env=environment(folder), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    encoders = folder / RESULTS / "encoders"
    while len(list(encoders.rglob("seeds=*.safetensors"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in encoders.rglob("seeds=*.safetensors")}
    assert len(before) >= 2
    assert not (folder / target).exists()

    assert run(folder, "--unlock", configs=configs).returncode == 0
    resumed = run(folder, "--rerun-incomplete", target, configs=configs)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    # What was finished is kept; the two jobs in flight may have written their files and not been recorded.
    kept = [path for path, mtime in before.items() if path.stat().st_mtime_ns == mtime]
    assert len(kept) >= len(before) - 2
    assert (folder / target).read_bytes() == (finished / target).read_bytes()


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_drawn_again_has_the_same_bytes(finished, tmp_path, figure):
    configs = [finished / "config" / name for name in ("config.yaml", "quick.yaml")]
    tables = [finished / RESULTS / "tables" / f"{table}.parquet" for table in FIGURES[figure].tables]
    outputs = [tmp_path / f"{figure}.{suffix}" for suffix in ("png", "pdf")]
    command = [sys.executable, "-m", "rarefeat.plot", figure, "--tables", *tables, "--output", *outputs]
    if block := FIGURES[figure].block:
        command += ["--block", load(*configs).studies["paper"].grid[block].model_dump_json()]
    subprocess.run(command, check=True, capture_output=True)
    for output in outputs:
        assert output.read_bytes() == (finished / RESULTS / "figures" / output.name).read_bytes()


def test_a_damaged_upstream_file_stops_the_run_with_one_line_and_no_output(project):
    (damaged,) = (project / RESULTS / "latents" / "heatmap").rglob("*.safetensors")
    content = damaged.read_bytes()
    damaged.write_bytes(content[: len(content) // 2])
    done = run(project, "--forcerun", "pretrain", "--", str(RESULTS / "tables" / "heatmap_grid.parquet"))
    assert done.returncode != 0
    assert f"error: cannot read {damaged.relative_to(project)}" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not list((project / RESULTS / "encoders" / "heatmap").rglob("seeds=*.safetensors"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": {"dd": 3}}, "config: studies.paper.data.dd"),
        ({"studies": {"paper": {"grid": {"figure_3": {"sigma": [-0.1]}}}}}, "figure_3.sigma.0"),
        ({"results": ""}, "config: results"),
    ],
)
def test_a_bad_config_is_one_line_and_a_failure(tmp_path, change, words):
    bad = tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump(change))
    done = run(ROOT, "--dry-run", configs=("config/quick.yaml", str(bad)))
    assert done.returncode != 0
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sigma", "-1"], "--sigma: '-1' is not a number in [0, inf]"),
        (["--seeds", "9-3"], "--seeds: '9-3' is not a range of seeds"),
        (["--arms", "[{arm: pruned_neuron, alpha: 1}]"], "alpha: Input should be less than 1"),
        (["--training", "{m: 0}"], "--training"),
        (["--data", "[1"], "--data: not YAML"),
    ],
)
def test_a_stage_says_what_is_wrong_with_its_arguments(arguments, words):
    command = [sys.executable, "-m", "rarefeat.pretrain", "--study", "s", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_study_that_a_map_of_the_claims_shows_cannot_be_left_out(tmp_path):
    folder = copy_of_the_project(tmp_path)
    raw = yaml.safe_load((folder / "config/config.yaml").read_text())
    del raw["claims"]["studies"]["phase_small_lambda"]
    (folder / "config/config.yaml").write_text(yaml.safe_dump(raw))
    done = run(folder, "--dry-run")
    assert done.returncode != 0
    assert "config: claims.studies.phase_small_lambda is missing; a map of the claims shows it" in done.stdout + done.stderr
