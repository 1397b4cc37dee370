"""Stage 4 of the study of augmentation: what the two views of a pair make an encoder learn (Wen & Li 2021).

What the neurons are made of, over training and at its end; what they answer to noise and to signal; and what linear heads make
of them with few and many labels, beside heads on the raw input and on the paper's optimal learner.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from sklearn.linear_model import RidgeCV
from torch import Tensor

from rarefeat.command import progress, run, section
from rarefeat.config import Augmentation, Study
from rarefeat.core.encoder import pre_activations, respond
from rarefeat.core.linear_probe import pair_cosine_similarity
from rarefeat.core.neurons import PURE
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import make_simulator
from rarefeat.core.sparse_coding import activation_probability, frequencies, latent_pairs
from rarefeat.core.theory import stage1_growth
from rarefeat.core.views import Pairs
from rarefeat.figures import AUGMENTATION_TABLES
from rarefeat.files import read_table, write_table
from rarefeat.images.evaluation import logistic_probe, predict, standardised
from rarefeat.metadata import made_from, write_product
from rarefeat.milestones import growth
from rarefeat.pretrain import log_spaced
from rarefeat.probe import target
from rarefeat.sections import Arm
from rarefeat.tables import SCHEMAS, checked
from rarefeat.tensors import read_tensors

L2 = 1e-2
"""Penalty of the logistic head."""


def composition(recorded: Tensor, d: int, colour: int) -> dict[str, Tensor]:
    """What neurons are made of, each a mean over them: recorded (..., m, d + colour + 2) -> (...).

    The last axis is <w_i, M_j>, <w_i, C_k>, ||w_i|| and b_i.
    """
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


def neuron_metrics(history: Tensor, T1: int, study: Study, eps_min: float, sigma: float) -> dict[str, float]:
    """Of one replica's neurons, from their recorded course (R, m, d + colour + 2); docs/tables.md has the meanings."""
    data, training, steps = study.data, study.training, log_spaced(study.training.T)
    views, minority = data.views, len(data.minority)
    cosines = history[-1, :, : data.d].double().abs() / history[-1, :, -2:-1].double()
    pure = cosines > PURE
    found = {name: values[-1].item() for name, values in composition(history, data.d, views.colour).items()}
    found |= {
        "T1": float(T1) if T1 >= 0 else math.nan,
        "singletons": pure.any(-1).sum().item(),
        "covered_features": pure.any(0).double().mean().item(),
        "features_per_neuron": (cosines >= 1 / math.sqrt(data.d)).double().sum(-1).mean().item(),
        "minority_alignment": cosines[:, -minority:].amax(0).mean().item(),
        "growth_over_closed_form": math.nan,
        "minority_singletons": pure[:, -minority:].any(-1).sum().item(),
    }
    half = max((index for index, step in enumerate(steps) if 0 < step <= T1 / 2), default=None)
    if half and not views.colour:
        eps = frequencies(data.d, data.minority, eps_min)
        predicted = stage1_growth(
            eps, data.C, data.L, sigma**2 * data.d1, training.K, training.tau, training.eta, training.lambda_
        )
        # Correlated noise is a signal, too: it adds rho sigma^2 to the variance that both views share.
        predicted = predicted + training.eta / training.tau * (1 - 1 / training.K) * views.rho * sigma**2
        shrink = 1 - training.eta * training.lambda_
        rate = growth(history[[0, half]][..., : data.d], steps[half])
        found["growth_over_closed_form"] = ((rate - shrink) / (predicted - shrink))[:-minority].mean().item()
    return found


def response_metrics(f: Tensor, f_noise: Tensor, f_signal: Tensor, active: Tensor) -> dict[str, float]:
    """What the encoder answers: f(x), f(xi) and f(M z) of the same samples, (n, m) each; active (n,), where z is not 0."""
    left = (f - f_signal).norm(dim=-1)[active].mean() / f_signal.norm(dim=-1)[active].mean().clamp_min(1e-30)
    return {
        "activity": (f != 0).double().mean().item(),
        "noise_cosine": pair_cosine_similarity(f[active], f_noise[active])[0],
        "noise_left": left.item(),
        "silent_signals": (f_signal[active] == 0).all(-1).double().mean().item(),
    }


