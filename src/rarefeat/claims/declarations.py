"""Declared claims of a kind of study.

They are in `claims.yaml` of its folder, or under `claims` of the YAML file of a kind that is a
single file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from rarefeat.claims.claim import Claim, Regime, Value
from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.section import Section, format_validation_error
from rarefeat.workflow.config.yaml_reader import read_yaml
from rarefeat.workflow.run.code_hashes import hash_texts
from rarefeat.workflow.study_kind import STUDIES


class ClaimFile(Section):
    """The content of the file: a paper, and its claims by group and id."""

    paper: str
    axes: dict[str, str]
    """Text of each axis in tables, as `eps_min {}`."""
    groups: dict[str, Annotated[dict[str, dict], Field(min_length=1)]]
    """Claims by part of the theory and by id."""


@dataclass(frozen=True)
class ClaimSet:
    """The claims of a kind of study."""

    file: str
    """Path below the package's root."""
    paper: str
    """Paper of claims that name none; claims of one paper are tested together."""
    axes: Mapping[str, str]
    """Text of each axis in tables."""
    claims: Mapping[str, Claim]
    """Claims by id."""
    digest: str
    """Hash of what the file says."""

    def format_place(self, axes: Mapping[str, Value]) -> str:
        """Format positions on some axes."""
        return ", ".join(
            format_axis_value(self.axes[axis], position) for axis, position in axes.items()
        )

    def format_regime(self, regime: Regime) -> str:
        """Format a regime: its study, and its positions on axes."""
        return f"{regime.study}: {self.format_place(regime.axes)}" if regime.axes else regime.study

    def error(self, claim: str, message: str) -> RarefeatError:
        """Return the error for a claim, which names file and claim."""
        return RarefeatError(f"{self.file}: claim {claim}: {message}")


def format_axis_value(text: str, position: Value) -> str:
    """Format a position on one axis."""
    ends = position if isinstance(position, tuple) else (position,)
    texts = [str(end) if isinstance(end, str | Integral) else f"{end:g}" for end in ends]
    return (
        text.format(*texts) if text.count("{}") == len(texts) else text.format(" to ".join(texts))
    )


@cache
def load_claims(kind: str, folder: Path = STUDIES) -> ClaimSet:
    """Load the declared claims of a kind of study."""
    single_file = folder / f"{kind}.yaml"
    path = single_file if single_file.is_file() else folder / kind / "claims.yaml"
    where = "/".join(path.parts[-2 if path == single_file else -3 :])
    raw = read_yaml(path, "claims")
    raw = (raw.get("claims") or {}) if path == single_file else raw
    try:
        file = ClaimFile.model_validate(raw)
    except ValidationError as error:
        raise RarefeatError(f"{where}: {format_validation_error(error)}") from error
    claims: dict[str, Claim] = {}
    digest = hash_texts(json.dumps(raw).encode())[:16]
    claim_set = ClaimSet(where, file.paper, file.axes, claims, digest)
    for group, members in file.groups.items():
        for name, keys in members.items():
            if name in claims:
                raise claim_set.error(
                    name, f"it stands in two groups, {claims[name].group} and {group}"
                )
            try:
                claims[name] = Claim.model_validate(
                    {"paper": file.paper, **keys, "id": name, "group": group}
                )
            except ValidationError as error:
                raise claim_set.error(name, format_validation_error(error)) from error
            if unknown := set(claims[name].primary.axes) - set(file.axes):
                raise claim_set.error(
                    name, f"primary: {min(unknown)}: unknown axis; allowed: {', '.join(file.axes)}"
                )
    return claim_set
