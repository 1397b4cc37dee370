"""The sections of the config that the stages of the image studies are given.

Every key with its type, bounds and meaning.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Arms, Cell
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import SeedSettings

Probability = Annotated[float, Field(ge=0, le=1)]


class IndexFiles(Section):
    """Lists of a published benchmark, .npy files of indices into the training images."""

    pretrain: str = Field(
        min_length=1, description="long-tailed list; `{seed}` stands for the seed"
    )
    few_shot: str = Field(
        default="", description="list of the few-shot probe, likewise; empty to draw one"
    )
    pool: str = Field(
        default="", description="training images that anything is drawn from; empty for all"
    )


class ImageData(Section):
    """The folder and the form of the images; nothing is downloaded."""

    format: Literal["digits", "cifar_batches", "cifar_parquet", "image_folder"] = Field(
        description="scikit-learn's digits; the archive of Python batches; the hub's Parquet;"
        " image files with list files"
    )
    folder: str = Field(default="", description="folder of the files, for every format but digits")
    size: int = Field(
        default=0,
        ge=0,
        le=4096,
        description="side in pixels that the files of an image folder are brought to",
    )
    white: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="value of the image files that is white; 0 for the largest that their bits"
        " hold, refused if no image reaches half of it",
    )
    train_list: str = Field(
        default="",
        description="list file of an image folder, a line `path label` for each image, labels 0 to"
        " K - 1",
    )
    test_list: str = Field(default="", description="likewise, the test images")
    pretrain_list: str = Field(
        default="",
        description="likewise, images that are long-tailed already; train_list then serves the"
        " probes alone",
    )
    classes: list[Annotated[int, Field(ge=0)]] = Field(
        default=[], description="labels to keep; empty for all"
    )
    n_max: int = Field(
        default=0,
        ge=0,
        description="images of the largest class; 0 for as many as the smallest has, as every one"
        " can be it",
    )
    copies: bool = Field(
        default=False,
        description="take images that are there more than once, to the last pixel: in a list, in"
        " two classes, or among training"
        " and test images; without it they are refused, but for those that CIFAR-100 is published"
        " with",
    )
    index_files: IndexFiles | None = Field(
        default=None, description="lists of a published benchmark"
    )
    sha256: str = Field(
        default="",
        pattern="^([0-9a-f]{64})?$",
        description="of all images and labels, as in the log of image_data; empty to take any",
    )

    @model_validator(mode="after")
    def _complete(self) -> "ImageData":
        if (self.format == "digits") == bool(self.folder):
            raise ValueError("folder is required, but for digits, which come with scikit-learn")
        folder_keys = bool(self.size), bool(self.train_list), bool(self.test_list)
        if set(folder_keys) != {self.format == "image_folder"}:
            raise ValueError(
                "size, train_list and test_list are required for image_folder, and for it alone"
            )
        if self.pretrain_list and (self.format != "image_folder" or self.classes):
            raise ValueError("pretrain_list is for image_folder with every class")
        if self.index_files and self.classes:
            raise ValueError("index_files count all training images; leave classes empty with them")
        if self.index_files and self.format not in ("cifar_batches", "cifar_parquet"):
            raise ValueError(
                "index_files are for the CIFAR formats; a folder's long tail is pretrain_list, and"
                " its few-shot list is train_list if probe.few_shot is its images of each class"
            )
        if self.n_max and (self.index_files or self.pretrain_list):
            raise ValueError(
                "n_max is for lists that are drawn; leave it out with index_files and pretrain_list"
            )
        if len(set(self.classes)) != len(self.classes) or len(self.classes) == 1:
            raise ValueError("classes must be distinct, and two at least")
        return self


class Network(Section):
    """A residual network (He et al. 2016) and the projection head of SimCLR."""

    block: Literal["basic", "bottleneck"] = Field(
        description="two 3x3 convolutions, or 1x1, 3x3, 1x1 of four times the width"
    )
    depths: list[Annotated[int, Field(ge=1)]] = Field(
        min_length=1, description="blocks of each stage; each halves the side"
    )
    width: int = Field(ge=1, description="channels of the first stage; each doubles them")
    stem: Literal["cifar", "strided", "imagenet"] = Field(
        description="3x3 without stride; 3x3 with stride 2, a quarter of the positions; or 7x7"
        " with stride 2 and a max-pool"
    )
    head: int = Field(
        ge=1,
        description="dimension of what the loss sees; the hidden layer has that of the features",
    )


class Augmentation(Section):
    """Two views of each image; probabilities and ranges of kornia's transforms."""

    crop_scale: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=2,
        max_length=2,
        description="share of the area that a crop keeps, least and most",
    )
    flip: Probability = Field(description="probability of a horizontal flip")
    jitter: list[Annotated[float, Field(ge=0)]] = Field(
        min_length=4,
        max_length=4,
        description="strength of brightness, contrast, saturation and hue",
    )
    jitter_probability: Probability = Field(description="probability of the colour jitter")
    grey: Probability = Field(description="probability of a grey image")
    blur: Probability = Field(
        description="probability of a Gaussian blur, sigma from 0.1 to 2 pixels"
    )

    @model_validator(mode="after")
    def _ranges(self) -> "Augmentation":
        least, most = self.crop_scale
        if least > most:
            raise ValueError(f"crop_scale must be [least, most], got {self.crop_scale}")
        if self.jitter[3] > 0.5:
            raise ValueError(
                f"jitter: hue, the fourth, must be at most 0.5, half of the colour circle, got"
                f" {self.jitter[3]:g}"
            )
        return self


