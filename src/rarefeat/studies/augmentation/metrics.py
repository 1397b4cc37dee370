"""Metrics of an encoder of the study of augmentation: neurons, responses and linear heads.

The predictions are those of Wen & Li 2021 (wen_li_feature_decoupling), numbered as in
docs/method/augmentation.md. Axes: n samples, m neurons, p coordinates of a token, d features.
"""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.linear_model import RidgeCV
from torch import Tensor
from torch.nn.functional import normalize

from rarefeat.images.evaluation import logistic_probe, predict, standardise
from rarefeat.model.linear_probe import pair_cosine_similarity
from rarefeat.model.neurons import lucky_neurons, ordinary_neurons
from rarefeat.model.randomness import generator
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.theory_metrics import last_linear_index, neurons_from_history
from rarefeat.model.thresholds import GAMMA, PURE_COSINE
from rarefeat.stages.milestones import milestones, theory_parameters
from rarefeat.training.pretraining import TrainedEncoder
from rarefeat.workflow.config.model import Data
from rarefeat.workflow.config.study import Study

L2 = 1e-2
"""Penalty of the logistic head."""
OF_THE_STAGES = (
    "T1", "T2", "lucky_above_threshold_at_T1", "others_below_threshold_at_T1",
    "few_strong_features_at_T1", "outside_largest_at_T1", "lucky_focus_at_T2",
    "ordinary_over_lucky_at_T2",
)  # fmt: skip
"""Milestones of the stages that the claims of this study are about."""


def weight_composition(
    recorded: Float[Tensor, "*steps m q"], d: int, colour: int
) -> dict[str, Float[Tensor, "*steps"]]:
    """Compute the shares of ||w_i||^2 and the bias, means over neurons; q = d + colour + 2."""
    recorded = recorded.double()
    norms, bias = recorded[..., -2], recorded[..., -1]
    squared = recorded[..., :-2].square() / norms.square()[..., None]
    inside, coloured = squared[..., :d].sum(-1), squared[..., d : d + colour].sum(-1)
    return {
        "share_features": inside.mean(-1),
        "share_colour": coloured.mean(-1),
        "share_rest": (1 - inside - coloured).mean(-1),
        "bias_share": (bias / norms).mean(-1),
        "norm": norms.mean(-1),
    }


def end_metrics(recorded: Float[Tensor, "m q"], data: Data) -> dict[str, float]:
    """Compute the composition and the features of one encoder's neurons."""
    minority = len(data.minority)
    cosines = recorded[:, : data.d].double().abs() / recorded[:, -2:-1].double()
    pure = cosines > PURE_COSINE
    composition = weight_composition(recorded, data.d, data.views.colour)
    return {name: value.item() for name, value in composition.items()} | {
        "singletons": pure.any(-1).sum().item(),
        "covered_features": pure.any(0).double().mean().item(),
        "features_per_neuron": (cosines >= 1 / math.sqrt(data.d)).double().sum(-1).mean().item(),
        "minority_alignment": cosines[:, -minority:].amax(0).mean().item(),
        "minority_singletons": pure[:, -minority:].any(-1).sum().item(),
    }


def initial_sets(projections: Float[Tensor, "m d"], eps_min: float) -> dict[str, float]:
    """Compute P1: the sets of Definition B.1 at W(0), from <w_i, M_j>."""
    d = projections.shape[-1]
    eye = torch.eye(d, dtype=torch.float64)[None]
    lucky, ordinary = (
        sets(projections[None].double(), eye, eps_min, GAMMA)[0].double()
        for sets in (lucky_neurons, ordinary_neurons)
    )
    shared = (ordinary.mT @ ordinary).fill_diagonal_(0.0)
    return {
        "lucky_neurons": lucky.sum(0).mean().item(),
        "ordinary_features": ordinary.sum(1).mean().item(),
        "shared_ordinary": shared.max().item() / math.log(d),
    }


def course_metrics(
    encoder: TrainedEncoder, study: Study, eps_min: float, sigma: float, seed: int
) -> dict[str, float]:
    """Compute P1 and P4-P6 of one replica, without a colour."""
    data, training, steps = study.data, study.training, log_spaced(study.training.T)
    directions = generator(study.draws, seed, "directions")
    history, T1 = encoder.history[0], int(encoder.T1)
    found = milestones(
        history, encoder.ends[0], T1, int(encoder.T2), data, training, eps_min, sigma, directions
    )
    metrics = {name: found[name] for name in OF_THE_STAGES}
    metrics |= initial_sets(history[0, :, : data.d], eps_min)
    parameters = theory_parameters(data, training, eps_min, sigma)
    neurons = neurons_from_history(history, data.d)
    last = last_linear_index(neurons, steps, T1, parameters)
    if last is None:
        return metrics | {"growth_over_closed_form": math.nan}
    # Correlated noise adds rho sigma^2 to the variance that both views share.
    predicted = (
        parameters.growth_per_step
        + training.eta / training.tau * (1 - 1 / training.K) * data.views.rho * sigma**2
    )
    shrink = 1 - training.eta * training.lambda_
    strength = neurons.projections[[0, last]].square().sum(-2)
    rate = (strength[1] / strength[0]) ** (1 / (2 * steps[last]))
    growth = ((rate - shrink) / (predicted - shrink))[: -len(data.minority)]
    return metrics | {"growth_over_closed_form": growth.mean().item()}


