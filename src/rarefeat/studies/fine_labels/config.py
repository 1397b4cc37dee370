"""The section `fine_labels` of the config: the hierarchical data, the networks, what is measured, and images."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from rarefeat.config.cells import Cell, cell
from rarefeat.config.images import Augmentation, ImageData, ImageTraining, Network
from rarefeat.config.names import Name, check_name, merge_unique
from rarefeat.config.section import Distinct, Section
from rarefeat.config.seeds import SeedsPerBlock, seed_blocks

SCALAR, DIRECT, CROSSING, DIGITS = (
    f"fine_labels_{name}" for name in ("scalar", "direct", "crossing", "digits")
)
"""The studies: all networks by the scalar simulator, some by both simulators, contrastive encoders, and the digits."""
RIDGE = 0.1
"""Penalty of the linear heads that other labels are compared by."""


class EasyData(Section):
    """Definition 4.1, Appendix B.1: easy samples of two superclasses of k subclasses each, of P patches in R^d."""

    d: int = Field(
        ge=6, description="dimension d of a patch, and size of the orthonormal dictionary"
    )
    k: int = Field(ge=1, description="subclasses k_+ = k_- of a superclass")
    P: int = Field(ge=2, description="patches P of a sample")
    s_star: float = Field(
        gt=0,
        description="expected number s* of patches with the common, and with the subclass feature",
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
                f"d must be at least 2 + 2 k = {self.features} for orthonormal features, got {self.d}"
            )
        if 2 * self.s_star > self.P:
            raise ValueError(
                f"s_star must be at most P / 2 = {self.P / 2:g}: either feature takes s* of the P patches"
            )
        return self

    @property
    def features(self) -> int:
        """v_+, v_- and the subclass features: 2 + 2 k."""
        return 2 + 2 * self.k


class HierarchicalData(EasyData):
    """Easy samples, and the hard ones of Definition 4.2."""

    s_dag: float = Field(
        ge=0, description="expected number s_dag of distracting patches of a hard sample"
    )
    alpha_dag: list[Annotated[float, Field(ge=0)]] = Field(
        min_length=2,
        max_length=2,
        description="their amplitude alpha_dag is uniform between these two",
    )
    sigma_zeta_star: float = Field(
        ge=0, description="standard deviation sigma_zeta* of a hard sample's one loud noise patch"
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
        """What training sees of it."""
        return EasyData(**{name: getattr(self, name) for name in EasyData.model_fields})


class Detectors(Section):
    """The neurons of one class, and for how long they are trained."""

    m: int = Field(ge=1, description="neurons m of a class")
    threshold: float = Field(gt=0, description="-b(0) / sigma_0, the paper's c_b sqrt(log d)")
    T: int = Field(ge=1, description="training steps T")


class Learner(Section):
    """Section 4.2 and Appendix B.2: ReLU detectors, a group of their own for each class, heads that sum them."""

    sigma_0: float = Field(gt=0, description="standard deviation sigma_0 of the initial weights")
    eta: float = Field(gt=0, description="learning rate eta")
    kappa_b: float = Field(
        gt=1, description="eq. (18): b falls by ||w(t+1) - w(t)|| / kappa_b, the paper's log^5 d"
    )
    N: int = Field(ge=2, description="samples N of a batch, fresh at each step")


class Labels(Section):
    """What the training calls a class; `ids` classes of a superclass."""

    kind: Literal["subclass", "random", "misaligned", "sample"] = Field(
        description="unions or random parts of the subclasses; ids drawn anew for every sample of a superclass; "
        "classes of either superclass alike; or every sample its own class, of one batch that is kept"
    )
    ids: int = Field(
        default=1,
        ge=1,
        description="classes a superclass; for misaligned, classes in all; not for sample",
    )

    @property
    def label(self) -> str:
        """Name in files and tables."""
        return self.kind if self.kind == "sample" else f"{self.kind}-{self.ids}"

    def check(self, k: int) -> None:
        """ValueError where k subclasses cannot be labelled so."""
        if self.kind == "subclass" and k % self.ids and self.ids % k:
            raise ValueError(
                f"labels.ids must divide k = {k}, or be a multiple of it, got {self.ids}"
            )
        if self.kind == "misaligned" and k % self.ids:
            raise ValueError(
                f"labels.ids must divide k = {k} for misaligned labels, got {self.ids}"
            )

    def classes(self, k: int, N: int) -> int:
        """G, the number of classes."""
        self.check(k)
        return {"sample": N, "misaligned": self.ids}.get(self.kind, 2 * self.ids)


COARSE = Labels(kind="subclass", ids=1)


def fine(k: int) -> Labels:
    """The labels of Theorem 5.2: every subclass a class."""
    return Labels(kind="subclass", ids=k)


class Noise(Section):
    """Samples whose patches are so many or loud that the noise of their sum exceeds its signal (Appendix B.2, remark 3)."""

    P: int = Field(ge=2, description="patches P of a sample")
    sigma_zeta: float = Field(
        ge=0,
        description="standard deviation sigma_zeta of the noise on every coordinate of a patch",
    )
    samples: int = Field(
        ge=2,
        description="samples that a linear head on summed patches is fitted on, and as many to test it",
    )
    tests: int = Field(ge=2, description="test samples of the network, patch by patch")


class LinearHeadSettings(Section):
    """Linear heads on frozen detectors."""

    samples: int = Field(ge=2, description="samples that a head is fitted on")
    ridge: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="regularisation of the heads, swept"
    )
    hard_share: Distinct[Annotated[float, Field(ge=0, le=1)]] = Field(
        min_length=1, description="share of hard samples among those a head is fitted on, swept"
    )


class DirectSimulatorSettings(Section):
    """The direct simulator beside the scalar one, on the same samples."""

    seeds: int = Field(ge=1, description="replicas")
    k: Distinct[Annotated[int, Field(ge=1)]] = Field(
        min_length=1, description="subclasses of a superclass"
    )
    N: int = Field(ge=2, description="samples of a batch")


Pair = Literal["views", "subclass", "superclass"]


class ContrastiveSettings(Section):
    """Eq. (1)-(5) of the core's paper with patches for tokens, which do not attend to each other."""

    m: int = Field(ge=1, description="number of neurons m")
    K: int = Field(
        ge=2, description="batch size K; the other K - 1 second samples are the negatives"
    )
    tau: float = Field(gt=0, description="temperature tau")
    eta: float = Field(gt=0, description="learning rate eta")
    lambda_: float = Field(ge=0, alias="lambda", description="l2 regularisation lambda")
    sigma_0: float = Field(gt=0, description="standard deviation sigma_0 of the initial weights")
    T: int = Field(ge=1, description="training steps T")
    bias_from: int = Field(ge=0, description="first step with a bias, of the arms that have one")


