"""The keys of the results: each is a study with cells, seeds and a problem for its stage."""

import itertools
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import SeedsPerBlock, seed_blocks

Size = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]


class Result(Section):
    """A result: seeds, cells on some axes, and the problem that is the same at all of them."""

    axes: ClassVar[dict[str, str]]
    """The key that has the values of each axis."""
    seeds: int = Field(ge=1, description="replicas of every cell")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(description="replicas of one job")

    def cells(self) -> list[Cell]:
        """Return every value of each axis with those of all others."""
        values = itertools.product(*(getattr(self, key) for key in self.axes.values()))
        return [Cell(tuple(zip(self.axes, point, strict=True))) for point in values]

    def blocks(self) -> dict[str, list[int]]:
        """Return blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def parameters(self, cell: Cell) -> Section:
        """Return the job config of a cell."""
        return self.problem


class LoopedProblem(Section):
    """The regression problems of section 8.6."""

    d: int = Field(ge=2, description="dimension d")
    T: int = Field(ge=5, description="loops T")
    trials: int = Field(
        ge=2, description="problems of an experiment, which is a replica: section 8.6 has ten"
    )


class LoopedTransformer(Result):
    """8-1: a looped linear transformer beside gradient descent."""

    axes: ClassVar[dict[str, str]] = {"n": "n"}
    n: Distinct[Annotated[int, Field(ge=2)]] = Field(min_length=1, description="examples n")
    problem: LoopedProblem

    @model_validator(mode="after")
    def _solvable(self) -> "LoopedTransformer":
        if min(self.n) <= self.problem.d:
            raise ValueError(
                f"n must exceed problem.d = {self.problem.d} (Definition 8.10), got {min(self.n)}"
            )
        return self


class AttentionProblem(Section):
    """The prompts of section 5.4, in pretraining and in evaluation."""

    d: int = Field(ge=2, description="dimension d")
    decay: float = Field(
        gt=0, le=1, description="eigenvalues of the tokens' covariance: lambda_i = decay^(i - 1)"
    )
    N: int = Field(ge=1, description="examples of a prompt in pretraining N")
    M: int = Field(ge=1, description="examples of a prompt in evaluation M")
    sigma: float = Field(ge=0, description="standard deviation of the label noise in evaluation")
    prompts: int = Field(ge=2, description="prompts that the loss is simulated with, for each seed")


class LowRankAttention(Result):
    """5-T: the loss of linear attention by its rank."""

    axes: ClassVar[dict[str, str]] = {"signal": "signal"}
    signal: Distinct[Size] = Field(
        min_length=1,
        description="so many leading directions hold the task's weights w; the others have none",
    )
    problem: AttentionProblem

    @model_validator(mode="after")
    def _inside(self) -> "LowRankAttention":
        if max(self.signal) > self.problem.d:
            raise ValueError(
                f"signal must be at most problem.d = {self.problem.d}, got {max(self.signal)}"
            )
        return self


class SpuriousProblem(Section):
    """Section 6.4: every seed draws a problem that Proposition 6.3 speaks of."""

    r: Annotated[list[Annotated[int, Field(ge=37)]], Field(min_length=2, max_length=2)] = Field(
        description="smallest and largest number of invariant features r; 3 / sqrt(r) < gamma <"
        " 1/2 asks for more than 36"
    )
    more: float = Field(
        gt=1, description="largest d - r in units of r / gamma^2, whose smallest is 1"
    )


class SpuriousFeatures(Result):
    """6-T: a ridge keeps spurious features, a bound on the rank drops them."""

    axes: ClassVar[dict[str, str]] = {"factor": "factor"}
    factor: Distinct[Positive] = Field(
        min_length=1,
        description="lambda in units of sqrt(r) / exp(sqrt(r) / 5), whose constant is open",
    )
    problem: SpuriousProblem

    @model_validator(mode="after")
    def _ordered(self) -> "SpuriousFeatures":
        if self.problem.r[0] > self.problem.r[1]:
            raise ValueError(f"problem.r must be [smallest, largest], got {self.problem.r}")
        return self


class Mixture(Section):
    """A mixture of tasks (F.35-F.37), all variances 1, and the use of its representation."""

    r: int = Field(ge=2, description="invariant features of a task r")
    s: int = Field(ge=1, description="of these, shared by all tasks s")
    weights: list[Positive] = Field(
        min_length=1, description="how often each task comes, up to a factor: w_t"
    )
    spurious: int = Field(
        ge=1, description="spurious features, which a positive pair does not share"
    )
    samples: int = Field(
        ge=100, description="positive pairs that the contrastive loss is a mean over"
    )
    gamma: list[Positive] = Field(
        default=[], description="radii gamma of contrastive fine-tuning on the first task (F.105)"
    )
    labels: list[Size] = Field(
        default=[], description="numbers of labels m of a probe of the first and the last task"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Mixture":
        if self.s >= self.r:
            raise ValueError(f"s must be less than r = {self.r}, got {self.s}")
        if self.gamma and (self.r != 2 * self.s or len(set(self.weights)) > 1):
            raise ValueError("gamma: Proposition F.9 is about r = 2 s and equal weights")
        return self


class TaskMixture(Result):
    """7-T: the features that contrastive learning keeps of a mixture of tasks, even or not."""

    axes: ClassVar[dict[str, str]] = {"mixture": "mixtures"}
    mixtures: dict[Name, Mixture] = Field(min_length=1, description="mixtures by name")

    def parameters(self, cell: Cell) -> Mixture:
        """Return the mixture of a cell."""
        return self.mixtures[cell["mixture"]]


class AdditionTable(Section):
    """A table of (a_1 + ... + a_k) mod p, the network that learns it, and its training."""

    k: int = Field(ge=2, le=5, description="inputs k")
    p: int = Field(ge=3, description="prime p")
    m: int = Field(
        ge=1,
        description="neurons m; 2^(2k - 2) (p - 1) are enough for the largest margin (Theorem 4.9)",
    )
    steps: int = Field(ge=1, description="steps of training")
    lr: float = Field(gt=0, description="Adam's step, falling linearly to 0")
    penalty: float = Field(gt=0, description="lambda of the L_{2,k+1} norm (Definition 4.1)")

    @model_validator(mode="after")
    def _prime(self) -> "AdditionTable":
        if self.p % 2 == 0 or any(
            self.p % divisor == 0 for divisor in range(3, int(self.p**0.5) + 1, 2)
        ):
            raise ValueError(f"p must be an odd prime, got {self.p}")
        return self


class ModularAddition(Result):
    """4-1, reduced: the frequencies of neurons that add modulo p, and their margin."""

    axes: ClassVar[dict[str, str]] = {"table": "tables"}
    tables: dict[Name, AdditionTable] = Field(min_length=1, description="tables by name")

    def parameters(self, cell: Cell) -> AdditionTable:
        """Return the table of a cell."""
        return self.tables[cell["table"]]


class DigitProblem(Section):
    """The network and training of A.7.4, on scikit-learn's digits."""

    m: int = Field(ge=2, description="neurons m")
    steps: int = Field(ge=1, description="steps of training")
    batch: int = Field(ge=1, description="images of a step")
    momentum: float = Field(ge=0, lt=1, description="momentum of SGD")
    lr: float = Field(gt=0, description="step of SGD, which the text does not print")