class ImageTraining(Section):
    """SimCLR's loss, trained by SGD with momentum."""

    tau: float = Field(gt=0, description="temperature tau")
    epochs: int = Field(ge=1, description="passes over the pretraining images")
    warmup_epochs: float = Field(ge=0, description="epochs of linear warm-up; a cosine follows")
    batch: int = Field(ge=2, description="images a step; twice as many views")
    lr: float = Field(gt=0, description="learning rate at the end of the warm-up")
    final_lr: float = Field(ge=0, description="at the end of the cosine")
    momentum: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    log_epochs: int = Field(
        ge=1,
        description="epochs between two records of loss, alignment, uniformity and kNN accuracy",
    )
    checkpoint_minutes: float = Field(gt=0, description="minutes between two checkpoints")
    bfloat16: bool = Field(
        default=False,
        description="convolutions and products in bfloat16, channels-last; faster on a processor"
        " that has it",
    )
    device: Literal["cpu", "cuda"] = Field(description="cuda asks the scheduler for a GPU")
    threads: int = Field(ge=1, description="CPU threads of a job")

    @model_validator(mode="after")
    def _warm(self) -> "ImageTraining":
        if self.warmup_epochs > self.epochs:
            raise ValueError(f"warmup_epochs must be at most epochs = {self.epochs}")
        return self


class ImageArm(Section):
    """What is compared at every rho."""

    arm: Literal["dense", "pruned", "self_damaging", "resampled"] = Field(
        description="SimCLR; the masks of Algorithm 1; a dense against a pruned view, each with"
        " norms of its own; SimCLR on batches in which every class is as frequent, by the labels"
    )
    alpha: float = Field(
        default=0.0, ge=0, lt=1, description="share of the convolutions' weights that is masked"
    )
    pruned_update: Literal["unmasked", "straight_through"] = Field(
        default="unmasked",
        description="of `pruned`: eq. (5), or the masked network's gradient applied to all weights",
    )
    threshold: Literal["global", "per_layer", "random"] = Field(
        default="global",
        description="magnitudes are ranked together or by layer; `random` masks as many of each"
        " layer as `global`, whatever"
        " their magnitude, the same throughout",
    )

    @model_validator(mode="after")
    def _ratio(self) -> "ImageArm":
        if (self.alpha > 0) != self.masked:
            raise ValueError(
                "alpha must be above 0 for the arms with a mask and absent for dense and resampled"
            )
        if self.arm != "pruned" and self.pruned_update != "unmasked":
            raise ValueError("pruned_update is for the arm pruned")
        return self

    @property
    def trained(self) -> bool:
        """Every arm of images has a training."""
        return True

    @property
    def masked(self) -> bool:
        """Return whether weights are masked."""
        return self.arm in ("pruned", "self_damaging")

    @property
    def label(self) -> str:
        """Name in files: the arm with its update, and what else is not the default."""
        name = f"{self.arm}_{self.pruned_update}" if self.arm == "pruned" else self.arm
        keys = {"alpha": self.alpha} if self.alpha else {}
        keys |= {"threshold": self.threshold} if self.threshold != "global" else {}
        return "-".join([name, *(f"{key}={value}" for key, value in keys.items())])


