"""Where one learns the rare feature, predicted without a training."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from rarefeat.api.arguments import build_study, check_int, check_number
from rarefeat.chain import critical_frequency
from rarefeat.config.model import Bias, Views
from rarefeat.config.names import shorten_repr, suggest
from rarefeat.core.errors import RarefeatError
from rarefeat.project import Project

BIAS = tuple(name for name in Bias.model_fields if name != "share")
OWN_T = 500
LAW = ("d", "d1", "L", "C", "m", "K", "tau", "lambda", "sigma_0", "bias")
"""Keys that the law of `predict_critical_frequency` reads; of the bias, its share."""


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
    """Predict the eps_min at which half of the replicas learn the rare feature, without training any.

    The law knows sigma, C, L, d, d1, m, K, tau, lambda, sigma_0 and the bias's share; other keys do not move it. It was tested
    in the ranges of `law_test` in config/studies/selection.yaml, outside of which a warning says so. It is for 500 steps; what
    is learned late moves the step down, and with `T` and `late` the law says how far, for N training pairs
    (docs/studies/fate.md).

    Parameters
    ----------
    kappa, gamma : float
        The two constants of the law: a replica learns the feature with probability 1 / (1 + exp(-gamma (x - log kappa))), x
        being its margin. Those that were fitted stand in docs/studies/selection.md, and as exp(centre) and steepness in the
        table `selection_law`.
    sigma : float
        Standard deviation of the noise of a token.
    study : str
        The study whose values hold where nothing else is said.
    T : float, optional
        Steps by which the feature is to be learned, at least 500 of them, of the eta of the study; `math.inf` for the limit.
    late : sequence of float
        With T, the four constants of late learning: drop, by_decay, by_pairs and rate of the table `fate_late`.
    config : Project, optional
        What `load_config` returns; `config/config.yaml` if not given.
    replicas : int
        Initial weights that the law is averaged over.
    **changes
        As in `train`.

    Returns
    -------
    float
        In (0, 1); 0 where half or more learn the feature however rare it is, and 1 where fewer than half do at every eps_min.

    Raises
    ------
    RarefeatError
        As `train`; where a constant or `replicas` is not above 0; or where one of `T` and `late` is there without the other.

    References
    ----------
    docs/method/selection.md derives the law, and docs/studies/selection.md says how far it was off.

    Examples
    --------
    >>> rare, frequent = (rarefeat.predict_step(0.8, 10, bias={"share": share}) for share in (0.2, 0.7))
    >>> 0 < rare < frequent < 1
    True
    >>> rarefeat.predict_step(0, 10)
    Traceback (most recent call last):
    ...
    rarefeat.core.errors.RarefeatError: predict_step: kappa: must be a number above 0, got 0
    """
    of = "predict_step"
    for name, value in (("kappa", kappa), ("gamma", gamma), ("replicas", replicas)):
        if not 0 < check_number(of, name, value) < math.inf:
            raise RarefeatError(
                f"{of}: {name}: must be a number above 0, got {shorten_repr(value)}"
            )
    replicas = check_int(of, "replicas", replicas)
    if T is not None or len(late):
        if T is None or len(late) != len(critical_frequency.LateLearningFit._fields):
            raise RarefeatError(
                f"{of}: T goes with late, its four constants {', '.join(critical_frequency.LateLearningFit._fields)}"
            )
        if not check_number(of, "T", T) >= OWN_T:
            raise RarefeatError(
                f"{of}: T: must be at least {OWN_T}, the steps that the law itself is for, got {shorten_repr(T)}"
            )
        late = [check_number(of, "late", value) for value in late]
    bias = changes.get("bias")
    if ignored := [
        *(
            key
            for key in changes
            if key not in (*LAW, "lambda_", *(("N",) if T is not None else ()))
        ),
        *(f"bias.{key}" for key in (bias if isinstance(bias, Mapping) else ()) if key in BIAS),
    ]:
        meant = suggest(ignored[0], LAW)
        raise RarefeatError(
            f"{of}: {ignored[0]}: the law does not know it{meant}; known are {', '.join(LAW)}"
        )
    chosen = build_study(
        config, study, {"eps_min": [1.0], "sigma": [sigma]}, ["dense"], [0], changes, of
    )
    if (
        chosen.data.views != Views()
        or chosen.training.bias.rule != "follow"
        or chosen.data.minority != [1.0]
    ):
        raise RarefeatError(
            f"{of}: study {study}: the law is for data.views as they are by default, training.bias.rule: follow and"
            " data.minority: [1]"
        )
    at = critical_frequency.TrainingPoint(
        chosen.data, chosen.training, chosen.grid["point"].sigma[0], 1.0
    )
    if outside := critical_frequency.explain_out_of_range(at, T):
        warnings.warn(f"{of}: {outside}; the law was not tested there", stacklevel=2)
    constants = critical_frequency.LogisticFit(math.log(kappa), float(gamma))
    if T is not None:
        constants = critical_frequency.fit_at_step(
            at, T, constants, critical_frequency.LateLearningFit(*late)
        )
    return critical_frequency.critical_frequency(at, constants, replicas=replicas)
