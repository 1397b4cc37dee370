"""The granularity sweep on photographs: trainings, stages from file to file, and recipes."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from common import DESCENT
from conftest import made_table, refusal, run_cell
from pydantic import ValidationError

from rarefeat.errors import RarefeatError
from rarefeat.images.trainer import TrainingRun
from rarefeat.images.trainer import load as load_weights
from rarefeat.studies.fine_labels import REPRESENT, SWEEP_PHOTOGRAPHS, label_schemes, photographs
from rarefeat.studies.fine_labels.granularity import (
    LabelScheme,
    Photographs,
    ResNetSettings,
)
from rarefeat.workflow.config.study import merge_configs
from rarefeat.workflow.files.tensors import read_tensors, write_tensors
from rarefeat.workflow.project import load
from rarefeat.workflow.run.job_inputs import JobInputs
from rarefeat.workflow.study_kind import IMAGE_DATA, collected_table

REPOSITORY = Path(__file__).parents[3]
STUDY = "sweep_of_tests"
SWEEP = yaml.safe_load("""
data: {format: digits}
seeds: 2
first_seed: 0
seeds_per_block: 2
superclass: [parity]
levels: {parity: [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]}
labels: [{kind: coarse}, {kind: clusters, ids: 3}]
training:
  checkpoints: [2]
  shift: 1
  l2: 0.1
  flip: 0.5
  network: {block: basic, depths: [1], width: 2, stem: cifar, head: 2}
  precision: float32
  checkpoint_minutes: 5
  device: cpu
  threads: 1
features:
  augmentation:
    {crop_scale: [0.8, 1.0], flip: 0, jitter: [0, 0, 0, 0], jitter_probability: 0, grey: 0, blur: 0}
  training:
    {tau: 0.2, epochs: 1, warmup_epochs: 0, batch: 128, lr: 0.1, final_lr: 0,
     momentum: 0.9, weight_decay: 0, log_epochs: 1, checkpoint_minutes: 5, device: cpu, threads: 1}
