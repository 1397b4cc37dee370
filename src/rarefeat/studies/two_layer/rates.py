"""The search for step sizes that the dissertation leaves open, on draws that no table uses."""

import itertools
from collections.abc import Mapping

import pandas as pd

from rarefeat.studies.two_layer.config import Procedure, Rates, Setting
from rarefeat.workflow.run.cli_helpers import progress

LEARNERS = {
    "network": (Procedure(method="network"), ["network_head", "network_first"]),
    "ntk": (Procedure(method="ntk"), ["ntk"]),
    "heads": (Procedure(method="two_step"), ["head"]),
}
"""Each learner with its arm and the rates that concern it."""
RATE_TOLERANCE = 0.01
"""Accuracy over the steps that is no difference."""


def search_rates(
    cell: dict, seeds: list[int], setting: Setting, candidates: dict[str, list[float]]
) -> list[dict]:
    """Measure the accuracies of every combination of the rates that concern a learner."""
    # Imported here, as the table of the rates is made without torch.
    from rarefeat.studies.two_layer.measure import train_replica

    name, rows = cell["setting"], []
    tried = [
        (learner, arm, dict(zip(keys, values, strict=True)))
        for learner, (arm, keys) in LEARNERS.items()
        for values in itertools.product(*(candidates[key] for key in keys))
    ]
    for learner, arm, rates in progress(tried, len(tried), f"rates of {name}"):
        changed = {"arms": [arm], "rates": setting.rates.model_copy(update=rates)}
        for seed in seeds:
            candidate = setting.model_copy(update=changed)
            numbers = train_replica(candidate, f"two_layer_rates/{name}", seed, True).numbers
            curve = [value for (*_, quantity), value in numbers.items() if quantity == "curve"]
            rows.append(
                {
                    "setting": name, "learner": learner, "seed": seed,
                    **dict.fromkeys(candidates), **rates,
                    "train_accuracy": numbers[arm.label, setting.T, "train_accuracy"],
                    "held_out_accuracy": numbers[arm.label, setting.T, "test_accuracy"],
                    "held_out_over_steps": sum(curve) / len(curve),
                }
            )  # fmt: skip
    return rows


def choose(table: pd.DataFrame) -> dict[str, float]:
    """Choose for each learner the smallest rates whose held-out accuracy is near the best.

    The accuracy is the mean over the steps and seeds. At the end many candidates are perfect; the
    mean over the steps also says which is so soonest. Of those within RATE_TOLERANCE of the best
    the smallest steps are the least noisy.
    """
    chosen: dict[str, float] = {}
    for learner, tried in table.groupby("learner"):
        means = tried.groupby(LEARNERS[learner][1])["held_out_over_steps"].mean()
        near = means[means >= means.max() - RATE_TOLERANCE]
        chosen |= near.index.to_frame().iloc[0].to_dict()
    return chosen


def two_layer_rates(tables: Mapping[str, pd.DataFrame], rates: dict[str, Rates]) -> pd.DataFrame:
    """Return the rates that settings have with those that the search chooses."""
    table = tables["two_layer_search"]
    rows = [
        (name, rate, getattr(configured, rate), value)
        for name, configured in rates.items()
        for rate, value in choose(table[table["setting"] == name]).items()
    ]
    found = pd.DataFrame(rows, columns=["setting", "rate", "configured", "chosen"])
    return found.sort_values(["setting", "rate"], ignore_index=True)
