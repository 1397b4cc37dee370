"""Theorems 3.1 and 3.2 of Liao et al., with that paper's own T1 (41) and T2 (67).

Stage 1 ends where every norm has grown by 1 + eps_min C_z log d, and the bias begins; stage 2 ends
where a squared norm is d times its value there. Axes: m neurons, d features.
"""

import math

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.neurons import lucky_neurons
from rarefeat.model.randomness import make_generators
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import frequencies
from rarefeat.model.theory import stage1_growth
from rarefeat.stages.synthesise import synthesise
from rarefeat.studies.theorems.problems import TrainedStages
from rarefeat.studies.theorems.results import Numbers, Row
from rarefeat.training.pretraining import TrainedEncoder, pretrain
from rarefeat.workflow.config.model import Arm, Training

QUANTITIES = {
    "T1": "first recorded step at which (41) holds; stated: T1 by eq. (34) of the pruning paper",
    "growth": "least (|<w_i, M_j>| at T1 - (1 + eps_j C_z log d) |<w_i, M_j>| at 0) / |w_i| over"
    " neurons and features, eq. (4); stated: -1/d",
    "outside": "largest growth to T1 of the norm of w_i off the features, over |w_i|, eq. (5)",
    "along": "least growth to T1 of the norm of w_i along the features, over |w_i|",
    "lucky": "mean |<w_i, M_j>| / |w_i| of lucky neurons at T2, eq. (6)",
    "lucky_start": "the same before training",
    "outside_2": "as `outside`, from T1 to T2, eq. (7)",
}


def printed_growth(problem: TrainedStages, eps: Float[Tensor, " d"]) -> Float[Tensor, " d"]:
    """Return eps_j C_z log d, by which a feature grows at least in (4); C_z loglog d / d is the
    growth of a step per eta at eps_j = 1 without decay.
    """
    data, training = problem.data, problem.training
    nsr = problem.sigma**2 * data.d1
    rate = stage1_growth(
        eps, data.C, data.L, nsr, training.K, training.tau, 1.0, 0.0, training.logit_scale(data.d1)
    )
    return (rate - 1) * data.d * math.log(data.d) / math.log(math.log(data.d))


def part_norms(
    neurons: Float[Tensor, "m d+2"], d: int
) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """Return the norms of the parts of w_i along the features and off them."""
    along = neurons[:, :d].square().sum(-1)
    return along.sqrt(), (neurons[:, d].square() - along).clamp_min(0).sqrt()


def train_stages(
    problem: TrainedStages, eps_min: float, draws: str, seed: int, bias: dict
) -> TrainedEncoder:
    """Train a replica with a bias of this rule."""
    training = problem.training.model_dump(by_alias=True)
    training["bias"] |= bias
    latents = synthesise(draws, problem.data, eps_min, [seed])["train"]
    encoders, _ = pretrain(
        draws, "reduced", problem.data, Training(**training), [Arm(arm="dense")], problem.sigma,
        [seed], latents, "stages",
    )  # fmt: skip
    return encoders["dense"]


def measure(eps_min: float, seeds: list[int], draws: str, problem: TrainedStages) -> list[Row]:
    """Measure both theorems at a frequency of the rare feature."""
    data, rows, steps = problem.data, [], log_spaced(problem.training.T)
    eps = torch.as_tensor(frequencies(data.d, data.minority, eps_min))
    growth = printed_growth(problem, eps)
    for seed in seeds:
        free = train_stages(problem, eps_min, draws, seed, {"share": 0.0})
        norms = free.history[0, :, :, data.d]
        grown = (norms >= (1 + growth.min()) * norms[0]).all(-1)
        if not grown.any():
            continue
        T1 = steps[int(grown.int().argmax())]
        encoder = train_stages(problem, eps_min, draws, seed, {"T1": T1})
        start, (first, second) = encoder.history[0, 0].double(), encoder.ends[0].double()
        excess = first[:, : data.d].abs() - start[:, : data.d].abs() * (1 + growth)
        along, outside = zip(
            *(part_norms(neurons, data.d) for neurons in (start, first, second)), strict=True
        )
        simulator = make_simulator("reduced", draws, data.d, data.d1, problem.training.m, [seed])
        weights = simulator.initial_weights(
            problem.training.sigma_0, make_generators(draws, [seed], stream_names.WEIGHTS)
        )
        lucky = lucky_neurons(weights, simulator.dictionary, eps_min)[0]
        shares = [(n[:, : data.d] / n[:, [data.d]]).abs()[lucky].mean() for n in (start, second)]
        rows += [
            Row(seed, "T1", T1, free.T1[0].double()),
            Row(seed, "growth", (excess / first[:, [data.d]]).min(), -1 / data.d),
            Row(seed, "outside", ((outside[1] - outside[0]) / first[:, data.d]).max()),
            Row(seed, "along", ((along[1] - along[0]) / first[:, data.d]).min()),
            Row(seed, "lucky", shares[1]),
            Row(seed, "lucky_start", shares[0]),
            Row(seed, "outside_2", ((outside[2] - outside[1]) / second[:, data.d]).max()),
        ]
    return rows


def claims(v: Numbers) -> dict[str, pd.Series]:
    """Return what the claims look at, at a frequency of the rare feature."""
    return {
        "L-4": v("growth"),
        "L-5": v("outside"),
        "L-5-along": v("along"),
        "L-6": v("lucky"),
        "L-6-start": v("lucky") - v("lucky_start"),
        "L-7": v("outside_2"),
    }
