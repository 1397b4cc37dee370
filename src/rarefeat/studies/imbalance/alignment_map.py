"""Stage 4, for the heat map: every neuron against every feature (liao_imbalanced_features, Figure 1)."""

from pathlib import Path

import pandas as pd

from rarefeat.chain.intermediates import encoders
from rarefeat.config.study import Study
from rarefeat.core.neurons import absolute_cosines
from rarefeat.core.simulators import make_simulator
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.schema import checked
from rarefeat.studies.imbalance.tables import HEATMAP


def alignment_rows(job: Job, study: Study, results: Path) -> pd.DataFrame:
    """Squared cosine of every neuron to every feature, for every trained arm and seed."""
    data, minority, parts = study.data, len(study.data.minority), []
    for cell, seeds, read in encoders(job, study, results):
        space = make_simulator(study.simulator, study.draws, data.d, data.d1, study.training.m, seeds)
        for arm, weights in zip(cell.trained, read(*(f"{arm.label}/weights" for arm in cell.trained)), strict=True):
            squared = absolute_cosines(weights, space.dictionary).square().double().numpy()
            index = pd.MultiIndex.from_product([seeds, *map(range, squared.shape[1:])], names=["seed", "neuron", "feature"])
            rows = pd.DataFrame({"squared_cosine": squared.ravel()}, index=index).reset_index()
            parts.append(rows.assign(**arm.model_dump(), **cell.values))
    table = pd.concat(parts, ignore_index=True)
    return checked(HEATMAP, table.assign(minority=table["feature"] >= data.d - minority))


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    study = job.part(job.study, Study)
    write_product(args.output, alignment_rows(job, study, args.results), made_from(job))


if __name__ == "__main__":
    run(main)
