"""Do other losses, encoders and optimisers learn the rare feature that InfoNCE misses?

Each learner is given a learning rate on balanced data, and is trained at every frequency of the
rare feature, on pairs that come back and on pairs that are seen once (measure.py). A readout of its
embeddings says which replicas have learned the feature, beyond what a run in which it never occurs
reads of it, or one of its neurons does (lockout.py).
"""

import itertools
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from rarefeat.studies.experiment import SEED, SHARE, SIZE, TableColumns, column
from rarefeat.training.choices import BUILT_IN, bind_options, load_choice
from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.model import Arm, Data, Training, one_of
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import SeedSettings
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    Table,
    collected_table,
)

if TYPE_CHECKING:
    import pandas as pd

QUESTION = "Do other losses, encoders and optimisers learn the rare feature that InfoNCE misses?"
DataLaw, Encoder, Loss, Optimiser = (
    one_of(tuple(BUILT_IN[kind])) for kind in ("data_law", "encoder", "loss", "optimiser")
)
Options = dict[str, Any]


class LearnerChoice(Section):
    """What learns. Each of the four is one that is built in, or MODULE:NAME of your own."""

    data_law: DataLaw = Field(default="paper", description="which features a sample has")
    data_options: Options = Field(default={}, description="options of the data law")
    encoder: Encoder = Field(default="paper", description="module from tokens to embeddings")
    encoder_options: Options = Field(default={}, description="options of the encoder")
    loss: Loss = Field(default="infonce", description="function of two batches of embeddings")
    loss_options: Options = Field(default={}, description="options of the loss")
    optimiser: Optimiser = Field(default="sgd", description="optimiser of torch")
    optimiser_options: Options = Field(default={}, description="options of the optimiser")
    arm: Arm = Field(default=Arm(arm="dense"), description="pruning rule")

    def parts(self) -> list[tuple[str, str, Options]]:
        """Return kind, name and options of each of the four."""
        return [
            (kind, getattr(self, kind), getattr(self, f"{kind.removesuffix('_law')}_options"))
            for kind in BUILT_IN
        ]


