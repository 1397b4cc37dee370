"""Stage of the study of late learning: when each replica learned the rare feature."""

import pandas as pd

from rarefeat.studies.fate.config import DecayAndScale
from rarefeat.studies.fate.draws import CellSettings
from rarefeat.studies.fate.training import train_until_learned
from rarefeat.training.step import replicas_per_batch
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def measure_fate(inputs: JobInputs, job: Job) -> tuple[pd.DataFrame]:
    """Return one row for each regime and seed of a cell, with the cell and T.

    Inputs: none. Config: `draws`, `data`, `training`, `every`, `hold`, `looked`, `regimes`.
    """
    cell, seeds = job.cell_object, job.seed_list
    regimes = job.config_section("regimes", list[DecayAndScale])
    data, training = job.config_section("data", Data), job.config_section("training", Training)
    settings = CellSettings(
        job.config_section("draws", str),
        data,
        training,
        cell["latents"],
        int(cell["N"]),
        cell["sigma"],
        cell["eps_min"],
    )
    steps = [job.config_section(name, int) for name in ("every", "hold", "looked")]
    size = replicas_per_batch(training.K, data.L, data.d + training.m)
    rows = []
    for first in range(0, len(seeds), size):
        rows += train_until_learned(
            settings,
            regimes,
            *steps,
            seeds[first : first + size],
            f"{job.study}/{cell.path} from seed {seeds[first]}",
        )
    table = pd.DataFrame(rows).astype(
        {"seed": "int64", "learned_at": float, "pure_at": float, "T1": float}
    )
    columns = {
        "latents": cell["latents"],
        "N": int(cell["N"]),
        "sigma": float(cell["sigma"]),
        "eps_min": float(cell["eps_min"]),
    }
    return (table.assign(T=training.T, **columns),)
