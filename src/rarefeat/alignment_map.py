"""Stage 4, for the heat map: every neuron against every feature (liao_imbalanced_features, Figure 1)."""

import argparse
from pathlib import Path

import pandas as pd
import pyarrow as pa

from rarefeat.aggregate import with_keys
from rarefeat.command import run, section
from rarefeat.config import Cell, Study
from rarefeat.core.neurons import absolute_cosines
from rarefeat.core.simulators import make_simulator
from rarefeat.files import write_table
from rarefeat.provenance import table_metadata
from rarefeat.tables import checked
from rarefeat.tensors import read_tensors


def alignment_rows(cell: Cell, encoder: Path, name: str, study: Study, seeds: list[int]) -> pd.DataFrame:
    """Squared cosine of every neuron to every feature of one cell and one block of seeds."""
    (weights,) = read_tensors(encoder, "weights")
    data, minority = study.data, len(study.data.minority)
    space = make_simulator(study.simulator, name, data.d, data.d1, study.training.m, seeds)
    squared = absolute_cosines(weights, space.dictionary).square().double().numpy()
    index = pd.MultiIndex.from_product([seeds, *map(range, squared.shape[1:])], names=["seed", "neuron", "feature"])
    rows = pd.DataFrame({"squared_cosine": squared.ravel()}, index=index).reset_index()
    return with_keys(rows.assign(minority=rows["feature"] >= squared.shape[2] - minority), cell)


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
        alignment_rows(cell, args.encoders / encoder, args.draws, study, seeds)
        for cell in study.cells()
        if cell.arm.trained
        for encoder, seeds in zip(study.paths([cell], "safetensors"), study.blocks().values(), strict=True)
    ]
    table = checked("heatmap", pd.concat(parts, ignore_index=True))
    metadata = table_metadata(study, "synthesise", "pretrain", "alignment_map")
    write_table(args.output, pa.Table.from_pandas(table, preserve_index=False), metadata)


if __name__ == "__main__":
    run(main)
