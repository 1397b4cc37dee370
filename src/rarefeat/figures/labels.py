"""Labels of figures: symbols, units and ranges of metrics, and names of arms."""

import math
from dataclasses import dataclass

import pandas as pd

from rarefeat.model.arms import ARMS, display_name

EPS = r"relative frequency $\varepsilon_{\min}/\varepsilon_{\max}$"
FREQUENCY = "relative frequency of the rare feature"
STEP = "training step $t$"
INTERVALS = "mean and 95 % interval"


@dataclass(frozen=True)
class Quantity:
    """A metric on an axis: its symbol with its unit, and the range that it cannot leave."""

    symbol: str
    low: float = -math.inf
    high: float = math.inf
    short: str = ""
    """Shorter symbol for small panels; empty if the symbol is short enough."""

    @property
    def range(self) -> tuple[float, float]:
        """Range of the quantity."""
        return self.low, self.high

    @property
    def difference(self) -> tuple[float, float]:
        """Range of the difference of two values of the quantity."""
        return self.low - self.high, self.high - self.low


ALIGNMENT = "largest cosine with\nthe rare feature"
QUANTITIES = {
    "aligned_neurons": Quantity(
        "neurons with a cosine\nof at least 0.3", 0, short="aligned neurons"
    ),
    "max_alignment": Quantity(ALIGNMENT, 0, 1),
    "minority_alignment": Quantity(ALIGNMENT, 0, 1),
    "majority_alignment": Quantity("largest cosine with a\nfrequent feature, mean", 0, 1),
    "cosine_similarity": Quantity("cosine of positive pairs\n(zero embeddings: 0)", -1, 1),
    "regression_mse": Quantity("test MSE", 0),
    "share_features": Quantity(r"share of $\|w_i\|^2$ in span$(M)$", 0, 1),
    "share_colour": Quantity("share of $\\|w_i\\|^2$ in the\nnuisance's span", 0, 1),
    "bias_share": Quantity(r"mean $b_i/\|w_i\|$"),
    "singletons": Quantity("singletons", 0),
    "covered_features": Quantity("share of features\nwith a singleton", 0, 1),
    "features_per_neuron": Quantity("features per neuron", 0),
    "activity": Quantity("inputs that\nactivate a neuron", 0, 1),
    "noise_cosine": Quantity(r"$\cos(f(x), f(\xi))$", -1, 1),
    "noise_left": Quantity(r"$\|f(x) - f(Mz)\|\,/\,\|f(Mz)\|$", 0),
    "regression_error": Quantity("test MSE / variance of the label", 0),
    "pure_minority_share": Quantity("pure in the minority feature,\nof $m$, after training", 0, 1),
    "learned_features": Quantity(r"mean $|\mathcal{N}_i|$ after training", 0),
    "accuracy": Quantity("linear-probe accuracy", 0, 1),
    "delta_20": Quantity(r"$\Delta_{20}$: head minus tail accuracy", -1, 1),
    "knn_accuracy": Quantity("nearest neighbours", 0, 1),
    "linear_accuracy": Quantity("linear probe", 0, 1),
    "separation": Quantity("variance between\nclasses", 0, 1),
    "crop_invariance": Quantity("invariance\nto crops", -1, 1),
    "intensity_invariance": Quantity("invariance\nto intensity", -1, 1),
}
TEST_SETS = {"_balanced": "balanced test set", "_matched": "test set as trained"}
NAMES = {name: arm.label for name, arm in ARMS.items()} | {"self_damaging": "self-damaging"}
"""Names of arms, including those of images, where `display_name` is not their name."""
KEYS = {
    "alpha": lambda value: rf"$\alpha$ = {value:g}",
    "onset": lambda value: f"from step {value}",
    "pruned_update": lambda value: {
        "unmasked": "plain update",
        "straight_through": "straight-through update",
    }[value],
    "threshold": lambda value: (
        "random mask" if value == "random" else f"threshold {display_name(value)}"
    ),
    "width": lambda value: f"width {value}",
    "split": lambda value: {"long_tailed": "long-tailed images", "balanced": "balanced images"}[
        value
    ],
}
"""Formatters of the keys of an arm."""


def quantity(metric: str) -> Quantity:
    """Return the quantity of a metric, on any test set; by its own name if it has no symbol."""
    for suffix in TEST_SETS:
        metric = metric.removesuffix(suffix)
    return QUANTITIES.get(metric, Quantity(display_name(metric)))


def test_set_name(metric: str) -> str:
    """Return the test set of a metric in words; empty if there is only one."""
    return next((title for suffix, title in TEST_SETS.items() if metric.endswith(suffix)), "")