""")
SWEEP["training"] |= {"pretraining": DESCENT, "finetuning": DESCENT}


def training(**changes):
    return ResNetSettings(**merge_configs(SWEEP["training"], {"checkpoints": [1, 2]} | changes))


def sweep(**changes):
    return Photographs(**SWEEP | changes)


def images(n=60):
    g = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 4
    x = torch.randint(40, (n, 3, 8, 8), generator=g, dtype=torch.uint8)
    half = torch.arange(8)[None, :] // 4 == y[:, None] // 2
    # A channel for the superclass, a half of the image for the class.
    x[torch.arange(n), y % 2] += 150 * half[:, :, None].to(torch.uint8)
    return photographs.SweepImages(x, y, y % 2, x[:20], (y % 2)[:20])


def run_of(folder, identity=0, minutes=5):
    tag = torch.full((32,), identity, dtype=torch.uint8)
    return TrainingRun(STUDY, 0, folder / "a.safetensors", tag, minutes, "a", "pretraining ")


def classifier(classes=4):
    encoder = photographs.make_encoder(training().network, 1, STUDY, 0)
    return photographs.Classifier(encoder, classes, torch.Generator().manual_seed(0))


def fit(folder, identity=0, **changes):
    model, config = classifier(), training(**{"pretraining": {"batch": 16}} | changes)
    run = run_of(folder, identity, config.checkpoint_minutes)
    photographs.fit(model, images().train, images().labels, config, config.pretraining, run, [1])
    return model.trained


def rows_of(folder, kind, labels, **changes):
    scheme, identity = LabelScheme(kind=kind), run_of(folder).identity
    found = photographs.iter_replica_rows(
        images(), labels, scheme, training(**changes), 0, STUDY, folder, identity
    )
    return pd.DataFrame(found)


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_interrupted_training_ends_with_the_same_weights(stop, tmp_path, monkeypatch):
    whole = fit(tmp_path / "whole")
    true = photographs.learning_rate

    def interrupted(descent, step, steps):
        if step == stop:
            raise KeyboardInterrupt
        return true(descent, step, steps)

    monkeypatch.setattr(photographs, "learning_rate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "cut", checkpoint_minutes=1e-9)
    monkeypatch.setattr(photographs, "learning_rate", true)
    resumed = fit(tmp_path / "cut", checkpoint_minutes=1e-9)
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())
    # The weights after the first epoch are written too, and differ.
    run = run_of(tmp_path / "cut")
    first = load_weights(run, run.epoch_path(1), classifier().trained)
    assert not torch.equal(first["head.weight"], whole["head.weight"])


def test_checkpoint_of_another_training_is_rejected(tmp_path, capsys):
    """A damaged checkpoint is ignored, with a warning."""
    whole = fit(tmp_path)
    with pytest.raises(RarefeatError, match="checkpoint of another config"):
        fit(tmp_path, identity=1)
    path = tmp_path / "a.safetensors"
    path.write_bytes(path.read_bytes()[:-10] + b"0123456789")
    again = fit(tmp_path)
    assert "damaged" in capsys.readouterr().err
    assert all(torch.equal(again[name], value) for name, value in whole.items())


def test_infinite_loss_is_reported(tmp_path):
    with pytest.raises(RarefeatError, match="the loss is not finite after epoch 2; lower lr"):
        fit(tmp_path, pretraining={"lr": 1e30})


def test_replica_rows_cover_checkpoints_and_readouts(tmp_path):
    found = rows_of(tmp_path, "coarse", images().superclass)
    readouts = found.groupby("epoch")["readout"].apply(set).tolist()
    assert readouts == [{"probe", "once", "finetuned"}] * 2
    assert (found["classes"] == 2).all()
    assert found["error"].between(0, 1).all()


def test_fine_tuning_begins_with_the_pretrained_encoder(tmp_path):
    rows_of(tmp_path, "coarse", images().superclass, finetuning={"lr": 1e-30})
    for name in (name for name in classifier().trained if name.startswith("encoder")):
        before = read_tensors(tmp_path / "pretraining.seed=0.2.safetensors", name)[0]
        after = read_tensors(tmp_path / "superclasses.2.seed=0.safetensors", f"weight/{name}")[0]
        torch.testing.assert_close(after, before)


def test_task_is_learned(tmp_path):
    long = {"epochs": 20, "batch": 20}
    changes = {"pretraining": long, "finetuning": long, "checkpoints": [20], "shift": 0, "flip": 0}
    rows = rows_of(tmp_path, "manual", images().labels, network={"width": 8}, **changes)
    assert set(rows["readout"]) == {"probe", "finetuned"}
    assert (rows["error"] <= 0.1).all()


def test_stages_run_from_file_to_file(tmp_path):
    study = sweep()
    first, block = study.cells()[0], next(iter(study.blocks()))
    run_cell(tmp_path, IMAGE_DATA, STUDY, study, first, block)
    run_cell(tmp_path, REPRESENT, STUDY, study, first, block)
    for cell in study.cells():
        run_cell(tmp_path, SWEEP_PHOTOGRAPHS, STUDY, study, cell, block)
    assert not list((tmp_path / "checkpoints").rglob("*.safetensors"))
    schema = "studies.fine_labels.tables:SWEEP"
    table = collected_table(schema, SWEEP_PHOTOGRAPHS, "sweeps", STUDY, study)
    errors = made_table(tmp_path, table)
    assert errors.groupby("labels")["classes"].first().to_dict() == {"clusters-3": 6, "coarse": 2}
    assert len(errors) == 2 * (2 + 3)
    # Features of another training are no input of a cell that clusters them, and of no other one.
    raw = merge_configs(SWEEP, {"features": {"training": {"epochs": 2}}})
    coarse, clusters = Photographs(**raw).cells()
    job = SWEEP_PHOTOGRAPHS.job(STUDY, Photographs(**raw), clusters, block)
    with pytest.raises(RarefeatError, match=r"another config\.features"):
        JobInputs(job, tmp_path).file("features").tensors("features")
    settings = [Photographs(**raw).settings(coarse), study.settings(coarse)]
    assert settings[0] == settings[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "No columns to parse from file"),
        ("living\n0,1\n1,1\n", "Length of header or names does not match"),
        ("living\n0.5\n", "the column living must hold an integer of 0 or more"),
        ('living\n"0\n', "EOF inside string"),
        (None, "cannot read"),
    ],
)
def test_bad_hierarchy_file_is_rejected(tmp_path, text, message):
    if text is not None:
        (tmp_path / "levels.csv").write_text(text)
    assert message in refusal(label_schemes.read_levels, "levels.csv", str(tmp_path))


def test_single_superclass_is_rejected(tmp_path):
    study, labels = sweep(), torch.arange(4)
    tensors = {"train": torch.zeros(4, 3, 8, 8, dtype=torch.uint8), "train_labels": labels}
    write_tensors(
        tmp_path / f"images/{STUDY}.safetensors",
        tensors | {"test": images(4).test, "test_labels": labels.clone()},
        IMAGE_DATA.job(STUDY, study).to_json,
    )
    job = SWEEP_PHOTOGRAPHS.job(STUDY, study, study.cells()[0], "0-1")
    levels = {"all": torch.zeros(4, dtype=torch.long)}
    with pytest.raises(RarefeatError, match=r"levels\.all: must have at least two superclasses"):
        photographs.read_images(JobInputs(job, tmp_path).file("images"), levels, "all", "cpu")


def test_clusters_need_features():
    with pytest.raises(ValidationError, match="features are required"):
        sweep(features=None)
    sweep(features=None, labels=[{"kind": "coarse"}, {"kind": "sample"}])


@pytest.mark.parametrize("name", ["cifar100", "inaturalist", "imagenet21k"])
def test_recipes_are_complete_configs(name):
    path = REPOSITORY / f"config/{name}_labels.yaml"
    project = load(REPOSITORY / "config/config.yaml", path)
    assert f"tables/{name}_labels_summary.parquet" in project.targets[f"{name}_labels"]
    assert f"snakemake {name}_labels " in path.read_text(encoding="utf-8")


def test_cifar_100_superclasses_are_those_of_its_files():
    folders = [path / "shared/data/cifar100" for path in list(REPOSITORY.parents)[:2]]
    paths = [path for folder in folders for path in sorted(folder.glob("*.parquet"))]
    if not paths:
        pytest.skip("CIFAR-100 is not at hand")
    recipe = yaml.safe_load((REPOSITORY / "config/cifar100_labels.yaml").read_text("utf-8"))
    levels = recipe["fine_labels"]["photographs"]["cifar100_labels"]["levels"]["superclass"]
    for path in paths:
        table = pq.read_table(path, columns=["fine_label", "coarse_label"]).to_pandas()
        ends = table.groupby("fine_label")["coarse_label"].agg(["min", "max"])
        assert ends.eq(pd.Series(levels), axis=0).all(axis=None)