class LearnerStudy(SeedSettings):
    """Learners at every frequency, on pairs that come back and on fresh ones."""

    data: Data
    training: Training = Field(description="eta is used where `rates` is empty")
    sigma: float = Field(ge=0, description="standard deviation of the noise")
    learners: dict[Name, LearnerChoice] = Field(min_length=1, description="by name")
    pairs: Distinct[Literal["returning", "fresh"]] = Field(
        min_length=1,
        description="N pairs that come back, with fresh noise; or pairs that are seen once",
    )
    eps_min: Distinct[Annotated[float, Field(ge=0, le=1)]] = Field(
        min_length=1,
        description="frequency of the rare features, eps_min / eps_max; at 0, where they never"
        " occur, the encoder is measured untrained, too, and no replica is called a learner"
        " without it",
    )
    rates: Distinct[Annotated[float, Field(gt=0)]] = Field(
        default=[],
        description="learning rates, of which each learner takes the one with the smallest loss on"
        " balanced data; without any, training.eta",
    )
    rate_seeds: int = Field(ge=1, description="replicas for the choice of the rate")
    first_rate_seed: int = Field(ge=0, description="the first of their seeds")

    @model_validator(mode="after")
    def _consistent(self) -> "LearnerStudy":
        if self.training.K > self.data.N:
            raise ValueError(
                f"training.K must not exceed data.N = {self.data.N}, got {self.training.K}"
            )
        if self.training.lambda_ * max(self.rates, default=0) >= 1:
            raise ValueError(
                f"rates must be below 1 / lambda = {1 / self.training.lambda_:g}, got"
                f" {max(self.rates):g}"
            )
        chosen = range(self.first_rate_seed, self.first_rate_seed + self.rate_seeds)
        if self.rates and {*chosen} & {*range(self.first_seed, self.first_seed + self.seeds)}:
            raise ValueError(
                "first_rate_seed: rates must be chosen on other seeds than the study's"
            )
        return self

    def check_options(self) -> None:
        """Raise RarefeatError for an option that a part of a learner does not have or take."""
        import torch

        from rarefeat.training.learners import KINDS, build_optimiser

        for name, learner in self.learners.items():
            for kind, choice, options in learner.parts():
                if options:
                    place, built_in = f"learners: {name}: {kind}", KINDS[kind][1]
                    part = load_choice(kind, choice, built_in)
                    bound = bind_options(place, part, options, {"lr": 0.0, "weight_decay": 0.0})
                    if kind == "optimiser" and choice in built_in:
                        build_optimiser(place, bound, [torch.zeros(1)])  # for its errors

    def cells(self) -> list[Cell]:
        """Return a cell for each learner, kind of pairs and frequency."""
        points = itertools.product(self.learners, self.pairs, sorted(self.eps_min))
        return [cell(learner=name, pairs=pairs, eps_min=eps) for name, pairs, eps in points]

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Return the learner of a cell, and its pruning rule."""
        choice = self.learners[cell["learner"]]
        return {"learner": choice.model_dump(exclude={"arm"}), "arm": choice.arm}


class LearnerStudies(Section):
    """The section `learners`: studies by name."""

    studies: dict[Name, LearnerStudy] = Field(min_length=1, description="by name")


text = partial(column, unit="", kind=str)
count = partial(column, bounds=SIZE, unit="", kind=int)
number = partial(column, missing=True)
share = partial(column, bounds=SHARE, missing=True)
R2 = "R^2 of a ridge regression of the feature on the embeddings, on a balanced test set"
LOW, HIGH = "lower end of its 95 % interval", "upper end"
CELL = {
    "learner": text("name of the learner in the config"),
    "pairs": text("N pairs that come back with fresh noise, or pairs that are seen once"),
    "eps_min": column("eps_min / eps_max", SHARE),
    "eta": column("learning rate; 0 before training", SIZE),
}
DIVERGED = column("1, or the share, of not finite losses", SHARE)
RATES = TableColumns(
    "{study}_rates",
    "a row per (learner, eta, seed): the choice of the learning rate on balanced data",
    {
        "learner": CELL["learner"],
        "eta": CELL["eta"],
        "chosen": column("1 for the rate that the learner takes: that of least loss", SHARE, ""),
        "seed": SEED,
        "r2": number(f"{R2}, mean over features; null where it diverged or was not tried"),
        "loss": number("loss of the last batch; null where it was not tried", unit="of the loss"),
        "diverged": DIVERGED,
    },
    ["learner", "eta", "seed"],
)
READOUTS = TableColumns(
    "{study}_readouts",
    "a row per (cell, seed, feature): what is known of the feature",
    {
        **CELL,
        "seed": SEED,
        "feature": count("its number, the rare last"),
        "r2": number(f"{R2}; null where the replica diverged"),
        "r2_shuffled": number("the same with the feature shuffled over samples, a control"),
        "cosine": number(
            "largest |cos| of a first-layer neuron with it; null without such neurons"
        ),
        "norm": number("mean norm of the embeddings"),
        "rank": number("effective rank of the embeddings (Roy & Vetterli 2007)"),
        "loss": number("loss of the last batch", unit="of the loss"),
        "diverged": DIVERGED,
    },
    ["learner", "pairs", "eps_min", "eta", "seed", "feature"],
)
LEARNERS = TableColumns(
    "{study}_learners",
    "a row per (learner, pairs, eps_min): how many replicas have learned the rare feature",
    {
        **CELL,
        "n": count("replicas that did not diverge"),
        "learned": share(
            "share of replicas whose readout of the rare features is at least half-way from that of"
            " the same seed's run without them to that of the frequent ones; null without eps_min 0"
        ),
        "learned_low": share(f"{LOW} (Clopper & Pearson)"),
        "learned_high": share(HIGH),
        "aligned": share(
            "share of replicas with a neuron of |cos| at least 0.5 to each rare feature; null"
            " without first-layer neurons"
        ),
        "aligned_low": share(f"{LOW} (Clopper & Pearson)"),
        "aligned_high": share(HIGH),
        "r2_rare": number(f"{R2}, mean over rare features and seeds"),
        "r2_never": number("the same after a training in which they never occur"),
        "r2_untrained": number("the same of the untrained encoder"),
        "r2_frequent": number("the same of the frequent features"),
        "r2_shuffled": number("the same of all features, shuffled: a control"),
        "diverged": DIVERGED,
    },
    ["learner", "pairs", "eps_min"],
)
FREQUENCIES = TableColumns(
    "{study}_frequencies",
    "a row per (learner, pairs, measure): the frequency from which half of the replicas learn",
    {
        "learner": CELL["learner"],
        "pairs": CELL["pairs"],
        "measure": text("readout: `learned` of the table of learners; cosine: its `aligned`"),
        "n": count("replicas without a divergence"),
        "frequency": number("eps_min from which half learn, interpolated; null without replicas"),
        "ci_low": number(f"{LOW} over seeds (bootstrap), and then out to the grid's next point"),
        "ci_high": number(HIGH),
        "bound": text(
            "at most: half or more learn at the smallest frequency; above: fewer than half learn at"
            " the largest"
        ),
        "eta": CELL["eta"],
        "kept": number(
            "R^2 of the rare features after a training in which they never occur, over that of the"
            " untrained encoder; mean over seeds"
        ),
        "kept_low": number(LOW),
        "kept_high": number(HIGH),
    },
    ["learner", "pairs", "measure"],
)


def late_learners(*readouts: "pd.DataFrame") -> "pd.DataFrame":
    """Compare pairs that come back with fresh ones, for each learner of config/late_learners.yaml.

    A replica has learned the rare features, two in the last table, if each has a neuron with a
    cosine of HALF_LEARNED.
    """
    import pandas as pd

    from rarefeat.claims.estimate import estimate_mean
    from rarefeat.claims.verdict import PAIRED, confidence_bounds
    from rarefeat.model.thresholds import HALF_LEARNED, PURE_COSINE
    from rarefeat.statistics import fraction_interval

    point, cosines, rows = ["learner", "eta", "eps_min"], [], []
    for n_rare, table in zip((1, 1, 2), readouts, strict=True):
        rare = table[table["feature"] > table["feature"].max() - n_rare]
        sound = rare.assign(cosine=rare["cosine"].where(rare["diverged"] == 0, 0.0))
        cosines.append(sound.groupby([*point, "pairs", "seed"])["cosine"].min().unstack("pairs"))
    for values, runs in pd.concat(cosines).groupby(point):
        learned = (runs >= HALF_LEARNED).astype(float)
        reuse = estimate_mean(learned["returning"] - learned["fresh"])
        ends = confidence_bounds(reuse, 0.025, PAIRED)
        for pairs in ("returning", "fresh"):
            interval = fraction_interval(learned[pairs])
            counts = int(learned[pairs].sum()), *interval, int((runs[pairs] > PURE_COSINE).sum())
            rows.append((*values, pairs, len(runs), *counts, reuse.value, *ends))
    counted = ["pairs", "n", "learned", "ci_low", "ci_high", "pure"]
    return pd.DataFrame(rows, columns=[*point, *counted, "reuse", "reuse_ci_low", "reuse_ci_high"])


def merge_settings(**tables: "pd.DataFrame") -> "pd.DataFrame":
    """Return the tables of several settings, named in a first column."""
    import pandas as pd

    return pd.concat(tables, names=["setting"]).reset_index("setting").reset_index(drop=True)


TABLES = {
    "learner_frequencies": (("which_learners_frequencies",), lambda table: table),
    "learner_shares": (("which_learners_learners",), lambda table: table),
    "learners_elsewhere": (
        ("printed_learners_frequencies", "equal_rates_frequencies"),
        lambda printed, equal: merge_settings(printed=printed, equal_rates=equal),
    ),
    "learners_longer": (("long_learners_frequencies",), lambda table: table),
    "late_learners": (
        ("late_learners_readouts", "late_optimisers_readouts", "late_two_rare_readouts"),
        late_learners,
    ),
}
"""Published tables: those of a run that each is made of, and how."""
CAPTION = (
    "Relative frequency from which half of the replicas learn the rare feature, by learner, with"
    " 95 % bootstrap intervals over seeds that reach out to the next points of the grid. A replica"
    " has learned it if a linear readout finds it at least half-way from what the run of the same"
    " seed reads in which it never occurs to what is read of the frequent features."
)
BESIDE = (
    " InfoNCE is the paper's (black, line), and each other row differs from it in the one thing"
    " that it is named after."
)
PACKAGE = "studies.learners"
CHOOSE_RATE = Stage(
    f"{PACKAGE}.measure:choose_rate", LearnerStudy, ("rates.parquet",), axes=("learner",),
    by_block=False,
)  # fmt: skip
LEARN = Stage(f"{PACKAGE}.measure:learn", LearnerStudy, ("readouts.parquet",), (CHOOSE_RATE,))


def build_outputs(section: LearnerStudies) -> StudyOutputs:
    """Return four tables, a figure and a page of each study."""
    tables, figures, pages = {}, {}, {}
    for name, study in section.studies.items():
        for folder, stage in (("rates", CHOOSE_RATE), ("readouts", LEARN)):
            schema = f"{PACKAGE}:{folder.upper()}.schema"
            tables[f"{name}_{folder}"] = collected_table(schema, stage, folder, name, study)
        for table in ("learners", "frequencies"):
            tables[f"{name}_{table}"] = Table(
                f"{PACKAGE}:{table.upper()}.schema",
                f"{PACKAGE}.lockout:{table}",
                {"data": study.data},
                tables=(f"{name}_readouts",),
                study=name,
            )
        shown = tuple(f"{name}_{table}" for table in ("frequencies", "learners"))
        order, figure = {"order": list(study.learners)}, f"{name}_lockout"
        caption = CAPTION + BESIDE * ("infonce" in study.learners)
        figures[figure] = Figure(shown[:1], caption, function="lockout", sections=order)
        pages[figure] = Page(f"Learners of {name}", shown, (figure,), QUESTION)
    return StudyOutputs(tables, figures, pages)


def claim_inputs(section: LearnerStudies) -> ClaimInputs | None:
    """Return what the claims on learners are measured on; None without their study."""
    if not (study := section.studies.get("which_learners")):
        return None
    settings = {name: getattr(study, name) for name in ("data", "eps_min", "pairs")}
    return ClaimInputs(("which_learners_readouts",), settings, f"{PACKAGE}.lockout:measure_claims")


# A plain `snakemake` makes it once its full run has been made.
KIND = StudyKind(
    "learners",
    "Which learners learn a rare feature",
    LearnerStudies,
    build_outputs,
    stages=(CHOOSE_RATE, LEARN),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=claim_inputs,
    by_default=False,
    question=QUESTION,
)
