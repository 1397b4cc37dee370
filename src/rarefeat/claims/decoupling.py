"""Feature decoupling by augmentation (Wen & Li 2021), and its crossing with imbalance and pruning."""

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.claims.evidence import Evidence
from rarefeat.config import Study
from rarefeat.core.sparse_coding import activation_probability, frequencies

PAPER, GROUP = "wen_li_feature_decoupling", "feature decoupling"
GROWTH = Claim(
    id="WL-P4",
    group=GROUP,
    source=f"{PAPER}, Induction Hypothesis C.4",
    statement="in stage 1 features grow by 1 - eta lambda + eta C_z loglog d / d a step, whatever correlated noise adds",
    quantity="measured over predicted (growth per step - 1 + eta lambda)",
    side="within",
    threshold=(0.9, 1.1),
    reason="to a tenth, as the closed form leaves out overlapping features",
)
INSIDE = Claim(
    id="WL-P7-share",
    group=GROUP,
    source=f"{PAPER}, Theorem 3.4",
    statement="with augmentation a neuron ends in span(M)",
    quantity="mean share of ||w_i||^2 in span(M)",
    side="above",
    threshold=(0.9,),
    reason="nine tenths",
)
COVERED = Claim(
    id="WL-P7-singletons",
    group=GROUP,
    source=f"{PAPER}, Theorem 3.4",
    statement="with augmentation every feature has a neuron of its own",
    quantity="share of features with a neuron of absolute cosine > 0.9",
    side="above",
    threshold=(0.95,),
    reason="all but one in twenty",
)
FEW = Claim(
    id="WL-P7-few",
    group=GROUP,
    source=f"{PAPER}, Theorem 3.4",
    statement="with augmentation |N_i| = O(1)",
    quantity="mean number of features with absolute cosine >= 1/sqrt(d)",
    side="not above",
    threshold=(2.0,),
    reason="the constant read as 2",
)
SPARSE = Claim(
    id="WL-P8",
    group=GROUP,
    source=f"{PAPER}, Fact E.3",
    statement="with augmentation a neuron is active only with its feature: Pr(h_i(x) != 0) <= O(loglog d / d)",
    quantity="mean Pr(h_i(x) != 0) over Pr(z_j != 0)",
    side="not above",
    threshold=(2.0,),
    reason="the constant read as 2",
)
CLEAN = Claim(
    id="WL-P9",
    group=GROUP,
    source=f"{PAPER}, section 3",
    statement="with augmentation the noise is removed: ||f(x) - f(Mz)|| is small beside ||f(Mz)||",
    quantity="their ratio",
    side="below",
    threshold=(0.5,),
    reason="o(1) read as under a half",
)
NOISY = Claim(
    id="WL-P10-cosine",
    group=GROUP,
    source=f"{PAPER}, Theorem 3.2",
    statement="without augmentation f(x) has the direction of f(xi), the answer to its noise",
    quantity="mean cosine",
    side="above",
    threshold=(0.9,),
    reason="1 - O(1 / poly(d)) read as nine tenths",
)
DENSE = Claim(
    id="WL-P10-share",
    group=GROUP,
    source=f"{PAPER}, Theorem 3.2",
    statement="without augmentation neurons end outside span(M)",
    quantity="mean share of ||w_i||^2 outside span(M)",
    side="above",
    threshold=(0.9,),
    reason="1 - 1 / poly(d) read as nine tenths",
)
FAILING = Claim(
    id="WL-P11",
    group=GROUP,
    source=f"{PAPER}, Corollary 3.3",
    statement="without augmentation a linear head has a constant error with any number of labels",
    quantity="test MSE over the variance of the label, with most labels",
    side="not below",
    threshold=(0.5,),
    reason="the constant read as a half",
)
LEARNED = Claim(
    id="WL-P12",
    group=GROUP,
    source=f"{PAPER}, Corollary 3.5",
    statement="with augmentation a linear head has an error of o(1)",
    quantity="test MSE over the variance of the label, with most labels",
    side="below",
    threshold=(0.5,),
    reason="o(1) read as under a half",
)
BETTER = Claim(
    id="WL-P12-raw",
    group=GROUP,
    source=f"{PAPER}, section 3.1 and Corollary 3.5",
    statement="with augmentation a head on the features is better than one on the raw input",
    quantity="error less that on the raw input, with most labels, seed by seed",
    side="below",
    threshold=(0.0,),
    reason="smaller",
)
UP = Claim(
    id="WL-P13-up",
    group=GROUP,
    source=f"{PAPER}, footnote 4",
    statement="with augmentation a bias that is learned by gradient increases",
    quantity="mean b_i / ||w_i|| at T",
    side="above",
    threshold=(0.0,),
    reason="above its start at 0",
)
DOWN = Claim(
    id="WL-P13-down",
    group=GROUP,
    source=f"{PAPER}, footnote 4",
    statement="without augmentation it decreases",
    quantity="mean b_i / ||w_i|| at T",
    side="below",
    threshold=(0.0,),
    reason="below its start at 0",
)
COLOUR_STAYS = Claim(
    id="WL-colour-stays",
    group=GROUP,
    source=f"{PAPER}, section 1, messages 1 and 2",
    statement="a dense nuisance that the augmentation does not decorrelate stays in the weights",
    quantity="mean share of ||w_i||^2 in its span",
    side="above",
    threshold=(0.1,),
    reason="a tenth; at the start it is 4 / d1 = 0.016",
)
COLOUR_GOES = Claim(
    id="WL-colour-goes",
    group=GROUP,
    source=f"{PAPER}, section 1, message 3",
    statement="an augmentation that redraws it removes it",
    quantity="mean share of ||w_i||^2 in its span",
    side="below",
    threshold=(0.016,),
    reason="less than at the start",
)
MASK_AND_RARE = Claim(
    id="crossing-mask",
    group=GROUP,
    source="beyond the papers",
    statement="a mask instead of noise of its own helps a rare feature",
    quantity="minority_alignment of dense with a mask less that without, seed by seed",
    side="above",
    threshold=(0.0,),
    reason="better",
)
PRUNED = Claim(
    id="crossing-pruning",
    group=GROUP,
    source="beyond the papers",
    statement="pruning helps a rare feature when the augmentation is a mask",
    quantity="minority_alignment less that of dense, seed by seed",
    side="above",
    threshold=(0.0,),
    reason="better",
)
MASKED = ("random_mask", "mask=0.25", "mask=0.1")
WITH = (*MASKED, "independent_noise")
WITHOUT = ("identical", "identical_without_bias")
BY_STUDY = (
    (GROWTH, "growth_over_closed_form", (*WITH, "rho=0.5", "rho=0.9", *WITHOUT)),
    (INSIDE, "share_features", WITH),
    (COVERED, "covered_features", WITH),
    (FEW, "features_per_neuron", WITH),
    (CLEAN, "noise_left", WITH),
    (NOISY, "noise_cosine", WITHOUT),
    (DENSE, "share_outside", WITHOUT),
    (UP, "bias_share", ("random_mask_learned_bias", "independent_noise_learned_bias")),
    (DOWN, "bias_share", ("identical_learned_bias",)),
    (COLOUR_STAYS, "share_colour", ("colour_identical", "colour_mask")),
    (COLOUR_GOES, "share_colour", ("colour_mask_and_redrawn",)),
)


