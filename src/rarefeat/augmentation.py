"""Stage 4 of the study of augmentation: what the two views of a pair make an encoder learn (Wen & Li 2021).

What the neurons are made of, over training and at its end; what they answer to noise and to signal; and what linear heads make
of them with few and many labels, beside heads on the raw input and on the paper's optimal learner.
"""

import argparse
import math
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from rarefeat.augmentation_metrics import (
    composition,
    course_metrics,
    cross_talk,
    end_metrics,
    head_metrics,
    likeness,
    principal_components,
    pull_shares,
    response_metrics,
    separation,
)
from rarefeat.command import progress, run, section
from rarefeat.config import Augmentation, Study
from rarefeat.core.encoder import pre_activations, respond
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import make_simulator
from rarefeat.core.sparse_coding import activation_probability, frequencies, latent_pairs
from rarefeat.core.views import Pairs
from rarefeat.figures import AUGMENTATION_TABLES
from rarefeat.files import write_table
from rarefeat.metadata import made_from, write_product
from rarefeat.pretrain import log_spaced
from rarefeat.probe import target
from rarefeat.sections import Arm
from rarefeat.tables import of_studies
from rarefeat.tensors import read_tensors

DENSE = Arm(arm="dense")
MASKS = 200
"""Masks that the cross-talk of features is looked at under."""


class Measured(NamedTuple):
    """An encoder to be measured: its keys, and its weights (1, m, d1) and bias (1, m); none for the raw input."""

    encoder: str
    arm: Arm
    network: tuple[Tensor, Tensor] | None


def measure(
    study: Study, encoders: Path, supervised: Path | None, labels: list[int], tests: int, gradients: int
) -> dict[str, pd.DataFrame]:
    """The tables of one study, by their name: the end of training, its course, the neurons, and an embedding of the samples.

    Encoder is trained, or where the point has the arm `ideal`, with the keys of dense: oracle (M^T with the bias of the end of
    stage 1, Wen & Li, Definition E.10), raw (the input itself) and supervised. labels is 0 for what needs none.

    Args:
        supervised: file of `supervise` on the same draws; None where there is none to compare with.
        tests: test samples. gradients: pairs of views that the pull on W(0) is averaged over.
    """
    data, training = study.data, study.training
    final, course, neurons, embedding = [], [], [], []
    for point in progress(study.points(), len(study.points()), "augmentation"):
        probability = activation_probability(frequencies(data.d, data.minority, point.eps_min), data.C)
        reference = any(arm.arm == "ideal" for arm in point.arms)
        for path, seeds in zip(study.paths([point], "safetensors"), study.blocks().values(), strict=True):
            parts = "weights", "bias", "T1", "history"
            trained = {arm: read_tensors(encoders / path, *(f"{arm.label}/{part}" for part in parts)) for arm in point.trained}
            for index, seed in enumerate(seeds):
                space = make_simulator("direct", study.draws, data.d, data.d1, training.m, [seed])
                pairs = Pairs(data.views, space, "direct", study.draws, [seed])
                directions = torch.cat([space.dictionary, pairs.directions], -1)[0]
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
                labelled = read_tensors(supervised, f"{seed}/weights", f"{seed}/bias") if supervised else None

                networks = [
                    Measured("trained", arm, tuple(part[index : index + 1] for part in trained[arm][:2])) for arm in trained
                ]
                if reference:
                    oracle_bias = math.sqrt(2 * math.log(data.d) / data.d)
                    oracle = space.dictionary.mT.contiguous(), torch.full((1, data.d), oracle_bias)
                    networks += [Measured("oracle", DENSE, oracle), Measured("raw", DENSE, None)]
                    if labelled:
                        networks.append(Measured("supervised", DENSE, tuple(part[None] for part in labelled)))
                for name, arm, network in networks:
                    own = {"eps_min": point.eps_min, "sigma": point.sigma, **arm.model_dump(), "seed": seed}
                    keys = own | {"encoder": name}
                    if network is None:
                        embedded, found = x[0, :, 0], {}
                    else:
                        f, f_noise, f_signal = (
                            respond(pre_activations(part, network[0]), network[1])[0] for part in (x, x - signal, signal)
                        )
                        embedded, found = f, response_metrics(f[-tests:], f_noise[-tests:], f_signal[-tests:], active[-tests:])
                        found["separation"] = separation(f[-tests:][single], signed)
                    if name in ("trained", "supervised"):
                        weights, bias = (part[0] for part in network)
                        now = torch.cat([weights @ directions, weights.norm(dim=-1, keepdim=True), bias[:, None]], -1)
                        found |= end_metrics(now, data)
                        rates = (f[-tests:] != 0).double().mean(0).tolist()
                        neurons += [{**keys, "neuron": neuron, "activity": rate} for neuron, rate in enumerate(rates)]
                        if arm == DENSE and seed == study.first_seed:
                            at = {"eps_min": point.eps_min, "sigma": point.sigma, "encoder": name}
                            places = principal_components(f[-tests:][single]).tolist()
                            embedding += [
                                {**at, "sample": sample, "feature": j, "x": x_of, "y": y_of}
                                for sample, (j, (x_of, y_of)) in enumerate(zip(feature.tolist(), places, strict=True))
                            ]
                    if name == "trained":
                        T1, history = (part[index] for part in trained[arm][2:])
                        if labelled:
                            found["likeness_to_supervised"] = likeness(weights, labelled[0])
                        if not data.views.colour:
                            found |= course_metrics(history, int(T1), study, point.eps_min, point.sigma, seed)
                        for metric, values_of in composition(history, data.d, data.views.colour).items():
                            course += [
                                {**own, "step": step, "metric": metric, "value": value}
                                for step, value in zip(log_spaced(training.T), values_of.tolist(), strict=True)
                            ]
                        # At equal frequencies, as the paper has it.
                        if arm == DENSE and point.eps_min == 1 and not data.views.colour:
                            found |= gradient_metrics(study, pairs, probability, point.sigma, seed, gradients)
                    final += [{**keys, "labels": 0, "metric": metric, "value": value} for metric, value in found.items()]
                    # What masks do to a rare feature is seen in the neurons.
                    for n in labels if arm == DENSE else []:
                        heads = head_metrics(embedded[:n], values[:n], embedded[-tests:], values[-tests:])
                        final += [{**keys, "labels": n, "metric": metric, "value": value} for metric, value in heads.items()]
    return dict(zip(AUGMENTATION_TABLES, map(pd.DataFrame, (final, course, neurons, embedding)), strict=True))


