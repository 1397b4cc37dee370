"""The typed config: its studies and how they share their sections. Values and their reasons are in config/config.yaml."""

import itertools
import math
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import yaml
from pydantic import Field, ValidationError, model_validator

from rarefeat.files import RarefeatError
from rarefeat.images.sections import Augmentation as ImageAugmentation
from rarefeat.images.sections import ImageArm, ImageStudy
from rarefeat.sections import Arm, Data, Section, TrainedArm, Training, UntrainedArm, Views, one_line
from rarefeat.seeds import seed_blocks


def distinct(values: list) -> list:
    """A pydantic check: no value twice."""
    if len(set(values)) < len(values):
        raise ValueError(f"values must be distinct, got {values}")
    return values


class Grid(Section):
    """A block of the grid: every eps_min with every sigma and every named arm."""

    eps_min: list[Annotated[float, Field(gt=0, le=1)]] = Field(min_length=1, description="eps_min / eps_max, in (0, 1]")
    sigma: list[Annotated[float, Field(ge=0)]] = Field(min_length=1, description="standard deviation of the noise sigma")
    arms: list[TrainedArm | UntrainedArm] = Field(min_length=1, description="arms of the study, by name")

    @model_validator(mode="after")
    def _distinct(self) -> "Grid":
        for key in ("eps_min", "sigma", "arms"):
            try:
                distinct(getattr(self, key))
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
        return self


class Point(NamedTuple):
    """One law of the data, with every arm that is compared there on the same draws; its seeds come in blocks."""

    eps_min: float
    sigma: float
    arms: tuple[Arm, ...]

    @property
    def path(self) -> str:
        """Folder of the point below its study's."""
        return f"eps_min={self.eps_min}/sigma={self.sigma}"

    @property
    def trained(self) -> list[Arm]:
        """The arms with a training."""
        return [arm for arm in self.arms if arm.trained]


