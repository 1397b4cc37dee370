"""Stage 4, for the heat map: every neuron against every feature (liao_imbalanced_features, Figure 1)."""

import argparse
from pathlib import Path

import pandas as pd
import pyarrow as pa

from rarefeat.aggregate import with_keys
from rarefeat.command import run, section
from rarefeat.config import Cell, Study
from rarefeat.core.neurons import absolute_cosines
from rarefeat.files import write_table
from rarefeat.provenance import table_metadata
from rarefeat.tables import checked
from rarefeat.tensors import read_tensors


def alignment_rows(cell: Cell, encoder: Path, latents: Path, seeds: list[int], minority: int) -> pd.DataFrame:
    """Squared cosine of every neuron to every feature of one cell and one block of seeds."""
    (weights,) = read_tensors(encoder, "weights")
    (dictionary,) = read_tensors(latents, "dictionary")
    squared = absolute_cosines(weights, dictionary).square().double().numpy()
    index = pd.MultiIndex.from_product([seeds, *map(range, squared.shape[1:])], names=["seed", "neuron", "feature"])
    rows = pd.DataFrame({"squared_cosine": squared.ravel()}, index=index).reset_index()
    return with_keys(rows.assign(minority=rows["feature"] >= squared.shape[2] - minority), cell)


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=section(Study), required=True, help="the study, as YAML or JSON")
    parser.add_argument("--encoders", type=Path, required=True, help="the study's folder of encoders")
    parser.add_argument("--latents", type=Path, required=True, help="the study's folder of latents")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()
    study: Study = args.study
    parts = [
        alignment_rows(cell, args.encoders / encoder, args.latents / latents, seeds, len(study.data.minority))
        for cell in study.cells()
        if cell.arm.trained
        for encoder, latents, seeds in zip(
            study.paths([cell], "safetensors"), study.latent_paths(cell.eps_min), study.blocks().values(), strict=True
        )
    ]
    table = checked("heatmap", pd.concat(parts, ignore_index=True))
    metadata = table_metadata(study, "synthesise", "pretrain", "alignment_map")
    write_table(args.output, pa.Table.from_pandas(table, preserve_index=False), metadata)


if __name__ == "__main__":
    run(main)