def add_series_column(table: pd.DataFrame, keys: tuple[str, ...] = tuple(KEYS)) -> pd.DataFrame:
    """Return a table with a column `series`: the arm, and those keys in which its rows differ."""
    keys = tuple(key for key in keys if key in table)
    series = pd.Series("", index=table.index, dtype=object)
    for arm, rows in table.groupby("arm"):
        columns = [[arm] * len(rows)]
        columns += [
            [KEYS[key](value) for value in rows[key]] for key in keys if rows[key].nunique() > 1
        ]
        series[rows.index] = [", ".join(texts) for texts in zip(*columns, strict=True)]
    return table.assign(series=series)


def arm_label(series: str) -> str:
    """Return the label of a series: the name of its arm, and its keys."""
    arm, comma, rest = series.partition(", ")
    return NAMES.get(arm, display_name(arm)) + comma + rest


def n_of(*counts: int) -> str:
    """Format a number of seeds, or a range of numbers."""
    low, high = int(min(counts, default=0)), int(max(counts, default=0))
    return (
        rf"$n$ = {high} seed{'s' * (high != 1)}" if low == high else rf"$n$ = {low} to {high} seeds"
    )


def seeds_of(*tables: pd.DataFrame) -> str:
    """Format the number of seeds in tables of replicas or of estimates."""
    return n_of(
        *(
            n
            for table in tables
            for n in ([table["seed"].nunique()] if "seed" in table else table["n"])
        )
    )


def nsr_of(table: pd.DataFrame) -> str:
    """Format the noise levels of a grid table: sigma, as in the config, and the NSR."""
    levels = table[["sigma", "nsr"]].drop_duplicates().sort_values("sigma").to_numpy()
    first, last = levels[0], levels[-1]
    sigma, nsr = (
        f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        for low, high in zip(first, last, strict=True)
    )
    return rf"$\sigma$ = {sigma} ($\sigma^2 d_1$ = {nsr})"


ARM_WORDS = NAMES | {
    "pruned_unmasked": "eq. (5)",
    "pruned_straight_through": "straight-through",
    "self_damaging": "dual branch",
    "resampled": "balanced batches",
    "network": "network",
    "network-printed": "network, printed schedule",
    "network-weighted": "network, class weights",
    "network-no_structure": "network, inputs without structure",
    "network-plain": "network",
    "ntk": "tangent kernel",
    "ntk-no_structure": "tangent kernel, inputs without structure",
    "one_step": "one step",
    "two_step": "two steps",
    "one_step_rescaled": "one step, features rescaled",
    "two_step-weighted": "two steps, class weights",
    "random_features-no_structure": "random features, inputs without structure",
    "effective_rate": "lowest effective rate",
    "paired_rate": "lowest paired rate",
    "firing_rate": "lowest firing rate",
    "hoyer_rate": "lowest Hoyer rate",
    "norm": "smallest norm",
    "largest": "largest norm",
    "growth": "fastest growth",
    "contribution": "smallest contribution",
    "residual": "largest residual",
    "random": "at random",
    "contrast": "contrast branch",
    "fine": "fine labels",
    "coarse": "coarse labels",
}
"""Names of arms, rules and labels of all studies."""
KEY_WORDS = {
    "alpha": lambda value: f"{100 * float(value):g} % masked",
    "onset": lambda value: f"from step {value}",
    "delay": lambda value: f"bias {value} steps later",
    "threshold": lambda value: {"random": "at random", "rate": "bias by the rate"}.get(
        value, f"bias by {display_name(value)}"
    ),
    "stop": lambda _: "with a stop",
    "reopened": lambda _: "gates re-opened",
    "revived": lambda _: "silent neurons drawn anew",
    "bias": lambda value: "without a bias" if float(value) == 0 else "with a bias",
}
"""Formatters of the keys behind an arm's name in tables."""


PARAMETER_WORDS = {
    "share": "bias scale",
    "lambda": r"weight decay $\lambda$",
    "decay": "decay over growth rate",
    "C": "active features $C$",
    "L": "tokens $L$",
    "K": "negatives $K$",
    "N": "training pairs $N$",
    "T": "training steps $T$",
    "tau": r"temperature $\tau$",
    "eta": r"learning rate $\eta$",
    "d": "features $d$",
    "d1": "dimension $d_1$",
    "m": "neurons $m$",
    "sigma": r"noise $\sigma$",
    "sigma_0": r"initial weights $\sigma_0$",
    "attention_scale": "scale of attention",
}
"""Names of hyper-parameters in words."""


def arm_name(label: str) -> str:
    """Return the name of an arm from its label in tables.

    `pruned_straight_through-alpha=0.9` becomes "straight-through, 90 % masked".
    """
    if label in ARM_WORDS:
        return ARM_WORDS[label]
    base, *keys = label.split("-")
    words = []
    for key, _, value in (text.partition("=") for text in keys):
        words.append(
            KEY_WORDS[key](value) if key in KEY_WORDS else f"{display_name(key)} {value}".strip()
        )
    text = ", ".join([ARM_WORDS.get(base, display_name(base)), *words])
    return text.replace("masked, at random", "masked at random")