def gradient_fractions(
    weights: Float[Tensor, "m p"], dictionary: Float[Tensor, "p d"], x: Float[Tensor, "n p"],
    y: Float[Tensor, "n p"], p: float, sigma: float,
) -> dict[str, float]:  # fmt: skip
    """Compute P3: E[h_i(y) <grad h_i(x), v>] over <w_i, v> at b = 0, each summed over i and v."""
    weights, M = weights.double(), dictionary.double()
    pulled = weights @ (y.double().mT @ x.double() / len(x))
    inside, wanted = pulled @ M, weights @ M
    outside, off = pulled - inside @ M.mT, weights - wanted @ M.mT
    return {
        "pull_features": ((inside * wanted).sum() / wanted.square().sum() / p).item(),
        "pull_rest": ((outside * off).sum() / off.square().sum() / sigma**2).item(),
    }


def cross_talk(
    dictionary: Float[Tensor, "p d"], mask: float, masks: int, draws: torch.Generator
) -> float:
    """Compute P2: the largest |<M_j, (I - 2 D) M_k>| over features and masks."""
    d1 = len(dictionary)
    signs = 1.0 - 2.0 * (torch.rand(masks, d1, 1, generator=draws) < mask)
    return (dictionary.mT @ (signs * dictionary)).abs().max().item() * math.sqrt(d1) / math.log(d1)


def mean_best_cosine(weights: Float[Tensor, "m p"], others: Float[Tensor, "others p"]) -> float:
    """Compute P14: the largest |cosine| of each of `others` to a neuron, weighted by its norm^2."""
    weights, others = weights.double(), others.double()
    power = others.square().sum(-1)
    cosines = normalize(others, dim=-1) @ normalize(weights, dim=-1).mT
    return ((cosines.abs().amax(-1) * power).sum() / power.sum()).item()


def response_metrics(
    f: Float[Tensor, "n m"],
    f_noise: Float[Tensor, "n m"],
    f_signal: Float[Tensor, "n m"],
    active: Bool[Tensor, " n"],
) -> dict[str, float]:
    """Compute the metrics of an encoder's response to signal and noise."""
    size = f_signal.norm(dim=-1)[active].mean().clamp_min(1e-30)
    left = (f - f_signal).norm(dim=-1)[active].mean() / size
    return {
        "activity": (f != 0).double().mean().item(),
        "noise_cosine": pair_cosine_similarity(f[active], f_noise[active])[0],
        "noise_left": left.item(),
        "silent_signals": (f_signal[active] == 0).all(-1).double().mean().item(),
    }


def separation(f: Float[Tensor, "n m"], feature: Int[Tensor, " n"]) -> float:
    """Compute the share of the variance of f(x) between classes; NaN without variance."""
    f = f.double()
    means = torch.stack([f[feature == j].mean(0) for j in feature.unique()])
    counts = torch.stack([(feature == j).sum() for j in feature.unique()])[:, None]
    total = (f - f.mean(0)).square().sum()
    return ((counts * (means - f.mean(0)).square()).sum() / total).item() if total > 0 else math.nan


def head_metrics(
    features: Float[Tensor, "n m"],
    values: Float[Tensor, " n"],
    test: Float[Tensor, "tests m"],
    test_values: Float[Tensor, " tests"],
) -> dict[str, float]:
    """Fit a ridge head for <w*, z> and a logistic one for its sign, and test both."""
    x, queries = standardise(features, test)
    ridge = RidgeCV(alphas=np.logspace(-2, 5, 15)).fit(x.numpy(), values.numpy())
    residual = test_values.numpy() - ridge.predict(queries.numpy())
    signed, test_signed = values != 0, test_values != 0
    head = logistic_probe(x[signed], (values[signed] > 0).long(), 2, L2)
    right = predict(queries[test_signed], *head) == (test_values[test_signed] > 0).long()
    return {
        "regression_error": float((residual**2).mean() / test_values.numpy().var()),
        "classification_accuracy": right.double().mean().item(),
    }
