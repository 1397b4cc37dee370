"""Recorded runs of the interactive page: every neuron among the features, step by step.

python docs/build/recorded_runs.py

trains them, a minute, and writes their tables.
"""

import argparse

import numpy as np
import pandas as pd

import rarefeat
from rarefeat.api.encoder import Encoder
from rarefeat.workflow.files.published import PublishedTables, commit
from rarefeat.workflow.run.cli_helpers import run_main

SETTINGS = ["eps_min", "share", "lambda", "N", "delay", "T"]
"""N is 0 where no pair comes back; `delay` counts the steps from T1 to the bias."""
RECORDED = (
    (0.3, 0.2, 0.05, 8192, 0, 500),
    (0.5, 0.2, 0.05, 8192, 0, 500),
    (0.7, 0.2, 0.05, 8192, 0, 500),
    (0.3, 0.0, 0.05, 8192, 0, 500),
    (0.2, 0.2, 0.02, 2048, 0, 8000),
    (0.2, 0.2, 0.02, 0, 0, 8000),
    (0.5, 0.7, 0.05, 8192, 0, 500),
    (0.5, 0.7, 0.05, 8192, 200, 500),
)
STUDY, SEED = "confirmation", 3000
"""Study whose other settings and random draws these are, and its first seed."""


def train_recorded(settings: dict[str, float], T1: int | None = None) -> Encoder:
    """Train a run with a history."""
    T, K = int(settings["T"]), rarefeat.preset(STUDY)["K"]
    changes = {
        "lambda_": settings["lambda"],
        # A sample of T batches is seen once, so that no pair comes back.
        "N": int(settings["N"]) or T * K,
        "T": T,
        "bias": {"share": settings["share"]} | ({"T1": T1} if T1 else {}),
    }
    eps_min, options = settings["eps_min"], {"study": STUDY, "seed": SEED, "progress": False}
    encoder = rarefeat.train(eps_min=eps_min, history=True, **options, **changes)
    if settings["delay"] and not T1:
        return train_recorded(settings, encoder.T1 + int(settings["delay"]))
    return encoder


def neuron_positions(encoder: Encoder) -> pd.DataFrame:
    """Place every neuron among the features, at the recorded steps.

    The features stand on a circle, the rare one last. A neuron points towards the mean of their
    directions, weighted with the fourth powers of its cosines.
    """
    d, history = encoder.data.d, encoder.history.double().numpy()
    cosines = np.abs(history[..., :d]) / history[..., d : d + 1]
    angles = 2 * np.pi * np.arange(1, d + 1) / d
    angle = np.angle((cosines**4 * np.exp(1j * angles)).sum(-1), deg=True).round() % 360
    index = pd.MultiIndex.from_product(
        [encoder.steps, range(encoder.training.m)], names=["step", "neuron"]
    )
    values = {"cosine": cosines.max(-1), "angle": angle, "rare": cosines[..., -1]}
    table = pd.DataFrame({name: value.ravel() for name, value in values.items()}, index=index)
    return table.round(3).reset_index()


def record_runs(
    recorded: tuple[tuple[float, ...], ...] = RECORDED,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train the recorded runs."""
    runs, positions = [], []
    for number, values in enumerate(recorded):
        settings = dict(zip(SETTINGS, values, strict=True))
        encoder = train_recorded(settings)
        gate = float((encoder.bias / encoder.weights.norm(dim=-1)).mean())
        closes = encoder.T1 if settings["share"] else -1
        runs.append({"run": number, **settings, "seed": SEED, "closes": closes, "gate": gate})
        positions.append(neuron_positions(encoder).assign(run=number))
    return pd.DataFrame(runs), pd.concat(positions).reset_index(drop=True)


def main() -> None:
    """Train the recorded runs and write their tables."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    runs, positions = record_runs()
    origin = {"run": "`python docs/build/recorded_runs.py`", "commit": commit()}
    tables = PublishedTables()
    tables.put("recorded_runs", runs, origin)
    tables.put("recorded_neurons", positions, origin)


if __name__ == "__main__":
    run_main(main)
