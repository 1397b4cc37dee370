"""The overlap of the smallest neurons with those of the minority feature.

Magnitude pruning takes it for granted. It is read from the recorded history of the dense arm, so
that every pruning ratio and every recorded step costs no training.
"""

import pandas as pd
import torch
from torch import Tensor

from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.thresholds import ALIGNED_COSINE
from rarefeat.statistics import student_interval
from rarefeat.studies.theory.tables import OVERLAP
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def smallest_of_minority(history: Tensor, d: int, minority: int) -> Tensor:
    """Compute the share of the smallest neurons that are aligned with a minority feature.

    Aligned is |cos| >= 0.3; ties of norms are in the order of the neurons.

    history (..., m, d + 2) -> (..., m).
    """
    norms = history[..., d]
    aligned = (
        (history[..., d - minority : d].abs() >= ALIGNED_COSINE * norms[..., None]).any(-1).double()
    )
    ordered = aligned.gather(-1, norms.argsort(dim=-1, stable=True))
    return ordered.cumsum(-1) / torch.arange(1, norms.shape[-1] + 1)


def read_overlap(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return a row per point, recorded step and pruning ratio k / m.

    Inputs are the encoders of the study, config its section `Study`; the output is `STUDY_overlap`.
    """
    study, rows = job.config_section(job.study, Study), []
    m, histories = study.training.m, dict[tuple, list[Tensor]]()
    for encoders in inputs.files("encoders"):
        histories.setdefault(encoders.cell.axes, []).extend(encoders.tensors("dense/history"))
    for axes, blocks in histories.items():
        shares = smallest_of_minority(
            torch.cat(blocks), study.data.d, len(study.data.minority)
        ).numpy()
        for index, step in enumerate(log_spaced(study.training.T)):
            for k in range(1, m + 1):
                mean, _, low, high, n = student_interval(shares[:, index, k - 1], inside=(0, 1))
                rows.append(
                    {
                        **dict(axes),
                        "step": step,
                        "alpha": k / m,
                        "overlap": mean,
                        "ci_low": low,
                        "ci_high": high,
                        "n": n,
                    }
                )
    return validate(OVERLAP, pd.DataFrame(rows))
