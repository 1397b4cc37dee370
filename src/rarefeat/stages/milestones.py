"""Metrics of the theory's statements for one replica, from the stored history.

They refer to W(0), stages 1 and 2, and the end of training (model/theory_metrics.py).
Axes: R recorded steps, m neurons, q numbers of a recorded neuron.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.sparse_coding import frequencies
from rarefeat.model.theory_metrics import (
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
from rarefeat.stages.tables import MILESTONES
from rarefeat.workflow.config.model import Data, Training


def theory_parameters(
    data: Data, training: Training, eps_min: float, sigma: float
) -> TheoryParameters:
    """Collect the hyper-parameters that the theory's statements name."""
    return TheoryParameters(
        d=data.d, d1=data.d1, L=data.L, C=data.C,
        K=training.K, tau=training.tau, eta=training.eta, lambda_=training.lambda_,
        sigma_0=training.sigma_0, nsr=sigma**2 * data.d1,
        eps=frequencies(data.d, data.minority, eps_min), n_minority=len(data.minority),
        scale=training.logit_scale(data.d1),
    )  # fmt: skip


def milestones(
    history: Float[Tensor, "R m q"],
    ends: Float[Tensor, "2 m q"],
    T1: int,
    T2: int,
    data: Data,
    training: Training,
    eps_min: float,
    sigma: float,
    directions: torch.Generator,
) -> dict[str, float]:
    """Compute the metrics of the theory's statements for one replica.

    `history` and `ends` are those of `TrainedEncoder`, and `directions` draws coordinates.
    """
    steps = log_spaced(training.T)
    parameters = theory_parameters(data, training, eps_min, sigma)
    recorded = neurons_from_history(history, parameters.d)
    at_T1, at_T2 = (neurons_from_history(neurons, parameters.d) for neurons in ends)
    start, end = recorded.select(0), recorded.select(-1)
    sets = initial_neuron_sets(start, parameters.eps_min)
    max_coordinates = max_abs_coordinates(
        history.shape[1], max(parameters.d1 - parameters.d, 1), directions
    ) * (parameters.d1 > parameters.d)
    metrics = (
        dict.fromkeys(MILESTONES, math.nan)
        | initial_metrics(start, parameters)
        | stage_one_metrics(recorded, steps, T1, at_T1, parameters)
    )
    if T1 >= 0:
        metrics |= {"T1": float(T1)} | metrics_at_T1(at_T1, sets, parameters, max_coordinates)
    if T2 >= 0:
        within = [i for i, step in enumerate(steps) if T1 < step < T2]
        ends_at_T2 = zip(recorded, at_T2, strict=True)
        between = Neurons(*(torch.cat([rows[within], last[None]]) for rows, last in ends_at_T2))
        metrics |= {"T2": float(T2)}
        metrics |= stage_two_metrics(between, sets, parameters, max_coordinates)
        metrics |= metrics_at_T2(at_T1, at_T2, sets, parameters)
    return metrics | final_metrics(end, sets, parameters, max_coordinates)