def measure(evidence: Evidence, studies: dict[str, Study]) -> list[Measured]:
    """Every study of the section `augmentation` that a claim is about; a study that is not there has no row."""
    table = evidence.augmentation
    known = [name for name in studies if name in set(table["study"])]
    rows = []

    def of(study: str, metric: str, labels: int = 0, encoder: str = "trained") -> pd.DataFrame:
        """Values of the points and arms, a column per seed."""
        chosen = table[(table["study"] == study) & (table["encoder"] == encoder) & (table["labels"] == labels)]
        if metric == "share_outside":
            return 1 - wide(chosen[chosen["metric"] == "share_features"])
        return wide(chosen[chosen["metric"] == metric])

    def add(claim: Claim, study: str, values: np.ndarray, point: str = "") -> None:
        found = of_seeds(values)
        reason = "stage 1 does not end in this training" if claim is GROWTH and found.n < 5 else ""
        rows.append(Measured(claim, f"augmentation, {study}{point}", found, reason))

    for claim, metric, names in BY_STUDY:
        for study in (name for name in names if name in known):
            add(claim, study, of(study, metric).to_numpy()[0])
    most = table["labels"].max()
    for study in (name for name in (*WITH, *WITHOUT) if name in known):
        error = of(study, "regression_error", most).to_numpy()[0]
        add(LEARNED if study in WITH else FAILING, study, error)
        if study in WITH and "independent_noise" in known:
            add(BETTER, study, error - of("independent_noise", "regression_error", most, "raw").to_numpy()[0])
        if study in WITH:
            data = studies[study].data
            p = activation_probability(frequencies(data.d, data.minority, 1.0), data.C)[0].item()
            add(SPARSE, study, of(study, "activity").to_numpy()[0] / p)
    fates = {name: of(name, "minority_alignment") for name in known if name.startswith("imbalance_")}
    mask, noise = (fates.get(f"imbalance_{name}") for name in ("random_mask", "independent_noise"))
    for (eps_min, arm), values in mask.iterrows() if mask is not None else ():
        point = f": eps_min {eps_min:g}"
        if arm != "dense":
            gain = values.to_numpy() - mask.loc[(eps_min, "dense")].to_numpy()
            add(PRUNED, "imbalance_random_mask", gain, f"{point}, {arm}")
        elif noise is not None:
            add(MASK_AND_RARE, "imbalance_random_mask", values.to_numpy() - noise.loc[(eps_min, "dense")].to_numpy(), point)
    return rows


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per (eps_min, arm), a column per seed."""
    return rows.pivot(index=["eps_min", "arm"], columns="seed", values="value")
