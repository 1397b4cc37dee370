"""The section `scaling` of the config."""

import itertools
import math
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.config.section import Distinct, Section, format_validation_error
from rarefeat.workflow.config.seeds import SeedsPerBlock
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS, Grid, Study, merge_configs


class Scaling(Section):
    """Theorem 3.1 across sizes, for one minority feature and the dense arm.

    Sizes vary d, m = d^C_m, d1 = d^power and T together.
    """

    d: Distinct[Annotated[int, Field(ge=3)]] = Field(
        min_length=2, description="numbers of features d of the Monte Carlo"
    )
    ratio: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max"
    )
    neurons: int = Field(ge=1, description="initial neurons drawn for each d in the Monte Carlo")
    trained_d: Distinct[Annotated[int, Field(ge=3)]] = Field(
        min_length=1, description="numbers of features d that may be trained"
    )
    C_m: Distinct[Annotated[float, Field(gt=0, le=10)]] = Field(
        min_length=1, description="exponents of m = d^C_m"
    )
    d1_power: Distinct[Annotated[float, Field(ge=1, le=10)]] = Field(
        min_length=1, description="exponents of d1 = d^power"
    )
    least_lucky: float = Field(
        gt=0, description="train only where a lucky set is expected to be this large"
    )
    most_neurons: int = Field(ge=1, description="train only up to this many neurons m")
    nsr: float = Field(ge=0, description="noise-to-signal ratio sigma^2 d1 of every point")
    T_power: float = Field(
        gt=0, le=10, description="T = d^T_power / eta; 1.99 is the T4 of Theorem 3.1"
    )
    seeds: int = Field(ge=1, description="replicas per trained point")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(
        description="replicas trained as one batched tensor program, one job"
    )
    data: Data = Field(description="as in a study, but for d, d1 and minority")
    training: Training = Field(description="as in a study, but for m and T")

    @model_validator(mode="after")
    def _trainable(self) -> "Scaling":
        self.studies()  # for its errors
        return self

    def studies(self) -> dict[str, Study]:
        """Return the trainable sizes as studies by name, each over every ratio.

        The Monte Carlo decides which of them are trained.
        """
        studies = {}
        for d, C_m, power in itertools.product(self.trained_d, self.C_m, self.d1_power):
            m, d1, T = (
                round(d**C_m),
                round(d**power),
                math.ceil(d**self.T_power / self.training.eta),
            )
            if m > self.most_neurons:
                continue
            name = f"scaling_d={d}_m={m}_d1={d1}"
            try:
                studies[name] = Study(
                    simulator="reduced",
                    draws=name,
                    seeds=self.seeds,
                    first_seed=self.first_seed,
                    seeds_per_block=self.seeds_per_block,
                    data=Data(**self.data.model_dump() | {"d": d, "d1": d1, "minority": [1.0]}),
                    training=Training(**self.training.model_dump() | {"m": m, "T": T}),
                    arms=[Arm(arm="dense")],
                    grid={
                        "ratios": Grid(
                            eps_min=self.ratio, sigma=[math.sqrt(self.nsr / d1)], arms=["dense"]
                        )
                    },
                )
            except ValidationError as error:
                raise ValueError(
                    f"at d = {d}, m = {m}, d1 = {d1}: {format_validation_error(error)}"
                ) from error
        return studies


def inherit(raw: Any, shared: dict) -> Any:
    """Return the section with inherited values."""
    training = raw.get("training") if isinstance(raw, dict) else None
    if isinstance(training, dict) and (fixed := training.keys() & {"m", "T"}):
        raise RarefeatError(
            f"config: scaling: training.{min(fixed)}: each size has its own; C_m gives m, and"
            " T_power gives T"
        )
    return (
        merge_configs({key: shared[key] for key in SHARED_TRAINING_KEYS if key in shared}, raw)
        if isinstance(raw, dict)
        else raw
    )
