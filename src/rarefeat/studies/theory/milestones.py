"""What every replica's neurons were at the milestones of training."""

from pathlib import Path

import pandas as pd

from rarefeat.chain.intermediates import encoders
from rarefeat.chain.milestones import milestones
from rarefeat.config.study import Study
from rarefeat.core.divergence import diverged
from rarefeat.core.randomness import generator
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.schema import checked
from rarefeat.studies.theory.tables import MILESTONE_ROWS


def milestone_rows(job: Job, study: Study, results: Path) -> pd.DataFrame:
    """One row per point, trained arm, seed and metric."""
    rows = []
    for cell, seeds, read in encoders(job, study, results):
        for arm in cell.trained:
            names = ("weights", "loss", "history", "ends", "T1", "T2")
            weights, loss, *kept = read(*(f"{arm.label}/{name}" for name in names))
            gone = diverged(loss, study.training.K, weights)
            for index, seed in enumerate(seeds):
                keys = {**cell.values, **arm.model_dump(), "seed": seed}
                history, ends, T1, T2 = (part[index] for part in kept)
                at = study.data, study.training, cell["eps_min"], cell["sigma"], generator(study.draws, seed, "directions")
                found = milestones(history, ends, int(T1), int(T2), *at) | {"diverged": float(gone[index])}
                rows += [{**keys, "metric": name, "value": value} for name, value in found.items()]
    return checked(MILESTONE_ROWS, pd.DataFrame(rows))


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    study = job.part(job.study, Study)
    write_product(args.output, milestone_rows(job, study, args.results), made_from(job))


if __name__ == "__main__":
    run(main)
