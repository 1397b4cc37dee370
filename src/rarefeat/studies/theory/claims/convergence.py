"""Theorem 3.1, Theorem E.1 and (K2): what training ends in."""

import numpy as np

from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.claims.evidence import exponent, named
from rarefeat.studies.theory.claims.evidence import Evidence
from rarefeat.studies.theory.claims.initialisation import exponents

CORE, GROUP = "imbalance_and_pruning", "stage 3"
EXCESS = Claim(
    id="11",
    group=GROUP,
    source=f"{CORE}, Theorem 3.1, eq. (11)",
    statement="the training loss becomes o(1), beyond what identical latents in a batch make unavoidable",
    quantity="InfoNCE on held-out batches less its floor, in nat",
    side="below",
    threshold=(0.5,),
    reason="o(1) read as under half a nat; log K is 4.9",
)
LUCKY_FOCUS = Claim(
    id="E.1a",
    group=GROUP,
    source=f"{CORE}, Theorem E.1 (a), eq. (87)",
    statement="a lucky neuron ends with |<w, M_j>| >= Omega(1) ||w||",
    quantity="mean |<w, M_j>| / ||w|| of lucky neurons at T",
    side="not below",
    threshold=(0.5,),
    reason="the constant read as a half",
)
LUCKY_STRONG = Claim(
    id="E.1d",
    group=GROUP,
    source=f"{CORE}, Theorem E.1 (d), eq. (90)",
    statement="a lucky neuron of a feature is within a constant of the strongest of all neurons in M_j",
    quantity="smallest |<w, M_j>| of a lucky neuron over the largest in M_j, at T",
    side="not below",
    threshold=(0.5,),
    reason="the constant read as a half",
)
OTHERS = Claim(
    id="E.1e",
    group=GROUP,
    source=f"{CORE}, Theorem E.1 (e), eq. (91)",
    statement="a neuron that is not in M_j has |<w, M_j>| <= O(eps_j / (eps_max sqrt(d) Xi_2^5)) ||w||",
    quantity="share of the pairs (i, j) with it at T",
    side="above",
    threshold=(0.95,),
    reason="all but one in twenty; the constant and Xi_2 read as 1, which is the weaker bound",
)
NORM = Claim(
    id="E.1b",
    group=GROUP,
    source=f"{CORE}, Theorem E.1 (b), eq. (88)",
    statement="every ||w_i|| stays O(1)",
    quantity="largest ||w_i|| at T",
    side="below",
    threshold=(1.0,),
    reason="O(1) read as 1",
)
STRENGTH = Claim(
    id="E.1c",
    group=GROUP,
    source=f"{CORE}, Theorem E.1 (c), eq. (89)",
    statement="F_j = sum_i <w_i, M_j>^2 is proportional to (eps_j / eps_max)^2",
    quantity="exponent of F_minority / F_majority in eps_min",
    side="within",
    threshold=(1.5, 2.5),
    reason="2, to a half",
)
MAGNITUDE = Claim(
    id="12-alpha",
    group=GROUP,
    source=f"{CORE}, eq. (13)",
    statement="the strength alpha_ij of what a neuron learned is proportional to eps_j / eps_max",
    quantity="exponent of the largest |<w_i, M_minority>| over that of the majority features in eps_min",
    side="within",
    threshold=(0.5, 1.5),
    reason="1, to a half",
)
OUTSIDE = Claim(
    id="12-beta",
    group=GROUP,
    source=f"{CORE}, eq. (13)",
    statement="every direction off the features holds o(1 / sqrt(d1)) of a neuron",
    quantity="largest over neurons of sqrt(d1) times the root mean square over these directions, as a share of ||w_i||",
    side="below",
    threshold=(0.5,),
    reason="o(1) read as under a half",
)
MIXING_SIZE = Claim(
    id="14",
    group=GROUP,
    source=f"{CORE}, eq. (14)",
    statement="|N_i| grows with d no faster than the exponent 1 - ratio^2",
    quantity="fitted exponent less the bound",
    side="not above",
    threshold=(0.0,),
    reason="a bound from above",
)
SINGLE = Claim(
    id="3.1-single",
    group=GROUP,
    source=f"{CORE}, Theorem 3.1, last line",
    statement="the share of neurons with N_i = {j} falls with d no faster than the exponent -1 / ratio^2",
    quantity="fitted exponent less the bound",
    side="not below",
    threshold=(0.0,),
    reason="a bound from below",
)
WEAKER = Claim(
    id="K2-magnitude",
    group=GROUP,
    source=f"{CORE}, (K2)",
    statement="minority features are learned with smaller magnitude",
    quantity="largest |<w_i, M_minority>| over that of the majority features",
    side="below",
    threshold=(1.0,),
    reason="smaller than the majority's",
)
MIXING = Claim(
    id="K2-mixing",
    group=GROUP,
    source=f"{CORE}, (K2)",
    statement="imbalance makes neurons mix features instead of staying pure",
    quantity="slope in eps_min of the share of pure neurons",
    side="above",
    threshold=(0.0,),
    reason="more pure neurons with less imbalance",
)
NUMBER = Claim(
    id="K2-number",
    group=GROUP,
    source=f"{CORE}, (K2)",
    statement="imbalance leaves fewer neurons specialised in the minority feature",
    quantity="slope in eps_min of their number",
    side="above",
    threshold=(0.0,),
    reason="more such neurons with less imbalance",
)


