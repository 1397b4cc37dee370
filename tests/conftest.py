"""Small helpers of the unit tests: configs in one line, and the draws of a step."""

import itertools
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import shape_checks  # before it imports what it checks
import torch
from hypothesis import settings
from torch import Tensor

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import NOT_RUN, Measurement, measured_table
from rarefeat.claims.verdict import verdicts
from rarefeat.errors import RarefeatError
from rarefeat.model import own_files
from rarefeat.model.encoder import attend, embed, pre_activations
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.stages.probe import probe
from rarefeat.stages.synthesise import synthesise
from rarefeat.training.loop import batches
from rarefeat.training.pretraining import TrainedEncoder, pretrain
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.config.study import Study, merge_configs
from rarefeat.workflow.config.yaml_reader import read_yaml
from rarefeat.workflow.files.tensors import write_tensors
from rarefeat.workflow.project import Project, parse
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.command import write, write_outputs
from rarefeat.workflow.run.job import Job, make_job
from rarefeat.workflow.run.job_inputs import JobInputs, call
from rarefeat.workflow.study_kind import PRETRAIN, PROBE, SYNTHESISE, Stage, Table, lineage

torch.set_num_threads(1)
# Own code of a file runs without the user's modules; what checks shapes is none of them.
own_files.INSTALLED += (f"{Path(__file__).parent}/",)
# Of a shell that runs the tests in the background, processes would inherit that SIGINT is ignored.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# On a machine that is busy with other work an example may take any time.
settings.register_profile("rarefeat", deadline=None)
settings.load_profile("rarefeat")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that no worker is alone with them at the end."""
    items.sort(key=lambda item: "workflow" not in item.path.parts)


def pytest_runtest_setup() -> None:
    shape_checks.CALLS.clear()


def of_size(size: str) -> Project:
    return parse(read_yaml(Path("config/config.yaml")) | {"size": size})


def quick(**sections: dict) -> Project:
    """Return the config of the quick grid, with sections laid over it."""
    files = (read_yaml(Path(f"config/{name}.yaml")) for name in ("config", "quick"))
    return parse(merge_configs(*files) | sections)


ARMS = {
    "dense": Arm(arm="dense"),
    "pruned_neuron": Arm(arm="pruned_neuron", alpha=0.25),
    "pruned_neuron, straight through": Arm(
        arm="pruned_neuron", alpha=0.25, pruned_update="straight_through"
    ),
    "pruned_weight": Arm(arm="pruned_weight", alpha=0.25),
    "pruned_weight, straight through": Arm(
        arm="pruned_weight", alpha=0.25, pruned_update="straight_through"
    ),
    "oracle_all": Arm(arm="oracle_all"),
}


def run_stage(job: Job, results: str | Path, *outputs: str | Path) -> None:
    """Execute a job of a folder of results by its command line, in this process."""
    write_outputs(job, JobInputs(job, results), [Path(path) for path in outputs])


def refusal(function: Callable, *arguments, **keys) -> str:
    """The message of the RarefeatError that a call ends in, one line."""
    with pytest.raises(RarefeatError) as caught:
        function(*arguments, **keys)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def until(condition: Callable[[], Any], seconds: float = 300) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return result


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_damage(content: bytes, flips: int) -> Iterator[bytes]:
    """A file's content with a bit turned over at places spread over it, or cut off there."""
    for i in range(flips):
        at = i * (len(content) - 1) // (flips - 1)
        damaged = bytearray(content)
        damaged[at] ^= 1 << i % 8
        yield bytes(damaged)
        if i % 5 == 0:
            yield content[:at]


def tiny_data(**changes) -> Data:
    base = {"d": 4, "d1": 12, "L": 3, "C": 6.0, "minority": [1.0], "N": 24}
    return Data(**base | {"probe_pairs": 30, "test_pairs": 40} | changes)


def tiny_training(**changes) -> Training:
    bias = {"rule": "follow", "share": 0.2, "cap": 2.2, "T1": 1} | changes.pop("bias", {})
    base = {"m": 8, "K": 6, "tau": 0.7, "eta": 0.3, "lambda": 0.05, "sigma_0": 0.5, "T": 1}
    return Training(**base | {"history": False} | changes, bias=bias)


SMALL_DATA = tiny_data(d=9, d1=60, L=4, C=2.0, N=100, probe_pairs=50, test_pairs=100)


def small_training(**changes) -> Training:
    """Of twelve neurons and eight steps, with a bias from the third on."""
    bias = {"T1": min(3, changes.get("T", 8))}
    base = {"m": 12, "K": 32, "tau": 1.0, "sigma_0": 0.1, "T": 8, "bias": bias}
    return tiny_training(**base | changes)


def dictionaries(study: str, data: Data, seeds: list[int]) -> Tensor:
    """M of the direct simulator, (S, d1, d)."""
    return make_simulator("direct", study, data.d, data.d1, 1, seeds).dictionary


def initial_weights(
    study: str, simulator: str, data: Data, training: Training, seeds: list[int]
) -> Tensor:
    """W(0) as `pretrain` draws it, (S, m, p)."""
    space = make_simulator(simulator, study, data.d, data.d1, training.m, seeds)
    return space.initial_weights(
        training.sigma_0, [generator(study, seed, "weights") for seed in seeds]
    )


