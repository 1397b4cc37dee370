"""The section `imbalance` of the config."""

from pydantic import Field

from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Section
from rarefeat.workflow.config.study import Study


class Imbalance(Section):
    """The synthetic experiments of imbalance_and_pruning and liao_imbalanced_features."""

    studies: dict[Name, Study] = Field(
        min_length=1, description="each a chain of its own over its grid, by name"
    )
