"""The critical frequency of the rare feature, predicted without a training."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from rarefeat.api.arguments import (
    argument_names,
    build_study,
    check_finite,
    check_int,
    check_number,
    to_list,
)
from rarefeat.api.entry_points import entry_point
from rarefeat.chain import critical_frequency as model
from rarefeat.config.model import Bias, Views
from rarefeat.config.names import shorten_repr, suggest
from rarefeat.core.errors import RarefeatError
from rarefeat.project import Project

CALLER = "predict_critical_frequency"
IGNORED_BIAS_KEYS = tuple(name for name in Bias.model_fields if name != "share")
MODEL_STEPS = 500
"""Training steps that the model was fitted for."""
MODEL_KEYS = ("d", "d1", "L", "C", "m", "K", "tau", "lambda", "sigma_0", "bias")
"""Keys that the model reads; of the bias, its share."""


@entry_point
def predict_critical_frequency(
    kappa: float,
    gamma: float,
    sigma: float = 0.05,
    *,
    study: str = "paper",
    config: Project | None = None,
    T: float | None = None,
    late: Sequence[float] = (),
    replicas: int = 200,
    **changes: Any,
) -> float:
    """Predict the eps_min at which half of the replicas learn the rare feature.

    No encoder is trained. The model reads sigma, C, L, d, d1, m, K, tau, lambda, sigma_0 and the
    bias's share; no other key changes the prediction. It was tested in the ranges of `law_test` in
    config/studies/selection.yaml, outside of which a warning says so. It is for 500 steps. What is
    learned late lowers the critical frequency: with `T` and `late` the model says how far, for N
    training pairs (docs/studies/fate.md).

    Parameters
    ----------
    kappa, gamma : float
        The two constants of the model: a replica learns the feature with probability
        1 / (1 + exp(-gamma (x - log kappa))), where x is its margin. Fitted values are in
        docs/studies/selection.md, and as exp(centre) and steepness in the table `selection_law`.
    sigma : float
        Standard deviation of the noise of a token.
    study : str
        The study whose values hold where none are given here.
    config : Project, optional
        What `load_config` returns; `config/config.yaml` by default.
    T : float, optional
        Steps by which the feature is to be learned, at least 500, at the eta of the study;
        `math.inf` for the limit.
    late : sequence of float
        With T, the four constants of late learning: drop, by_decay, by_pairs and rate of the table
        `fate_late`.
    replicas : int
        Initial weights that the model is averaged over.
    **changes
        As in `train`.

    Returns
    -------
    float
        In (0, 1); 0 if half or more learn the feature however rare it is, and 1 if fewer than half
        do at every eps_min.

    Raises
    ------
    RarefeatError
        As `train`; if a constant or `replicas` is not above 0; or for one of `T` and `late` without
        the other.

    Warns
    -----
    UserWarning
        Outside of the ranges in which the model was tested.

    References
    ----------
    docs/method/selection.md derives the model; docs/studies/selection.md tells how far it was off.

    Examples
    --------
    >>> predict = rarefeat.predict_critical_frequency
    >>> rare, frequent = (predict(0.8, 10, bias={"share": share}) for share in (0.2, 0.7))
    >>> 0 < rare < frequent < 1
    True
    >>> predict(0, 10)
    Traceback (most recent call last):
    ...
    rarefeat.core.errors.RarefeatError: predict_critical_frequency: kappa: must be above 0, got 0
    """
    for name, value in (("kappa", kappa), ("gamma", gamma), ("replicas", replicas)):
        if check_finite(CALLER, name, value) <= 0:
            raise RarefeatError(f"{CALLER}: {name}: must be above 0, got {shorten_repr(value)}")
    replicas = check_int(CALLER, "replicas", replicas)
    late_fit = check_late(T, late)
    check_effect(changes, T)
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
    if outside := model.explain_out_of_range(point, T):
        warnings.warn(f"{CALLER}: {outside}; the model was not tested there", stacklevel=3)
    fit = model.LogisticFit(math.log(kappa), float(gamma))
    if T is not None and late_fit:
        fit = model.fit_at_step(point, T, fit, late_fit)
    return model.critical_frequency(point, fit, replicas=replicas)


def check_late(T: float | None, late: Sequence[float]) -> model.LateLearningFit | None:
    """Return the constants of late learning; None without T."""
    names = model.LateLearningFit._fields
    constants = [check_finite(CALLER, "late", value) for value in to_list(late)]
    if T is None and not constants:
        return None
    if T is None or len(constants) != len(names):
        raise RarefeatError(f"{CALLER}: T: goes with late, its four constants {', '.join(names)}")
    if not check_number(CALLER, "T", T) >= MODEL_STEPS:
        raise RarefeatError(
            f"{CALLER}: T: must be at least {MODEL_STEPS}, the steps that the model is for,"
            f" got {shorten_repr(T)}"
        )
    return model.LateLearningFit(*constants)


def check_effect(changes: Mapping[str, Any], T: float | None) -> None:
    """Raise RarefeatError for a change that has no effect on the prediction."""
    allowed = (*MODEL_KEYS, "lambda_", *(("N",) if T is not None else ()))
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
