"""How many samples does a linear model need to find the sign of a sum of sparse features?"""

from collections.abc import Mapping
from typing import Annotated

import pandas as pd
from pydantic import Field

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.config.cells import Cell, cell
from rarefeat.config.seeds import SeedSettings
from rarefeat.core.statistics import student_interval
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.storage.schema import SHARE, at_least, column, schema
from rarefeat.study_kind import Claimed, Figure, Kind, Made, Page, Stage, collected


class Toy(SeedSettings):
    """The section of the config, and its only study."""

    d: int = Field(ge=1, description="features, of which each sample has a tenth")
    samples: list[Annotated[int, Field(ge=2)]] = Field(
        min_length=1, description="numbers of samples"
    )

    def cells(self) -> list[Cell]:
        """One for each number of samples."""
        return [cell(samples=samples) for samples in self.samples]


COLUMNS = {
    "samples": column("int64", at_least(2), unit="samples", description="what was learned from"),
    "seed": column("int64", at_least(0), unit="1", description="replica"),
    "accuracy": column(
        float, SHARE, unit="1", description="share of fresh samples whose sign is found"
    ),
}
ACCURACY = schema("toy_accuracy", "a row per (samples, seed)", COLUMNS, unique=["samples", "seed"])
TABLES = {"toy_accuracy": (("toy_accuracy",), pd.DataFrame.copy)}


def learn(read: JobInputs, job: Job) -> list[dict]:
    """The stage of one number of samples and block of seeds: least squares on the signs."""
    import torch  # here, so that a plan does without

    from rarefeat.core.randomness import generator

    n, d, rows = job.cell["samples"], job.config_section("d", int), []
    for seed in job.seed_list:
        g = generator(job.config_section("draws", str), seed, "samples")
        x = torch.randn(n + 1000, d, generator=g) * (torch.rand(n + 1000, d, generator=g) < 0.1)
        y = x.sum(1).sign()
        right = x[n:] @ torch.linalg.pinv(x[:n]) @ y[:n] * y[n:] > 0
        rows.append({"samples": n, "seed": seed, "accuracy": float(right.double().mean())})
    return rows


LEARN = Stage(
    "studies.toy:learn",
    Toy,
    lambda toy, cell: {"draws": toy.draws, "d": toy.d},
    ("learned.parquet",),
)


def learning_curve(tables: Mapping[str, pd.DataFrame], job: Job):
    """The figure: accuracy over samples."""
    import seaborn as sns

    ax = sns.lineplot(tables["toy_accuracy"], x="samples", y="accuracy", errorbar=("ci", 95))
    ax.set(xscale="log", xlabel="number of samples", ylabel="test accuracy")
    return ax.figure


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """What both claims are about, by seed: accuracy with the most samples less that with the fewest."""
    wide = tables["toy_accuracy"].pivot(index="seed", columns="samples", values="accuracy")
    gain = wide[wide.columns.max()] - wide[wide.columns.min()]
    return [measurement(claim, "toy_study", {}, gain) for claim in ("more-samples", "a-tenth-more")]


def answer(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """The page: what was found, in a sentence."""
    mean, _, low, high, n = student_interval(measure(tables, job)[0].values.to_numpy())
    return f"# A toy\n\n- More samples change the accuracy by {mean:.2f} [{low:.2f}, {high:.2f}] ({n} seeds).\n"


def made(toy: Toy) -> Made:
    """A table, a figure and a page."""
    table = collected("studies.toy:ACCURACY", LEARN, "learned", "toy_study", toy)
    figure = Figure(
        ("toy_accuracy",), "Accuracy against the number of samples. See whether it climbs."
    )
    page = Page("a toy", "studies.toy:answer", ("toy_accuracy",))
    return Made({"toy_accuracy": table}, {"learning_curve": figure}, {"toy": page})


KIND = Kind(
    "toy", "A toy", Toy, made, lambda toy: {"toy_study": toy}, (LEARN,), inherits=("first_seed",),
    claimed=lambda toy: Claimed(("toy_accuracy",), regimes={"toy_study": {}}), by_default=False,
    question="Do more samples help?",
)  # fmt: skip
