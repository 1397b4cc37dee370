"""Tables of the scaling study."""

import pandera.pandas as pa

from rarefeat.stages.tables import CORE, SEED
from rarefeat.workflow.files.schema import SHARE, at_least, column, schema

SIZES = {
    "d": column(
        "int64",
        at_least(3),
        unit="features",
        description="number of features d",
        source=f"{CORE}, Def. 3.1",
    ),
    "C_m": column(
        float,
        pa.Check.gt(0),
        unit="1",
        description="exponent of m = d^C_m",
        source=f"{CORE}, Thm. 3.1",
    ),
    "d1_power": column(float, at_least(1), unit="1", description="exponent of d1 = d^power"),
    "m": column(
        "int64",
        at_least(1),
        unit="neurons",
        description="number of neurons m",
        source=f"{CORE}, Thm. 3.1",
    ),
    "d1": column(
        "int64",
        at_least(3),
        unit="1",
        description="input dimension d_1",
        source=f"{CORE}, Def. 3.1",
    ),
    "ratio": column(
        float,
        pa.Check.in_range(0, 1),
        unit="1",
        description="eps_min / eps_max",
        source=f"{CORE}, Def. 3.1",
    ),
}

LUCKY_SETS = schema(
    "lucky_sets",
    "a row per (d, ratio) of the scaling study",
    {
        "d": SIZES["d"],
        "ratio": SIZES["ratio"],
        "neurons": column(
            "int64", at_least(1), unit="neurons", description="initial neurons drawn"
        ),
        "lucky_neurons": column(
            "int64",
            at_least(0),
            unit="neurons",
            description="of these, lucky for any feature",
            source=f"{CORE}, eq. (27)",
        ),
        "lucky_probability": column(
            float,
            SHARE,
            unit="1",
            description="estimated probability that a neuron is lucky for one given feature:"
            " lucky_neurons / neurons / d, as features are exchangeable and exclude"
            " each other",
            source=f"{CORE}, eq. (27), (238)",
        ),
        "lucky_ci_low": column(
            float, SHARE, unit="1", description="lower end of its 95 % interval (Clopper-Pearson)"
        ),
        "lucky_ci_high": column(float, SHARE, unit="1", description="upper end"),
        "ordinary_features": column(
            float,
            at_least(0),
            unit="features",
            description="mean over neurons of |N_i|, the number of features a neuron is ordinary"
            " for",
            source=f"{CORE}, eq. (26), (247)",
        ),
        "ordinary_ci_low": column(
            float,
            at_least(0),
            unit="features",
            description="lower end of its 95 % interval (normal)",
        ),
        "ordinary_ci_high": column(float, at_least(0), unit="features", description="upper end"),
        "largest_features": column(
            float,
            at_least(0),
            unit="features",
            description="mean of the largest |N_i| of a network of m = d^2.5 neurons",
            source=f"{CORE}, Lemma B.2 (d)",
        ),
        "largest_ci_low": column(
            float, None, unit="features", description="lower end of its 95 % interval (normal)"
        ),
        "largest_ci_high": column(float, at_least(0), unit="features", description="upper end"),
    },
    unique=["d", "ratio"],
)

SCALING = schema(
    "scaling",
    "a row per (d, m, d1, ratio, seed) that the scaling study trains",
    SIZES
    | SEED
    | {
        "lucky_minority_neurons": column(
            "int64",
            at_least(0),
            unit="neurons",
            description="neurons lucky for the minority feature at this replica's W(0)",
            source=f"{CORE}, eq. (27)",
        ),
        "pure_minority_neurons": column(
            "int64",
            at_least(0),
            unit="neurons",
            description="neurons with absolute cosine > 0.9 to the minority feature after training",
            source=f"{CORE}, Thm. 3.1",
        ),
        "single_minority_neurons": column(
            "int64",
            at_least(0),
            unit="neurons",
            description="neurons with N_i = {j*} after training: absolute cosine >= 1/sqrt(d) to"
            " the minority feature and to no other",
            source=f"{CORE}, Thm. 3.1, eq. (13)",
        ),
        "ordinary_features": column(
            float,
            at_least(0),
            unit="features",
            description="mean over neurons of |N_i| at W(0), features ordinary for",
            source=f"{CORE}, eq. (26), (247)",
        ),
        "learned_features": column(
            float,
            at_least(0),
            unit="features",
            description="mean over neurons of |N_i| after training: features with absolute cosine"
            " >= 1/sqrt(d)",
            source=f"{CORE}, eq. (12)-(14)",
        ),
        "lucky_pure_share": column(
            float,
            SHARE,
            unit="1",
            description="share of the neurons lucky for the minority feature that end pure in it"
            " (absolute cosine > 0.9); null where there is none",
            source=f"{CORE}, Thm. 3.1",
            nullable=True,
        ),
    },
    unique=["d", "m", "d1", "ratio", "seed"],
)

SCALING_EXPONENTS = schema(
    "scaling_exponents",
    "a row per (quantity, ratio, d1_power, range of d, log_power) of the scaling study",
    {
        "quantity": column(
            str,
            pa.Check.isin(
                [
                    "lucky_probability",
                    "ordinary_features",
                    "largest_features",
                    "pure_minority_share",
                    "single_minority_share",
                    "learned_features",
                ]
            ),
            unit="",
            description="what is fitted: columns of the tables above; a share is the number of"
            " neurons over m",
        ),
        "ratio": SIZES["ratio"],
        "d1_power": column(
            float,
            at_least(1),
            unit="1",
            description="exponent of d1 = d^power; null at initialisation",
            nullable=True,
        ),
        "d_low": column("int64", at_least(3), unit="features", description="smallest d of the fit"),
        "d_high": column("int64", at_least(3), unit="features", description="largest d of the fit"),
        "log_power": column(
            float,
            None,
            unit="1",
            description="power of log d divided out before the fit: 0, or -1/2, the factor that"
            " eq. (238) has and eq. (239) drops",
            source=f"{CORE}, eq. (238), (239)",
        ),
        "exponent": column(
            float, None, unit="1", description="fitted exponent of the quantity in d"
        ),
        "ci_low": column(
            float,
            None,
            unit="1",
            description="lower end of its 95 % interval: random-effects regression of logarithms,"
            " Student with n - 2 degrees of freedom",
        ),
        "ci_high": column(float, None, unit="1", description="upper end"),
        "n": column(
            "int64",
            at_least(3),
            unit="points",
            description="points of the fit: a d at initialisation, a size (d, m) after training",
        ),
        "left_out": column(
            "int64",
            at_least(0),
            unit="points",
            description="points left out because nothing was seen there",
        ),
        "bound": column(
            float,
            None,
            unit="1",
            description="the exponent of the bound",
            source=f"{CORE}, Lemma B.2, Thm. 3.1",
        ),
        "bound_side": column(
            str,
            pa.Check.isin(["at least", "at most"]),
            unit="",
            description="which side the bound allows",
        ),
        "consistent": column(
            bool,
            None,
            unit="",
            description="false where the whole interval lies on the side that the bound forbids",
        ),
    },
    unique=["quantity", "ratio", "d1_power", "d_low", "log_power"],
)
