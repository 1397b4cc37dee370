"""The keys of each theorem in the config: its problem, and of an exact result its study, too.

A plan reads this file and no other of the folder: it needs keys and grids, and no torch.
"""

import itertools
from typing import Annotated, Literal, TypeVar

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Distinct, LeaveOutNull, Section
from rarefeat.workflow.config.seeds import Replicas

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
AtLeast2 = Annotated[int, Field(ge=2)]
Value = TypeVar("Value")
Axis = Annotated[Distinct[Value], Field(min_length=1)]
"""Values of an axis."""
Pair = Annotated[list[Value], Field(min_length=2, max_length=2)]


class Result(Replicas):
    """An exact result: seeds, values on some axes, and the problem that is the same at all."""

    def cells(self) -> list[Cell]:
        """Return a cell for every combination of values; of `mixtures` the axis is `mixture`."""
        others = ("problem", *Result.model_fields)
        axes = {key.removesuffix("s"): values for key, values in self if key not in others}
        points = itertools.product(*axes.values())
        return [Cell(tuple(zip(axes, point, strict=True))) for point in points]


class LoopedProblem(Section):
    """Section 8.6."""

    d: AtLeast2 = Field(description="dimension d")
    T: int = Field(ge=5, description="loops T")
    trials: AtLeast2 = Field(
        description="problems of an experiment, which is a replica: ten in section 8.6"
    )


class LoopedTransformer(Result):
    """8-1: a looped linear transformer beside gradient descent."""

    n: Axis[AtLeast2] = Field(description="examples n")
    problem: LoopedProblem

    @model_validator(mode="after")
    def _solvable(self) -> "LoopedTransformer":
        if min(self.n) <= self.problem.d:
            raise ValueError(
                f"n must exceed problem.d = {self.problem.d} (Definition 8.10), got {min(self.n)}"
            )
        return self


class AttentionProblem(Section):
    """Section 5.4."""

    d: AtLeast2 = Field(description="dimension d")
    decay: float = Field(
        gt=0, le=1, description="eigenvalues of the tokens' covariance: lambda_i = decay^(i - 1)"
    )
    N: Count = Field(description="examples of a prompt in pretraining N")
    M: Count = Field(description="examples of a prompt in evaluation M")
    sigma: float = Field(ge=0, description="standard deviation of the label noise in evaluation")
    prompts: AtLeast2 = Field(description="prompts that the loss is simulated with, for each seed")


