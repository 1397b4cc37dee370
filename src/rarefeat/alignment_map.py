"""Stage 4, for the heat map: every neuron against every feature (liao_imbalanced_features, Figure 1)."""

import argparse
from pathlib import Path

import pandas as pd

from rarefeat.command import run, section
from rarefeat.config import Point, Study
from rarefeat.core.neurons import absolute_cosines
from rarefeat.core.simulators import make_simulator
from rarefeat.metadata import made_from, write_product
from rarefeat.tables import checked
from rarefeat.tensors import read_tensors


def alignment_rows(point: Point, encoder: Path, name: str, study: Study, seeds: list[int]) -> pd.DataFrame:
    """Squared cosine of every neuron to every feature, for every trained arm of one point and one block of seeds."""
    every_arm = read_tensors(encoder, *(f"{arm.label}/weights" for arm in point.trained))
    data, minority = study.data, len(study.data.minority)
    space = make_simulator(study.simulator, name, data.d, data.d1, study.training.m, seeds)
    parts = []
    for arm, weights in zip(point.trained, every_arm, strict=True):
        squared = absolute_cosines(weights, space.dictionary).square().double().numpy()
        index = pd.MultiIndex.from_product([seeds, *map(range, squared.shape[1:])], names=["seed", "neuron", "feature"])
        rows = pd.DataFrame({"squared_cosine": squared.ravel()}, index=index).reset_index()
        parts.append(rows.assign(**arm.model_dump()))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(minority=table["feature"] >= data.d - minority, eps_min=point.eps_min, sigma=point.sigma)


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=section(Study), required=True, help="the study, as YAML or JSON")
    parser.add_argument("--encoders", type=Path, required=True, help="the study's folder of encoders")
    parser.add_argument("--draws", required=True, help="name that keys the study's random draws")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()
    study: Study = args.study
    parts = [
        alignment_rows(point, args.encoders / encoder, args.draws, study, seeds)
        for point in study.points()
        for encoder, seeds in zip(study.paths([point], "safetensors"), study.blocks().values(), strict=True)
    ]
    table = checked("heatmap", pd.concat(parts, ignore_index=True))
    write_product(args.output, table, made_from("alignment_heatmap", {"heatmap": study}))


if __name__ == "__main__":
    run(main)
