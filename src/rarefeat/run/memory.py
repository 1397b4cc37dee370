"""What a study needs in memory at the least, so that what cannot fit is refused before the first job."""

import os
from collections.abc import Mapping
from typing import Any

from rarefeat.config.study import Study
from rarefeat.core.errors import RarefeatError

SINGLE, DOUBLE = 4, 8
"""Bytes of a number."""


def needs(study: Study) -> dict[str, int]:
    """Bytes that one job holds at once at the least, by the key that they grow with.

    Latents are held for a block of seeds; weights, tokens and the reduced simulator's Gram matrices for one replica at a time.
    """
    data, training = study.data, study.training
    replicas = max(map(len, study.blocks().values()))
    arms = max((len(cell.trained) for cell in study.cells()), default=0)
    pair = 2 * data.L * data.d
    direct = study.simulator == "direct"
    width = data.d1 if direct else min(data.d1, data.d + training.m)
    found = {
        "data.N": replicas * data.N * pair,
        "data.probe_pairs": 2 * replicas * data.probe_pairs * pair,
        "data.test_pairs": 2 * data.test_pairs * pair,
    }
    tokens = 2 * training.K * data.L * width * SINGLE
    weights = max(1, arms) * training.m * width * SINGLE
    if direct:
        return found | {"training.m": weights, "data.d1": tokens + data.d * data.d1 * SINGLE, "training.K": tokens}
    return found | {"training.m": weights + tokens + 2 * training.m**2 * DOUBLE, "training.K": tokens}


def refuse_too_large(studies: Mapping[str, Any], have: float | None = None) -> None:
    """RarefeatError for a study of the encoder that cannot fit, with the largest of its needs.

    Args:
        have: bytes of memory; this machine's if not given.
    """
    have = have or of_this_machine()
    for name, study in studies.items():
        if isinstance(study, Study):
            key, needed = max(needs(study).items(), key=lambda item: item[1])
            if needed > have:
                part, _, last = key.partition(".")
                raise RarefeatError(
                    f"study {name}: {key} = {getattr(getattr(study, part), last)} needs {needed / 1e9:,.1f} GB of memory at"
                    f" the least under the simulator {study.simulator} with d1 = {study.data.d1}, and there are"
                    f" {have / 1e9:,.1f} GB here"
                )


def of_this_machine() -> int:
    """Bytes of memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
