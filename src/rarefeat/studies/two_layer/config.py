"""The section of the config: data laws, sizes, arms, and rates that the text leaves open."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import LeaveOutNull, Section
from rarefeat.workflow.config.seeds import Replicas

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, lt=1)]
STAGED = ("network", "one_step", "one_step_rescaled", "two_step")
"""Methods that begin with the two erasing steps of Theorem A.20."""


def require(right: bool, message: str) -> None:
    """Raise ValueError with a message unless something is right."""
    if not right:
        raise ValueError(message)


class Problem(Section):
    """A distribution of (x, y): patterns phi~ of which k are relevant (eq. 2.1).

    x~ = M phi~ with orthonormal M in R^{d x D}.
    """

    labels: Literal["parity", "majority", "interval", "codes", "hypercube"] = Field(
        description="what y = +1 means: an odd number of relevant patterns, more than k / 2 of"
        " them, a number in `interval`, a code of class +1 (A.7.3), or an even number of signs -1"
        " of a hypercube's corner (eq. A.288)"
    )
    d: Count = Field(description="input dimension d")
    D: int = Field(ge=2, description="patterns; d for `hypercube`, whose noise fills the space")
    k: Count = Field(description="number of class-relevant patterns k")
    p_o: float = Field(default=0.5, gt=0, le=0.5, description="probability of a pattern outside A")
    p_A: Share = Field(default=0.5, description="probability of a pattern in A, for `interval`")
    interval: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[t_1, t_2], the counts of class +1, for `interval`"
    )
    codes: Count | None = Field(default=None, description="vectors of each class, for `codes`")
    sigma_r: float | None = Field(
        default=None, ge=0, description="the noise is N(0, sigma_r^2 k / d), for `hypercube`"
    )
    frequency: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        default=[],
        description="share of its occurrences that each relevant pattern keeps, k numbers; none for"
        " 1 each. Labels count what is kept",
    )
    negatives: Share | None = Field(
        default=None, description="share of class -1, exact in every sample; null for the law's"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Problem":
        labels, d, D, k = self.labels, self.d, self.D, self.k
        low, high = self.interval or (0, 0)
        codes, entries = self.codes or 0, len(self.frequency)
        for key, kind in (("interval", "interval"), ("codes", "codes"), ("sigma_r", "hypercube")):
            given = getattr(self, key) is not None
            require(given == (labels == kind), f"{key} goes with labels: {kind} and with no other")
        require(k <= D, f"k must be at most D = {D}, got {k}")
        require(d >= D, f"d must be at least D = {D} for orthonormal patterns, got {d}")
        require(labels != "hypercube" or d == D, f"D must be d = {d} for labels: hypercube")
        odd = k % 2 == 1
        require(odd or labels != "parity", f"k must be odd for labels: parity, got {k}")
        require(
            0 <= low <= high <= k,
            f"interval must lie in 0 <= t_1 <= t_2 <= k = {k}, got {self.interval}",
        )
        fewer = f"codes: 2^k = {2**k} binary vectors are fewer than two classes of {codes}"
        require(2 * codes <= 2**k, fewer)
        require(entries in (0, k), f"frequency must have k = {k} entries, got {entries}")
        counts = labels in ("parity", "majority", "interval")
        require(counts or not entries, "frequency is for labels: parity, majority, interval")
        require(self.p_A == 0.5 or labels == "interval", "p_A goes with labels: interval")
        return self


class Procedure(Section):
    """A way to learn: a column of Tables A.1-A.5, or one of ours for comparison."""

    method: Literal[
        "network", "ntk", "random_features", "one_step", "one_step_rescaled", "two_step"
    ] = Field(description="what is trained, on which features")
    schedule: Literal["printed", "chosen", "plain"] = Field(
        default="chosen",
        description="step sizes after the first two steps: `printed` for eq. (A.276), `chosen` for"
        " the rates of this config, `plain` for those from step 0 on, without the two erasing"
        " steps",
    )
    structure: bool = Field(
        default=True, description="false: uniform patterns, (A1'), with the same labels and rates"
    )
    weights: bool = Field(
        default=False, description="weigh the classes in the first two steps, eq. (A.293)"
    )

    @model_validator(mode="after")
    def _staged(self) -> "Procedure":
        staged = self.method in STAGED and self.schedule != "plain"
        require(
            self.schedule == "chosen" or self.method == "network",
            "schedule is for method: network; heads and NTK have the rates of the config",
        )
        require(
            staged or not self.weights,
            f"weights are for methods with the two erasing steps: {', '.join(STAGED)}",
        )
        return self

    @property
    def label(self) -> str:
        """Name in tables: the method, with whatever it has that is not the default."""
        words = {
            self.schedule: self.schedule != "chosen",
            "no_structure": not self.structure,
            "weighted": self.weights,
        }
        return "-".join([self.method, *(word for word, said in words.items() if said)])


class Rates(Section):
    """Step sizes that the dissertation does not print, chosen on the draws of `rate_search`."""

    network_head: Positive = Field(description="Adam's step for a, falling linearly to 0 at T")
    network_first: Positive = Field(description="that for w (per neuron) and b")
    head: Positive = Field(
        description="step of the heads on frozen features in units of 1 / E||h||^2, stochastic"
        " gradient"
    )
    momentum: float = Field(ge=0, lt=1, description="momentum of the heads on frozen features")
    ntk: Positive = Field(
        description="step of the linearised network in units of 1 / E||gradient||^2, stochastic"
        " gradient"
    )


class Tickets(Section):
    """Sub-networks of the step-2 network, trained alone (Proposition B.1)."""

    sizes: list[Count] = Field(min_length=1, description="neurons kept")
    random_draws: Count = Field(description="random sub-networks of each size")


class Setting(Section):
    """A row of the tables: a data distribution, the sizes, and the arms on the same draws."""

    problem: Problem
    n: int = Field(ge=2, description="training samples n")
    n_test: int = Field(ge=2, description="test samples")
    m: Count = Field(description="half the number of neurons m: the network has 2m (eq. 2.2)")
    T: int = Field(ge=3, description="training steps T, the two erasing ones among them")
    batch: Count = Field(description="samples of a step after the first two, which take all n")
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
    fixed_features: list[Count] = Field(
        default=[],
        description="numbers of random features whose heads are held against the lower bounds",
    )
    neurons: list[Annotated[int, Field(ge=0)]] = Field(
        default=[], description="steps at which the neurons' picture is kept"
    )

    @model_validator(mode="after")
    def _fits(self) -> "Setting":
        n, m, T, labels = self.n, self.m, self.T, [arm.label for arm in self.arms]
        plain = all(arm.schedule == "plain" for arm in self.arms)
        cube, structured = self.problem.labels == "hypercube", all(a.structure for a in self.arms)
        most = max(self.tickets.sizes) if self.tickets else 0
        require(self.batch <= n, f"batch must not exceed n = {n}, got {self.batch}")
        require(len(set(labels)) == len(labels), f"arms must be distinct, got {', '.join(labels)}")
        require(
            not cube or (plain and structured),
            "arms: labels: hypercube is trained by schedule: plain, with its structure",
        )
        require(
            plain or self.activation != "relu",
            "activation: relu goes with schedule: plain; chapter 2 has the clipped one",
        )
        clipped = self.activation == "clipped"
        require(clipped or not self.noise, "noise goes with activation: clipped")
        last = max(self.neurons, default=0)
        require(last <= T, f"neurons: steps must not exceed T = {T}, got {self.neurons}")
        require(most <= 2 * m, f"tickets.sizes must not exceed 2m = {2 * m} neurons, got {most}")
        return self


class RateSearch(Section):
    """The candidates of the rates, on draws that no table uses (rates.py)."""

    settings: list[str] = Field(
        min_length=1,
        description="settings whose rates are chosen; the others take those of the first",
    )
    seeds: Count = Field(description="replicas of every candidate, one job each")
    network_head: list[Positive] = Field(min_length=1, description="candidates for the rates")
    network_first: list[Positive] = Field(min_length=1, description="likewise")
    head: list[Positive] = Field(min_length=1, description="likewise")
    ntk: list[Positive] = Field(min_length=1, description="likewise")


class SettingStudy(Replicas):
    """Settings, each a cell with draws of its own."""

    by_name: Annotated[dict[Name, Setting], LeaveOutNull] = Field(
        alias="settings", min_length=1, description="settings by name"
    )

    def cells(self) -> list[Cell]:
        """Return one cell for each setting."""
        return [cell(setting=name) for name in self.by_name]


class Search(SettingStudy):
    """The search for the rates of some settings, which have no rates and one arm in it."""

    candidates: dict[str, list[float]]
    """By the name of the rate."""

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return what a job of the search is told beside the candidates."""
        return {"setting": self.by_name[cell["setting"]]}


