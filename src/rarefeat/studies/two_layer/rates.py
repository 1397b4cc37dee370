"""The rates that the search chooses, held against those that the settings have."""

from pathlib import Path

import pandas as pd

from rarefeat.config.cells import path_of
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.two_layer.config import Rates, RateSearch
from rarefeat.studies.two_layer.search import LEARNERS
from rarefeat.studies.two_layer.tables import TWO_LAYER_RATES, TWO_LAYER_SEARCH

NEAR = 0.01
"""Accuracy over the steps that is no difference."""


def choose(table: pd.DataFrame) -> dict[str, float]:
    """Of each learner the smallest rates whose held-out accuracy over the steps is near the best, on average over seeds.

    At the end many candidates are perfect; the mean over the steps also says which is so soonest. Of those within NEAR of the
    best the smallest steps are the least noisy.
    """
    chosen: dict[str, float] = {}
    for learner, part in table.groupby("learner"):
        keys = list(LEARNERS[str(learner)][1])
        means = part.groupby(keys)["held_out_over_steps"].mean().sort_index()
        best = means[means >= means.max() - NEAR].index[0]
        chosen |= dict(zip(keys, best if isinstance(best, tuple) else (best,), strict=True))
    return {key: float(value) for key, value in chosen.items()}


def held_against(configured: dict[str, Rates], table: pd.DataFrame) -> pd.DataFrame:
    """The rates that settings have beside those that the search chooses: columns setting, rate, configured, chosen."""
    rows = []
    for name, rates in configured.items():
        for rate, value in choose(table[table["setting"] == name]).items():
            configured_rate = getattr(rates, rate)
            rows.append({"setting": name, "rate": rate, "configured": configured_rate, "chosen": value})
    return pd.DataFrame(rows)


def gathered(job: Job, results: Path) -> pd.DataFrame:
    """The candidates of every setting and seed."""
    search = job.part("rate_search", RateSearch)
    parts = []
    for cell in search.cells():
        config = {"setting": job.config["searched"][cell["setting"]], "candidates": search.grid}
        for block in search.blocks():
            expected = {"study": job.study, "cell": cell.values, "seeds": block, "config": config, "code": through(job)}
            parts.append(read_table(results / path_of("probes", job.study, cell, block, "parquet"), expected).to_pandas())
    return pd.concat(parts, ignore_index=True)


def through(job: Job) -> dict[str, str]:
    """The digests of the stages that the files came through which a job reads."""
    return {name: digest for name, digest in job.code.items() if name != job.stage}


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--search", required=True, help="Parquet file to write: the candidates")
    parser.add_argument("--rates", required=True, help="Parquet file to write: configured and chosen")
    args = parser.parse_args()
    job: Job = args.job
    table = ordered(TWO_LAYER_SEARCH, gathered(job, args.results))
    chosen = ordered(TWO_LAYER_RATES, held_against(job.part("rates", dict[str, Rates]), table))
    write_product(args.search, table, made_from(job))
    write_product(args.rates, chosen, made_from(job))


if __name__ == "__main__":
    run(main)