class CrossingArm(Section):
    """What is compared on the same samples."""

    arm: Literal["dense", "pruned_neuron", "oracle_gated"] = Field(
        description="mask of the logits, as in the core's studies; the minority are the subclass features"
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
                "alpha must be above 0 for pruned_neuron and absent for the other arms"
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
        description="by positive pair, two views of a sample, two samples of a subclass, or two of a superclass: what is"
        " trained on the same samples",
    )
    training: ContrastiveSettings

    @model_validator(mode="after")
    def _distinct(self) -> "Crossing":
        for pair, arms in self.arms.items():
            if len({arm.label for arm in arms}) < len(arms):
                raise ValueError(f"arms.{pair}: twice the same")
        return self


Positive = Annotated[int, Field(ge=1)]


class LabelScheme(Section):
    """What the training images are called in pretraining (Figure 5, Table 1)."""

    kind: Literal["coarse", "manual", "random", "clusters", "rebalanced", "whole", "sample"] = (
        Field(
            description="the superclasses, which are the baseline; a level of the hierarchy; random classes within a superclass;"
            " k-means clusters within each, or so many that none is small; clusters of all images; or each image its own class"
        )
    )
    level: str = Field(
        default="",
        description="of `manual`: a level of the hierarchy; empty for the images' own labels",
    )
    ids: int = Field(
        default=0,
        ge=0,
        description="classes of a superclass; of `whole`, in all; of `rebalanced`, images of the smallest cluster",
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
        """Whether it needs features."""
        return self.kind in ("clusters", "rebalanced", "whole")


class SGDSettings(Section):
    """SGD with momentum; the rate warms up linearly and falls along a cosine to 0."""

    epochs: int = Field(ge=1, description="passes over the training images")
    warmup: float = Field(
        ge=0, lt=1, description="share of the steps in which the learning rate rises"
    )
    batch: int = Field(ge=2, description="images of a batch")
    lr: float = Field(gt=0, description="largest learning rate")
    momentum: float = Field(ge=0, lt=1, description="momentum")
    weight_decay: float = Field(ge=0, description="weight decay")


class TransferSettings(Section):
    """Pretraining with some labels, then the superclasses."""

    pretraining: SGDSettings = Field(description="with the labels of the scheme")
    finetuning: SGDSettings = Field(
        description="of all weights, with a new head on the superclasses"
    )
    checkpoints: Distinct[Positive] = Field(
        min_length=1,
        description="epochs of pretraining after which it is fine-tuned and probed; the last must be among them",
    )
    shift: int = Field(
        ge=0, description="pixels that a training image is moved by at most, in either direction"
    )
    l2: float = Field(
        gt=0,
        description="penalty of the linear probe, a logistic regression on standardised features, per image",
    )

    @model_validator(mode="after")
    def _ends(self) -> "TransferSettings":
        if max(self.checkpoints) != self.pretraining.epochs:
            raise ValueError(
                f"checkpoints must end with pretraining.epochs = {self.pretraining.epochs}, got {self.checkpoints}"
            )
        return self


class Perceptrons(TransferSettings):
    """Two hidden layers on 8 x 8 pixels."""

    train: int = Field(
        ge=100, le=1700, description="training images of the 1,797; the others are for validation"
    )
    hidden: int = Field(ge=1, description="neurons of either hidden layer")
    features: SGDSettings = Field(
        description="of a network that fills in hidden pixels, whose last hidden layer is clustered"
    )

    @model_validator(mode="after")
    def _batches(self) -> "Perceptrons":
        for name in ("pretraining", "finetuning", "features"):
            if getattr(self, name).batch > self.train:
                raise ValueError(
                    f"{name}.batch must be at most train = {self.train}, got {getattr(self, name).batch}"
                )
        return self


class ResNetSettings(TransferSettings):
    """A residual network on photographs."""

    network: Network = Field(description="its `head` serves the self-supervised features alone")
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
    """The network whose features are clustered: SimCLR, one for all replicas."""

    augmentation: Augmentation
    training: ImageTraining


class Granularity(Section):
    """The sweep over label granularity (Section 6.2, Figure 5, Tables 1 and 2)."""

    seeds: int = Field(
        ge=1,
        description="replicas: initial weights, order of the images, and labels where they are random",
    )
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(
        description="replicas of one job; no number depends on it"
    )
    levels: dict[Name, list[Annotated[int, Field(ge=0)]]] | str = Field(
        description="the hierarchy: at each level the class of every label; or a CSV file in data.folder whose header names the"
        " levels, with a line for each label"
    )
    superclass: Distinct[Name] = Field(
        min_length=1, description="levels that are the coarse task, each a sweep of its own"
    )
    labels: list[LabelScheme] = Field(
        min_length=1,
        description="what images are called in pretraining; `coarse` must be among them",
    )
    candidates: Distinct[Positive] = Field(
        default=[2],
        min_length=1,
        description="numbers of clusters of a superclass that `rebalanced` chooses from",
    )

    @model_validator(mode="after")
    def _hierarchy(self) -> "Granularity":
        if LabelScheme(kind="coarse") not in self.labels:
            raise ValueError("labels must hold {kind: coarse}, the baseline")
        if len({scheme.label for scheme in self.labels}) < len(self.labels):
            raise ValueError("labels: twice the same")
        if isinstance(self.levels, str):
            return self
        wanted = {*self.superclass, *(scheme.level for scheme in self.labels if scheme.level)}
        if missing := wanted - set(self.levels):
            raise ValueError(f"levels: {min(missing)} is none of {', '.join(self.levels)}")
        if len({len(classes) for classes in self.levels.values()}) > 1:
            raise ValueError("levels must all have the same number of labels")
        for name in self.superclass:
            if len(set(self.levels[name])) < 2:
                raise ValueError(f"levels.{name}: two superclasses at least are needed")
        return self

    def by_cell(self) -> dict[Cell, tuple[str, LabelScheme]]:
        """Level of the superclasses and labels of every cell."""
        pairs = [(level, scheme) for level in self.superclass for scheme in self.labels]
        return {
            cell(superclass=level, labels=scheme.label): (level, scheme) for level, scheme in pairs
        }

    def cells(self) -> list[Cell]:
        """Every coarse task and kind of labels."""
        return list(self.by_cell())

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def measurement_config(self, at: Cell) -> dict[str, Any]:
        """What the trainings of a cell are told."""
        level, scheme = self.by_cell()[at]
        chosen = {"candidates": self.candidates} if scheme.kind == "rebalanced" else {}
        return {
            "levels": self.levels,
            "superclass": level,
            "labels": scheme,
            "training": self.training,
        } | chosen


class Digits(Granularity):
    """The sweep on scikit-learn's digits; each replica has a split of its own."""

    training: Perceptrons

    @model_validator(mode="after")
    def _ten(self) -> "Digits":
        if isinstance(self.levels, str) or len(next(iter(self.levels.values()), [])) != 10:
            raise ValueError("levels must say the class of each of the ten digits")
        return self


class Photographs(Granularity):
    """The sweep on a data set of images, of which the test images are for validation."""

    data: ImageData
    training: ResNetSettings
    features: SelfSupervised | None = Field(
        default=None, description="what is clustered, where labels are clusters"
    )

    @model_validator(mode="after")
    def _clustered(self) -> "Photographs":
        if self.features is None and any(scheme.clustered for scheme in self.labels):
            raise ValueError("features are required where labels are clusters")
        return self

    def representation_config(self, at: Cell | None = None) -> dict[str, Any]:
        """What the training of the features that are clustered is told."""
        return {"data": self.data, "training": self.training, "features": self.features}

    def measurement_config(self, at: Cell) -> dict[str, Any]:
        """With the images, and what is clustered."""
        told = super().measurement_config(at) | {"data": self.data}
        return told | ({"features": self.features} if self.by_cell()[at][1].clustered else {})


class FineLabels(Section):
    """The study: coarse and fine labels for every k, distractors for every s_dag, and other labels at one k."""

    seeds: int = Field(ge=1, description="replicas")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(
        description="replicas of one job; no number depends on it"
    )
    k: Distinct[Annotated[int, Field(ge=1)]] = Field(
        min_length=1, description="subclasses of a superclass"
    )
    s_dag: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="sweep of s_dag, which training does not see"
    )
    hierarchy: HierarchicalData = Field(
        description="the data; its k and s_dag are the primary ones"
    )
    learner: Learner = Field(description="the network and its training")
    coarse: Detectors = Field(description="with the two superclasses for labels")
    fine: Detectors = Field(description="with more labels than two; m is for each")
    labels: list[Labels] = Field(description="other labels, at the primary k")
    finetuning: int = Field(
        ge=1, description="steps of fine-tuning on the superclasses, from the fine network"
    )
    tests: int = Field(ge=2, description="easy, and as many hard, test samples")
    heads: LinearHeadSettings = Field(description="linear heads on the trained detectors")
    noise: Noise = Field(
        description="where a linear model on patches is held against the coarse network, at the primary k"
    )
    direct: DirectSimulatorSettings = Field(description="the direct simulator")
    crossing: Crossing = Field(description="the contrastive encoder on the same data")
    digits: Digits = Field(description="the granularity sweep on the digits")
    photographs: dict[Name, Photographs] = Field(
        default={}, description="the same on other images, by name of the study"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "FineLabels":
        if self.hierarchy.k not in self.k:
            raise ValueError(f"hierarchy.k must be one of k = {self.k}, got {self.hierarchy.k}")
        for k in self.direct.k:
            self.at(k)
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
            self.at(k)
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
                f"noise.P must be at least 2 s_star = {2 * self.hierarchy.s_star:g}, got {self.noise.P}"
            )
        for s_dag in self.s_dag:
            self.at(k, s_dag)
        for labels in self.labels:
            labels.check(k)
        return self

    def at(self, k: int, s_dag: float | None = None) -> HierarchicalData:
        """The data with k subclasses, and with s_dag distractors where given."""
        changed = {"k": k} | ({} if s_dag is None else {"s_dag": s_dag})
        return HierarchicalData(**self.hierarchy.model_dump() | changed)

    def studies(
        self,
    ) -> dict[str, "NetworkStudy | SimulatorComparison | ContrastiveStudy | Granularity"]:
        """What the workflow trains: a network for each cell and seed."""
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
        """The granularity sweeps by name of the study."""
        return merge_unique("studies", {DIGITS: self.digits}, self.photographs)

    def training_config(self, k: int, labels: Labels) -> dict[str, Any]:
        """What the training of a network is told, by either simulator."""
        detectors = self.coarse if labels == COARSE else self.fine
        return {
            "data": self.at(k).easy,
            "learner": self.learner,
            "detectors": detectors,
            "labels": labels,
        }


