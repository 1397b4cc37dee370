"""Sections of the config of the sweeps over label granularity on images (Section 6.2, A.1.1).

Sections, tables and figures are those of hong_fine_grained_labels.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.images import Augmentation, ImageData, ImageTraining, Network
from rarefeat.workflow.config.names import Name, check_name
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import Replicas

Count = Annotated[int, Field(ge=1)]


class LabelScheme(Section):
    """Labels of the training images in pretraining (Figure 5, Table 1)."""

    kind: Literal["coarse", "manual", "random", "clusters", "rebalanced", "whole", "sample"] = (
        Field(
            description="coarse: the superclasses, the baseline; manual: a level of the hierarchy;"
            " random: random classes within a superclass; clusters: k-means clusters within each;"
            " rebalanced: as many of them that none is small; whole: clusters of all images;"
            " sample: every image its own class"
        )
    )
    level: str = Field(
        default="", description="for manual, the level; empty for the labels of the data set"
    )
    ids: int = Field(
        default=0,
        ge=0,
        description="classes of a superclass; for whole, all classes; for rebalanced, images of the"
        " smallest cluster",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.ids > 0) != (self.kind in ("random", "clusters", "rebalanced", "whole")):
            raise ValueError(
                "ids is required for random, clusters, rebalanced and whole, and for them alone"
            )
        if self.level and self.kind != "manual":
            raise ValueError("level is for manual")
        if self.level:
            check_name(self.level)
        return self

    @classmethod
    def named(cls, label: str) -> Self:
        """Return the labels of a name in files and tables."""
        kind, _, rest = label.partition("-")
        return cls(kind=kind, **({"level": rest} if kind == "manual" else {"ids": int(rest or 0)}))

    @property
    def label(self) -> str:
        """Name in files and tables."""
        return "-".join(filter(None, [self.kind, self.level, str(self.ids or "")]))

    @property
    def clustered(self) -> bool:
        """Return whether the classes are clusters of features."""
        return self.kind in ("clusters", "rebalanced", "whole")


class SGDSettings(Section):
    """Settings of SGD; the rate warms up linearly and falls along a cosine to 0."""

    epochs: int = Field(ge=1, description="passes over the training images")
    warmup: float = Field(ge=0, lt=1, description="fraction of the steps in which the rate rises")
    batch: int = Field(ge=2, description="images of a batch")
    lr: float = Field(gt=0, description="largest learning rate")
    momentum: float = Field(ge=0, lt=1, description="momentum")
    weight_decay: float = Field(ge=0, description="weight decay")


class TransferSettings(Section):
    """Settings of pretraining with some labels, and of fine-tuning on the superclasses."""

    pretraining: SGDSettings = Field(description="training with the labels of the scheme")
    finetuning: SGDSettings = Field(
        description="training of all weights, with a new head for the superclasses"
    )
    checkpoints: Distinct[Count] = Field(
        min_length=1,
        description="epochs of pretraining after which the network is fine-tuned and probed; the"
        " last one must be among them",
    )
    shift: int = Field(ge=0, description="largest shift of a training image (pixels), either way")
    l2: float = Field(
        gt=0,
        description="penalty per image of the linear probe, a logistic regression on standardised"
        " features",
    )

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if max(self.checkpoints) != self.pretraining.epochs:
            raise ValueError(
                f"checkpoints must end with pretraining.epochs = {self.pretraining.epochs},"
                f" got {self.checkpoints}"
            )
        return self


class Perceptrons(TransferSettings):
    """Settings of a perceptron with two hidden layers on 8 x 8 pixels."""

    train: int = Field(
        ge=100, le=1700, description="training images of the 1,797; the others are for validation"
    )
    hidden: int = Field(ge=1, description="neurons of either hidden layer")
    features: SGDSettings = Field(
        description="training of a network that predicts hidden pixels; its last hidden layer is"
        " clustered"
    )

    @model_validator(mode="after")
    def _batches(self) -> Self:
        for name in ("pretraining", "finetuning", "features"):
            if (batch := getattr(self, name).batch) > self.train:
                raise ValueError(f"{name}.batch must be at most train = {self.train}, got {batch}")
        return self


class ResNetSettings(TransferSettings):
    """Settings of a residual network on photographs."""

    network: Network = Field(description="network; its `head` is for self-supervised features only")
    flip: float = Field(ge=0, le=1, description="probability of a flip of a training image")
    precision: Literal["float32", "bfloat16"] = Field(
        description="of convolutions and products; weights are float32"
    )
    checkpoint_minutes: float = Field(gt=0, description="minutes between two checkpoints")
    device: Literal["cpu", "cuda"] = Field(description="cuda asks the scheduler for a GPU")
    threads: int = Field(ge=1, description="CPU threads of a job")


class SelfSupervised(Section):
    """Settings of the network whose features are clustered: SimCLR, one for all replicas."""

    augmentation: Augmentation
    training: ImageTraining


class Granularity(Replicas):
    """A sweep over label granularity (Figure 5, Tables 1 and 2)."""

    levels: dict[Name, list[Annotated[int, Field(ge=0)]]] | str = Field(
        description="the hierarchy: at each level the class of every label; or a CSV file in"
        " data.folder whose header names the levels, with a line for each label"
    )
    superclass: Distinct[Name] = Field(
        min_length=1, description="levels that are the coarse task, one after the other"
    )
    labels: Distinct[LabelScheme] = Field(
        min_length=1, description="labels in pretraining; `coarse` must be among them"
    )
    candidates: Distinct[Count] = Field(
        default=[2],
        min_length=1,
        description="numbers of clusters of a superclass from which `rebalanced` chooses",
    )

    @model_validator(mode="after")
    def _hierarchy(self) -> Self:
        if "coarse" not in [scheme.label for scheme in self.labels]:
            raise ValueError("labels must contain {kind: coarse}, the baseline")
        if isinstance(self.levels, str):
            return self
        wanted = {*self.superclass, *(scheme.level for scheme in self.labels if scheme.level)}
        if missing := wanted - set(self.levels):
            raise ValueError(
                f"levels: unknown level {min(missing)}; allowed: {', '.join(self.levels)}"
            )
        if len({len(classes) for classes in self.levels.values()}) > 1:
            raise ValueError("levels must all have the same number of labels")
        for name in self.superclass:
            if len(set(self.levels[name])) < 2:
                raise ValueError(f"levels.{name}: must have at least two superclasses")
        return self

    def cells(self) -> list[Cell]:
        """Return a cell for every coarse task and kind of labels."""
        return [
            cell(superclass=level, labels=scheme.label)
            for level in self.superclass
            for scheme in self.labels
        ]

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings of a cell alone: the candidates of rebalanced clusters."""
        kind = LabelScheme.named(cell["labels"]).kind
        return {"candidates": self.candidates if kind == "rebalanced" else []}


class Digits(Granularity):
    """A sweep on scikit-learn's digits; the split differs between replicas."""

    training: Perceptrons

    @model_validator(mode="after")
    def _ten(self) -> Self:
        if isinstance(self.levels, str) or len(next(iter(self.levels.values()), [])) != 10:
            raise ValueError("levels must give the class of each of the ten digits")
        return self


class Photographs(Granularity):
    """A sweep on a data set of images; its test images are for validation."""

    data: ImageData
    training: ResNetSettings
    features: SelfSupervised | None = Field(
        default=None, description="training of the features that are clustered"
    )

    @model_validator(mode="after")
    def _clustered(self) -> Self:
        if self.features is None and any(scheme.clustered for scheme in self.labels):
            raise ValueError("features are required where labels are clusters")
        return self

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings of a cell alone: the training of features where it clusters them."""
        if not cell.axes:  # of a file that all cells share
            return {}
        clustered = LabelScheme.named(cell["labels"]).clustered
        return super().settings(cell) | {"features": self.features if clustered else None}
