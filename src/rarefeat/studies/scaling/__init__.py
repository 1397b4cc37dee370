"""Do the counts of Theorem 3.1 follow its powers of the number of features d?

Lucky sets are counted at initialisation, for many d. Where a size (d, m, d1) is expected to have
enough lucky neurons, it is trained, and its sets are counted once more. The exponents in d are
fitted, and held against the bounds of the theorem (sets.py).
"""

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError, model_validator

from rarefeat.errors import RarefeatError
from rarefeat.studies.experiment import SEED, SHARE, SIZE, TableColumns, column, text
from rarefeat.workflow.config.cells import Cell, cell_path
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.config.section import Distinct, format_validation_error
from rarefeat.workflow.config.seeds import Replicas
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS, Grid, Study, merge_configs
from rarefeat.workflow.study_kind import PRETRAIN, Page, StudyKind, StudyOutputs, Table

if TYPE_CHECKING:
    import pandas as pd

QUESTION = "Do the counts of Theorem 3.1 follow its powers of the number of features?"
TITLE = "Theorem 3.1 across sizes"
Power = Annotated[float, Field(gt=0, le=10)]


class Scaling(Replicas):
    """Theorem 3.1 across sizes, for one minority feature and the dense arm.

    Sizes vary d, m = d^C_m, d1 = d^power and T together.
    """

    d: Distinct[Annotated[int, Field(ge=3)]] = Field(
        min_length=2, description="numbers of features d of the Monte Carlo"
    )
    ratio: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max"
    )
    neurons: int = Field(ge=1, description="initial neurons drawn for each d in the Monte Carlo")
    trained_d: Distinct[Annotated[int, Field(ge=3)]] = Field(
        min_length=1, description="numbers of features d that may be trained"
    )
    C_m: Distinct[Power] = Field(min_length=1, description="exponents of m = d^C_m")
    d1_power: Distinct[Annotated[float, Field(ge=1, le=10)]] = Field(
        min_length=1, description="exponents of d1 = d^power"
    )
    least_lucky: float = Field(
        gt=0, description="train only where a lucky set is expected to be this large"
    )
    most_neurons: int = Field(ge=1, description="train only up to this many neurons m")
    nsr: float = Field(ge=0, description="noise-to-signal ratio sigma^2 d1 of every point")
    T_power: Power = Field(description="T = d^T_power / eta; 1.99 is the T4 of Theorem 3.1")
    data: Data = Field(description="as in a study, but for d, d1 and minority")
    training: Training = Field(description="as in a study, but for m and T")

    @model_validator(mode="after")
    def _trainable(self) -> "Scaling":
        self.studies()  # for its errors
        return self

    def studies(self) -> dict[str, Study]:
        """Return the trainable sizes as studies by name, each over every ratio."""
        sizes = itertools.product(self.trained_d, self.C_m, self.d1_power)
        sizes = [(d, round(d**C_m), round(d**power)) for d, C_m, power in sizes]
        studies = [self.study(d, m, d1) for d, m, d1 in sizes if m <= self.most_neurons]
        return {study.draws: study for study in studies}

    def study(self, d: int, m: int, d1: int) -> Study:
        """Return the study of one size."""
        T = math.ceil(d**self.T_power / self.training.eta)
        grid = {"eps_min": self.ratio, "sigma": [math.sqrt(self.nsr / d1)], "arms": ["dense"]}
        try:
            return Study(
                simulator="reduced",
                draws=f"scaling_d={d}_m={m}_d1={d1}",
                seeds=self.seeds,
                first_seed=self.first_seed,
                seeds_per_block=self.seeds_per_block,
                data=Data(**self.data.model_dump() | {"d": d, "d1": d1, "minority": [1.0]}),
                training=Training(**self.training.model_dump() | {"m": m, "T": T}),
                arms=[Arm(arm="dense")],
                grid={"ratios": Grid(**grid)},
            )
        except ValidationError as error:
            text = format_validation_error(error)
            raise ValueError(f"at d = {d}, m = {m}, d1 = {d1}: {text}") from error

    def trained_cells(self, lucky_sets: "pd.DataFrame") -> dict[str, list[Cell]]:
        """Return the cells by study at which m P(lucky) is at least `least_lucky`."""
        probability = lucky_sets.set_index(["d", "ratio"])["lucky_probability"]
        chosen = {
            name: [
                cell
                for cell in study.cells()
                if study.training.m * probability[study.data.d, cell["eps_min"]] >= self.least_lucky
            ]
            for name, study in self.studies().items()
        }
        return {name: cells for name, cells in chosen.items() if cells}


