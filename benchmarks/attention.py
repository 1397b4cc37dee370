"""Measure what the scale of attention's logits and trained W_Q and W_K change.

The grid has W_Q = W_K = W_V = I and logits of scale 1. `scale` rows train the paper's cell with other
scales (reduced simulator, the paper's d1). `trained` rows train W_Q and W_K with the neurons by
automatic differentiation (direct simulator, d1 = 200 at the same noise-to-signal ratio), with the
learning rate of the neurons, without and with the weight decay of eq. (3), beside the fixed ones on
the same draws. Each row is of one setting and frequency; differences are paired by seed.
"""

import argparse
import itertools
import math
import multiprocessing
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rarefeat.model.bias import BiasContext, is_stage_one_over, make_bias_rule
from rarefeat.model.contrastive import infonce
from rarefeat.model.encoder import embed, pre_activations
from rarefeat.model.neurons import absolute_cosines, feature_share
from rarefeat.model.randomness import generator, make_generators
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.model.thresholds import PURE_COSINE
from rarefeat.stages import pretrain as stage
from rarefeat.statistics import student_interval
from rarefeat.training.loop import batches
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.files.published import PublishedTables, commit
from rarefeat.workflow.project import load
from rarefeat.workflow.run.metadata import machine, packages

NAME, NSR, D1 = "attention", 1.25, 200
SCALES: tuple[Any, ...] = (0.0, "1/sqrt(d1)", 0.5, 1.0, 2.0)
TRAINED = {"fixed": None, "trained": 0.0, "trained with decay": 1.0}
"""Settings of W_Q and W_K: fixed, or trained with this multiple of the neurons' weight decay."""
EPS_MINS, TRAINED_EPS_MINS = (0.3, 0.5, 0.7), (0.5,)
KEYS = ("setting", "eps_min")


def sample_latents(data: Data, eps_min: float, seeds: list[int]) -> Tensor:
    """Draw the training pairs of some seeds, (S, N, 2, L, d)."""
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    draws = [generator(NAME, seed, "train") for seed in seeds]
    return torch.stack([latent_pairs(data.N, data.L, probability, draw) for draw in draws])


def measure_scale(config: str, eps_min: float, scale: Any, seeds: list[int]) -> pd.DataFrame:
    """Train the dense arm; return the largest cosine to the rare feature, and T1, by seed.

    Parameters
    ----------
    config : str
        Path of the config.
    eps_min : float
        Frequency of the rare feature.
    scale : float or str
        `training.attention_scale`.
    seeds : list of int
        Seeds.
    """
    torch.set_num_threads(1)
    study = load(config).studies["paper"]
    data, training = study.data, study.training.model_copy(update={"attention_scale": scale})
    latents, sigma = sample_latents(data, eps_min, seeds), math.sqrt(NSR / data.d1)
    arguments = NAME, "reduced", data, training, [Arm(arm="dense")], sigma, seeds, latents
    encoder = stage.pretrain(*arguments)[0]["dense"]
    dictionary = make_simulator("reduced", NAME, data.d, data.d1, training.m, seeds).dictionary
    cosines = absolute_cosines(encoder.weights, dictionary)[..., -1].amax(-1)
    values = {"cosine": cosines.numpy(), "T1": encoder.T1.double().numpy()}
    return pd.DataFrame({"setting": str(scale), "eps_min": eps_min, **values})


def measure_trained(config: str, eps_min: float, setting: str, seed: int) -> dict[str, Any]:
    """Train one replica with a setting of W_Q and W_K; return its metrics.

    Parameters
    ----------
    config : str
        Path of the config.
    eps_min : float
        Frequency of the rare feature.
    setting : str
        Key of `TRAINED`.
    seed : int
        Seed.
    """
    torch.set_num_threads(1)
    study = load(config).studies["paper"]
    data = study.data.model_copy(update={"d1": D1})
    metrics = train_attention(data, study.training, eps_min, seed, TRAINED[setting])
    return {"setting": setting, "eps_min": eps_min, **metrics}