class Study(Section):
    """A named chain synthesise -> pretrain -> probe -> aggregate over one grid."""

    simulator: Literal["direct", "reduced"] = Field(
        description="every token in R^d1; or the same law at a cost that does not know d1, for masks by neuron (reduced.md)"
    )
    draws: str = Field(
        min_length=1, description="name that keys the random draws, the test set among them: the study's own if not given"
    )
    seeds: int = Field(ge=1, description="replicas per point and arm")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: int = Field(ge=1, description="replicas trained as one batched tensor program, one job")
    data: Data = Field(description="the data model and the sizes of its samples")
    training: Training = Field(description="the encoder, the loss and the schedule")
    arms: list[Arm] = Field(min_length=1, description="what is compared; no arm twice with the same keys")
    grid: dict[str, Grid] = Field(min_length=1, description="named blocks; what several blocks hold is computed once")

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, raw: dict) -> dict:
        """An entry of `arms` with lists of values stands for one arm for each combination of them."""
        if not isinstance(raw, dict) or not isinstance(raw.get("arms"), list):
            return raw
        arms = []
        for entry in raw["arms"]:
            if not isinstance(entry, dict):
                arms.append(entry)
                continue
            axes = {key: value if isinstance(value, list) else [value] for key, value in entry.items()}
            arms += [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        return raw | {"arms": arms}

    @model_validator(mode="after")
    def _consistent(self) -> "Study":
        distinct([arm.label for arm in self.arms])
        known = {arm.arm for arm in self.arms}
        for name, block in self.grid.items():
            if missing := set(block.arms) - known:
                raise ValueError(f"grid.{name}.arms: {', '.join(sorted(missing))} not among the study's arms")
            if self.simulator == "reduced" and "pruned_weight" in block.arms:
                raise ValueError(
                    f"grid.{name}.arms: pruned_weight masks single weights, which the simulator reduced does not have; "
                    "leave it out, or say simulator: direct"
                )
        if self.simulator == "reduced" and self.data.views != Views():
            raise ValueError("data.views needs every coordinate of a token; say simulator: direct")
        if self.training.K > self.data.N:
            raise ValueError(f"training.K must not exceed data.N = {self.data.N}, got {self.training.K}")
        if self.data.test_pairs < self.training.K:
            raise ValueError(f"training.K must not exceed data.test_pairs = {self.data.test_pairs}")
        return self

    def points(self) -> list[Point]:
        """The union of the grid's blocks, in order, each point once with the arms of every block that holds it."""
        names: dict[tuple[float, float], set[str]] = {}
        for block in self.grid.values():
            for at in itertools.product(block.eps_min, block.sigma):
                names.setdefault(at, set()).update(block.arms)
        return [Point(*at, tuple(arm for arm in self.arms if arm.arm in names[at])) for at in sorted(names)]

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def paths(self, points: list[Point], suffix: str) -> list[str]:
        """Files of the points, one for each block of seeds, below the study's folder."""
        return [f"{point.path}/seeds={block}.{suffix}" for point in points for block in self.blocks()]


class Scaling(Section):
    """Theorem 3.1 across sizes: d, m = d^C_m and d1 = d^power together, for one minority feature and the dense arm."""

    d: list[Annotated[int, Field(ge=3)]] = Field(min_length=2, description="numbers of features d of the Monte Carlo")
    ratio: list[Annotated[float, Field(gt=0, le=1)]] = Field(min_length=1, description="eps_min / eps_max")
    neurons: int = Field(ge=1, description="initial neurons drawn for each d in the Monte Carlo")
    trained_d: list[Annotated[int, Field(ge=3)]] = Field(min_length=1, description="numbers of features d that may be trained")
    C_m: list[Annotated[float, Field(gt=0)]] = Field(min_length=1, description="exponents of m = d^C_m")
    d1_power: list[Annotated[float, Field(ge=1)]] = Field(min_length=1, description="exponents of d1 = d^power")
    least_lucky: float = Field(gt=0, description="train only where a lucky set is expected to be this large")
    most_neurons: int = Field(ge=1, description="train only up to this many neurons m")
    nsr: float = Field(ge=0, description="noise-to-signal ratio sigma^2 d1 of every point")
    seeds: int = Field(ge=1, description="replicas per trained point")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: int = Field(ge=1, description="replicas trained as one batched tensor program, one job")
    data: Data = Field(description="as in a study, but for d, d1 and minority")
    training: Training = Field(description="as in a study, but for m")

    @model_validator(mode="after")
    def _trainable(self) -> "Scaling":
        self.studies()  # for its errors
        return self

    def studies(self) -> dict[str, Study]:
        """The trainable sizes as studies by name, each over every ratio; which of them are trained the Monte Carlo says."""
        studies = {}
        for d, C_m, power in itertools.product(self.trained_d, self.C_m, self.d1_power):
            m, d1 = round(d**C_m), round(d**power)
            if m > self.most_neurons:
                continue
            name = f"scaling_d={d}_m={m}_d1={d1}"
            try:
                studies[name] = Study(
                    simulator="reduced",
                    draws=name,
                    seeds=self.seeds,
                    first_seed=self.first_seed,
                    seeds_per_block=self.seeds_per_block,
                    data=Data(**self.data.model_dump() | {"d": d, "d1": d1, "minority": [1.0]}),
                    training=Training(**self.training.model_dump() | {"m": m}),
                    arms=[Arm(arm="dense")],
                    grid={"ratios": Grid(eps_min=self.ratio, sigma=[math.sqrt(self.nsr / d1)], arms=["dense"])},
                )
            except ValidationError as error:
                raise ValueError(f"at d = {d}, m = {m}, d1 = {d1}: {one_line(error)}") from error
        return studies


class Sensitivity(Section):
    """A study of the claims again, with one hyper-parameter at a time at multiples of its value."""

    study: str = Field(description="the study of the claims that is varied")
    eps_min: list[Annotated[float, Field(gt=0, le=1)]] = Field(min_length=1, description="its points")
    seeds: int = Field(ge=1, description="replicas per point")
    keys: list[str] = Field(min_length=1, description="hyper-parameters, by their dotted path in the study")
    factors: list[Annotated[float, Field(gt=0)]] = Field(min_length=1, description="multiples")


class Claims(Section):
    """The studies that the claims table is measured on, beside the paper's grid and the scaling study."""

    studies: dict[str, Study] = Field(
        min_length=1,
        description="by name: stages..., T1... and T5... keep the history of the neurons; pruning... and phase... do not",
    )
    sensitivity: Sensitivity = Field(description="which verdicts depend on what the papers leave open")

    @model_validator(mode="after")
    def _known(self) -> "Claims":
        if self.sensitivity.study not in self.studies:
            raise ValueError(f"sensitivity.study: {self.sensitivity.study!r} is none of studies: {', '.join(self.studies)}")
        self.every_study()  # for its errors
        return self

    def tables(self) -> dict[str, list[str]]:
        """The studies by the kind of table that claims are read from."""
        studies = self.every_study()
        kept = [name for name, study in studies.items() if study.training.history]
        return {
            "milestones": kept,
            "one_step": [name for name in kept if name.startswith("stages")],
            "trajectories": [name for name in studies if name not in kept],
        }

    def every_study(self) -> dict[str, Study]:
        """The studies with those of the sensitivity analysis, which share the draws of the study that they vary."""
        wanted = self.sensitivity
        base = self.studies[wanted.study].model_dump(by_alias=True)
        base |= {"seeds": wanted.seeds, "seeds_per_block": wanted.seeds}
        base["grid"] = {name: block | {"eps_min": wanted.eps_min} for name, block in base["grid"].items()}
        varied = {}
        for path, factor in itertools.product(wanted.keys, wanted.factors):
            *parents, last = path.split(".")
            changed = node = merged(base, {})
            for parent in parents:
                node[parent] = dict(node[parent]) if isinstance(node.get(parent), dict) else {}
                node = node[parent]
            if not isinstance(node.get(last), int | float):
                raise ValueError(f"sensitivity.keys: {path} is no number of the study {wanted.study}")
            value = node[last] * factor
            node[last] = round(value) if isinstance(node[last], int) else value
            try:
                varied[f"{wanted.study}_{last}={node[last]:g}"] = Study.model_validate(changed)
            except ValidationError as error:
                raise ValueError(f"sensitivity: {path} = {node[last]:g}: {one_line(error)}") from error
        return self.studies | varied


class Supervised(Section):
    """Training of the encoder that learns <w*, z> from labels, to compare the contrastive ones with."""

    study: str = Field(description="the study whose samples it sees")
    steps: int = Field(ge=1, description="steps of Adam, each on fresh samples")
    batch: int = Field(ge=1, description="samples a step")
    lr: float = Field(gt=0, description="learning rate")


class ImageViews(Section):
    """An image study again, dense on balanced images, under several kinds of augmentation on the same draws."""

    study: str = Field(description="the image study")
    epochs: int = Field(ge=1, description="instead of that study's")
    kinds: dict[str, ImageAugmentation] = Field(min_length=1, description="its augmentation, by name")


class Augmentation(Section):
    """The studies of what the two views of a pair make an encoder learn (Wen & Li 2021), by name."""

    studies: dict[str, Study] = Field(min_length=1, description="one token, simulator direct, with training.history")
    labels: list[Annotated[int, Field(ge=2)]] = Field(min_length=1, description="numbers of labels of the linear heads")
    tests: int = Field(ge=2, description="test samples of each replica")
    gradients: int = Field(ge=2, description="pairs that the pull of the loss on W(0) is averaged over")
    supervised: Supervised
    images: ImageViews

    @model_validator(mode="after")
    def _measurable(self) -> "Augmentation":
        if self.supervised.study not in self.studies:
            raise ValueError(f"supervised.study: {self.supervised.study!r} is none of studies: {', '.join(self.studies)}")
        for name, study in self.studies.items():
            if study.simulator != "direct" or study.data.L != 1 or not study.training.history:
                raise ValueError(f"studies.{name} must have simulator: direct, data.L: 1 and training.history: true")
        return self

    def like_supervised(self, name: str) -> bool:
        """Whether the supervised encoders have the dictionary, the samples' law and the seeds of a study."""
        study, other = self.studies[name], self.studies[self.supervised.study]
        same = ("d", "d1", "C", "minority")
        return (
            (study.draws, study.blocks(), study.points()[0][:2]) == (other.draws, other.blocks(), other.points()[0][:2])
            and all(getattr(study.data, key) == getattr(other.data, key) for key in same)
            and study.data.views.colour == other.data.views.colour
        )


SHARED = ("simulator", "seeds", "first_seed", "seeds_per_block", "data", "training", "arms")
OF_A_SECTION = (*SHARED, "draws", "grid")


class Config(Section):
    """The whole config. What stands at the top level holds for every study that does not say otherwise."""

    results: str = Field(min_length=1, description="folder of everything that is computed")
    studies: dict[str, Study] = Field(min_length=1, description="each a chain of its own over its grid, by name")
    scaling: Scaling = Field(description="the scaling study")
    claims: Claims = Field(description="the studies of the claims table")
    augmentation: Augmentation = Field(description="the study of augmentation")
    images: dict[str, ImageStudy] = Field(min_length=1, description="the studies of long-tailed images, by name")

    @model_validator(mode="after")
    def _viewed(self) -> "Config":
        wanted = self.augmentation.images
        if wanted.study not in self.images:
            raise ValueError(f"augmentation.images.study: {wanted.study!r} is none of {', '.join(self.images)}")
        warmup = self.images[wanted.study].training.warmup_epochs
        if wanted.epochs < warmup:
            raise ValueError(f"augmentation.images.epochs must be at least warmup_epochs = {warmup:g} of images.{wanted.study}")
        return self

    def image_views(self) -> dict[str, ImageStudy]:
        """The image studies of the study of augmentation, by the kind of their views."""
        wanted = self.augmentation.images
        of = self.images[wanted.study]
        training = of.training.model_copy(update={"epochs": wanted.epochs})
        dense = {"arms": [ImageArm(arm="dense")], "balanced_arms": [], "rho": [1.0], "table2": "", "training": training}
        base = of.model_copy(update=dense)
        return {f"views_{kind}": base.model_copy(update={"augmentation": views}) for kind, views in wanted.kinds.items()}

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, raw: dict) -> dict:
        if not isinstance(raw, dict) or not isinstance(raw.get("studies"), dict):
            return raw
        shared = {key: raw[key] for key in SHARED if key in raw}
        rest = {key: value for key, value in raw.items() if key not in SHARED}
        studies = inherited(shared, raw["studies"])
        for part in ("claims", "augmentation"):
            if isinstance(raw.get(part), dict) and isinstance(raw[part].get("studies"), dict):
                # A section may say what holds for its own studies.
                own = {key: value for key, value in raw[part].items() if key in OF_A_SECTION}
                others = {key: value for key, value in raw[part].items() if key not in OF_A_SECTION}
                rest[part] = others | {"studies": inherited(merged(shared, own), raw[part]["studies"])}
        if isinstance(raw.get("scaling"), dict):
            known = {key: value for key, value in shared.items() if key in Scaling.model_fields}
            rest["scaling"] = merged(known, raw["scaling"])
        return rest | {"studies": studies}


def inherited(shared: dict, studies: dict) -> dict:
    """The studies with what holds for all of them, and draws of their own name where they say nothing else.

    A study that a later config sets to null is left out.
    """
    return {
        name: {"draws": name} | merged(shared, study) if isinstance(study, dict) else study
        for name, study in studies.items()
        if study is not None
    }


def merged(base: dict, changes: dict) -> dict:
    """`base` with `changes`, mapping by mapping; lists are replaced."""
    result = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def parse(raw: dict) -> Config:
    """The typed config; RarefeatError with one line that names the keys, what is wrong and what is allowed."""
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise RarefeatError(f"config: {one_line(error)}") from error


def load(*paths: str | Path) -> Config:
    """Read and merge config files, the later ones over the earlier."""
    raw: dict = {}
    for path in paths:
        try:
            part = yaml.safe_load(Path(path).read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RarefeatError(f"cannot read config {path}: {' '.join(str(error).split())}") from error
        if not isinstance(part, dict):
            raise RarefeatError(f"config {path} must be a mapping of keys to values")
        raw = merged(raw, part)
    return parse(raw)
