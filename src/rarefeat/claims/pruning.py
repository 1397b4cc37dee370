"""Theorem 3.2 with its lemmas, and what it takes for granted: that magnitude pruning removes the neurons of the minority."""

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.claims.evidence import Evidence, named
from rarefeat.tables import ARM

CORE, GROUP = "imbalance_and_pruning", "pruning"
FASTER = Claim(
    id="3.2-a",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2 (a), eq. (15)",
    statement="masking neurons of the minority feature makes them grow faster along it in the next step",
    quantity="relative growth with the mask less that without",
    side="above",
    threshold=(0.0,),
    reason="faster",
)
ELSEWHERE = Claim(
    id="3.2-b",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2 (b), eq. (16)",
    statement="along other features the mask changes growth by a factor of order eps / d less",
    quantity="gain along majority features over the gain along the minority one",
    side="within",
    threshold=(-1 / 9, 1 / 9),
    reason="1 / d at d = 9",
)
ENOUGH = Claim(
    id="3.2-a-net",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2 (a), (c)",
    statement="with the mask the minority's neurons grow along it, weight decay included",
    quantity="relative growth in one step with the mask",
    side="above",
    threshold=(0.0,),
    reason="growing",
)
LOGIT = Claim(
    id="F.2",
    group=GROUP,
    source=f"{CORE}, Lemma F.2, eq. (181)",
    statement="the mask lowers the positive logit of samples that contain the minority feature",
    quantity="mean change of the positive logit",
    side="below",
    threshold=(0.0,),
    reason="lower",
)
LEAK = Claim(
    id="F.2-others",
    group=GROUP,
    source=f"{CORE}, F.3, the distribution D_2",
    statement="the mask does not change the positive logit of the other samples",
    quantity="change on the other samples over the change on those with the feature",
    side="within",
    threshold=(-0.05, 0.05),
    reason="none, to a twentieth",
)
POSITIVE = Claim(
    id="F.1a",
    group=GROUP,
    source=f"{CORE}, Lemma F.1 (a), eq. (178)",
    statement="the pruned neurons add to the similarity of positive pairs",
    quantity="mean of sum over P of h_i(X) h_i(Y)",
    side="above",
    threshold=(0.0,),
    reason="positive",
)
NEGATIVE = Claim(
    id="F.1b",
    group=GROUP,
    source=f"{CORE}, Lemma F.1 (b), eq. (179)",
    statement="and nothing on average to that of negative pairs",
    quantity="their mean over negative pairs over that over positive ones",
    side="within",
    threshold=(-0.05, 0.05),
    reason="none, to a twentieth",
)
FIXED = Claim(
    id="F.1c",
    group=GROUP,
    source=f"{CORE}, Lemma F.1 (c), eq. (180), and eq. (184)",
    statement="the negatives do not pull on the pruned neurons: their logits are held fixed, although they grow with h_i",
    quantity="pull of the negatives over that of the positives",
    side="within",
    threshold=(-0.05, 0.05),
    reason="none, to a twentieth",
)
SMALLEST = Claim(
    id="3.2-implicit",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2, Remark 1",
    statement="the neurons of smallest norm are those of the minority feature",
    quantity="share of the pruned neurons that are aligned with it, at T",
    side="above",
    threshold=(0.5,),
    reason="most of them",
)
RANK = Claim(
    id="3.2-rank",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2, Remark 1",
    statement="neurons of the minority feature are smaller than the others, so that magnitude pruning takes them first",
    quantity="mean rank by norm at T of the neurons aligned with it, 0 for the smallest neuron and 1 for the largest",
    side="below",
    threshold=(0.5,),
    reason="smaller than the middle",
)
RAISES = Claim(
    id="A1-gain",
    group=GROUP,
    source=f"{CORE}, Algorithm 1, section 3.3.2",
    statement="magnitude pruning raises alignment with the minority feature",
    quantity="max_alignment less that of the dense arm, seed by seed",
    side="above",
    threshold=(0.0,),
    reason="higher",
)
CONFIRMED = Claim(
    id="A1-confirmed",
    group=GROUP,
    source=f"{CORE}, Algorithm 1, section 3.3.2",
    statement="there is a regime of plain magnitude pruning that raises it, found by a search and confirmed on other seeds",
    quantity="max_alignment less that of the dense arm, on the held-out seeds",
    side="above",
    threshold=(0.0,),
    reason="higher",
)
NUMBER = Claim(
    id="3.2-c",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2 (c)",
    statement="with the assumed set masked from the start, Omega(m / d) neurons end with N_i = {j*}, whatever the ratio",
    quantity="neurons of the oracle arm with absolute cosine > 0.9 to the minority feature, over m / d",
    side="not below",
    threshold=(1.0,),
    reason="the constant read as 1",
)
ONE_STEP = (
    (FASTER, "growth_minority_gain"),
    (ELSEWHERE, "gain_ratio"),
    (ENOUGH, "growth_minority_masked"),
    (LOGIT, "logit_with_minority"),
    (LEAK, "logit_leak"),
    (POSITIVE, "similarity_positive"),
    (NEGATIVE, "similarity_negative"),
    (FIXED, "negative_share"),
)


