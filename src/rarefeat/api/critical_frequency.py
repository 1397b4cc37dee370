"""The critical frequency of the rare feature: measured, or predicted without a training."""

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import pandas as pd

from rarefeat.api.arguments import build_study, check_int, check_number, to_list
from rarefeat.api.entry_points import entry_point
from rarefeat.api.learner_sweeps import estimate_seconds, plan_sweep
from rarefeat.api.sweeps import concat_with_axes, run_plans
from rarefeat.api.tables import read_published_table
from rarefeat.errors import RarefeatError
from rarefeat.stages import critical_frequency as model
from rarefeat.statistics import student_interval
from rarefeat.studies.learners.lockout import MEASURES, is_learned, locate_frequency
from rarefeat.workflow.config.model import Views
from rarefeat.workflow.config.names import shorten_repr
from rarefeat.workflow.project import Project

MODEL_KEYS = ("d", "d1", "L", "C", "m", "K", "tau", "lambda", "sigma_0", "bias")
"""Keys that the model reads; of the bias, its share."""


@entry_point
def critical_frequency(
    eps_min: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0),
    sigma: float = 0.05,
    seed: int | Iterable[int] = range(100, 120),
    *,
    measure: Literal["readout", "cosine"] = "readout",
    progress: bool = True,
    **keys: Any,
) -> pd.DataFrame:
    """Measure the eps_min from which half of the replicas of a learner learn the rare feature.

    The learner is trained at every frequency, and at 0, where the feature is never seen. Before it
    starts, the time that it will take is told.

    Parameters
    ----------
    eps_min : sequence of float
        The frequencies.
    sigma, seed, progress
        As in `sweep_learners`.
    measure : str
        What has learned the feature: "readout", whose R^2 of the rare features is at least half-way
        from that of the same seed's run at 0 to that of the frequent ones; or "cosine", a
        first-layer neuron with a cosine of at least 0.5.
    **keys
        As in `sweep_learners`; of a list each value has a row.

    Returns
    -------
    DataFrame
        A row as of the study `which_learners`: `n` replicas that did not diverge; the `frequency`,
        interpolated between frequencies; its 95 % interval `ci_low` to `ci_high` by bootstrap over
        seeds, each end moved out to the next frequency of the grid; `bound`, "at most" where half
        or more learn at the smallest one and "above" where fewer than half do at the largest;
        `kept`, how much of the R^2 of the untrained encoder is left at 0, with its 95 % interval;
        and `given`, what the parts were given.

    Raises
    ------
    RarefeatError
        As `sweep_learners`.

    Examples
    --------
    >>> small = {"seed": range(4), "T": 20, "N": 512, "d1": 32, "progress": False}
    >>> row = rarefeat.critical_frequency([0.5, 1.0], loss="spectral", **small).iloc[0]
    >>> bool(row["ci_low"] <= row["frequency"] <= row["ci_high"]), int(row["n"])
    (True, 4)
    """
    if measure not in MEASURES:
        raise RarefeatError(f"measure: must be readout or cosine, got {shorten_repr(measure)}")
    column = MEASURES[measure]
    grid = sorted({0.0, *(check_number("eps_min", value) for value in to_list(eps_min))})
    if grid == [0.0]:
        raise RarefeatError("eps_min: must have a frequency above 0")
    plans, names = plan_sweep(grid, check_number("sigma", sigma), seed, None, None, keys)
    seconds = estimate_seconds(plan for _, plan in plans)
    what = f"{len(plans)} learners, {len(grid)} frequencies, {len(plans[0][1].seeds)} seeds"
    print(f"critical_frequency: {what}: about {seconds / 60:.1f} minutes", file=sys.stderr)
    run_plans([plan for _, plan in plans], progress)
    rows = []
    for label, plan in plans:
        table, _ = plan.tables()
        unseen = table[table["eps_min"] == 0].set_index("seed")
        never = table["seed"].map(unseen["r2_rare"])
        table["learned"] = is_learned(table["r2_rare"], never, table["r2_frequent"])
        seen = table[table["eps_min"] > 0]
        found = locate_frequency(seen.pivot(index="seed", columns="eps_min", values=column))
        kept, _, *ends, _ = student_interval(unseen["r2_rare"] / unseen["r2_rare_untrained"])
        row = {"measure": measure, **found, "kept": kept, "kept_low": ends[0], "kept_high": ends[1]}
        rows.append((label, pd.DataFrame([row | {"given": table["given"].iloc[0]}])))
    return concat_with_axes(rows, names)


