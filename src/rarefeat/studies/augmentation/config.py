"""The section `augmentation` of the config."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from rarefeat.workflow.config.images import Augmentation as ImageAugmentation
from rarefeat.workflow.config.images import ImageStudy
from rarefeat.workflow.config.names import Name, merge_unique, suggest
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.study import Study, merge_configs, share_defaults


class Supervised(Section):
    """Training of the encoder that learns <w*, z> from labels, for comparison."""

    study: str = Field(description="the study whose samples it sees")
    steps: int = Field(ge=1, description="steps of Adam, each on fresh samples")
    batch: int = Field(ge=1, description="samples a step")
    lr: float = Field(gt=0, description="learning rate")


class ImageViews(Section):
    """An image study, dense on balanced images, under several kinds of augmentation with shared
    draws.
    """

    study: ImageStudy = Field(description="the image study, apart from its augmentation")
    kinds: dict[Name, ImageAugmentation] = Field(
        min_length=1, description="its augmentation, by name; null leaves one out"
    )
    embedded: int = Field(
        gt=30, description="test images that t-SNE places at most, with thirty neighbours of each"
    )

    def studies(self) -> dict[str, ImageStudy]:
        """Return the study under each kind of augmentation, by name."""
        return {
            f"views_{kind}": self.study.model_copy(update={"augmentation": views})
            for kind, views in self.kinds.items()
        }


class Augmentation(Section):
    """The studies of the two views of a pair (Wen & Li 2021), by name."""

    studies: dict[Name, Study] = Field(
        min_length=1, description="one token, simulator direct, with training.history"
    )
    labels: Distinct[Annotated[int, Field(ge=2)]] = Field(
        min_length=1, description="numbers of labels of the linear heads"
    )
    tests: int = Field(ge=2, description="test samples of each replica")
    gradients: int = Field(
        ge=2, description="pairs that the pull of the loss on W(0) is averaged over"
    )
    supervised: Supervised
    images: ImageViews

    @model_validator(mode="after")
    def _measurable(self) -> "Augmentation":
        if self.supervised.study not in self.studies:
            raise ValueError(
                f"supervised.study: {self.supervised.study!r} is none of"
                f" studies{suggest(self.supervised.study, self.studies)}: {', '.join(self.studies)}"
            )
        for name, study in self.studies.items():
            if study.simulator != "direct" or study.data.L != 1 or not study.training.history:
                raise ValueError(
                    f"studies.{name} must have simulator: direct, data.L: 1 and training.history:"
                    " true"
                )
        return self

    @property
    def supervised_study(self) -> Study:
        """The study whose samples the supervised encoders see."""
        return self.studies[self.supervised.study]

    def like_supervised(self, name: str) -> bool:
        """Return whether a study can be compared with them: same dictionary, samples and seeds."""
        study, other = self.studies[name], self.supervised_study
        same = ("d", "d1", "C", "minority")
        return (
            (study.draws, study.blocks(), study.cells()[0].axes)
            == (other.draws, other.blocks(), other.cells()[0].axes)
            and all(getattr(study.data, key) == getattr(other.data, key) for key in same)
            and study.data.views.colour == other.data.views.colour
        )

    def every_study(self) -> dict[str, Any]:
        """Return the studies of the encoder, and those of images."""
        return merge_unique("studies", self.studies, self.images.studies())


DENSE_ON_BALANCED = {
    "draws": "views", "arms": [{"arm": "dense"}], "balanced_arms": [], "rho": [1.0],
}  # fmt: skip


def inherit(raw: Any, shared: dict) -> Any:
    """Return the section with the values that studies of the encoder, and of images, share."""
    raw = share_defaults(raw, shared)
    if not isinstance(raw, dict) or not isinstance(raw.get("images"), dict):
        return raw
    views = raw["images"]
    kinds, study = views.get("kinds") or {}, views.get("study") or {}
    if not isinstance(study, dict):
        return raw
    of_all = merge_configs(shared.get("images") or {}, DENSE_ON_BALANCED)
    if isinstance(kinds, dict):
        # Null leaves a kind out, as it does a study.
        kinds = {name: kind for name, kind in kinds.items() if kind is not None}
        views = views | {"kinds": kinds}
        if kinds:
            study = study | {"augmentation": next(iter(kinds.values()))}
    return raw | {"images": views | {"study": merge_configs(of_all, study)}}