def gains(trajectories: pd.DataFrame, metric: str = "max_alignment") -> pd.DataFrame:
    """Paired differences to the dense arm at the last step: one row per point and masked arm, a column per seed."""
    last = trajectories[(trajectories["step"] == trajectories["step"].max()) & (trajectories["metric"] == metric)]
    wide = last.pivot(index=["eps_min", "sigma", *ARM], columns="seed", values="value").reset_index()
    seeds = [column for column in wide.columns if column not in ("eps_min", "sigma", *ARM)]
    dense = wide[wide["arm"] == "dense"].set_index(["eps_min", "sigma"])[seeds]
    masked = wide[wide["arm"] != "dense"].set_index(["eps_min", "sigma", *ARM])
    return masked[seeds] - dense.reindex(masked.index.droplevel(list(ARM))).to_numpy()


def arm_regime(study: str, key: tuple) -> str:
    """A regime for people, from the index of `gains`."""
    eps_min, sigma, arm, alpha, onset, update = key
    return f"{named(study, eps_min, sigma)}, {arm} alpha {alpha:g} from step {onset}, {update}"


def measure(evidence: Evidence, neurons_per_feature: float) -> list[Measured]:
    """One step of every trained encoder; every arm of the pruning studies; the best of the search on the held-out seeds.

    neurons_per_feature: m / d of the study `paper`.
    """
    rows = []
    if evidence.grid is not None:
        oracle = evidence.grid[evidence.grid["arm"] == "oracle"]
        for (eps_min, sigma), cell in oracle.groupby(["eps_min", "sigma"]):
            share = cell["pure_minority_neurons"].to_numpy() / neurons_per_feature
            rows.append(Measured(NUMBER, named("paper", eps_min, sigma), of_seeds(share)))
    for study, table in evidence.one_step.items():
        for eps_min, sigma in evidence.points(study):
            point = table[(table["eps_min"] == eps_min) & (table["sigma"] == sigma)]
            ranks = of_seeds(evidence.at(study, "minority_norm_rank", eps_min=eps_min, sigma=sigma))
            steps = [(claim, of_seeds(point[point["metric"] == metric]["value"].to_numpy())) for claim, metric in ONE_STEP]
            for claim, values in [*steps, (RANK, ranks)]:
                reason = "too few replicas have a neuron of the minority feature" if values.n < 5 else ""
                rows.append(Measured(claim, named(study, eps_min, sigma), values, reason))
    for study, table in evidence.trajectories.items():
        if not study.startswith("pruning") or study.endswith("_held_out"):
            continue
        for key, values in gains(table).iterrows():
            rows.append(Measured(RAISES, arm_regime(study, key), of_seeds(values.to_numpy())))
        last = table[(table["step"] == table["step"].max()) & (table["metric"] == "mask_minority_overlap")]
        for key, part in last.groupby(["eps_min", "sigma", *ARM]):
            rows.append(Measured(SMALLEST, arm_regime(study, key), of_seeds(part["value"].to_numpy())))
    return rows + searched(evidence)


def searched(evidence: Evidence) -> list[Measured]:
    """The regime with the largest t-statistic among all that were tried, measured again on the seeds that were held out.

    Studies come in pairs, `name` and `name_held_out`, with the same grid and other seeds.
    """
    best, where = -np.inf, None
    for study, table in evidence.trajectories.items():
        if f"{study}_held_out" in evidence.trajectories:
            differences = gains(table)
            differences = differences[differences.index.get_level_values("arm") == "pruned_neuron"]
            spread = differences.std(axis=1, ddof=1).clip(lower=1e-6)
            statistic = differences.mean(axis=1) / spread * np.sqrt(differences.shape[1])
            if statistic.max() > best:
                best, where = statistic.max(), (study, statistic.idxmax())
    if where is None:
        return []
    study, key = where
    values = gains(evidence.trajectories[f"{study}_held_out"]).loc[key]
    return [Measured(CONFIRMED, arm_regime(f"{study}_held_out", key), of_seeds(values.to_numpy()))]
