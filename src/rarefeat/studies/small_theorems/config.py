"""The section `small_theorems` of the config: a problem for each theorem."""

from typing import Annotated, Any

from pydantic import Field

from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import SeedSettings

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class HiddenBits(Section):
    """Section 7.2.1 with bits for hidden features."""

    norm: Distinct[Positive] = Field(
        min_length=1, description="norm B_r of every representation (A2)"
    )
    r: int = Field(ge=2, le=6, description="invariant bits, which a positive pair shares")
    u: int = Field(ge=1, le=4, description="spurious bits, which it draws anew")
    k: int = Field(ge=2, description="coordinates of a representation")
    rates: Annotated[
        list[Annotated[float, Field(gt=0, le=0.5)]], Field(min_length=2, max_length=2)
    ] = Field(description="least and largest probability of an invariant bit, drawn by the seed")
    samples: int = Field(ge=1000, description="triples (x, x+, x-) of a sampled loss")
    starts: Count = Field(description="starts of the descent, of which the best end counts")
    steps: Count = Field(description="steps of the descent")
    lr: Positive = Field(description="Adam's step, falling linearly")


class ParityInContext(Section):
    """The prompts and the search for a smaller norm of section 5.5."""

    d: Distinct[Annotated[int, Field(ge=4)]] = Field(
        min_length=1, description="features d, a power of two"
    )
    k: int = Field(ge=2, description="important features k, a smaller power of two")
    M: Count = Field(description="examples of a prompt in evaluation M")
    prompts: Count = Field(description="prompts of either sort of task")
    starts: Count = Field(description="starts of the search for a smaller norm")
    jitter: Positive = Field(description="deviation of these starts, relative to each entry")
    steps: Count = Field(description="steps of the search")
    lr: Positive = Field(description="Adam's step, falling linearly")
    penalty: Positive = Field(description="weight of the squared norm beside the hinge losses")


class TwoLayerTraining(Section):
    """Algorithm 1 with the initialisation (3.9); steps and rates are ours."""

    d: int = Field(ge=2, description="dimension d")
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

    r: int = Field(ge=1, description="parities r, an odd number")
    k: int = Field(ge=1, description="signs of a parity k, an odd number")
    p_A: Positive = Field(description="share of samples with one parity, all +1; as many all -1")
    p_o: Positive = Field(description="probability of +1 at each other coordinate, and of -1")


class GradientFeatures(Section):
    """The mixtures and sums of parities of chapter 3."""

    gaussians: dict[Name, Gaussians] = Field(description="mixtures of Gaussians by name")
    parities: dict[Name, Parities] = Field(description="sums of parities by name")

    def laws(self) -> dict[str, TwoLayerTraining]:
        """Return every law by its name."""
        return {**self.gaussians, **self.parities}


class InputStructure(Section):
    """Result 2-10 (A.7.5) on scikit-learn's digits."""

    m: Distinct[Count] = Field(min_length=1, description="hidden units of the student, FC(m)")
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

    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max"
    )
    sigma: float = Field(ge=0, description="standard deviation of the noise")


class TrainedStages(FirstStages):
    """The same with the encoder, for its job."""

    data: Data
    training: Training


class SmallTheorems(SeedSettings):
    """Small theorems, each a problem; the section is its only study."""

    invariant_features: HiddenBits
    parity_in_context: ParityInContext
    gradient_features: GradientFeatures
    input_structure: InputStructure
    first_stages: FirstStages
    data: Data = Field(description="the data model of the first stages")
    training: Training = Field(
        description="their encoder; the bias begins where (41) holds, T bounds the search for T2"
    )

    def cells(self) -> list[Cell]:
        """Return a cell for each point of each theorem."""
        points = {
            "invariant_features": self.invariant_features.norm,
            "parity_in_context": self.parity_in_context.d,
            "gradient_features": self.gradient_features.laws(),
            "first_stages": self.first_stages.eps_min,
            "input_structure": self.input_structure.m,
        }
        return [
            cell(result=result, point=point)
            for result, values in points.items()
            for point in values
        ]

    def job_config(self, cell: Cell) -> dict[str, Any]:
        """Return the config of the job of a cell: its theorem's problem."""
        problem = getattr(self, cell["result"])
        if isinstance(problem, FirstStages):
            problem = TrainedStages(**problem.model_dump(), data=self.data, training=self.training)
        return {"draws": self.draws, "problem": problem}