def train_attention(
    data: Data, training: Training, eps_min: float, seed: int, decay: float | None
) -> dict[str, float]:
    """Train the neurons of one replica, and W_Q and W_K with them.

    Parameters
    ----------
    data : Data
        Hyper-parameters of the data.
    training : Training
        Hyper-parameters of the training.
    eps_min : float
        Frequency of the rare feature.
    seed : int
        Seed.
    decay : float or None
        Weight decay of W_Q and W_K in units of the neurons'; None for identities.

    Returns
    -------
    dict of str to float
        Largest cosine to the rare feature, T1, and what became of W_Q^T W_K: its mean diagonal
        within the features' span and beyond it, and the size of its other entries, relative to
        the Frobenius norm of the identity.
    """
    K, S = training.K, [seed]
    simulator = make_simulator("direct", NAME, data.d, data.d1, training.m, S)
    (noise,) = make_generators(NAME, S, "noise")
    latents, order = sample_latents(data, eps_min, S)[0], batches(NAME, S, data.N, K)
    weights = simulator.initial_weights(training.sigma_0, make_generators(NAME, S, "weights"))
    identity = torch.eye(data.d1)
    query, key = identity.clone(), identity.clone()
    bias, T1, sigma = torch.zeros(1, training.m), torch.tensor([-1]), math.sqrt(NSR / data.d1)
    bias_rule = make_bias_rule(training.bias, data.d, training.eta)
    for step in range(training.T):
        z = latents[next(order)[0]].transpose(0, 1).flatten(0, 1)[None].float()
        tokens = simulator.sample_tokens(z, sigma, [noise])
        leaves = [x.requires_grad_() for x in (weights, query, key)]
        scores = (tokens @ query.T) @ (tokens @ key.T).mT
        attended = torch.softmax(scores, -1) @ tokens
        f = embed(pre_activations(attended, weights), bias)
        loss = infonce(f[:, :K], f[:, K:].detach(), training.tau).sum()
        gradients = torch.autograd.grad(loss, leaves)
        with torch.no_grad():
            previous = weights.detach()
            weights = (1 - training.eta * training.lambda_) * weights - training.eta * gradients[0]
            if decay is not None:
                shrink = 1 - training.eta * training.lambda_ * decay
                query = shrink * query - training.eta * gradients[1]
                key = shrink * key - training.eta * gradients[2]
            query, key = query.detach(), key.detach()
            over = is_stage_one_over(feature_share(weights, simulator.dictionary))
            T1 = torch.where((T1 < 0) & over, step + 1, T1)
            norms = weights.norm(dim=-1)
            bias = bias_rule(BiasContext(bias, previous, norms, T1, step + 1, bias.clone))
    product, M = query.T @ key, simulator.dictionary[0]
    inside = ((M.T @ product) * M.T).sum() / data.d
    outside = (product.trace() - data.d * inside) / (data.d1 - data.d)
    rest = (product - outside * identity - (inside - outside) * M @ M.T).norm()
    return {
        "cosine": absolute_cosines(weights, simulator.dictionary)[..., -1].amax().item(),
        "T1": float(T1),
        "inside": inside.item(),
        "outside": outside.item(),
        "rest": rest.item() / math.sqrt(data.d1),
    }


def summarise(
    rows: dict[str, np.ndarray], base: dict[str, np.ndarray], **labels: Any
) -> dict[str, Any]:
    """Summarise the replicas of a setting beside the default one.

    Parameters
    ----------
    rows, base : dict of str to array
        Metrics by seed, of the setting and of the default.
    **labels : Any
        First columns of the row.
    """
    learned, base_learned = (values["cosine"] > PURE_COSINE for values in (rows, base))
    change = rows["cosine"] - base["cosine"]
    mean, _, low, high = student_interval(change)[:4]
    means = {name: values.mean() for name, values in rows.items()}
    return {
        **labels, "n": len(change), "learned": learned.mean(),
        "gained": int((learned & ~base_learned).sum()),
        "lost": int((~learned & base_learned).sum()),
        **means, "change": mean, "ci_low": low, "ci_high": high,
    }  # fmt: skip


def main() -> None:
    """Print the table, and publish it if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="config/config.yaml")
    parser.add_argument("--seeds", type=int, default=20, help="replicas of a scale")
    parser.add_argument("--trained", type=int, default=6, help="replicas of trained matrices")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=9000)
    parser.add_argument("--publish", action="store_true", help="write docs/tables/attention.csv")
    args = parser.parse_args()
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    scales = [(args.config, *task) for task in itertools.product(EPS_MINS, SCALES, [seeds])]
    trained = [
        (args.config, eps_min, setting, seed)
        for eps_min in TRAINED_EPS_MINS
        for setting in TRAINED
        for seed in seeds[: args.trained]
    ]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        by_scale = pool.starmap(measure_scale, scales, chunksize=1)
        replicas = pool.starmap(measure_trained, trained, chunksize=1)
    rows = []
    for what, frame, default in (
        ("scale", pd.concat(by_scale), "1.0"),
        ("trained", pd.DataFrame(replicas), "fixed"),
    ):
        for eps_min, cells in frame.groupby("eps_min"):
            arrays = {
                setting: {name: cell[name].to_numpy() for name in cell if name not in KEYS}
                for setting, cell in cells.groupby("setting", sort=False)
            }
            rows += [
                summarise(values, arrays[default], what=what, setting=setting, eps_min=eps_min)
                for setting, values in arrays.items()
            ]
    print(pd.DataFrame(rows).to_string(index=False, float_format="%.3g"))
    if args.publish:
        last = args.first_seed + args.seeds - 1
        origin = {"run": "benchmarks/attention.py", "commit": commit()}
        seeds = {"attention": f"{args.first_seed}-{last}"}
        details = {"seeds": seeds, "machine": machine()}
        versions = {"packages": packages()}
        PublishedTables().put("attention", pd.DataFrame(rows), origin | details | versions)


if __name__ == "__main__":
    main()
