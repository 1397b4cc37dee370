"""One cell and block of a course: when each replica learned the rare feature, and what pulled at it."""

import pandas as pd

from rarefeat.config.model import Data, Training
from rarefeat.run.job import Job
from rarefeat.run.read import Read
from rarefeat.studies.fate.config import AXES, settings
from rarefeat.studies.fate.training import Setting, watch


def measure_fate(read: Read, job: Job) -> tuple[pd.DataFrame]:
    """The stage of a cell and block: a row for each seed, with its cell and T."""
    at, seeds = job.at, job.seed_list
    data, training = settings(job.part("data", Data), job.part("training", Training), at)
    setting = Setting(job.part("draws", str), data, training, at["latents"], int(at["N"]), at["sigma"], at["eps_min"])
    watched = (job.part(name, int) for name in ("every", "hold", "looked"))
    found = pd.DataFrame(watch(setting, *watched, seeds, f"{job.study}/{at.path}")).astype({"seed": "int64"})
    found = found.astype({"learned_at": float, "T1": float})
    cell = {name: at[name] if name == "latents" else int(at[name]) if name == "N" else float(at[name]) for name in AXES}
    return (found.assign(T=training.T, **cell),)
