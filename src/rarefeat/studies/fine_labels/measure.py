"""Second stage of the study of fine labels: errors, growth and linear heads of one cell.

Purposes of the random streams, in the namespace `data.DRAWS`: easy tests, hard tests, easy probe,
hard probe; and on noisy samples linear train, linear test, each also with noise, network in noise,
noise on patches.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from rarefeat.studies.fine_labels import metrics, scalar_simulator, theory
from rarefeat.studies.fine_labels.config import (
    EasyData,
    HierarchicalData,
    Learner,
    LinearHeadSettings,
    Noise,
    fine,
)
from rarefeat.studies.fine_labels.data import DRAWS, draw_easy, draw_hard, streams
from rarefeat.studies.fine_labels.train import TrainedReplicas, replicas_of
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

SAMPLERS = {"easy": draw_easy, "hard": draw_hard}


def rows_by_seed(seeds: list[int], keys: Mapping, values: Tensor) -> list[dict]:
    """Return a row for each replica.

    values (S,).
    """
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
    """Return growth and, if every class has a superclass, errors by the maximum rule."""
    values_of = {(name, hierarchy.s_dag): values for name, values in growth(replicas).items()}
    if replicas.superclass is not None:
        values_of |= errors(replicas, hierarchy, learner, tests, s_dag, draws)
    return [
        row
        for (name, s), values in values_of.items()
        for row in rows_by_seed(replicas.seeds, {"s_dag": s, "metric": name}, values)
    ]


def errors(
    replicas: TrainedReplicas,
    hierarchy: HierarchicalData,
    learner: Learner,
    tests: int,
    s_dag: list[float],
    draws: str,
) -> dict[tuple[str, float], Tensor]:
    """Compute errors on easy samples and, for every s_dag, on hard samples.

    -> (S,).
    """
    k, superclass, primary = hierarchy.k, replicas.superclass, hierarchy.s_dag
    values: dict[tuple[str, float], Tensor] = {}

    def score(kind: str, data: HierarchicalData, state: scalar_simulator.DetectorState) -> Tensor:
        generators = streams(f"{kind} tests", replicas.seeds, draws)
        return scalar_simulator.scores(state, SAMPLERS[kind](data, tests, generators))

    scores = score("easy", hierarchy, replicas.trained)
    values["easy_error", primary] = metrics.superclass_error(scores, superclass, k)
    if replicas.labels == fine(k):
        values["easy_subclass_error", primary] = metrics.fine_error(scores, k)
    for s in s_dag:
        data = HierarchicalData(**hierarchy.model_dump() | {"s_dag": s})
        values["hard_error", s] = metrics.superclass_error(
            score("hard", data, replicas.trained), superclass, k
        )
        values["predicted_hard_error", s] = metrics.predicted_hard_error(
            replicas.trained, data, superclass
        )
        values["R", s] = torch.full(
            (len(replicas.seeds),), theory.distraction(data, learner.kappa_b)
        )
    if replicas.tuned is not None:
        values["tuning_smallest_change", primary] = metrics.smallest_change(
            replicas.trained, replicas.tuned, replicas.features
        )
        for kind in SAMPLERS:
            scores = score(kind, hierarchy, replicas.tuned)
            values[f"tuned_{kind}_error", primary] = metrics.superclass_error(scores, superclass, k)
    return values


def growth(replicas: TrainedReplicas) -> dict[str, Tensor]:
    """Compute ratios and shape of growth, numbers of detectors, and biases, (S,) each."""
    features, history, end = replicas.features, replicas.history, replicas.trained
    row_of = {t: i for i, t in enumerate(history.steps.tolist())}
    T = max(row_of) + 1
    ratios = metrics.growth_ratio(history.displacement[1:], end.detectors, features)
    common = metrics.on_diagonal(history.displacement, features)[0].mean(-1)
    # Logarithmic growth is the same for every factor of four in t.
    late = common[row_of[T - 1]] - common[row_of[T // 4]]
    early = common[row_of[T // 4]] - common[row_of[T // 16]]
    bias = metrics.bias_over_displacement(end, features)
    return {
        "loss": history.loss[-1],
        "first_ratio": ratios[0],
        "ratio": metrics.growth_ratio(end.displacement, end.detectors, features),
        "largest_ratio": ratios.amax(0),
        "late_over_early_growth": late / early,
        "bias_over_common": bias[0],
        "bias_over_subclass": bias[1],
        "smallest_detectors": metrics.smallest_detectors(end, features),
        "off_diagonal_growth": metrics.off_diagonal_growth(end, features) / end.threshold,
    }


def trajectory_rows(replicas: TrainedReplicas) -> list[dict]:
    """Return mean displacement and bias decrement of common and of subclass detectors, loss and
    largest response, by recorded step and seed.
    """
    history = replicas.history
    columns = {"loss": history.loss, "response": history.response}
    for name in ("displacement", "decrement"):
        common, subclass = metrics.on_diagonal(getattr(history, name), replicas.features)
        columns |= {f"common_{name}": common.mean(-1), f"subclass_{name}": subclass.mean(-1)}
    return [
        {"step": int(t), "seed": seed}
        | {name: values[i, s].item() for name, values in columns.items()}
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
    """Return errors of linear heads on the frozen detectors."""
    samples = [
        sampler(hierarchy, size, streams(f"{kind} {purpose}", replicas.seeds, draws))
        for purpose, size in (("probe", heads.samples), ("tests", tests))
        for kind, sampler in SAMPLERS.items()
    ]
    rows = []
    for s, seed in enumerate(replicas.seeds):
        fit_easy, fit_hard, test_easy, test_hard = (
            scalar_simulator.head_inputs(replicas.trained.row(s), patches.rows(s, s + 1))[0]
            for patches in samples
        )
        head_errors = metrics.probe_errors(
            (fit_easy, fit_hard),
            (test_easy, test_hard),
            hierarchy.k,
            heads.ridge,
            heads.hard_share,
        )
        rows += [{"features": "detectors", "seed": seed, **row} for row in head_errors]
    return rows


def noise_rows(
    replicas: TrainedReplicas,
    hierarchy: HierarchicalData,
    noise: Noise,
    ridge: list[float],
    draws: str = DRAWS,
) -> tuple[list[dict], list[dict]]:
    """Return errors of the networks, and of a linear model on summed patches, in noise (B.2)."""
    data = EasyData(**hierarchy.easy.model_dump() | {"P": noise.P, "sigma_zeta": noise.sigma_zeta})
    k, heads, network = data.k, [], []
    signs = metrics.signs(k, noise.samples)
    for s, seed in enumerate(replicas.seeds):

        def stream(purpose: str, seed: int = seed) -> list[torch.Generator]:
            return streams(purpose, [seed], draws)

        fit, test = (
            metrics.patch_sums(
                data,
                draw_easy(data, noise.samples, stream(f"linear {purpose}")),
                stream(f"linear {purpose} noise"),
            )[0]
            for purpose in ("train", "test")
        )
        samples = draw_easy(data, noise.tests, stream("network in noise"))
        scores = metrics.scores_in_noise(
            replicas.trained.row(s), data, samples, stream("noise on patches")
        )
        network.append(metrics.superclass_error(scores, replicas.superclass, k))
        for penalty, head in zip(ridge, metrics.ridge_heads(fit, signs, ridge), strict=True):
            keys = {"features": "patch sums", "seed": seed, "penalty": penalty, "hard_share": 0.0}
            heads.append({**keys, "easy": metrics.head_error(head, test, signs)})
    keys = {"s_dag": hierarchy.s_dag, "metric": "error_in_noise"}
    return rows_by_seed(replicas.seeds, keys, torch.cat(network)), heads


def measure_detectors(inputs: JobInputs, job: Job) -> tuple[list[dict], ...]:
    """Return rows of errors, trajectories and linear heads of one k and one kind of labels.

    Inputs: `detectors` of the cell. Config: that of `train.train_detectors`, `hierarchy`, `s_dag`,
    `tests`, `heads`, and `noise` for coarse labels at the primary k.
    """
    hierarchy = job.config_section("hierarchy", HierarchicalData)
    learner = job.config_section("learner", Learner)
    heads = job.config_section("heads", LinearHeadSettings)
    tests, replicas = job.config_section("tests", int), replicas_of(inputs.file("detectors"), job)
    s_dag = job.config_section("s_dag", list[float])
    all_errors = error_rows(replicas, hierarchy, learner, tests, s_dag)
    all_heads = head_rows(replicas, hierarchy, heads, tests)
    if "noise" in job.config:
        noise = job.config_section("noise", Noise)
        network, linear = noise_rows(replicas, hierarchy, noise, heads.ridge)
        all_errors, all_heads = all_errors + network, all_heads + linear
    return tuple(
        [{**job.cell, **row} for row in rows]
        for rows in (all_errors, trajectory_rows(replicas), all_heads)
    )
