"""Section `fine_labels` of the config: hierarchical data, networks and images."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.images import (
    Augmentation,
    ImageData,
    ImageTraining,
    Network,
)
from rarefeat.workflow.config.names import Name, check_name, merge_unique
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import SeedsPerBlock, seed_blocks

SCALAR, DIRECT, CROSSING, DIGITS = (
    f"fine_labels_{name}" for name in ("scalar", "direct", "crossing", "digits")
)
"""Names of the studies: networks of the scalar simulator, networks of both simulators,
contrastive encoders, and the digits."""
RIDGE = 0.1
"""Penalty of the linear heads by which other labels are compared."""


class EasyData(Section):
    """Easy samples: two superclasses of k subclasses each, P patches in R^d
    (hong_fine_grained_labels, Definition 4.1 and Appendix B.1).
    """

    d: int = Field(
        ge=6, description="dimension d of a patch, and size of the orthonormal dictionary"
    )
    k: int = Field(ge=1, description="subclasses k_+ = k_- of a superclass")
    P: int = Field(ge=2, description="patches P of a sample")
    s_star: float = Field(
        gt=0,
        description="expected number s* of patches with the common feature, and of patches with"
        " the subclass feature",
    )
    iota: float = Field(
        ge=0, lt=0.5, description="alpha^2 of a feature patch is uniform in [1 - iota, 1 + iota]"
    )
    sigma_zeta: float = Field(
        ge=0,
        description="standard deviation sigma_zeta of the noise on every coordinate of a patch",
    )

    @model_validator(mode="after")
    def _fits(self) -> "EasyData":
        if self.features > self.d:
            raise ValueError(
                f"d must be at least 2 + 2 k = {self.features} for orthonormal features,"
                f" got {self.d}"
            )
        if 2 * self.s_star > self.P:
            raise ValueError(
                f"s_star must be at most P / 2 = {self.P / 2:g}, as either feature takes s* of the"
                f" P patches, got {self.s_star:g}"
            )
        return self

    @property
    def features(self) -> int:
        """Number of features: v_+, v_- and those of the subclasses, 2 + 2 k."""
        return 2 + 2 * self.k


class HierarchicalData(EasyData):
    """Easy samples, and the hard samples of Definition 4.2."""

    s_dag: float = Field(
        ge=0, description="expected number s_dag of distracting patches of a hard sample"
    )
    alpha_dag: list[Annotated[float, Field(ge=0)]] = Field(
        min_length=2,
        max_length=2,
        description="bounds of their amplitude alpha_dag, which is uniform between them",
    )
    sigma_zeta_star: float = Field(
        ge=0, description="standard deviation sigma_zeta* of the loud noise patch of a hard sample"
    )

    @model_validator(mode="after")
    def _fits_too(self) -> "HierarchicalData":
        if self.s_dag + self.s_star > self.P:
            raise ValueError(f"s_dag must be at most P - s_star = {self.P - self.s_star:g}")
        if self.alpha_dag[0] > self.alpha_dag[1]:
            raise ValueError(f"alpha_dag must be [lower, upper], got {self.alpha_dag}")
        return self

    @property
    def easy(self) -> EasyData:
        """Data without the hard samples, as training sees it."""
        return EasyData(**{name: getattr(self, name) for name in EasyData.model_fields})


class Detectors(Section):
    """Numbers of neurons of a class, and of training steps."""

    m: int = Field(ge=1, description="neurons m of a class")
    threshold: float = Field(gt=0, description="-b(0) / sigma_0, the paper's c_b sqrt(log d)")
    T: int = Field(ge=1, description="training steps T")


class Learner(Section):
    """Network and training: a group of ReLU detectors for each class, summed by its head
    (hong_fine_grained_labels, section 4.2 and Appendix B.2).
    """

    sigma_0: float = Field(gt=0, description="standard deviation sigma_0 of the initial weights")
    eta: float = Field(gt=0, description="learning rate eta")
    kappa_b: float = Field(
        gt=1, description="eq. (18): b falls by ||w(t+1) - w(t)|| / kappa_b, log^5 d in the paper"
    )
    N: int = Field(ge=2, description="samples N of a batch, fresh at every step")


class Labels(Section):
    """A kind of labels in training; `ids` classes of a superclass."""

    kind: Literal["subclass", "random", "misaligned", "sample"] = Field(
        description="subclass: unions or random parts of the subclasses; random: ids drawn for"
        " every sample of a superclass; misaligned: the same classes in both superclasses; sample:"
        " every sample its own class, with one batch for all steps"
    )
    ids: int = Field(
        default=1,
        ge=1,
        description="classes of a superclass; of misaligned, all classes; unused for sample",
    )

    @property
    def label(self) -> str:
        """Name in files and tables."""
        return self.kind if self.kind == "sample" else f"{self.kind}-{self.ids}"

    def check(self, k: int) -> None:
        """Check that k subclasses can have these labels; ValueError if not."""
        if self.kind == "subclass" and k % self.ids and self.ids % k:
            raise ValueError(
                f"labels.ids must divide k = {k}, or be a multiple of it, got {self.ids}"
            )
        if self.kind == "misaligned" and k % self.ids:
            raise ValueError(
                f"labels.ids must divide k = {k} for misaligned labels, got {self.ids}"
            )

    def classes(self, k: int, N: int) -> int:
        """Return the number G of classes, for k subclasses and N samples."""
        self.check(k)
        return {"sample": N, "misaligned": self.ids}.get(self.kind, 2 * self.ids)


COARSE = Labels(kind="subclass", ids=1)


def fine(k: int) -> Labels:
    """Return the labels of Theorem 5.2: every subclass is a class."""
    return Labels(kind="subclass", ids=k)


class Noise(Section):
    """Samples of many or loud patches, the noise of whose sum exceeds its signal
    (hong_fine_grained_labels, Appendix B.2, remark 3).
    """

    P: int = Field(ge=2, description="patches P of a sample")
    sigma_zeta: float = Field(
        ge=0,
        description="standard deviation sigma_zeta of the noise on every coordinate of a patch",
    )
    samples: int = Field(
        ge=2,
        description="samples that a linear head on summed patches is fitted on, and as many that it"
        " is tested on",
    )
    tests: int = Field(ge=2, description="test samples of the network, patch by patch")


class LinearHeadSettings(Section):
    """Settings of linear heads on frozen detectors."""

    samples: int = Field(ge=2, description="samples that a head is fitted on")
    ridge: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="penalties of the heads"
    )
    hard_share: Distinct[Annotated[float, Field(ge=0, le=1)]] = Field(
        min_length=1, description="fractions of hard samples that a head is fitted on"
    )


class DirectSimulatorSettings(Section):
    """Settings of the comparison of the direct simulator with the scalar one."""

    seeds: int = Field(ge=1, description="replicas")
    k: Distinct[Annotated[int, Field(ge=1)]] = Field(
        min_length=1, description="subclasses of a superclass"
    )
    N: int = Field(ge=2, description="samples of a batch")


Pair = Literal["views", "subclass", "superclass"]


class ContrastiveSettings(Section):
    """Training of the contrastive encoder with patches for tokens, and without attention
    (imbalance_and_pruning, eq. (1)-(5)).
    """

    m: int = Field(ge=1, description="number of neurons m")
    K: int = Field(
        ge=2, description="batch size K; the other K - 1 second samples are the negatives"
    )
    tau: float = Field(gt=0, description="temperature tau")
    eta: float = Field(gt=0, description="learning rate eta")
    lambda_: float = Field(ge=0, alias="lambda", description="l2 regularisation lambda")
    sigma_0: float = Field(gt=0, description="standard deviation sigma_0 of the initial weights")
    T: int = Field(ge=1, description="training steps T")
    bias_from: int = Field(ge=0, description="first step with a bias, for the arms that have one")


class CrossingArm(Section):
    """An arm of the contrastive encoder."""

    arm: Literal["dense", "pruned_neuron", "oracle_gated"] = Field(
        description="mask of the logits, as in the studies of the chain; subclass features are the"
        " minority"
    )
    alpha: float = Field(
        default=0.0, ge=0, lt=1, description="pruning ratio alpha of pruned_neuron"
    )
    bias: float = Field(
        default=0.0, ge=0, description="bias in units of sqrt(2 log d / d) ||w_i||; 0 for none"
    )

    @model_validator(mode="after")
    def _ratio(self) -> "CrossingArm":
        if (self.alpha > 0) != (self.arm == "pruned_neuron"):
            raise ValueError(
                "alpha must be greater than 0 for pruned_neuron; remove it for all other arms"
            )
        return self

    @property
    def label(self) -> str:
        """Name in tables."""
        keys = {"alpha": self.alpha, "bias": self.bias}
        return "-".join([self.arm, *(f"{key}={value:g}" for key, value in keys.items() if value)])


class Crossing(Section):
    """The contrastive encoder on the hierarchical data, at every k."""

    seeds: int = Field(ge=1, description="replicas")
    seeds_per_block: SeedsPerBlock = Field(
        description="replicas of one job, one after the other; no number depends on it"
    )
    arms: dict[Pair, Annotated[list[CrossingArm], Field(min_length=1)]] = Field(
        min_length=1,
        description="arms by positive pair: two views of a sample, two samples of a subclass, or"
        " two samples of a superclass",
    )
    training: ContrastiveSettings

    @model_validator(mode="after")
    def _distinct(self) -> "Crossing":
        for pair, arms in self.arms.items():
            if len({arm.label for arm in arms}) < len(arms):
                raise ValueError(f"arms.{pair}: arms must be distinct")
        return self


Positive = Annotated[int, Field(ge=1)]


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
        default="",
        description="for manual, the level; empty for the labels of the data set",
    )
    ids: int = Field(
        default=0,
        ge=0,
        description="classes of a superclass; for whole, all classes; for rebalanced, images of the"
        " smallest cluster",
    )

    @model_validator(mode="after")
    def _complete(self) -> "LabelScheme":
        if (self.ids > 0) != (self.kind in ("random", "clusters", "rebalanced", "whole")):
            raise ValueError(
                "ids is required for random, clusters, rebalanced and whole, and for them alone"
            )
        if self.level:
            check_name(self.level)
        if self.level and self.kind != "manual":
            raise ValueError("level is for manual")
        return self

    @property
    def label(self) -> str:
        """Name in files and tables."""
        return "-".join(
            [
                self.kind,
                *([self.level] if self.level else []),
                *([str(self.ids)] if self.ids else []),
            ]
        )

    @property
    def clustered(self) -> bool:
        """Return whether the classes are clusters of features."""
        return self.kind in ("clusters", "rebalanced", "whole")


class SGDSettings(Section):
    """Settings of SGD; the rate warms up linearly and falls along a cosine to 0."""

    epochs: int = Field(ge=1, description="passes over the training images")
    warmup: float = Field(
        ge=0, lt=1, description="fraction of the steps in which the learning rate rises"
    )
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
    checkpoints: Distinct[Positive] = Field(
        min_length=1,
        description="epochs of pretraining after which the network is fine-tuned and probed; the"
        " last one must be among them",
    )
    shift: int = Field(
        ge=0, description="largest shift of a training image (pixels), in either direction"
    )
    l2: float = Field(
        gt=0,
        description="penalty per image of the linear probe, a logistic regression on standardised"
        " features",
    )

    @model_validator(mode="after")
    def _ends(self) -> "TransferSettings":
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
    def _batches(self) -> "Perceptrons":
        for name in ("pretraining", "finetuning", "features"):
            if getattr(self, name).batch > self.train:
                raise ValueError(
                    f"{name}.batch must be at most train = {self.train},"
                    f" got {getattr(self, name).batch}"
                )
        return self


class ResNetSettings(TransferSettings):
    """Settings of a residual network on photographs."""

    network: Network = Field(description="network; its `head` is for self-supervised features only")
    flip: float = Field(
        ge=0, le=1, description="probability of a horizontal flip of a training image"
    )
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


class Granularity(Section):
    """A sweep over label granularity (Section 6.2, Figure 5, Tables 1 and 2)."""

    seeds: int = Field(
        ge=1,
        description="replicas, which differ in initial weights, order of the images, and random"
        " labels",
    )
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(
        description="replicas of one job; no number depends on it"
    )
    levels: dict[Name, list[Annotated[int, Field(ge=0)]]] | str = Field(
        description="the hierarchy: at each level the class of every label; or a CSV file in"
        " data.folder whose header names the levels, with a line for each label"
    )
    superclass: Distinct[Name] = Field(
        min_length=1, description="levels that are the coarse task, one after the other"
    )
    labels: list[LabelScheme] = Field(
        min_length=1,
        description="labels in pretraining; `coarse` must be among them",
    )
    candidates: Distinct[Positive] = Field(
        default=[2],
        min_length=1,
        description="numbers of clusters of a superclass from which `rebalanced` chooses",
    )

    @model_validator(mode="after")
    def _hierarchy(self) -> "Granularity":
        if LabelScheme(kind="coarse") not in self.labels:
            raise ValueError("labels must contain {kind: coarse}, the baseline")
        if len({scheme.label for scheme in self.labels}) < len(self.labels):
            raise ValueError("labels must be distinct")
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

    def by_cell(self) -> dict[Cell, tuple[str, LabelScheme]]:
        """Return the level of the superclasses and the labels of every cell."""
        pairs = [(level, scheme) for level in self.superclass for scheme in self.labels]
        return {
            cell(superclass=level, labels=scheme.label): (level, scheme) for level, scheme in pairs
        }

    def cells(self) -> list[Cell]:
        """Return a cell for every coarse task and kind of labels."""
        return list(self.by_cell())

    def blocks(self) -> dict[str, list[int]]:
        """Return the seed blocks by name, FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def measurement_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of a cell."""
        level, scheme = self.by_cell()[cell]
        candidates = {"candidates": self.candidates} if scheme.kind == "rebalanced" else {}
        return {
            "levels": self.levels,
            "superclass": level,
            "labels": scheme,
            "training": self.training,
        } | candidates


class Digits(Granularity):
    """A sweep on scikit-learn's digits; the split differs between replicas."""

    training: Perceptrons

    @model_validator(mode="after")
    def _ten(self) -> "Digits":
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
    def _clustered(self) -> "Photographs":
        if self.features is None and any(scheme.clustered for scheme in self.labels):
            raise ValueError("features are required where labels are clusters")
        return self

    def representation_config(self, cell: Cell | None = None) -> dict[str, Any]:
        """Return the job config of the training of features."""
        return {"data": self.data, "training": self.training, "features": self.features}

    def measurement_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of a cell, with that of the images and of clustered features."""
        clustered = self.by_cell()[cell][1].clustered
        features = {"features": self.features} if clustered else {}
        return super().measurement_config(cell) | {"data": self.data} | features


class FineLabels(Section):
    """The section `fine_labels`: coarse and fine labels at every k, other labels at one k."""

    seeds: int = Field(ge=1, description="replicas")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(
        description="replicas of one job; no number depends on it"
    )
    k: Distinct[Annotated[int, Field(ge=1)]] = Field(
        min_length=1, description="subclasses of a superclass"
    )
    s_dag: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="values of s_dag, which training does not see"
    )
    hierarchy: HierarchicalData = Field(
        description="the data; its k and s_dag are those of the primary regime"
    )
    learner: Learner = Field(description="the network and its training")
    coarse: Detectors = Field(description="detectors of the two superclasses")
    fine: Detectors = Field(description="detectors of more than two labels; m is for each label")
    labels: list[Labels] = Field(description="other labels, at the primary k")
    finetuning: int = Field(
        ge=1, description="steps of fine-tuning of the fine network on the superclasses"
    )
    tests: int = Field(ge=2, description="number of easy, and of hard, test samples")
    heads: LinearHeadSettings = Field(description="linear heads on the trained detectors")
    noise: Noise = Field(
        description="samples on which a linear model on patches is compared with the coarse"
        " network, at the primary k"
    )
    direct: DirectSimulatorSettings = Field(description="the direct simulator")
    crossing: Crossing = Field(description="the contrastive encoder on the same data")
    digits: Digits = Field(description="the granularity sweep on the digits")
    photographs: dict[Name, Photographs] = Field(
        default={}, description="granularity sweeps on other images, by name of the study"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "FineLabels":
        if self.hierarchy.k not in self.k:
            raise ValueError(f"hierarchy.k must be one of k = {self.k}, got {self.hierarchy.k}")
        for k in self.direct.k:
            self.data_at(k)
            if self.direct.N % (2 * k):
                raise ValueError(
                    f"direct.N must be a multiple of 2 k = {2 * k}, got {self.direct.N}"
                )
        sizes = {
            "learner.N": self.learner.N,
            "tests": self.tests,
            "heads.samples": self.heads.samples,
        }
        sizes["crossing.training.K"] = self.crossing.training.K
        for k in self.k:
            self.data_at(k)
            for key, n in sizes.items():
                if n % (2 * k):
                    raise ValueError(f"{key} must be a multiple of 2 k = {2 * k}, got {n}")
        k = self.hierarchy.k
        for key, n in {
            "noise.samples": self.noise.samples,
            "noise.tests": self.noise.tests,
        }.items():
            if n % (2 * k):
                raise ValueError(f"{key} must be a multiple of 2 k = {2 * k}, got {n}")
        if 2 * self.hierarchy.s_star > self.noise.P:
            raise ValueError(
                f"noise.P must be at least 2 s_star = {2 * self.hierarchy.s_star:g},"
                f" got {self.noise.P}"
            )
        for s_dag in self.s_dag:
            self.data_at(k, s_dag)
        for labels in self.labels:
            labels.check(k)
        return self

    def data_at(self, k: int, s_dag: float | None = None) -> HierarchicalData:
        """Return the data with k subclasses, and with s_dag distracting patches if given."""
        changes = {"k": k} | ({} if s_dag is None else {"s_dag": s_dag})
        return HierarchicalData(**self.hierarchy.model_dump() | changes)

    def studies(
        self,
    ) -> dict[str, "NetworkStudy | SimulatorComparison | ContrastiveStudy | Granularity"]:
        """Return the studies by name; the workflow trains a network for each cell and seed."""
        return merge_unique(
            "studies",
            {
                SCALAR: NetworkStudy(self),
                DIRECT: SimulatorComparison(self),
                CROSSING: ContrastiveStudy(self),
            },
            self.sweeps,
        )

    @property
    def sweeps(self) -> dict[str, Granularity]:
        """Granularity sweeps by name of the study."""
        return merge_unique("studies", {DIGITS: self.digits}, self.photographs)

    def training_config(self, k: int, labels: Labels) -> dict[str, Any]:
        """Return the job config of a network, for either simulator."""
        detectors = self.coarse if labels == COARSE else self.fine
        return {
            "data": self.data_at(k).easy,
            "learner": self.learner,
            "detectors": detectors,
            "labels": labels,
        }


def labelled(pairs: list[tuple[int, Labels]]) -> dict[Cell, tuple[int, Labels]]:
    """Return k and labels of every cell."""
    return {cell(k=k, labels=labels.label): (k, labels) for k, labels in pairs}


@dataclass(frozen=True)
class ReplicatedStudy:
    """A study of the section, with some number of replicas of every cell."""

    section: FineLabels
    key: ClassVar[str] = ""
    """Key of the section that gives the number of replicas; empty for the section itself."""

    @property
    def seeds(self) -> int:
        """Replicas of every cell."""
        return (getattr(self.section, self.key) if self.key else self.section).seeds

    def blocks(self) -> dict[str, list[int]]:
        """Return the seed blocks by name, FIRST-LAST."""
        return seed_blocks(self.section.first_seed, self.seeds, self.section.seeds_per_block)


class NetworkStudy(ReplicatedStudy):
    """A study of networks by the scalar simulator."""

    def by_cell(self) -> dict[Cell, tuple[int, Labels]]:
        """Return k and labels of every cell: coarse and fine labels at every k, other labels at the
        primary k.
        """
        section = self.section
        main = [(k, labels) for k in section.k for labels in (COARSE, fine(k))]
        return labelled([*main, *((section.hierarchy.k, labels) for labels in section.labels)])

    def cells(self) -> list[Cell]:
        """Return a cell for every k and kind of labels."""
        return list(self.by_cell())

    def training_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of the training of a cell."""
        k, labels = self.by_cell()[cell]
        tuned = {"finetuning": self.section.finetuning} if labels == fine(k) else {}
        return self.section.training_config(k, labels) | tuned

    def measurement_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of a cell's measurement, with every s_dag for coarse and fine
        labels, and noise for coarse ones.
        """
        section, (k, labels) = self.section, self.by_cell()[cell]
        data = section.data_at(k)
        measured_on = {
            "hierarchy": data,
            "s_dag": sorted({data.s_dag, *(section.s_dag if labels in (COARSE, fine(k)) else [])}),
            "tests": section.tests,
            "heads": section.heads,
        }
        noisy = {"noise": section.noise} if labels == COARSE and k == section.hierarchy.k else {}
        return self.training_config(cell) | measured_on | noisy


class SimulatorComparison(ReplicatedStudy):
    """A study of networks by both simulators."""

    key = "direct"

    def by_cell(self) -> dict[Cell, tuple[int, Labels]]:
        """Return k and labels of every cell: coarse and fine labels at some k."""
        return labelled(
            [(k, labels) for k in self.section.direct.k for labels in (COARSE, fine(k))]
        )

    def cells(self) -> list[Cell]:
        """Return a cell for every k and kind of labels."""
        return list(self.by_cell())

    def measurement_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of the comparison at a cell."""
        section, (k, labels) = self.section, self.by_cell()[cell]
        learner = section.learner.model_copy(update={"N": section.direct.N})
        changes = {"learner": learner, "hierarchy": section.data_at(k), "tests": section.tests}
        return section.training_config(k, labels) | changes


class ContrastiveStudy(ReplicatedStudy):
    """A study of contrastive encoders."""

    key = "crossing"

    def cells(self) -> list[Cell]:
        """Return a cell for every k and kind of positive pair."""
        return [cell(k=k, pair=pair) for pair in self.section.crossing.arms for k in self.section.k]

    def blocks(self) -> dict[str, list[int]]:
        """Return the seed blocks by name, FIRST-LAST."""
        return seed_blocks(
            self.section.first_seed, self.seeds, self.section.crossing.seeds_per_block
        )

    def measurement_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of the encoders of a cell."""
        section, crossing = self.section, self.section.crossing
        return {
            "hierarchy": section.data_at(cell["k"]),
            "tests": section.tests,
            "heads": section.heads,
            "pair": cell["pair"],
            "arms": crossing.arms[cell["pair"]],
            "training": crossing.training,
        }