def labelled(pairs: list[tuple[int, Labels]]) -> dict[Cell, tuple[int, Labels]]:
    """k and labels of every cell."""
    return {cell(k=k, labels=labels.label): (k, labels) for k, labels in pairs}


@dataclass(frozen=True)
class ReplicatedStudy:
    """A study of the section, in as many replicas of every cell as a part of it says."""

    section: FineLabels
    part: ClassVar[str] = ""
    """Key of that part; empty for the section itself."""

    @property
    def seeds(self) -> int:
        """Replicas of every cell."""
        return (getattr(self.section, self.part) if self.part else self.section).seeds

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.section.first_seed, self.seeds, self.section.seeds_per_block)


class NetworkStudy(ReplicatedStudy):
    """The networks of the scalar simulator."""

    def by_cell(self) -> dict[Cell, tuple[int, Labels]]:
        """Coarse and fine labels at every k, the other ones at the primary k."""
        section = self.section
        main = [(k, labels) for k in section.k for labels in (COARSE, fine(k))]
        return labelled([*main, *((section.hierarchy.k, labels) for labels in section.labels)])

    def cells(self) -> list[Cell]:
        """Every k and labels."""
        return list(self.by_cell())

    def training_config(self, at: Cell) -> dict[str, Any]:
        """What the training of a cell is told."""
        k, labels = self.by_cell()[at]
        tuned = {"finetuning": self.section.finetuning} if labels == fine(k) else {}
        return self.section.training_config(k, labels) | tuned

    def measurement_config(self, at: Cell) -> dict[str, Any]:
        """What the measuring of a cell is told: every s_dag for coarse and fine labels, and noise for coarse ones."""
        section, (k, labels) = self.section, self.by_cell()[at]
        data = section.at(k)
        found = {
            "hierarchy": data,
            "s_dag": sorted({data.s_dag, *(section.s_dag if labels in (COARSE, fine(k)) else [])}),
            "tests": section.tests,
            "heads": section.heads,
        }
        noisy = {"noise": section.noise} if labels == COARSE and k == section.hierarchy.k else {}
        return self.training_config(at) | found | noisy


