"""Stage 2 of the study of fine labels: errors, growth, and linear heads of the networks of one k and one kind of labels."""

from collections.abc import Mapping

import torch
from torch import Tensor

from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.fine_labels import metrics, scalar_simulator, theory
from rarefeat.studies.fine_labels.config import (
    EasyData,
    HierarchicalData,
    Learner,
    LinearHeadSettings,
    Noise,
    fine,
)
from rarefeat.studies.fine_labels.data import DRAWS, easy, hard, streams
from rarefeat.studies.fine_labels.train import TrainedReplicas, replicas_of

SAMPLES = {"easy": easy, "hard": hard}


def by_seed(seeds: list[int], keys: Mapping, values: Tensor) -> list[dict]:
    """A row for each replica, (S,)."""
    return [
        {**keys, "seed": seed, "value": value}
        for seed, value in zip(seeds, values.tolist(), strict=True)
    ]


def error_rows(
    replicas: TrainedReplicas,
    hierarchy: HierarchicalData,
    learner: Learner,
    tests: int,
    s_dag: list[float],
    draws: str = DRAWS,
) -> list[dict]:
    """Growth, and where every class has a superclass, errors by the maximum rule: rows of s_dag, metric, seed, value."""
    found = {(name, hierarchy.s_dag): value for name, value in growth(replicas).items()}
    if replicas.superclass is not None:
        found |= errors(replicas, hierarchy, learner, tests, s_dag, draws)
    return [
        row
        for (name, s), values in found.items()
        for row in by_seed(replicas.seeds, {"s_dag": s, "metric": name}, values)
    ]


def errors(
    replicas: TrainedReplicas,
    hierarchy: HierarchicalData,
    learner: Learner,
    tests: int,
    s_dag: list[float],
    draws: str,
) -> dict[tuple[str, float], Tensor]:
    """Errors on easy samples, and for every s_dag on hard ones, each (S,)."""
    k, superclass, primary = hierarchy.k, replicas.superclass, hierarchy.s_dag
    found: dict[tuple[str, float], Tensor] = {}

    def tested(kind: str, data: HierarchicalData, state: scalar_simulator.DetectorState) -> Tensor:
        return scalar_simulator.scores(
            state, SAMPLES[kind](data, tests, streams(f"{kind} tests", replicas.seeds, draws))
        )

    scores = tested("easy", hierarchy, replicas.trained)
    found["easy_error", primary] = metrics.superclass_error(scores, superclass, k)
    if replicas.labels == fine(k):
        found["easy_subclass_error", primary] = metrics.fine_error(scores, k)
    for s in s_dag:
        data = HierarchicalData(**hierarchy.model_dump() | {"s_dag": s})
        found["hard_error", s] = metrics.superclass_error(
            tested("hard", data, replicas.trained), superclass, k
        )
        found["predicted_hard_error", s] = metrics.predicted_hard_error(
            replicas.trained, data, superclass
        )
        found["R", s] = torch.full(
            (len(replicas.seeds),), theory.distraction(data, learner.kappa_b)
        )
    if replicas.tuned is not None:
        found["tuning_smallest_change", primary] = metrics.smallest_change(
            replicas.trained, replicas.tuned, replicas.own
        )
        for kind in SAMPLES:
            scores = tested(kind, hierarchy, replicas.tuned)
            found[f"tuned_{kind}_error", primary] = metrics.superclass_error(scores, superclass, k)
    return found


