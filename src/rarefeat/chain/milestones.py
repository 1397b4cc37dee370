"""What the neurons of one replica were at W(0), until T1 and T2, and at T, from what training keeps of them."""

import math

import torch
from torch import Tensor

from rarefeat.chain.tables import MILESTONES
from rarefeat.config.model import Data, Training
from rarefeat.core.recorded_steps import log_spaced
from rarefeat.core.sparse_coding import frequencies
from rarefeat.core.theory_metrics import (
    Neurons,
    TheoryParameters,
    final_metrics,
    initial_metrics,
    initial_neuron_sets,
    max_abs_coordinates,
    metrics_at_T1,
    metrics_at_T2,
    neurons_from_history,
    stage_one_metrics,
    stage_two_metrics,
)


def theory_parameters(
    data: Data, training: Training, eps_min: float, sigma: float
) -> TheoryParameters:
    """What the statements name, of one point of a study."""
    return TheoryParameters(
        d=data.d, d1=data.d1, L=data.L, C=data.C, K=training.K, tau=training.tau, eta=training.eta, lambda_=training.lambda_,
        sigma_0=training.sigma_0, nsr=sigma**2 * data.d1, eps=frequencies(data.d, data.minority, eps_min),
        minority=len(data.minority),
    )  # fmt: skip


def milestones(
    history: Tensor, ends: Tensor, T1: int, T2: int, data: Data, training: Training, eps_min: float, sigma: float,
    directions: torch.Generator,
) -> dict[str, float]:  # fmt: skip
    """Metrics of one replica; NaN for what it does not have.

    Args:
        history: (R, m, d + 2), <w_i, M_j>, ||w_i|| and b_i at the recorded steps. ends: (2, m, d + 2), the same at T1 and T2.
        T1, T2: the steps that ended stages 1 and 2, -1 for none. directions: of the part outside span(M).
    """
    steps, of = log_spaced(training.T), theory_parameters(data, training, eps_min, sigma)
    course, (at_T1, at_T2) = (
        neurons_from_history(history, of.d),
        (neurons_from_history(part, of.d) for part in ends),
    )
    start, end = course.select(0), course.select(-1)
    sets = initial_neuron_sets(start, of.eps_min)
    unit = max_abs_coordinates(history.shape[1], max(of.d1 - of.d, 1), directions) * (of.d1 > of.d)
    found = (
        dict.fromkeys(MILESTONES, math.nan)
        | initial_metrics(start, of)
        | stage_one_metrics(course, steps, T1, at_T1, of)
    )
    if T1 >= 0:
        found |= {"T1": float(T1)} | metrics_at_T1(at_T1, sets, of, unit)
    if T2 >= 0:
        within = [i for i, step in enumerate(steps) if T1 < step < T2]
        between = Neurons(
            *(
                torch.cat([kept[within], last[None]])
                for kept, last in zip(course, at_T2, strict=True)
            )
        )
        found |= (
            {"T2": float(T2)}
            | stage_two_metrics(between, sets, of, unit)
            | metrics_at_T2(at_T1, at_T2, sets, of)
        )
    return found | final_metrics(end, sets, of, unit)
