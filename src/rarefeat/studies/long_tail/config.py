"""The section `long_tail` of the config."""

from typing import Any

from pydantic import Field

from rarefeat.workflow.config.images import ImageStudy
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Section
from rarefeat.workflow.config.study import inherit_defaults


class LongTail(Section):
    """Table 2: contrastive pretraining on long-tailed images, without and with pruning."""

    studies: dict[Name, ImageStudy] = Field(min_length=1, description="each one data set, by name")


def inherit(raw: Any, shared: dict) -> Any:
    """Return the section whose studies have what image studies share."""
    if not isinstance(raw, dict) or not isinstance(raw.get("studies"), dict):
        return raw
    return raw | {"studies": inherit_defaults(shared.get("images") or {}, raw["studies"])}
