"""The keys of the study: data distributions, sizes, arms and rates.

The rates are those that the text leaves open.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Section
from rarefeat.workflow.config.seeds import SeedsPerBlock, seed_blocks

Labels = Literal["parity", "majority", "interval", "codes", "hypercube"]
Method = Literal["network", "ntk", "random_features", "one_step", "one_step_rescaled", "two_step"]
Schedule = Literal["printed", "chosen", "plain"]

STAGED = ("network", "one_step", "one_step_rescaled", "two_step")
"""Methods that begin with the two erasing steps of Theorem A.20."""


class Problem(Section):
    """A distribution of (x, y): patterns phi~ of which k are relevant (eq. 2.1).

    x~ = M phi~ with orthonormal M in R^{d x D}.
    """

    labels: Labels = Field(
        description="what y = +1 means: an odd number of relevant patterns, more than k / 2 of"
        " them, a number in `interval`, "
        "a code of class +1 (A.7.3), or an even number of signs -1 of a hypercube's corner (eq."
        " A.288)"
    )
    d: int = Field(ge=1, description="input dimension d")
    D: int = Field(
        ge=2, description="number of patterns D; d for `hypercube`, whose noise fills the space"
    )
    k: int = Field(ge=1, description="number of class-relevant patterns k")
    p_o: float = Field(default=0.5, gt=0, le=0.5, description="probability of a pattern outside A")
    p_A: float = Field(
        default=0.5, gt=0, lt=1, description="probability of a relevant pattern, for `interval`"
    )
    interval: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[t_1, t_2], the counts of class +1, for `interval`"
    )
    codes: int | None = Field(
        default=None, ge=1, description="binary vectors of each class, for `codes`"
    )
    sigma_r: float | None = Field(
        default=None, ge=0, description="the noise is N(0, sigma_r^2 k / d), for `hypercube`"
    )
    frequency: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        default=[],
        description="share of its occurrences that each relevant pattern keeps, k numbers; none"
        " for 1 each. Labels count what "
        "is kept",
    )
    negatives: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="share of class -1, exact in every sample; null for what the law gives",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Problem":
        for key, kind in (("interval", "interval"), ("codes", "codes"), ("sigma_r", "hypercube")):
            if (getattr(self, key) is not None) != (self.labels == kind):
                raise ValueError(f"{key} goes with labels: {kind} and with no other")
        if self.k > self.D:
            raise ValueError(f"k must be at most D = {self.D}, got {self.k}")
        if self.d < self.D:
            raise ValueError(
                f"d must be at least D = {self.D} for orthonormal patterns, got {self.d}"
            )
        if self.labels == "hypercube" and self.d != self.D:
            raise ValueError(f"D must be d = {self.d} for labels: hypercube")
        if self.labels == "parity" and self.k % 2 == 0:
            raise ValueError(f"k must be odd for labels: parity (Example 2), got {self.k}")
        if self.interval and not 0 <= self.interval[0] <= self.interval[1] <= self.k:
            raise ValueError(
                f"interval must lie in 0 <= t_1 <= t_2 <= k = {self.k}, got {list(self.interval)}"
            )
        if self.codes and 2 * self.codes > 2**self.k:
            raise ValueError(
                f"codes: 2^k = {2**self.k} binary vectors are fewer than two classes of"
                f" {self.codes}"
            )
        if self.frequency and len(self.frequency) != self.k:
            raise ValueError(f"frequency must have k = {self.k} entries, got {len(self.frequency)}")
        if self.frequency and self.labels not in ("parity", "majority", "interval"):
            raise ValueError(
                "frequency is for labels that count relevant patterns: parity, majority, interval"
            )
        if self.p_A != 0.5 and self.labels != "interval":
            raise ValueError("p_A goes with labels: interval")
        return self


class Procedure(Section):
    """A way to learn: a column of Tables A.1-A.5, or one of ours for comparison."""

    method: Method = Field(description="what is trained, on which features")
    schedule: Schedule = Field(
        default="chosen",
        description="step sizes after the first two steps: `printed` for eq. (A.276), `chosen` for"
        " the rates of this config, "
        "`plain` for those from step 0 on, without the two erasing steps",
    )
    structure: bool = Field(
        default=True, description="false: uniform patterns, (A1'), with the same labels and rates"
    )
    weights: bool = Field(
        default=False, description="weigh the classes in the first two steps, eq. (A.293)"
    )

    @model_validator(mode="after")
    def _staged(self) -> "Procedure":
        if self.schedule != "chosen" and self.method != "network":
            raise ValueError(
                "schedule is for method: network; heads and NTK have the rates of the config"
            )
        if self.weights and (self.method not in STAGED or self.schedule == "plain"):
            raise ValueError(
                f"weights are for methods with the two erasing steps: {', '.join(STAGED)}"
            )
        return self

    @property
    def label(self) -> str:
        """Name in tables: the method, with whatever it has that is not the default."""
        words = [self.schedule] if self.schedule != "chosen" else []
        words += ["no_structure"] if not self.structure else []
        words += ["weighted"] if self.weights else []
        return "-".join([self.method, *words])


LEARNERS = {
    "network": (Procedure(method="network"), ("network_head", "network_first")),
    "ntk": (Procedure(method="ntk"), ("ntk",)),
    "heads": (Procedure(method="two_step"), ("head",)),
}
"""Each learner with the rates that concern it."""


class Rates(Section):
    """Step sizes that the dissertation does not print (docs/method/two_layer.md).

    They are chosen on the draws of `rate_search`.
    """

    network_head: float = Field(gt=0, description="Adam's step for a, falling linearly to 0 at T")
    network_first: float = Field(
        gt=0, description="Adam's step for w (per neuron) and b, falling linearly to 0 at T"
    )
    head: float = Field(
        gt=0,
        description="step of the heads on frozen features in units of 1 / E||h||^2, stochastic"
        " gradient",
    )
    momentum: float = Field(ge=0, lt=1, description="momentum of the heads on frozen features")
    ntk: float = Field(
        gt=0,
        description="step of the linearised network in units of 1 / E||gradient||^2, stochastic"
        " gradient",
    )


class Tickets(Section):
    """Sub-networks of the step-2 network, trained alone (Proposition B.1)."""

    sizes: list[Annotated[int, Field(ge=1)]] = Field(min_length=1, description="neurons kept")
    random_draws: int = Field(ge=1, description="random sub-networks of each size")


class Setting(Section):
    """A row of the tables: a data distribution, the sizes and the arms.

    The arms are compared on the same draws.
    """

    problem: Problem
    n: int = Field(ge=2, description="training samples n")
    n_test: int = Field(ge=2, description="test samples")
    m: int = Field(ge=1, description="half the number of neurons m: the network has 2m (eq. 2.2)")
    T: int = Field(ge=3, description="training steps T, the two erasing ones among them")
    batch: int = Field(ge=1, description="samples of a step after the first two, which take all n")
    activation: Literal["clipped", "relu"] = Field(
        default="clipped", description="min(1, max(z, 0)), or max(z, 0)"
    )
    noise: bool = Field(
        default=False,
        description="smooth the activation in steps 1 and 2 by sigma_xi = 1 / k^2 (A.274, A.275);"
        " footnote 1: not needed",
    )
    rates: Rates
    arms: list[Procedure] = Field(min_length=1, description="what is compared")
    tickets: Tickets | None = Field(
        default=None, description="winning tickets of the step-2 network; null for none"
    )
    fixed_features: list[Annotated[int, Field(ge=1)]] = Field(
        default=[],
        description="numbers of random features whose heads are held against the lower bounds;"
        " none for none",
    )
    neurons: list[Annotated[int, Field(ge=0)]] = Field(
        default=[], description="steps at which the neurons' picture is kept"
    )

    @model_validator(mode="after")
    def _fits(self) -> "Setting":
        if self.batch > self.n:
            raise ValueError(f"batch must not exceed n = {self.n}, got {self.batch}")
        labels = [arm.label for arm in self.arms]
        if len(set(labels)) < len(labels):
            raise ValueError(f"arms must be distinct, got {', '.join(labels)}")
        if self.problem.labels == "hypercube" and any(
            arm.schedule != "plain" or not arm.structure for arm in self.arms
        ):
            raise ValueError(
                "arms: labels: hypercube is trained by schedule: plain, with its structure"
            )
        if self.activation == "relu" and any(arm.schedule != "plain" for arm in self.arms):
            raise ValueError(
                "activation: relu goes with schedule: plain; chapter 2 has the clipped one"
            )
        if self.noise and self.activation != "clipped":
            raise ValueError("noise goes with activation: clipped")
        if any(step > self.T for step in self.neurons):
            raise ValueError(f"neurons: steps must not exceed T = {self.T}, got {self.neurons}")
        if self.tickets and max(self.tickets.sizes) > 2 * self.m:
            raise ValueError(
                f"tickets.sizes must not exceed 2m = {2 * self.m} neurons, got"
                f" {max(self.tickets.sizes)}"
            )
        return self


class RateSearch(Section):
    """The candidates of the rates, on draws that no table uses (search.py)."""

    settings: list[str] = Field(
        min_length=1,
        description="settings whose rates are chosen; the others take those of the first",
    )
    seeds: int = Field(ge=1, description="replicas of every candidate, one job each")
    network_head: list[Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="candidates for Rates.network_head"
    )
    network_first: list[Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="candidates for Rates.network_first"
    )
    head: list[Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="candidates for Rates.head"
    )
    ntk: list[Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="candidates for Rates.ntk"
    )

    @property
    def grid(self) -> dict[str, list[float]]:
        """Candidates by the name of the rate."""
        return self.model_dump(exclude={"settings", "seeds"})


class Emergence(Section):
    """Tables A.1 to A.6 and the arms and settings that we add to them, each setting a cell with its
    own draws.
    """

    seeds: int = Field(ge=1, description="replicas of every setting")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(description="replicas of one job")
    settings: dict[Name, Setting] = Field(min_length=1, description="settings by name")

    def cells(self) -> list[Cell]:
        """Return one cell for each setting."""
        return [cell(setting=name) for name in self.settings]

    def blocks(self) -> dict[str, list[int]]:
        """Return blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def measurement_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of a setting."""
        return {"setting": self.settings[cell["setting"]], "pictured": self.first_seed}

    def having(self, key: str, **of_the_problem: Any) -> dict[str, Setting]:
        """Return the settings with a non-empty value of a key and these values in their problem."""
        return {
            name: setting
            for name, setting in self.settings.items()
            if getattr(setting, key)
            and all(
                getattr(setting.problem, field) == value for field, value in of_the_problem.items()
            )
        }


@dataclass(frozen=True)
class Search:
    """The search with the settings that it is over, as their rates are searched."""

    rates: RateSearch
    settings: dict[str, Setting]

    @property
    def seeds(self) -> int:
        """Replicas of every candidate."""
        return self.rates.seeds

    def cells(self) -> list[Cell]:
        """Return one cell for each setting."""
        return [cell(setting=name) for name in self.settings]

    def blocks(self) -> dict[str, list[int]]:
        """Return a block for each seed."""
        return seed_blocks(0, self.seeds, 1)

    def searched(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of the search at a cell."""
        return {"setting": self.settings[cell["setting"]], "candidates": self.rates.grid}


