"""One cell and block of a course: when each replica learned the rare feature, and what pulled at it."""

import pandas as pd

from rarefeat.config.model import Data, Training
from rarefeat.core.training import at_once
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.fate.config import Regime
from rarefeat.studies.fate.training import Setting, watch


def measure_fate(read: JobInputs, job: Job) -> tuple[pd.DataFrame]:
    """The stage of a cell and block: a row for each regime and seed, with its cell and T."""
    at, seeds, regimes = job.at, job.seed_list, job.part("regimes", list[Regime])
    data, training = job.part("data", Data), job.part("training", Training)
    setting = Setting(job.part("draws", str), data, training, at["latents"], int(at["N"]), at["sigma"], at["eps_min"])
    watched = [job.part(name, int) for name in ("every", "hold", "looked")]
    size = at_once(training.K, data.L, data.d + training.m)
    rows = []
    for first in range(0, len(seeds), size):
        rows += watch(
            setting, regimes, *watched, seeds[first : first + size], f"{job.study}/{at.path} from seed {seeds[first]}"
        )
    found = pd.DataFrame(rows).astype({"seed": "int64", "learned_at": float, "T1": float})
    cell = {"latents": at["latents"], "N": int(at["N"]), "sigma": float(at["sigma"]), "eps_min": float(at["eps_min"])}
    return (found.assign(T=training.T, **cell),)