class SimulatorComparison(ReplicatedStudy):
    """The networks of both simulators."""

    part = "direct"

    def by_cell(self) -> dict[Cell, tuple[int, Labels]]:
        """Coarse and fine labels at some k."""
        return labelled(
            [(k, labels) for k in self.section.direct.k for labels in (COARSE, fine(k))]
        )

    def cells(self) -> list[Cell]:
        """Every k and labels."""
        return list(self.by_cell())

    def measurement_config(self, at: Cell) -> dict[str, Any]:
        """What the comparison at a cell is told."""
        section, (k, labels) = self.section, self.by_cell()[at]
        learner = section.learner.model_copy(update={"N": section.direct.N})
        found = {"learner": learner, "hierarchy": section.at(k), "tests": section.tests}
        return section.training_config(k, labels) | found


class ContrastiveStudy(ReplicatedStudy):
    """The contrastive encoders."""

    part = "crossing"

    def cells(self) -> list[Cell]:
        """Every k and kind of pair."""
        return [cell(k=k, pair=pair) for pair in self.section.crossing.arms for k in self.section.k]

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(
            self.section.first_seed, self.seeds, self.section.crossing.seeds_per_block
        )

    def measurement_config(self, at: Cell) -> dict[str, Any]:
        """What the encoders of a cell are told."""
        section, crossing = self.section, self.section.crossing
        found = {"hierarchy": section.at(at["k"]), "tests": section.tests, "heads": section.heads}
        return found | {
            "pair": at["pair"],
            "arms": crossing.arms[at["pair"]],
            "training": crossing.training,
        }