def tokens_of_step(
    study: str, data: Data, training: Training, sigma: float, seed: int, step: int
) -> Tensor:
    """Return float64 tokens (2, K, L, d1) of one replica of the direct simulator."""
    latents = synthesise(study, data, 0.5, [seed])
    indices = next(itertools.islice(batches(study, [seed], data.N, training.K), step, None))[0]
    noise_generator = generator(study, seed, "noise")
    for _ in range(step + 1):
        noise = torch.empty(2, training.K, data.L, data.d1).normal_(generator=noise_generator)
    z = latents["train"][0, indices].transpose(0, 1).double()
    return z @ dictionaries(study, data, [seed])[0].double().T + sigma * noise.double()


def embed_tokens(tokens: Tensor, weights: Tensor, bias: Tensor, scale: float = 1.0) -> Tensor:
    """f(X), (S, n, L, P), (S, m, p), (S, m) -> (S, n, m)."""
    return embed(pre_activations(attend(tokens, scale), weights), bias)


def pretrain_arm(study, simulator, data, training, arm, *rest) -> tuple[TrainedEncoder, list[dict]]:
    encoders, rows = pretrain(study, simulator, data, training, [arm], *rest)
    return encoders[arm.label], rows


def probe_arm(study, simulator, data, training, arm, sigma, seeds, latents, encoder) -> list[dict]:
    """Probe one arm alone, given weights and bias, and maybe W_Q and W_K, of a finite training."""
    encoders = {arm.label: (*encoder[:2], torch.zeros(len(seeds)), *encoder[2:])} if encoder else {}
    return probe(study, simulator, data, training, [arm], sigma, seeds, latents, encoders)


SEEDS = 12


def table_of(kind: str, measured: Iterable[Measurement]) -> pd.DataFrame:
    """Return measured rows of a kind whose claims have their primary regime among them."""
    table = measured_table(measured, load_claims(kind))
    return table[table["remark"] != NOT_RUN].reset_index(drop=True)


def verdicts_of(kind: str, measured: Iterable[Measurement]) -> pd.DataFrame:
    return verdicts(table_of(kind, measured))


def make_cells(results: Path, stage: Stage, name: str, study: Any) -> None:
    """The files of every cell and block of a study, as the workflow has its stage write them."""
    function = load_function(stage.function)
    cells = study.cells()
    if stage.axes is not None:
        cells = dict.fromkeys(cell.restrict_to(*stage.axes) for cell in cells)
    for cell in cells:
        for block in study.blocks():
            job = stage.job(name, study, cell, block)
            result = call(function, JobInputs(job, results), job)
            contents = result if isinstance(result, tuple) else (result,)
            for folder, content in zip(stage.folders, contents, strict=True):
                write(results / stage.path(folder, name, cell, block), content, job, [])


def made_table(results: Path, table: Table) -> Any:
    """What the function of a table makes of the files of cells."""
    job = table.job({})
    return call(load_function(table.function), JobInputs(job, results), job)


def write_encoders(
    results: Path, name: str, study: Study, cell: Cell, block: str, tensors: dict[str, Tensor]
) -> Path:
    """Encoders where the chain has them, which say of themselves what `pretrain` says."""
    path = results / PRETRAIN.path("encoders", name, cell, block)
    write_tensors(
        path,
        {part: x.contiguous() for part, x in tensors.items()},
        PRETRAIN.job(name, study, cell, block).to_json,
    )
    return path


def run_chain(results: Path, name: str, study: Study, cell: Cell, block: str) -> dict[str, Path]:
    """Run the chain for a cell and block of a study -> its files, by their folder."""
    stages = (SYNTHESISE, PRETRAIN, PROBE)
    return {
        folder: path
        for stage in stages
        for folder, path in run_cell(results, stage, name, study, cell, block).items()
    }


def job_at(stage: Stage, config: dict[str, Any], name: str, at: Cell, block: str) -> Job:
    """The job of a stage that is told some config, whatever its study."""
    files = {
        folder: upstream.function for upstream in stage.upstream for folder in upstream.folders
    }
    return make_job(stage.function, lineage(stage.upstream), config, name, at, block, files=files)


def run_cell(
    results: Path, stage: Stage, name: str, study: Any, cell: Cell, block: str
) -> dict[str, Path]:
    paths = {folder: results / stage.path(folder, name, cell, block) for folder in stage.folders}
    run_stage(stage.job(name, study, stage.shared_cell(cell), block), results, *paths.values())
    return paths


def train_study(results: Path, name: str, study: Study) -> list[dict]:
    rows = []
    for cell in study.cells():
        for block, seeds in study.blocks().items():
            latents = synthesise(study.draws, study.data, cell["eps_min"], seeds)["train"]
            config = study.draws, study.simulator, study.data, study.training
            encoders, trajectory = pretrain(*config, cell.trained, cell["sigma"], seeds, latents)
            parts = {
                f"{label}/{part}": x.clone()  # arms share what none of them changes
                for label, encoder in encoders.items()
                for part, x in encoder._asdict().items()
            }
            write_encoders(results, name, study, cell, block, parts)
            rows += [{**row, **cell.values} for row in trajectory]
    return rows


@pytest.fixture(params=list(ARMS), ids=[name.replace(" ", "_").replace(",", "") for name in ARMS])
def arm(request) -> Arm:
    return ARMS[request.param]