class LowRankAttention(Result):
    """5-T: the loss of linear attention by its rank."""

    signal: Axis[Count] = Field(
        description="so many leading directions hold the task's weights w; the others have none"
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

    r: Pair[Annotated[int, Field(ge=37)]] = Field(
        description="smallest and largest number of invariant features r; 3 / sqrt(r) < gamma <"
        " 1/2 asks for more than 36"
    )
    more: float = Field(
        gt=1, description="largest d - r in units of r / gamma^2, whose smallest is 1"
    )


class SpuriousFeatures(Result):
    """6-T: a ridge keeps spurious features, a bound on the rank drops them."""

    factor: Axis[Positive] = Field(
        description="lambda in units of sqrt(r) / exp(sqrt(r) / 5), whose constant is open"
    )
    problem: SpuriousProblem

    @model_validator(mode="after")
    def _ordered(self) -> "SpuriousFeatures":
        if self.problem.r[0] > self.problem.r[1]:
            raise ValueError(f"problem.r must be [smallest, largest], got {self.problem.r}")
        return self


class Mixture(Section):
    """A mixture of tasks (F.35-F.37), all variances 1, and the use of its representation."""

    r: AtLeast2 = Field(description="invariant features of a task r")
    s: Count = Field(description="of these, shared by all tasks s")
    weights: list[Positive] = Field(
        min_length=1, description="how often each task comes, up to a factor: w_t"
    )
    spurious: Count = Field(description="spurious features, which a positive pair does not share")
    samples: int = Field(
        ge=100, description="positive pairs that the contrastive loss is a mean over"
    )
    gamma: list[Positive] = Field(
        default=[], description="radii gamma of contrastive fine-tuning on the first task (F.105)"
    )
    labels: list[Count] = Field(
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

    mixtures: Annotated[dict[Name, Mixture], LeaveOutNull] = Field(
        min_length=1, description="mixtures by name"
    )

    def settings(self, cell: Cell) -> dict[str, Mixture]:
        """Return the mixture of a cell."""
        return {"problem": self.mixtures[cell["mixture"]]}


class AdditionTable(Section):
    """A table of (a_1 + ... + a_k) mod p, the network that learns it, and its training."""

    k: int = Field(ge=2, le=5, description="inputs k")
    p: int = Field(ge=3, description="prime p")
    m: Count = Field(
        description="neurons m; 2^(2k - 2) (p - 1) are enough for the largest margin (Theorem 4.9)"
    )
    steps: Count = Field(description="steps of training")
    lr: Positive = Field(description="Adam's step, falling linearly to 0")
    penalty: Positive = Field(description="lambda of the L_{2,k+1} norm (Definition 4.1)")

    @model_validator(mode="after")
    def _prime(self) -> "AdditionTable":
        if any(self.p % divisor == 0 for divisor in (2, *range(3, int(self.p**0.5) + 1, 2))):
            raise ValueError(f"p must be an odd prime, got {self.p}")
        return self


class ModularAddition(Result):
    """4-1, reduced: the frequencies of neurons that add modulo p, and their margin."""

    tables: Annotated[dict[Name, AdditionTable], LeaveOutNull] = Field(
        min_length=1, description="tables by name"
    )

    def settings(self, cell: Cell) -> dict[str, AdditionTable]:
        """Return the table of a cell."""
        return {"problem": self.tables[cell["table"]]}


class DigitProblem(Section):
    """A.7.4 on scikit-learn's digits."""

    m: AtLeast2 = Field(description="neurons m")
    steps: Count = Field(description="steps of training")
    batch: Count = Field(description="images of a step")
    momentum: float = Field(ge=0, lt=1, description="momentum of SGD")
    lr: Positive = Field(description="step of SGD, which the text does not print")


class DigitNeurons(Result):
    """2-8 on digits: clusters of the neurons of a two-layer network."""

    sigma: Axis[Positive] = Field(
        description="deviation of the initial weights in units of 1 / sqrt(64), which the text"
        " does not print"
    )
    problem: DigitProblem


class NuclearProblem(Section):
    """Section 6.3.1."""

    penalty: Axis[Annotated[float, Field(ge=0)]] = Field(
        description="lambda of the nuclear norm; 0 for ERM"
    )
    steps: Count = Field(description="steps of gradient descent")
    lr: Positive = Field(description="step of gradient descent")
    test: int = Field(ge=1000, description="test samples of either domain")


class NuclearNorm(Result):
    """6-1: the two-dimensional example of nuclear-norm regularisation."""

    model: Axis[Literal["logits", "head", "fixed_head"]] = Field(
        description="what reads the features A x: they are the two logits, or a head does, trained"
        " or fixed at ones"
    )
    n: Axis[AtLeast2] = Field(description="training samples, which the text does not print")
    problem: NuclearProblem


class MachineSpeed(Section):
    """The speed of a machine, for the cost of what is out of reach."""

    cores: Positive = Field(
        description="floating-point operations a second of two cores in training"
    )
    gpu: Positive = Field(description="the same of one GPU of the size that the dissertation had")


class HiddenBits(Section):
    """Section 7.2.1 with bits for hidden features."""

    norm: Axis[Positive] = Field(description="norm B_r of every representation (A2)")
    r: int = Field(ge=2, le=6, description="invariant bits, which a positive pair shares")
    u: int = Field(ge=1, le=4, description="spurious bits, which it draws anew")
    k: AtLeast2 = Field(description="coordinates of a representation")
    rates: Pair[Annotated[float, Field(gt=0, le=0.5)]] = Field(
        description="least and largest probability of an invariant bit, drawn by the seed"
    )
    samples: int = Field(ge=1000, description="triples (x, x+, x-) of a sampled loss")
    starts: Count = Field(description="starts of the descent, of which the best end counts")
    steps: Count = Field(description="steps of the descent")
    lr: Positive = Field(description="Adam's step, falling linearly")


class ParityInContext(Section):
    """Section 5.5."""

    d: Axis[Annotated[int, Field(ge=4)]] = Field(description="features d, a power of two")
    k: AtLeast2 = Field(description="important features k, a smaller power of two")
    M: Count = Field(description="examples of a prompt in evaluation M")
    prompts: Count = Field(description="prompts of either sort of task")
    starts: Count = Field(description="starts of the search for a smaller norm")
    jitter: Positive = Field(description="deviation of these starts, relative to each entry")
    steps: Count = Field(description="steps of the search")
    lr: Positive = Field(description="Adam's step, falling linearly")
    penalty: Positive = Field(description="weight of the squared norm beside the hinge losses")


class TwoLayerTraining(Section):
    """Algorithm 1 with the initialisation (3.9); steps and rates are ours."""

    d: AtLeast2 = Field(description="dimension d")
    m: Count = Field(description="m of (3.9); the network has 4 m neurons")
    b: Positive = Field(description="bias b~ in units of sigma_w")
    sigma_w: Positive = Field(description="deviation of the initial weights")
    sigma_a: Positive = Field(description="deviation of the initial second layer")
    first_rate: Positive = Field(description="step size of the first step, eta^(1)")
    first_batch: Count = Field(description="samples of the first step")
    rate: Positive = Field(description="step size of the second step, falling linearly to 0")
    batch: Count = Field(description="samples of the later steps")
    steps: Count = Field(description="steps after the first one")


class Gaussians(TwoLayerTraining):
    """Four Gaussians with labels as XOR, means of norm sqrt(d) (Assumption B.36)."""

    sigma: Positive = Field(description="standard deviation of every Gaussian")


class Parities(TwoLayerTraining):
    """Section 3.4.2: the sign of a sum of r parities of k signs each."""

    r: Count = Field(description="parities r, an odd number")
    k: Count = Field(description="signs of a parity k, an odd number")
    p_A: Positive = Field(description="share of samples with one parity, all +1; as many all -1")
    p_o: Positive = Field(description="probability of +1 at each other coordinate, and of -1")


class GradientFeatures(Section):
    """Chapter 3."""

    gaussians: dict[Name, Gaussians] = Field(description="mixtures of Gaussians by name")
    parities: dict[Name, Parities] = Field(description="sums of parities by name")

    def laws(self) -> dict[str, TwoLayerTraining]:
        """Return every law by its name."""
        return {**self.gaussians, **self.parities}


class InputStructure(Section):
    """Result 2-10 (A.7.5) on scikit-learn's digits."""

    m: Axis[Count] = Field(description="hidden units of the student, FC(m)")
    teacher: Count = Field(description="hidden units of the teacher")
    entropy: float = Field(ge=0, description="lambda of (A.289)")
    train: Annotated[int, Field(ge=10, le=1700)] = Field(
        description="digits in training, and as many Gaussian inputs; the others test"
    )
    steps: Count = Field(description="steps of the teacher, and of the student")
    batch: Count = Field(description="samples of a step")
    lr: Positive = Field(description="Adam's step")


class FirstStages(Section):
    """Theorems 3.1 and 3.2 of Liao et al."""

    eps_min: Axis[Annotated[float, Field(gt=0, le=1)]] = Field(description="eps_min / eps_max")
    sigma: float = Field(ge=0, description="standard deviation of the noise")


class TrainedStages(FirstStages):
    """The same with the encoder, for its job."""

    data: Data
    training: Training
