"""What is read from the recorded history of the neurons of a study.

Milestones are what the theory speaks of, and say of how many replicas the rare feature is learned,
at half and at double each hyper-parameter, too. The overlap of the smallest neurons with those of
the minority feature is what magnitude pruning takes for granted; no pruning ratio costs a training.
"""

from collections.abc import Mapping

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.model.divergence import diverged
from rarefeat.model.randomness import generator
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.thresholds import ALIGNED_COSINE
from rarefeat.stages.milestones import milestones
from rarefeat.statistics import fraction_interval, sign_test, student_interval
from rarefeat.studies.theory import HALF_AND_DOUBLE, Theory
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.run.job_inputs import JobInputs


def read_milestones(inputs: JobInputs, study: Study) -> pd.DataFrame:
    """Return a row per point, trained arm, seed and metric."""
    data, training, rows = study.data, study.training, []
    for encoders in inputs.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        for arm in cell.trained:
            names = ("weights", "loss", "history", "ends", "T1", "T2")
            weights, loss, *recorded = encoders.tensors(*(f"{arm.label}/{name}" for name in names))
            has_diverged = diverged(loss, training.K, weights)
            for index, seed in enumerate(seeds):
                keys = {**cell.values, **arm.model_dump(), "seed": seed}
                history, ends, T1, T2 = (tensor[index] for tensor in recorded)
                metrics = milestones(
                    history, ends, int(T1), int(T2), data, training, cell["eps_min"], cell["sigma"],
                    generator(study.draws, seed, "directions"),
                )  # fmt: skip
                metrics |= {"diverged": float(has_diverged[index])}
                rows += [keys | {"metric": name, "value": value} for name, value in metrics.items()]
    return pd.DataFrame(rows)


def smallest_of_minority(
    history: Float[Tensor, "*R m q"], d: int, minority: int
) -> Float[Tensor, "*R m"]:
    """Return, by k, the share of the k smallest neurons with |cos| >= 0.3 to a minority feature."""
    norms = history[..., d]
    cosines_times_norm = history[..., d - minority : d].abs()
    aligned = (cosines_times_norm >= ALIGNED_COSINE * norms[..., None]).any(-1).double()
    ordered = aligned.gather(-1, norms.argsort(dim=-1, stable=True))
    return ordered.cumsum(-1) / torch.arange(1, norms.shape[-1] + 1)


def read_overlap(inputs: JobInputs, study: Study) -> pd.DataFrame:
    """Return a row per point, recorded step and pruning ratio k / m of the dense arm."""
    m, histories, rows = study.training.m, dict[tuple, list[Tensor]](), []
    for encoders in inputs.files("encoders"):
        histories.setdefault(encoders.cell.axes, []).extend(encoders.tensors("dense/history"))
    for axes, blocks in histories.items():
        minority = len(study.data.minority)
        shares = smallest_of_minority(torch.cat(blocks), study.data.d, minority).numpy()
        for index, step in enumerate(log_spaced(study.training.T)):
            for k in range(1, m + 1):
                mean, _, *ends, n = student_interval(shares[:, index, k - 1], inside=(0, 1))
                rows.append((*dict(axes).values(), step, k / m, mean, *ends, n))
    names = ["eps_min", "sigma", "step", "alpha", "overlap", "ci_low", "ci_high", "n"]
    return pd.DataFrame(rows, columns=names)


def half_and_double(tables: Mapping[str, pd.DataFrame], theory: Theory) -> pd.DataFrame:
    """Return who learns the feature under each setting, tested by McNemar against the study."""
    base, *varied = (find_learners(table) for table in tables.values())
    names = [name for name in theory.every_study() if name not in theory.studies]
    settings = [("", 1.0), *((key.rpartition(".")[2], f) for key, f in theory.settings())]
    values = ["", *(theory.varied(name)[1].partition(" = ")[2] for name in names)]
    rows = []
    for setting, value, learned in zip(settings, values, (base, *varied), strict=True):
        for eps_min in theory.sensitivity.eps_min:
            by_seed = learned[eps_min]
            low, high = fraction_interval(by_seed.to_numpy())
            share = by_seed.mean(), low, high, len(by_seed)
            rows.append((*setting, value, eps_min, *share, *sign_test(by_seed - base[eps_min])))
    table = pd.DataFrame(rows, columns=list(HALF_AND_DOUBLE.columns))
    return table.sort_values(list(HALF_AND_DOUBLE.keys), ignore_index=True)


def find_learners(milestones: pd.DataFrame) -> dict[float, pd.Series]:
    """Return by eps_min whether each seed's dense replica has learned the rare feature."""
    learned = milestones[(milestones["metric"] == "learned") & (milestones["arm"] == "dense")]
    return {
        eps_min: replicas.set_index("seed")["value"].dropna()
        for eps_min, replicas in learned.groupby("eps_min")
    }
