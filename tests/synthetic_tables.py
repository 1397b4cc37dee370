"""Tables with planted values for tests of figures: real columns, any size, quickly made."""

import itertools

import numpy as np
import pandas as pd

TENTHS = [round(0.1 * k, 1) for k in range(1, 11)]
ARM = {"alpha": 0.0, "onset": 0, "pruned_update": "unmasked"}
METRICS = {
    # Values where the rare feature is not learned and where it is.
    "aligned_neurons": (0.0, 4.0),
    "max_alignment": (0.35, 0.97),
    "majority_alignment": (0.9, 0.98),
    "cosine_similarity_balanced": (0.8, 0.95),
    "cosine_similarity_matched": (0.85, 0.96),
    "regression_mse_balanced": (0.6, 0.2),
    "regression_mse_matched": (0.3, 0.15),
}
HALF = {"dense": 0.6, "pruned_neuron": 0.58, "pruned_weight": 0.55, "oracle_all": 0.4}
"""eps_min at which an arm has learned half."""
RANGE = {"aligned_neurons": (0, 30), "max_alignment": (0, 1)}


def learned(eps_min: float, sigma: float, arm: str) -> float:
    if arm in ("initial", "ideal"):
        return float(arm == "ideal") * 1.3 - 0.3 * (arm == "initial")
    return 1 / (1 + np.exp(-12 * (eps_min - HALF.get(arm, 0.5) - 2 * (sigma - 0.05))))


def grid(
    eps_mins=TENTHS, sigmas=(0.05,), arms=("dense", "pruned_neuron"), seeds=20, d1=500, draw=0
) -> pd.DataFrame:
    rows = []
    for eps_min, sigma in itertools.product(eps_mins, sigmas):
        place = round(eps_min * 1000), round(sigma * 1000)
        # Arms share the noise of a seed, as with common random numbers.
        shared = np.random.default_rng([draw, *place]).normal(size=(seeds, len(METRICS)))
        for index, arm in enumerate(arms):
            own = np.random.default_rng([draw, index, *place]).normal(size=shared.shape)
            fraction = learned(eps_min, sigma, arm)
            for seed, noise in enumerate(shared + 0.3 * own):
                row = {"eps_min": eps_min, "sigma": sigma, "nsr": sigma**2 * d1, "arm": arm,
                       "seed": 100 + seed, **ARM}  # fmt: skip
                for (metric, (low, high)), error in zip(METRICS.items(), noise, strict=True):
                    value = low + (high - low) * fraction + 0.12 * abs(high - low) * error
                    row[metric] = np.clip(value, *RANGE.get(metric, (0, 1)))
                rows.append(row)
    return pd.DataFrame(rows)


def trajectories(
    eps_mins=TENTHS, arms=("dense", "oracle_all"), seeds=20, T=500, draw=0
) -> pd.DataFrame:
    """Return trajectories; under the oracle mask the loss of one seed explodes."""
    steps = np.unique(np.round(np.geomspace(1, T, 25)).astype(int))
    rng, rows = np.random.default_rng(draw), []
    for eps_min in eps_mins:
        for arm in arms:
            for seed in range(seeds):
                noise = rng.normal(size=3)
                late = 60 / max(learned(eps_min, 0.05, arm), 0.02) * np.exp(0.2 * noise[0])
                values = {
                    "max_alignment": 0.25
                    + 0.7 * learned(eps_min, 0.05, arm) / (1 + (late / steps) ** 3),
                    "majority_alignment": 0.25 + 0.72 / (1 + (45 / steps) ** 3) + 0.01 * noise[1],
                    "loss": 4.85
                    - 1.3 / (1 + (60 / steps) ** 4)
                    + 0.1 * rng.normal(size=len(steps)),
                    "loss_floor": 2.33 + 0 * steps,
                }
                if arm == "oracle_all" and seed == 0:
                    values["loss"] = values["loss"] + 10.0 ** (14 * (steps / T) ** 4) - 1
                for metric, curve in values.items():
                    rows += [
                        {"eps_min": eps_min, "sigma": 0.05, "arm": arm, **ARM, "seed": 100 + seed,
                         "step": step,
                         "metric": metric, "value": value}
                        for step, value in zip(steps, curve, strict=True)
                    ]  # fmt: skip
    return pd.DataFrame(rows)


def image_views(kinds, seeds=6, draw=0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(draw)
    metrics, units, embedding = [], [], []
    names = (
        "linear_accuracy",
        "knn_accuracy",
        "separation",
        "crop_invariance",
        "intensity_invariance",
    )
    for index, kind in enumerate(kinds):
        for network in ("trained", "initial"):
            for seed in range(seeds):
                keys = {"study": kind, "network": network, "seed": seed}
                for metric in names:
                    value = min(0.6 + 0.15 * index + 0.1 * rng.normal(), 0.995)
                    metrics.append(keys | {"metric": metric, "value": value})
                for layer in ("stem", "1", "2"):
                    rates = rng.beta(2, 3, size=16)
                    units += [
                        keys | {"layer": layer, "unit": i, "firing_rate": rate}
                        for i, rate in enumerate(rates)
                    ]
        for image in range(400):
            x, y = 8 * np.cos(image % 10), 8 * np.sin(image % 10)
            place = {"x": x + rng.normal(), "y": y + rng.normal()}
            embedding.append({"study": kind, "image": image, "label": image % 10} | place)
    return dict(zip(("a", "b", "c"), map(pd.DataFrame, (metrics, units, embedding)), strict=True))
