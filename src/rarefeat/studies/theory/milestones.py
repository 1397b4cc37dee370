"""What every replica's neurons were at the milestones of training."""

import pandas as pd

from rarefeat.chain.milestones import milestones
from rarefeat.config.study import Study
from rarefeat.core.divergence import diverged
from rarefeat.core.randomness import generator
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.storage.schema import validate
from rarefeat.studies.theory.tables import MILESTONE_ROWS


def read_milestones(read: JobInputs, job: Job) -> pd.DataFrame:
    """One row per point, trained arm, seed and metric."""
    study, rows = job.config_section(job.study, Study), []
    for encoders in read.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        for arm in cell.trained:
            names = ("weights", "loss", "history", "ends", "T1", "T2")
            weights, loss, *kept = encoders.tensors(*(f"{arm.label}/{name}" for name in names))
            gone = diverged(loss, study.training.K, weights)
            for index, seed in enumerate(seeds):
                keys = {**cell.values, **arm.model_dump(), "seed": seed}
                history, ends, T1, T2 = (part[index] for part in kept)
                at = (
                    study.data,
                    study.training,
                    cell["eps_min"],
                    cell["sigma"],
                    generator(study.draws, seed, "directions"),
                )
                found = milestones(history, ends, int(T1), int(T2), *at) | {
                    "diverged": float(gone[index])
                }
                rows += [{**keys, "metric": name, "value": value} for name, value in found.items()]
    return validate(MILESTONE_ROWS, pd.DataFrame(rows))