def inherit(raw: Any, shared: dict) -> Any:
    """Return the section with inherited values, but for m and T."""
    if not isinstance(raw, dict):
        return raw
    training = raw.get("training")
    if isinstance(training, dict) and (fixed := training.keys() & {"m", "T"}):
        raise RarefeatError(
            f"config: scaling: training.{min(fixed)}: each size has its own; C_m gives m, and"
            " T_power gives T"
        )
    return merge_configs({key: shared[key] for key in SHARED_TRAINING_KEYS if key in shared}, raw)


CORE = "imbalance_and_pruning"
START, THEOREM = f"{CORE}, Def. 3.1", f"{CORE}, Thm. 3.1"
AT_LEAST_1, AT_LEAST_3 = {"ge": 1}, {"ge": 3}
number = partial(column, bounds=SIZE, kind=int)
neurons = partial(column, bounds=SIZE, unit="neurons", kind=int)
features = partial(column, bounds=SIZE, unit="features")
D = column("number of features d", AT_LEAST_3, "features", START, kind=int)
RATIO = column("eps_min / eps_max", SHARE, source=START)
NORMAL, HIGH = "lower end of its 95 % interval (normal)", "upper end"
LUCKY_SETS = TableColumns(
    "lucky_sets",
    "a row per (d, ratio) of the scaling study",
    {
        "d": D,
        "ratio": RATIO,
        "neurons": neurons("initial neurons drawn"),
        "lucky_neurons": neurons("of these, lucky for any feature", source=f"{CORE}, eq. (27)"),
        "lucky_probability": column(
            "estimated probability that a neuron is lucky for one given feature: lucky_neurons /"
            " neurons / d, as features are exchangeable and exclude each other",
            SHARE,
            source=f"{CORE}, eq. (27), (238)",
        ),
        "lucky_ci_low": column("lower end of its 95 % interval (Clopper-Pearson)", SHARE),
        "lucky_ci_high": column(HIGH, SHARE),
        "ordinary_features": features(
            "mean over neurons of |N_i|, the number of features a neuron is ordinary for",
            source=f"{CORE}, eq. (26), (247)",
        ),
        "ordinary_ci_low": features(NORMAL),
        "ordinary_ci_high": features(HIGH),
        "largest_features": features(
            "mean of the largest |N_i| of a network of m = d^2.5 neurons",
            source=f"{CORE}, Lemma B.2 (d)",
        ),
        "largest_ci_low": features(NORMAL, bounds=None),
        "largest_ci_high": features(HIGH),
    },
    ["d", "ratio"],
)
SCALING = TableColumns(
    "scaling",
    "a row per (d, m, d1, ratio, seed) that the scaling study trains",
    {
        "d": D,
        "C_m": column("exponent of m = d^C_m", SIZE, source=THEOREM),
        "d1_power": column("exponent of d1 = d^power", AT_LEAST_1),
        "m": neurons("number of neurons m", source=THEOREM),
        "d1": number("input dimension d_1", source=START),
        "ratio": RATIO,
        "seed": SEED,
        "lucky_minority_neurons": neurons(
            "neurons lucky for the minority feature at this replica's W(0)",
            source=f"{CORE}, eq. (27)",
        ),
        "pure_minority_neurons": neurons(
            "neurons with absolute cosine > 0.9 to it after training", source=THEOREM
        ),
        "single_minority_neurons": neurons(
            "neurons with N_i = {j*} after training: absolute cosine >= 1/sqrt(d) to it alone",
            source=f"{THEOREM}, eq. (13)",
        ),
        "ordinary_features": features(
            "mean over neurons of |N_i| at W(0), features ordinary for",
            source=f"{CORE}, eq. (26), (247)",
        ),
        "learned_features": features(
            "mean over neurons of |N_i| after training: features with absolute cosine >= 1/sqrt(d)",
            source=f"{CORE}, eq. (12)-(14)",
        ),
        "lucky_pure_share": column(
            "share of the lucky_minority_neurons that end pure; null where there are none",
            SHARE,
            source=THEOREM,
            missing=True,
        ),
    },
    ["d", "m", "d1", "ratio", "seed"],
)
SCALING_EXPONENTS = TableColumns(
    "scaling_exponents",
    "a row per (quantity, ratio, d1_power, range of d, log_power) of the scaling study",
    {
        "quantity": text(
            "what is fitted: columns of the tables above; a share is the number of neurons over m"
        ),
        "ratio": RATIO,
        "d1_power": column(
            "that of d1 = d^power; null at initialisation", AT_LEAST_1, missing=True
        ),
        "d_low": column("smallest d of the fit", AT_LEAST_3, "features", kind=int),
        "d_high": column("largest d of the fit", AT_LEAST_3, "features", kind=int),
        "log_power": column(
            "power of log d divided out before the fit: 0, or -1/2, the factor that eq. (238) has"
            " and eq. (239) drops",
            source=f"{CORE}, eq. (238), (239)",
        ),
        "exponent": column("fitted exponent of the quantity in d"),
        "ci_low": column(
            "lower end of its 95 % interval: random-effects regression of logarithms, Student with"
            " n - 2 degrees of freedom"
        ),
        "ci_high": column(HIGH),
        "n": number(
            "points of the fit: a d at initialisation, a size (d, m) after training", unit="points"
        ),
        "left_out": number("points left out because nothing was seen there", unit="points"),
        "bound": column("the exponent of the bound", source=f"{CORE}, Lemma B.2, Thm. 3.1"),
        "bound_side": text("which side the bound allows"),
        "consistent": column(
            "false where the whole interval lies on the side that the bound forbids",
            None,
            "",
            kind=bool,
        ),
    },
    ["quantity", "ratio", "d1_power", "d_low", "log_power"],
)