def slope(x: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Least-squares slope in x, seed by seed, (n,), (n, seeds) -> (seeds,)."""
    centred = x - x.mean()
    return centred @ curves / (centred @ centred)


def measure(evidence: Evidence) -> list[Measured]:
    """Every study of the stages; |N_i| and singletons from the exponents of the scaling study."""
    rows = []
    for study in evidence.of_role("stages"):
        points = evidence.points(study)
        for eps_min, sigma in points:
            at, regime = {"eps_min": eps_min, "sigma": sigma}, named(study, eps_min, sigma)
            rows.append(Measured(NORM, regime, of_seeds(evidence.at(study, "largest_norm", **at))))
            rows.append(Measured(OUTSIDE, regime, of_seeds(evidence.at(study, "outside_per_direction", **at))))
            for claim, metric in (
                (LUCKY_FOCUS, "lucky_focus_at_T"), (LUCKY_STRONG, "lucky_over_strongest_at_T"), (OTHERS, "others_small_at_T")
            ):  # fmt: skip
                values = of_seeds(evidence.at(study, metric, **at))
                few = values.n < 5 and claim is not OTHERS
                rows.append(
                    Measured(claim, regime, values, "too few replicas have a lucky neuron (Definition B.1)" if few else "")
                )
            if eps_min < 1:
                rows.append(Measured(WEAKER, regime, of_seeds(evidence.at(study, "magnitude_ratio", **at))))
        for sigma in sorted({sigma for _, sigma in points}):
            x = np.array([eps_min for eps_min, at in points if at == sigma])
            if len(x) < 3:
                continue

            def curves(metric: str, study=study, sigma=sigma, x=x) -> np.ndarray:
                return np.array([evidence.at(study, metric, eps_min=eps_min, sigma=sigma) for eps_min in x])

            regime = f"{study}: eps_min {x[0]:g} to {x[-1]:g}, sigma {sigma:g}"
            rows.append(Measured(STRENGTH, regime, of_seeds(exponent(x, curves("strength_ratio")))))
            rows.append(Measured(MAGNITUDE, regime, of_seeds(exponent(x, curves("magnitude_ratio")))))
            rows.append(Measured(MIXING, regime, of_seeds(slope(x, curves("pure_share")))))
            rows.append(Measured(NUMBER, regime, of_seeds(slope(x, curves("pure_minority_neurons")))))
    dense = evidence.grid[evidence.grid["arm"] == "dense"]
    for (eps_min, sigma), cell in dense.groupby(["eps_min", "sigma"]):
        excess = (cell["final_loss"] - cell["loss_floor"]).to_numpy()
        rows.append(Measured(EXCESS, named("paper", eps_min, sigma), of_seeds(excess)))
    return rows + exponents(evidence, MIXING_SIZE, "learned_features") + exponents(evidence, SINGLE, "single_minority_share")
