"""How many samples does a linear model need to find the sign of a sum of sparse features?"""

from collections.abc import Mapping
from typing import Annotated

import pandas as pd
from pydantic import Field

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.seeds import SeedSettings
from rarefeat.workflow.files.schema import SHARE, at_least, column, schema
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    collected_table,
)


class Toy(SeedSettings):
    """The section of the config, and its only study."""

    d: int = Field(ge=1, description="features, of which each sample has a tenth")
    samples: list[Annotated[int, Field(ge=2)]] = Field(
        min_length=1, description="numbers of training samples"
    )

    def cells(self) -> list[Cell]:
        """Return a cell for each number of samples."""
        return [cell(samples=samples) for samples in self.samples]


COLUMNS = {
    "samples": column("int64", at_least(2), unit="samples", description="training samples"),
    "seed": column("int64", at_least(0), unit="1", description="replica"),
    "accuracy": column(
        float, SHARE, unit="1", description="fraction of fresh samples with the right sign"
    ),
}
KEY = ["samples", "seed"]
ACCURACY = schema("toy_accuracy", "a row per (samples, seed)", COLUMNS, unique=KEY)
TABLES = {"toy_accuracy": (("toy_accuracy",), pd.DataFrame.copy)}


def learn(inputs: JobInputs, job: Job) -> list[dict]:
    """Fit the signs by least squares, for one number of samples and a seed block."""
    import torch  # here, so that planning needs no torch

    from rarefeat.model.randomness import generator

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
    """Draw accuracy over the number of samples."""
    import seaborn as sns

    ax = sns.lineplot(tables["toy_accuracy"], x="samples", y="accuracy", errorbar=("ci", 95))
    ax.set(xscale="log", xlabel="number of samples", ylabel="test accuracy")
    return ax.figure


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure both claims: by seed, accuracy with the most samples less that with the fewest."""
    wide = tables["toy_accuracy"].pivot(index="seed", columns="samples", values="accuracy")
    gain = wide[wide.columns.max()] - wide[wide.columns.min()]
    claims = "more-samples", "a-tenth-more"
    return [measurement(claim, "toy_study", {}, gain) for claim in claims]


def build_outputs(toy: Toy) -> StudyOutputs:
    """Declare a table, a figure and a page."""
    tables = ("toy_accuracy",)
    schema = "studies.toy:ACCURACY"
    accuracy = collected_table(schema, LEARN, "learned", "toy_study", toy)
    figure = Figure(tables, "Accuracy over the number of samples. See whether it rises.")
    page = Page(
        "The toy study", (*tables, "toy_measured"), ("learning_curve",), "Do more samples help?"
    )
    figures, pages = {"learning_curve": figure}, {"toy": page}
    return StudyOutputs({"toy_accuracy": accuracy}, figures, pages)


KIND = StudyKind(
    "toy",
    "The toy study",
    Toy,
    build_outputs,
    studies=lambda toy: {"toy_study": toy},
    stages=(LEARN,),
    inherits=("first_seed",),
    claim_inputs=lambda toy: ClaimInputs(("toy_accuracy",)),
    by_default=False,
    question="Do more samples help?",
)