class TwoLayer(Emergence):
    """The settings, and the search for the rates that the dissertation does not print."""

    rate_search: RateSearch = Field(description="how the rates of the settings were chosen")

    @model_validator(mode="after")
    def _known(self) -> "TwoLayer":
        if missing := [name for name in self.rate_search.settings if name not in self.settings]:
            raise ValueError(f"rate_search.settings: {', '.join(missing)} not among the settings")
        return self

    @property
    def emergence(self) -> Emergence:
        """The study without the search, which none of its numbers depends on."""
        return Emergence(**{name: getattr(self, name) for name in Emergence.model_fields})

    def searched(self, name: str) -> Setting:
        """Return a setting as its rates are searched, without those that it has and what a search
        does not look at.
        """
        first = {rate: values[0] for rate, values in self.rate_search.grid.items()}
        setting = self.settings[name]
        rates = setting.rates.model_copy(update=first)
        alone = {
            "rates": rates,
            "arms": [Procedure(method="network")],
            "tickets": None,
            "fixed_features": [],
            "neurons": [],
        }
        return setting.model_copy(update=alone)

    @property
    def search(self) -> Search:
        """The study of the search."""
        return Search(
            self.rate_search, {name: self.searched(name) for name in self.rate_search.settings}
        )

    def studies(self) -> dict[str, Emergence | Search]:
        """Return the studies whose cells are computed."""
        return {"emergence": self.emergence, "rate_search": self.search}


def inherit(raw: Any, shared: dict) -> Any:
    """Return the section as it is, since it shares nothing.

    A setting that a later config sets to null is left out.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("settings"), dict):
        return raw
    return raw | {
        "settings": {
            name: setting for name, setting in raw["settings"].items() if setting is not None
        }
    }
