"""The table of every replica's neurons at the milestones of training."""

import pandas as pd

from rarefeat.model.divergence import diverged
from rarefeat.model.randomness import generator
from rarefeat.stages.milestones import milestones
from rarefeat.studies.theory.tables import MILESTONE_ROWS
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def read_milestones(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return a row per point, trained arm, seed and metric.

    Inputs are the encoders of the study, config its section `Study`; the output is
    `STUDY_milestones`.
    """
    study, rows = job.config_section(job.study, Study), []
    for encoders in inputs.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        for arm in cell.trained:
            names = ("weights", "loss", "history", "ends", "T1", "T2")
            weights, loss, *recorded = encoders.tensors(*(f"{arm.label}/{name}" for name in names))
            has_diverged = diverged(loss, study.training.K, weights)
            for index, seed in enumerate(seeds):
                keys = {**cell.values, **arm.model_dump(), "seed": seed}
                history, ends, T1, T2 = (tensor[index] for tensor in recorded)
                settings = (
                    study.data,
                    study.training,
                    cell["eps_min"],
                    cell["sigma"],
                    generator(study.draws, seed, "directions"),
                )
                metrics = milestones(history, ends, int(T1), int(T2), *settings) | {
                    "diverged": float(has_diverged[index])
                }
                rows += [
                    {**keys, "metric": name, "value": value} for name, value in metrics.items()
                ]
    return validate(MILESTONE_ROWS, pd.DataFrame(rows))