@entry_point
def predict_critical_frequency(
    kappa: float | None = None,
    gamma: float | None = None,
    sigma: float = 0.05,
    *,
    study: str = "paper",
    config: Project | None = None,
    error: float | None = None,
    outside: bool = False,
    replicas: int = 200,
    **changes: Any,
) -> model.CriticalFrequency:
    """Predict the eps_min at which half of the replicas learn the rare feature.

    No encoder is trained. The model reads sigma, C, L, d, d1, m, K, tau, lambda, sigma_0 and the
    bias's share; no other key changes the prediction. It was tested in the ranges of `law_test` in
    config/studies/selection.yaml, with one sigma and one K, and refuses to predict outside of them
    unless it is told to. It is for 500 steps: what is learned late is not in it.

    Parameters
    ----------
    kappa, gamma : float, optional
        The two constants of the model: a replica learns the feature with probability
        1 / (1 + exp(-gamma (x - log kappa))), where x is its margin. By default both are those of
        the published table `selection_law_constants`.
    sigma, study, config
        As in `train`.
    error : float, optional
        Mean absolute error of the model in regimes that it was not fitted on, for the interval. By
        default that of the published table `selection_law_errors`; 0 with constants of your own.
    outside : bool
        Predict also outside of the ranges in which the model was tested.
    replicas : int
        Initial weights that the model is averaged over.
    **changes
        As in `train`.

    Returns
    -------
    CriticalFrequency
        `eps_min`, in (0, 1), is 0 if half or more learn the feature however rare it is, and 1 if
        fewer than half do at every frequency; `low` and `high` are its 95 % interval by `error`;
        `first` and `last` are the frequencies at which a tenth and nine tenths of the initial
        weights learn it.

    Raises
    ------
    RarefeatError
        As `train`; if a constant or `replicas` is not above 0, or `error` is below 0; or outside of
        the ranges in which the model was tested, without `outside`.

    References
    ----------
    docs/method/selection.md derives the model; docs/studies/selection.md tells how far it was off.

    Examples
    --------
    >>> predict = rarefeat.predict_critical_frequency
    >>> rare, frequent = (predict(bias={"share": share}) for share in (0.2, 0.7))
    >>> 0 < rare.first < rare.eps_min < frequent.eps_min < 1
    True
    >>> predict(K=64)
    Traceback (most recent call last):
    ...
    rarefeat.errors.RarefeatError: predict_critical_frequency: K is 64, and not 128, where the
    model was not tested; say outside=True to predict there
    """
    if kappa is None and gamma is None:
        (constants,) = read_published_table("selection_law_constants").to_dict("records")
        kappa, gamma = constants["kappa"], constants["gamma"]
        errors = read_published_table("selection_law_errors").set_index("parameter")["error"]
        error = float(errors["all"]) if error is None else error
    error, replicas = 0.0 if error is None else error, check_int("replicas", replicas)
    for name, value in (("kappa", kappa), ("gamma", gamma), ("replicas", replicas)):
        if not 0 < check_number(name, value) < math.inf:
            raise RarefeatError(f"{name}: must be above 0, got {shorten_repr(value)}")
    if not 0 <= check_number("error", error) < math.inf:
        raise RarefeatError(f"error: must be at least 0, got {shorten_repr(error)}")
    if ignored := [key for key in changes if key.rstrip("_") not in MODEL_KEYS]:
        raise RarefeatError(
            f"{ignored[0]}: has no effect on the prediction; allowed are {', '.join(MODEL_KEYS)}"
        )
    point = {"eps_min": [1.0], "sigma": [sigma]}
    chosen = build_study(config, study, point, ["dense"], [0], changes)
    is_known = chosen.data.views == Views() and chosen.data.minority == [1.0]
    if not is_known or chosen.training.bias.rule != "follow":
        raise RarefeatError(
            f"study: {study!r} is none that the model is for; it must have the default"
            " data.views, training.bias.rule: follow and data.minority: [1]"
        )
    (sigma,) = chosen.grid["point"].sigma
    trained = model.TrainingPoint(chosen.data, chosen.training, sigma, 1.0)
    if not outside and (reason := model.explain_out_of_range(trained)):
        raise RarefeatError(
            f"{reason}, where the model was not tested; say outside=True to predict there"
        )
    fit = model.LogisticFit(math.log(cast(float, kappa)), float(cast(float, gamma)))
    return model.estimate_critical_frequency(trained, fit, float(error), replicas)