class ImageProbe(Section):
    """How frozen features are judged."""

    l2: float = Field(
        gt=0, description="l2 penalty of the linear probe on standardised features, per image"
    )
    few_shot: int = Field(ge=1, description="images per class of the few-shot probe")
    neighbours: int = Field(ge=1, description="neighbours of the kNN classifier")
    sgd: bool = Field(
        default=False, description="fit the probe by the reference implementations' SGD as well"
    )


class ImageStudy(SeedSettings):
    """Pretraining on long-tailed versions of one data set."""

    table2: Literal["", "CIFAR10-LT", "CIFAR100-LT", "ImageNet-LT"] = Field(
        default="", description="the data set of the paper's Table 2 that it is shown beside"
    )
    data: ImageData
    rho: Distinct[Annotated[float, Field(ge=1)]] = Field(
        min_length=1, description="images of the largest class over the smallest"
    )
    arms: Arms[ImageArm] = Field(
        min_length=1, description="what is compared; a list of values stands for an arm with each"
    )
    balanced_arms: list[str] = Field(
        description="arms, by label, also pretrained on a balanced subset of the same size"
    )
    network: Network
    widths: Distinct[Annotated[int, Field(ge=1)]] = Field(
        default=[],
        description="every arm in a network of each of these widths; empty for network.width alone",
    )
    augmentation: Augmentation
    training: ImageTraining
    probe: ImageProbe

    @model_validator(mode="after")
    def _consistent(self) -> "ImageStudy":
        labels = [arm.label for arm in self.arms]
        if len(set(labels)) != len(labels) or "dense" not in labels:
            raise ValueError(f"arms must be distinct and hold dense, got {', '.join(labels)}")
        if unknown := set(self.balanced_arms) - set(labels):
            raise ValueError(f"balanced_arms: {min(unknown)} is none of {', '.join(labels)}")
        if self.data.index_files or self.data.pretrain_list:
            if len(self.rho) > 1:
                raise ValueError("rho must be the one of index_files or pretrain_list")
            if self.balanced_arms:
                raise ValueError("balanced_arms must be empty with index_files or pretrain_list")
        return self

    def cells(self) -> list[Cell]:
        """Return a cell for each (rho, split, width, arm) that is pretrained."""
        balanced = [arm for arm in self.arms if arm.label in self.balanced_arms]
        return [
            Cell((("rho", rho), ("split", split), *width, ("arm", arm.label)), (arm,))
            for rho in self.rho
            for split, arms in (("long_tailed", self.arms), ("balanced", balanced))
            for width in ([(("width", width),) for width in self.widths] or [()])
            for arm in arms
        ]

    def network_of(self, cell: Cell) -> Network:
        """The network of a cell."""
        return (
            self.network.model_copy(update={"width": cell["width"]})
            if self.widths
            else self.network
        )

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the settings that a cell has, and not its study."""
        few = {"few_shot": self.probe.few_shot}
        trained = {"arm": cell.arms[0], "network": self.network_of(cell)} if cell.arms else {}
        return few | trained
