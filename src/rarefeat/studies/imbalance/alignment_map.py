"""The table of the heat map: every neuron against every feature.

See liao_imbalanced_features, Figure 1.
"""

import pandas as pd

from rarefeat.model.neurons import absolute_cosines
from rarefeat.model.simulators import make_simulator
from rarefeat.studies.imbalance.tables import HEATMAP
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def alignment_map(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return the squared cosine of every neuron to every feature.

    Inputs are the encoders of the study, config its section `Study`; the output is the table
    `alignment_heatmap`, a row per trained arm, seed, neuron and feature.
    """
    study, tables = job.config_section(job.study, Study), []
    data, minority = study.data, len(study.data.minority)
    for encoders in inputs.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        space = make_simulator(
            study.simulator, study.draws, data.d, data.d1, study.training.m, seeds
        )
        for arm, weights in zip(
            cell.trained,
            encoders.tensors(*(f"{arm.label}/weights" for arm in cell.trained)),
            strict=True,
        ):
            squared = absolute_cosines(weights, space.dictionary).square().double().numpy()
            index = pd.MultiIndex.from_product(
                [seeds, *map(range, squared.shape[1:])], names=["seed", "neuron", "feature"]
            )
            rows = pd.DataFrame({"squared_cosine": squared.ravel()}, index=index).reset_index()
            tables.append(rows.assign(**arm.model_dump(), **cell.values))
    table = pd.concat(tables, ignore_index=True)
    return validate(HEATMAP, table.assign(minority=table["feature"] >= data.d - minority))
