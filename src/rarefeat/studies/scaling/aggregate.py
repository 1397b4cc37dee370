"""The table of the trained sizes of the scaling study, replica by replica."""

import pandas as pd
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.neurons import absolute_cosines, lucky_neurons, ordinary_neurons
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.model.thresholds import GAMMA, PURE_COSINE
from rarefeat.studies.scaling.config import Scaling
from rarefeat.studies.scaling.exponent_bounds import trained_cells
from rarefeat.studies.scaling.tables import SCALING
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def replicas(study: Study, cell: Cell, weights: Tensor, seeds: list[int]) -> pd.DataFrame:
    """Return the rows of one trained point and block of seeds.

    Each has the sets of a replica at its own W(0), and what became of them. After training j
    belongs to N_i where |cos(w_i, M_j)| >= 1 / sqrt(d): by eq. (13) it is o(1 / sqrt(d)) for any
    other j.

    weights (S, m, p).
    """
    data, training, ratio = study.data, study.training, cell["eps_min"]
    space = make_simulator(study.simulator, study.draws, data.d, data.d1, training.m, seeds)
    initial = space.initial_weights(
        training.sigma_0, [generator(study.draws, seed, "weights") for seed in seeds]
    )

    # The minority feature is the last one.
    lucky = lucky_neurons(initial, space.dictionary, ratio, GAMMA)[..., -1]
    ordinary = ordinary_neurons(initial, space.dictionary, ratio, GAMMA)
    cosines = absolute_cosines(weights, space.dictionary)
    pure = cosines[..., -1] > PURE_COSINE
    learned = cosines >= data.d**-0.5
    columns = {
        "lucky_minority_neurons": lucky.sum(-1),
        "pure_minority_neurons": pure.sum(-1),
        "single_minority_neurons": (learned[..., -1] & (learned.sum(-1) == 1)).sum(-1),
        "ordinary_features": ordinary.sum(-1).double().mean(-1),
        "learned_features": learned.sum(-1).double().mean(-1),
        "lucky_pure_share": (lucky & pure).sum(-1).double() / lucky.sum(-1),
    }
    sizes = {"d": data.d, "m": training.m, "d1": data.d1, "ratio": ratio, "seed": seeds}
    return pd.DataFrame(sizes | {name: values.numpy() for name, values in columns.items()})


def trained_sizes(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return a row per trained point and seed.

    Inputs are the table `lucky_sets` and the encoders of the sizes that it selects, config the
    section `scaling`; the output is the table `scaling`.
    """
    scaling, tables = job.config_section("scaling", Scaling), []
    studies = scaling.studies()
    for name, cells in trained_cells(scaling, inputs["lucky_sets"]).items():
        for encoders in inputs.files("encoders", name, studies[name]):
            if encoders.cell in cells:
                (weights,) = encoders.tensors("dense/weights")
                tables.append(replicas(studies[name], encoders.cell, weights, encoders.seeds))
    if not tables:
        raise RarefeatError(
            "config: scaling: no size is expected to have least_lucky lucky neurons; lower it, or"
            " raise most_neurons"
        )
    table = pd.concat(tables, ignore_index=True)
    # The exponents that these sizes were made from.
    table["C_m"] = [
        next(C_m for C_m in scaling.C_m if round(d**C_m) == m)
        for d, m in zip(table["d"], table["m"], strict=True)
    ]
    table["d1_power"] = [
        next(power for power in scaling.d1_power if round(d**power) == d1)
        for d, d1 in zip(table["d"], table["d1"], strict=True)
    ]
    return validate(
        SCALING, table.sort_values(["d1_power", "ratio", "d", "m", "seed"], ignore_index=True)
    )
