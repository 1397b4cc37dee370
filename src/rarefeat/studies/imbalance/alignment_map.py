"""The heat map: every neuron against every feature (liao_imbalanced_features, Figure 1)."""

import math

import pandas as pd

from rarefeat.studies.experiment import means_by
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.run.job_inputs import JobInputs

RANGES = {"largest_squared_cosine": (0, 1), "aligned_neurons": (0, math.inf)}


def alignment_map(inputs: JobInputs, study: Study) -> pd.DataFrame:
    """Return the squared cosine of every neuron to every feature, by trained arm and seed."""
    from rarefeat.model.neurons import absolute_cosines
    from rarefeat.model.simulators import make_simulator

    data, tables = study.data, []
    for encoders in inputs.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        space = make_simulator(
            study.simulator, study.draws, data.d, data.d1, study.training.m, seeds
        )
        weights = encoders.tensors(*(f"{arm.label}/weights" for arm in cell.trained))
        for arm, of_arm in zip(cell.trained, weights, strict=True):
            squared = absolute_cosines(of_arm, space.dictionary).square().double().numpy()
            index = pd.MultiIndex.from_product(
                [seeds, *map(range, squared.shape[1:])], names=["seed", "neuron", "feature"]
            )
            rows = pd.DataFrame({"squared_cosine": squared.ravel()}, index=index).reset_index()
            tables.append(rows.assign(**arm.model_dump(), **cell.values))
    table = pd.concat(tables, ignore_index=True)
    return table.assign(minority=table["feature"] >= data.d - len(data.minority))


def heatmap(table: pd.DataFrame) -> pd.DataFrame:
    """Return the best neuron of a feature and the number aligned with it, by kind of feature.

    Means are over the features of a kind, intervals over seeds.
    """
    kinds = ["arm", "minority", "seed"]
    by_feature = table.groupby([*kinds, "feature"])["squared_cosine"]
    aligned = by_feature.agg(lambda x: (x >= 0.09).sum())
    values = pd.DataFrame({"largest_squared_cosine": by_feature.max(), "aligned_neurons": aligned})
    values = values.groupby(kinds).mean().reset_index()
    parts = []
    for quantity, ends in RANGES.items():
        means = means_by(values, ["arm", "minority"], [quantity])
        parts.append(means.assign(**means[["ci_low", "ci_high"]].clip(*ends)))
    table = pd.concat(parts, ignore_index=True)
    table["features"] = table["minority"].map({True: "minority", False: "majority"})
    return table[["arm", "features", "quantity", "mean", "ci_low", "ci_high", "n"]]
