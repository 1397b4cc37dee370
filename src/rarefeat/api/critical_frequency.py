"""The critical frequency of the rare feature, predicted without a training."""

import math
from collections.abc import Mapping
from typing import Any, cast

from rarefeat.api.arguments import (
    argument_names,
    build_study,
    check_finite,
    check_int,
)
from rarefeat.api.entry_points import entry_point
from rarefeat.api.tables import read_published_table
from rarefeat.errors import RarefeatError
from rarefeat.stages import critical_frequency as model
from rarefeat.workflow.config.model import Bias, Views
from rarefeat.workflow.config.names import shorten_repr, suggest
from rarefeat.workflow.project import Project

CALLER = "predict_critical_frequency"
IGNORED_BIAS_KEYS = tuple(name for name in Bias.model_fields if name != "share")
MODEL_KEYS = ("d", "d1", "L", "C", "m", "K", "tau", "lambda", "sigma_0", "bias")
"""Keys that the model reads; of the bias, its share."""


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
    error = 0.0 if error is None else error
    for name, value in (("kappa", kappa), ("gamma", gamma), ("replicas", replicas)):
        if check_finite(CALLER, name, value) <= 0:
            raise RarefeatError(f"{CALLER}: {name}: must be above 0, got {shorten_repr(value)}")
    replicas = check_int(CALLER, "replicas", replicas)
    if not check_finite(CALLER, "error", error) >= 0:
        raise RarefeatError(f"{CALLER}: error: must be at least 0, got {shorten_repr(error)}")
    check_effect(changes)
    chosen = build_study(
        CALLER, config, study, {"eps_min": [1.0], "sigma": [sigma]}, ["dense"], [0], changes
    )
    is_known = chosen.data.views == Views() and chosen.data.minority == [1.0]
    if not is_known or chosen.training.bias.rule != "follow":
        raise RarefeatError(
            f"{CALLER}: study: {study!r} is none that the model is for; it must have the default"
            " data.views, training.bias.rule: follow and data.minority: [1]"
        )
    (sigma,) = chosen.grid["point"].sigma
    point = model.TrainingPoint(chosen.data, chosen.training, sigma, 1.0)
    if not outside and (reason := model.explain_out_of_range(point)):
        raise RarefeatError(
            f"{CALLER}: {reason}, where the model was not tested; say outside=True to predict there"
        )
    fit = model.LogisticFit(math.log(cast(float, kappa)), float(cast(float, gamma)))
    return model.estimate_critical_frequency(point, fit, error, replicas)


def check_effect(changes: Mapping[str, Any]) -> None:
    """Raise RarefeatError for a change that has no effect on the prediction."""
    allowed = (*MODEL_KEYS, "lambda_")
    bias = changes.get("bias")
    bias_keys = bias if isinstance(bias, Mapping) else ()
    ignored = [key for key in changes if key not in allowed]
    ignored += [f"bias.{key}" for key in bias_keys if key in IGNORED_BIAS_KEYS]
    if ignored:
        names = (*argument_names(predict_critical_frequency), *MODEL_KEYS)
        raise RarefeatError(
            f"{CALLER}: {ignored[0]}: has no effect on the prediction{suggest(ignored[0], names)};"
            f" allowed are {', '.join(MODEL_KEYS)}"
        )
