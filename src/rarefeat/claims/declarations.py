"""The claims of a kind of study as they are declared: `claims.yaml` of its folder, or `claims` of a single file's YAML."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from pathlib import Path

from pydantic import ValidationError

from rarefeat.claims.claim import Claim, Regime, Value
from rarefeat.config.section import Section, format_validation_error
from rarefeat.config.yaml_reader import read_yaml
from rarefeat.core.errors import RarefeatError

STUDIES = Path(__file__).parents[1] / "studies"


class ClaimFile(Section):
    """What stands in the file: a paper, and by part of its theory the claims by their id."""

    paper: str
    axes: dict[str, str]
    """How tables write each axis: `eps_min {}`."""
    groups: dict[str, dict[str, dict]]


@dataclass(frozen=True)
class ClaimSet:
    """The claims of a kind of study, by id."""

    file: str
    """Below the package's root."""
    paper: str
    """That of a claim which names none; claims of one paper are tested together."""
    axes: Mapping[str, str]
    claims: Mapping[str, Claim]
    digest: str
    """Of the file."""

    @property
    def groups(self) -> list[str]:
        """The parts of the theory, each with a figure and a page."""
        return list(dict.fromkeys(claim.group for claim in self.claims.values()))

    def format_place(self, axes: Mapping[str, Value]) -> str:
        """A place on some axes, for people."""
        return ", ".join(format_axis_value(self.axes[axis], at) for axis, at in axes.items())

    def format_regime(self, regime: Regime) -> str:
        """A regime, for people."""
        return f"{regime.study}: {self.format_place(regime.axes)}" if regime.axes else regime.study

    def error(self, claim: str, said: str) -> RarefeatError:
        """What is wrong with a claim, in one line."""
        return RarefeatError(f"{self.file}: claim {claim}: {said}")


def format_axis_value(text: str, at: Value) -> str:
    """A place on one axis in the text of the axis: the ends of a range in a gap each, or both in the only one."""
    ends = at if isinstance(at, tuple) else (at,)
    said = [str(end) if isinstance(end, str | Integral) else f"{end:g}" for end in ends]
    return text.format(*said) if text.count("{}") == len(said) else text.format(" to ".join(said))


@cache
def load_claims(kind: str, folder: Path = STUDIES) -> ClaimSet:
    """The claims of a kind of study; RarefeatError with one line that names the file, the claim and the key."""
    alone = folder / f"{kind}.yaml"
    path = alone if alone.is_file() else folder / kind / "claims.yaml"
    where = "/".join(path.parts[-2 if path == alone else -3 :])
    raw = read_yaml(path, "claims")
    raw = (raw.get("claims") or {}) if path == alone else raw
    for group, members in (
        (raw.get("groups") or {}).items() if isinstance(raw.get("groups"), dict) else ()
    ):
        for name in members if isinstance(members, dict) else ():
            if not isinstance(name, str):
                raise RarefeatError(f"{where}: claim {name}: an id is a text; write it in quotes")
        if not members:
            raise RarefeatError(f"{where}: groups.{group}: it has no claim")
    try:
        file = ClaimFile.model_validate(raw)
    except ValidationError as error:
        raise RarefeatError(f"{where}: {format_validation_error(error)}") from error
    claims: dict[str, Claim] = {}
    said = json.dumps(raw).encode() if path == alone else path.read_bytes()
    found = ClaimSet(where, file.paper, file.axes, claims, hashlib.sha256(said).hexdigest()[:16])
    for group, members in file.groups.items():
        for name, keys in members.items():
            if name in claims:
                raise found.error(
                    name, f"it stands in two groups, {claims[name].group} and {group}"
                )
            if given := {"id", "group"} & set(keys):
                raise found.error(
                    name, f"{min(given)}: no such key: it is that which the claim stands under"
                )
            try:
                claims[name] = Claim.model_validate(
                    {"paper": file.paper, **keys, "id": name, "group": group}
                )
            except ValidationError as error:
                raise found.error(name, format_validation_error(error)) from error
            if unknown := set(claims[name].primary.axes) - set(file.axes):
                raise found.error(
                    name, f"primary: {min(unknown)}: no such axis; known are {', '.join(file.axes)}"
                )
    return found


def page_of(group: str) -> str:
    """The name of a part's figure and page."""
    return f"claims_{group.replace(' ', '_')}"
