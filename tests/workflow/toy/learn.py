"""Logistic regression of the sign of <w*, z> on latent signals, the seeds of a block at one number of samples."""

import pyarrow as pa
import torch
from rarefeat.studies.toy.config import Learner
from sklearn.linear_model import LogisticRegression

from rarefeat.config.model import Data
from rarefeat.core.randomness import generator
from rarefeat.core.sparse_coding import activation_probability, frequencies, latent_pairs, target
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.storage.files import write_table
from rarefeat.storage.origin import KEY


def accuracy(draws: str, data: Data, learner: Learner, samples: int, seed: int) -> float:
    """Share of fresh samples whose label is found, of one replica."""
    probability = activation_probability(frequencies(data.d, data.minority, 1.0), data.C)
    w_star = target(draws, seed, data.d)

    def labelled(n: int, purpose: str) -> tuple[torch.Tensor, torch.Tensor]:
        z = latent_pairs(n, 1, probability, generator(draws, seed, purpose))[:, 0, 0].float()
        return z, z @ w_star > 0

    x, y = labelled(samples, "train")
    model = LogisticRegression(C=1 / learner.l2).fit(x.numpy(), y.numpy())
    x, y = labelled(learner.test_samples, "test")
    return float(model.score(x.numpy(), y.numpy()))


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    parts = job.part("draws", str), job.part("data", Data), job.part("learner", Learner), job.cell["samples"]
    rows = [{"seed": seed, "accuracy": accuracy(*parts, seed)} for seed in job.seed_list]
    write_table(args.output, pa.Table.from_pylist(rows), {KEY: job.text})


if __name__ == "__main__":
    run(main)