def lucky(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the share of lucky neurons at each size."""
    ends = ["lucky_ci_low", "lucky_ci_high"]
    return table[["d", "ratio", "lucky_probability", *ends, "ordinary_features"]]


def trained(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return means over seeds of the sizes that were trained."""
    neurons = [f"{kind}_minority_neurons" for kind in ("lucky", "pure", "single")]
    groups = table.groupby(["d", "m", "d1_power", "ratio"])
    means = groups[[*neurons, "learned_features", "lucky_pure_share"]].mean()
    return means.assign(n=groups["seed"].nunique()).reset_index()


TABLES = {
    "scaling_exponents": (("scaling_exponents",), lambda table: table),
    "lucky_sets": (("lucky_sets",), lucky),
    "scaling_sizes": (("scaling",), trained),
}
"""Published tables: that of a run which each is made of, and how."""


def build_outputs(section: Scaling) -> StudyOutputs:
    """Return the tables of lucky sets, trained sizes and exponents in d."""
    drawn = {"d": sorted({*section.d, *section.trained_d}), "ratio": sorted(section.ratio)}
    tables = {
        "lucky_sets": Table(
            "studies.scaling:LUCKY_SETS.schema",
            "studies.scaling.sets:lucky_sets",
            drawn | {"neurons": section.neurons},
            rule="lucky_sets",
        ),
        "scaling": Table(
            "studies.scaling:SCALING.schema",
            "studies.scaling.sets:trained_sizes",
            {"scaling": section},
            {"encoders": PRETRAIN},
            ("lucky_sets",),
            rule="trained_sizes",
        ),
        "scaling_exponents": Table(
            "studies.scaling:SCALING_EXPONENTS.schema",
            "studies.scaling.sets:scaling_exponents",
            tables=("lucky_sets", "scaling"),
        ),
    }
    page = Page(TITLE, ("scaling_exponents", "scaling", "lucky_sets"), (), QUESTION)
    return StudyOutputs(tables, {}, {"scaling": page})


def encoders_of_large_sets(section: Scaling, lucky_sets: str) -> list[str]:
    """Return the paths of the encoders of the sizes whose lucky sets are large enough.

    The job that reads these encoders checks that the table is of today's config and code; here
    it only plans, for a report also from a table that is not.
    """
    from rarefeat.workflow.files.sealed_files import read_table

    studies = section.studies()
    return [
        cell_path("encoders", name, cell, block, "safetensors")
        for name, cells in section.trained_cells(read_table(lucky_sets).to_pandas()).items()
        for cell in cells
        for block in studies[name].blocks()
    ]


KIND = StudyKind("scaling", TITLE, Scaling, build_outputs, Scaling.studies, inherit=inherit)