def separation(f: Tensor, feature: Tensor) -> float:
    """Share of the variance of f(x), (n, m), that lies between the classes of `feature`, (n,): 1 where nothing else matters."""
    f = f.double()
    means = torch.stack([f[feature == j].mean(0) for j in feature.unique()])
    counts = torch.stack([(feature == j).sum() for j in feature.unique()])[:, None]
    total = (f - f.mean(0)).square().sum()
    return ((counts * (means - f.mean(0)).square()).sum() / total).item() if total > 0 else math.nan


def principal_components(f: Tensor) -> Tensor:
    """The first two of f(x), (n, m) -> (n, 2), in units of their standard deviation; 0 where there is none."""
    centred = (f - f.mean(0)).double()
    U, S, _ = torch.linalg.svd(centred, full_matrices=False)
    return U[:, :2] * math.sqrt(len(f)) * (S[:2] > 1e-12)


def head_metrics(features: Tensor, values: Tensor, test: Tensor, test_values: Tensor) -> dict[str, float]:
    """Linear heads on the first n images: ridge regression of <w*, z>, error over variance, and accuracy of its sign.

    The penalty of the regression is chosen by leave-one-out; samples without a sign are left out of the classification.
    """
    x, queries = standardised(features, test)
    ridge = RidgeCV(alphas=np.logspace(-2, 5, 15)).fit(x.numpy(), values.numpy())
    residual = test_values.numpy() - ridge.predict(queries.numpy())
    signed, test_signed = values != 0, test_values != 0
    head = logistic_probe(x[signed], (values[signed] > 0).long(), 2, L2)
    right = predict(queries[test_signed], *head) == (test_values[test_signed] > 0).long()
    return {
        "regression_error": float((residual**2).mean() / test_values.numpy().var()),
        "classification_accuracy": right.double().mean().item(),
    }