def growth(replicas: TrainedReplicas) -> dict[str, Tensor]:
    """Ratios of growth, its shape, detectors and biases, each (S,)."""
    own, history, end = replicas.own, replicas.history, replicas.trained
    at = {t: i for i, t in enumerate(history.steps.tolist())}
    T = max(at) + 1
    ratios = metrics.growth_ratio(history.displacement[1:], end.detectors, own)
    common = metrics.on_diagonal(history.displacement, own)[0].mean(-1)
    # As much for every factor of four in t, where growth is logarithmic.
    late, early = common[at[T - 1]] - common[at[T // 4]], common[at[T // 4]] - common[at[T // 16]]
    bias = metrics.bias_over_displacement(end, own)
    return {
        "loss": history.loss[-1],
        "first_ratio": ratios[0],
        "ratio": metrics.growth_ratio(end.displacement, end.detectors, own),
        "largest_ratio": ratios.amax(0),
        "late_over_early_growth": late / early,
        "bias_over_common": bias[0],
        "bias_over_subclass": bias[1],
        "smallest_detectors": metrics.smallest_detectors(end, own),
        "off_diagonal_growth": metrics.off_diagonal_growth(end, own) / end.threshold,
    }


def trajectory_rows(replicas: TrainedReplicas) -> list[dict]:
    """Mean displacement and bias decrement of common and of subclass detectors, loss and largest response, by step and seed."""
    history = replicas.history
    parts = {"loss": history.loss, "response": history.response}
    for name, values in (("displacement", history.displacement), ("decrement", history.decrement)):
        common, subclass = metrics.on_diagonal(values, replicas.own)
        parts |= {f"common_{name}": common.mean(-1), f"subclass_{name}": subclass.mean(-1)}
    return [
        {"step": int(t), "seed": seed} | {name: value[i, s].item() for name, value in parts.items()}
        for i, t in enumerate(history.steps)
        for s, seed in enumerate(replicas.seeds)
    ]


def head_rows(
    replicas: TrainedReplicas,
    hierarchy: HierarchicalData,
    heads: LinearHeadSettings,
    tests: int,
    draws: str = DRAWS,
) -> list[dict]:
    """Linear heads on the frozen detectors, for every penalty and share of hard samples among those they are fitted on."""
    made = [
        part(hierarchy, size, streams(f"{kind} {purpose}", replicas.seeds, draws))
        for purpose, size in (("probe", heads.samples), ("tests", tests))
        for kind, part in SAMPLES.items()
    ]
    rows = []
    for s, seed in enumerate(replicas.seeds):
        features = [
            scalar_simulator.head_inputs(replicas.trained.row(s), patches.rows(s, s + 1))[0]
            for patches in made
        ]
        found = metrics.probe_errors(
            tuple(features[:2]), tuple(features[2:]), hierarchy.k, heads.ridge, heads.hard_share
        )
        rows += [{"features": "detectors", "seed": seed, **row} for row in found]
    return rows


def noise_rows(
    replicas: TrainedReplicas,
    hierarchy: HierarchicalData,
    noise: Noise,
    ridge: list[float],
    draws: str = DRAWS,
) -> tuple[list[dict], list[dict]]:
    """The networks on noisy easy samples (rows of errors), and a linear model on summed patches (rows of heads; B.2)."""
    data = EasyData(**hierarchy.easy.model_dump() | {"P": noise.P, "sigma_zeta": noise.sigma_zeta})
    k, heads, network = data.k, [], []
    signs = metrics.signs(k, noise.samples)
    for s, seed in enumerate(replicas.seeds):

        def stream(purpose: str, seed: int = seed) -> list[torch.Generator]:
            return streams(purpose, [seed], draws)

        fit, test = (
            metrics.patch_sums(
                data,
                easy(data, noise.samples, stream(f"linear {purpose}")),
                stream(f"linear {purpose} noise"),
            )[0]
            for purpose in ("train", "test")
        )
        few = easy(data, noise.tests, stream("network in noise"))
        scores = metrics.scores_in_noise(
            replicas.trained.row(s), data, few, stream("noise on patches")
        )
        network.append(metrics.superclass_error(scores, replicas.superclass, k))
        for penalty, head in zip(ridge, metrics.ridge_heads(fit, signs, ridge), strict=True):
            keys = {"features": "patch sums", "seed": seed, "penalty": penalty, "hard_share": 0.0}
            heads.append({**keys, "easy": metrics.head_error(head, test, signs)})
    return by_seed(
        replicas.seeds, {"s_dag": hierarchy.s_dag, "metric": "error_in_noise"}, torch.cat(network)
    ), heads


def measure_detectors(read: JobInputs, job: Job) -> tuple[list[dict], ...]:
    """The stage of one k and one kind of labels: errors, growth, and linear heads."""
    hierarchy, learner, heads = (
        job.config_section("hierarchy", HierarchicalData),
        job.config_section("learner", Learner),
        job.config_section("heads", LinearHeadSettings),
    )
    tests, replicas = job.config_section("tests", int), replicas_of(read.file("detectors"), job)
    errors = error_rows(
        replicas, hierarchy, learner, tests, job.config_section("s_dag", list[float])
    )
    of_heads = head_rows(replicas, hierarchy, heads, tests)
    if "noise" in job.config:
        of_network, of_noisy_heads = noise_rows(
            replicas, hierarchy, job.config_section("noise", Noise), heads.ridge
        )
        errors, of_heads = errors + of_network, of_heads + of_noisy_heads
    return tuple(
        [{**job.cell, **row} for row in rows]
        for rows in (errors, trajectory_rows(replicas), of_heads)
    )