def gradient_metrics(
    study: Study, pairs: Pairs, probability: Tensor, sigma: float, seed: int, gradients: int
) -> dict[str, float]:
    """P2 and P3 of one replica: what the augmentation alone makes of features and noise, at W(0)."""
    space = pairs.space
    weights = space.weights(study.training.sigma_0, [generator(study.draws, seed, "weights")])[0]
    z = latent_pairs(gradients, 1, probability, generator(study.draws, seed, "gradients"))[:, 0].float()
    noise = [generator(study.draws, seed, "gradients noise")]
    x, y = pairs.tokens(torch.cat([z, z])[None], sigma, noise)[0, : 2 * gradients, 0].split(gradients)
    found = pull_shares(weights, space.dictionary[0], x, y, probability[0].item(), sigma)
    mask = study.data.views.mask
    if mask == 0.5:
        found["cross_talk"] = cross_talk(space.dictionary[0], mask, MASKS, generator(study.draws, seed, "cross-talk"))
    return found


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure", help="one study")
    one.add_argument("--study", type=section(Study), required=True, help="the study, as YAML or JSON")
    one.add_argument("--encoders", type=Path, required=True, help="the study's folder of encoders")
    one.add_argument("--labels", type=int, nargs="+", required=True, help="numbers of labels of the linear heads")
    one.add_argument("--supervised", type=Path, help="file of `supervise`, where there is one with the study's draws")
    one.add_argument("--tests", type=int, required=True, help="test samples of each replica")
    one.add_argument("--gradients", type=int, required=True, help="pairs that the pull on W(0) is averaged over")
    every = commands.add_parser("gather", help="all studies in one table")
    every.add_argument("--augmentation", type=section(Augmentation), required=True, help="the section `augmentation`, likewise")
    every.add_argument("--folder", type=Path, required=True, help="folder of the studies' files")
    for part in (one, every):
        part.add_argument("--output", type=Path, required=True, help="folder for the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.command == "measure":
        sizes = args.labels, args.tests, args.gradients
        for name, table in measure(args.study, args.encoders, args.supervised, *sizes).items():
            write_table(args.output / f"{name}.parquet", pa.Table.from_pandas(table, preserve_index=False))
    else:
        found = made_from("augmentation", {"augmentation": args.augmentation})
        for name in AUGMENTATION_TABLES:
            write_product(args.output / f"{name}.parquet", of_studies(name, args.augmentation.studies, args.folder), found)


if __name__ == "__main__":
    run(main)