class TwoLayer(SettingStudy):
    """Tables A.1 to A.6 and the settings and arms that we add, and the search for the rates."""

    rate_search: RateSearch = Field(description="how the rates of the settings were chosen")

    @model_validator(mode="after")
    def _known(self) -> "TwoLayer":
        missing = [name for name in self.rate_search.settings if name not in self.by_name]
        require(not missing, f"rate_search.settings: {', '.join(missing)} not among the settings")
        return self

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return what a job is told: its setting, and the seed whose neurons are pictured."""
        return {"setting": self.by_name[cell["setting"]], "pictured": self.first_seed}

    @property
    def search(self) -> Search:
        """The study of the search, which no rate and nothing but the network itself changes."""
        candidates = self.rate_search.model_dump(exclude={"settings", "seeds"})
        first = {rate: values[0] for rate, values in candidates.items()}
        plain = {"arms": [Procedure(method="network")], "tickets": None}
        plain |= {"fixed_features": [], "neurons": []}
        searched = {
            name: (setting := self.by_name[name]).model_copy(
                update=plain | {"rates": setting.rates.model_copy(update=first)}
            )
            for name in self.rate_search.settings
        }
        return Search(
            seeds=self.rate_search.seeds, first_seed=0, seeds_per_block=1, settings=searched,
            candidates=candidates,
        )  # fmt: skip

    def studies(self) -> dict[str, SettingStudy]:
        """Return the studies whose cells are computed."""
        return {"emergence": self, "rate_search": self.search}