class DigitNeurons(Result):
    """2-8 on digits: clusters of the neurons of a two-layer network."""

    axes: ClassVar[dict[str, str]] = {"sigma": "sigma"}
    sigma: Distinct[Positive] = Field(
        min_length=1,
        description="deviation of the initial weights in units of 1 / sqrt(64), which the text"
        " does not print",
    )
    problem: DigitProblem


class NuclearProblem(Section):
    """The two-dimensional example of section 6.3.1."""

    penalty: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="lambda of the nuclear norm; 0 for ERM"
    )
    steps: int = Field(ge=1, description="steps of gradient descent")
    lr: float = Field(gt=0, description="step of gradient descent")
    test: int = Field(ge=1000, description="test samples of either domain")


class NuclearNorm(Result):
    """6-1: the two-dimensional example of nuclear-norm regularisation."""

    axes: ClassVar[dict[str, str]] = {"model": "model", "n": "n"}
    model: Distinct[Literal["logits", "head", "fixed_head"]] = Field(
        min_length=1,
        description="what reads the features A x: they are the two logits, or a head does, trained"
        " or fixed at ones",
    )
    n: Distinct[Annotated[int, Field(ge=2)]] = Field(
        min_length=1, description="training samples, which the text does not print"
    )
    problem: NuclearProblem


class MachineSpeed(Section):
    """The speed of a machine, for the cost of what is out of reach."""

    cores: float = Field(
        gt=0, description="floating-point operations per second that two cores sustain in training"
    )
    gpu: float = Field(
        gt=0, description="the same of one GPU of the size that the dissertation had"
    )


class ExactResults(Section):
    """Every result, and what is out of reach."""

    looped_transformer: LoopedTransformer
    low_rank_attention: LowRankAttention
    spurious_features: SpuriousFeatures
    task_mixture: TaskMixture
    modular_addition: ModularAddition
    digit_neurons: DigitNeurons
    nuclear_norm: NuclearNorm
    machine: MachineSpeed = Field(
        description="what the cost of the experiments that are out of reach is counted on"
    )

    def studies(self) -> dict[str, Result]:
        """Return the study of each result."""
        return {name: getattr(self, name) for name in RESULTS}


RESULTS = {
    name: field.annotation
    for name, field in ExactResults.model_fields.items()
    if issubclass(field.annotation, Result)
}
"""Type of each result's study."""
NAMED = {"task_mixture": "mixtures", "modular_addition": "tables"}
"""Results whose cells are sections by name."""


def inherit(raw: Any, shared: dict) -> Any:
    """Return the section as it is, since it shares nothing.

    A mixture or table that a later config sets to null is left out.
    """
    if not isinstance(raw, dict):
        return raw
    cleaned = dict(raw)
    for result, key in NAMED.items():
        section = raw.get(result)
        if isinstance(section, dict) and isinstance(section.get(key), dict):
            cleaned[result] = section | {
                key: {name: item for name, item in section[key].items() if item is not None}
            }
    return cleaned
