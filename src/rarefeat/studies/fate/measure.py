"""One cell and block of a course: when each replica learned the rare feature, and what pulled at it."""

import pandas as pd

from rarefeat.config.model import Data, Training
from rarefeat.core.training import replicas_per_batch
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.fate.config import DecayAndScale
from rarefeat.studies.fate.training import CellSettings, train_until_learned


def measure_fate(read: JobInputs, job: Job) -> tuple[pd.DataFrame]:
    """The stage of a cell and block: a row for each regime and seed, with its cell and T."""
    at, seeds, regimes = (
        job.cell_object,
        job.seed_list,
        job.config_section("regimes", list[DecayAndScale]),
    )
    data, training = job.config_section("data", Data), job.config_section("training", Training)
    setting = CellSettings(
        job.config_section("draws", str),
        data,
        training,
        at["latents"],
        int(at["N"]),
        at["sigma"],
        at["eps_min"],
    )
    watched = [job.config_section(name, int) for name in ("every", "hold", "looked")]
    size = replicas_per_batch(training.K, data.L, data.d + training.m)
    rows = []
    for first in range(0, len(seeds), size):
        rows += train_until_learned(
            setting,
            regimes,
            *watched,
            seeds[first : first + size],
            f"{job.study}/{at.path} from seed {seeds[first]}",
        )
    found = pd.DataFrame(rows).astype({"seed": "int64", "learned_at": float, "T1": float})
    cell = {
        "latents": at["latents"],
        "N": int(at["N"]),
        "sigma": float(at["sigma"]),
        "eps_min": float(at["eps_min"]),
    }
    return (found.assign(T=training.T, **cell),)