def measure(study: Study, encoders: Path, labels: list[int], tests: int) -> dict[str, pd.DataFrame]:
    """The tables of one study, by their name: the end of training, its course, the neurons, and an embedding of the samples.

    Encoder is trained, or where the point has the arm `ideal`, with the keys of dense: oracle (M^T with the bias of the end of
    stage 1, Wen & Li, Definition E.10) and raw (the input itself). labels is 0 for what needs none.
    """
    data, training = study.data, study.training
    final, course, neurons, embedding = [], [], [], []
    for point in progress(study.points(), len(study.points()), "augmentation"):
        probability = activation_probability(frequencies(data.d, data.minority, point.eps_min), data.C)
        for path, seeds in zip(study.paths([point], "safetensors"), study.blocks().values(), strict=True):
            parts = "weights", "bias", "T1", "history"
            trained = {arm: read_tensors(encoders / path, *(f"{arm.label}/{part}" for part in parts)) for arm in point.trained}
            for index, seed in enumerate(seeds):
                space = make_simulator("direct", study.draws, data.d, data.d1, training.m, [seed])
                pairs = Pairs(data.views, space, "direct", study.draws, [seed])
                z = latent_pairs(max(labels) + tests, 1, probability, generator(study.draws, seed, "augmentation"))[:, 0]
                clean = z[None].float()
                x = pairs.one_view(clean, point.sigma, [generator(study.draws, seed, "augmentation noise")])
                signal = clean @ space.dictionary.mT[:, None]
                values = z[:, 0].double() @ target(study.draws, seed, data.d).double()
                active = (z[:, 0] != 0).any(-1)
                # Samples with one feature say what that feature looks like to the encoder.
                single = (z[-tests:, 0] != 0).sum(-1) == 1
                feature = z[-tests:, 0][single].abs().argmax(-1)
                # f is odd: a feature and its negative are two classes.
                signed = feature + data.d * (z[-tests:, 0][single].sum(-1) < 0)
                oracle_bias = math.sqrt(2 * math.log(data.d) / data.d)
                oracle = space.dictionary.mT.contiguous(), torch.full((1, data.d), oracle_bias)
                networks = []
                if any(arm.arm == "ideal" for arm in point.arms):
                    networks = [("oracle", Arm(arm="dense"), oracle), ("raw", Arm(arm="dense"), None)]
                networks += [("trained", arm, tuple(part[index : index + 1] for part in trained[arm][:2])) for arm in trained]
                for name, arm, network in networks:
                    keys = {"eps_min": point.eps_min, "sigma": point.sigma, **arm.model_dump(), "seed": seed, "encoder": name}
                    if network is None:
                        embedded, found = x[0, :, 0], {}
                    else:
                        f, f_noise, f_signal = (
                            respond(pre_activations(part, network[0]), network[1])[0] for part in (x, x - signal, signal)
                        )
                        embedded, found = f, response_metrics(f[-tests:], f_noise[-tests:], f_signal[-tests:], active[-tests:])
                        found["separation"] = separation(f[-tests:][single], signed)
                    if name == "trained":
                        T1, history = (part[index] for part in trained[arm][2:])
                        found |= neuron_metrics(history, int(T1), study, point.eps_min, point.sigma)
                        own = {key: value for key, value in keys.items() if key != "encoder"}
                        rates = (f[-tests:] != 0).double().mean(0).tolist()
                        neurons += [{**own, "neuron": neuron, "activity": rate} for neuron, rate in enumerate(rates)]
                        if arm.arm == "dense" and seed == study.first_seed:
                            at = {"eps_min": point.eps_min, "sigma": point.sigma}
                            places = principal_components(f[-tests:][single]).tolist()
                            embedding += [
                                {**at, "sample": sample, "feature": j, "x": x_of, "y": y_of}
                                for sample, (j, (x_of, y_of)) in enumerate(zip(feature.tolist(), places, strict=True))
                            ]
                        for metric, values_of in composition(history, data.d, data.views.colour).items():
                            course += [
                                {**own, "step": step, "metric": metric, "value": value}
                                for step, value in zip(log_spaced(training.T), values_of.tolist(), strict=True)
                            ]
                    final += [{**keys, "labels": 0, "metric": metric, "value": value} for metric, value in found.items()]
                    for n in labels:
                        heads = head_metrics(embedded[:n], values[:n], embedded[-tests:], values[-tests:])
                        final += [{**keys, "labels": n, "metric": metric, "value": value} for metric, value in heads.items()]
    return dict(zip(AUGMENTATION_TABLES, map(pd.DataFrame, (final, course, neurons, embedding)), strict=True))


def tables(wanted: Augmentation, folder: Path) -> dict[str, pd.DataFrame]:
    """Every study's rows in one table each, checked."""
    gathered = {}
    for name in AUGMENTATION_TABLES:
        parts = [read_table(folder / study / f"{name}.parquet").to_pandas().assign(study=study) for study in wanted.studies]
        schema = SCHEMAS[name]
        table = pd.concat(parts, ignore_index=True)[list(schema.columns)]
        gathered[name] = checked(name, table.sort_values(list(schema.unique), ignore_index=True))
    return gathered


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure", help="one study")
    one.add_argument("--study", type=section(Study), required=True, help="the study, as YAML or JSON")
    one.add_argument("--encoders", type=Path, required=True, help="the study's folder of encoders")
    one.add_argument("--labels", type=int, nargs="+", required=True, help="numbers of labels of the linear heads")
    one.add_argument("--tests", type=int, required=True, help="test samples of each replica")
    every = commands.add_parser("gather", help="all studies in one table")
    every.add_argument("--augmentation", type=section(Augmentation), required=True, help="the section `augmentation`, likewise")
    every.add_argument("--folder", type=Path, required=True, help="folder of the studies' files")
    for part in (one, every):
        part.add_argument("--output", type=Path, required=True, help="folder for the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.command == "measure":
        for name, table in measure(args.study, args.encoders, args.labels, args.tests).items():
            write_table(args.output / f"{name}.parquet", pa.Table.from_pandas(table, preserve_index=False))
    else:
        found = made_from("augmentation", {"augmentation": args.augmentation})
        for name, table in tables(args.augmentation, args.folder).items():
            write_product(args.output / f"{name}.parquet", table, found)


if __name__ == "__main__":
    run(main)
