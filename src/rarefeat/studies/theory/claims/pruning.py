"""Theorem 3.2 with its lemmas, and what it takes for granted: that magnitude pruning removes the neurons of the minority."""

import numpy as np
import pandas as pd

from rarefeat.chain.tables import ARM
from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.claims.evidence import exponent, named
from rarefeat.config.model import Data
from rarefeat.core.theory import attended_count, pruning_time
from rarefeat.studies.theory.claims.evidence import Evidence

CORE, GROUP = "imbalance_and_pruning", "pruning"
HORIZON = 10_000
"""Steps beyond which T5 is out of reach."""
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
    family="confirmation",
)
NUMBER = Claim(
    id="3.2-c",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2 (c)",
    statement="with the assumed set masked, Omega(m / d) neurons end with N_i = {j*}, whatever the ratio",
    quantity="neurons of the oracle arm with absolute cosine > 0.9 to the minority feature, over m / d",
    side="not below",
    threshold=(1.0,),
    reason="the constant read as 1",
)
STRENGTH = Claim(
    id="18-alpha",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2 (c), eq. (18), F.4",
    statement="at T5 the strength of the minority feature in the pruned neurons does not depend on eps_min / eps_max",
    quantity="exponent of the largest |<w_i, M_minority>| over that of the majority features in eps_min",
    side="within",
    threshold=(-0.25, 0.25),
    reason="0, to a quarter; without pruning it is 1 (eq. 13)",
)
OTHERS = Claim(
    id="18-others",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2 (c), eq. (18)",
    statement="at T5 the pruned neurons hold o((1 + 1/d) / sqrt(d)) of every other feature",
    quantity="largest sqrt(d) |<w_i, M_j>| / ||w_i|| of the pruned neurons",
    side="below",
    threshold=(0.5,),
    reason="o(1) read as under a half",
)
OUTSIDE = Claim(
    id="18-beta",
    group=GROUP,
    source=f"{CORE}, Theorem 3.2 (c), eq. (18)",
    statement="at T5 the pruned neurons hold o(1 / sqrt(d1)) of every direction off the features",
    quantity="sqrt(d1) times the root mean square over these directions, as a share of ||w_i||, largest of the pruned neurons",
    side="below",
    threshold=(0.5,),
    reason="o(1) read as under a half",
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


def measure(evidence: Evidence) -> list[Measured]:
    """One step of every trained encoder; the oracle at T5; every arm of the search, and its best on the held-out seeds."""
    paper = evidence.paper
    neurons_per_feature = paper.training.m / paper.data.d
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
    for study in evidence.of_role("pruning"):
        table = evidence.trajectories[study]
        for key, values in gains(table).iterrows():
            rows.append(Measured(RAISES, arm_regime(study, key), of_seeds(values.to_numpy())))
        last = table[(table["step"] == table["step"].max()) & (table["metric"] == "mask_minority_overlap")]
        for key, part in last.groupby(["eps_min", "sigma", *ARM]):
            rows.append(Measured(SMALLEST, arm_regime(study, key), of_seeds(part["value"].to_numpy())))
    return rows + at_T5(evidence) + searched(evidence)


def at_T5(evidence: Evidence) -> list[Measured]:
    """The studies T5_..., with the oracle's mask from T4 on, at the end of their training; ratios out of reach have a reason.

    alpha of the formula for T5 is 1/d, the share of one feature's neurons.
    """
    rows, ratios, magnitudes = [], [], []
    for name in evidence.of_role("T5"):
        data, training = evidence.studies[name].data, evidence.studies[name].training
        for eps_min, sigma in evidence.points(name):
            at = {"eps_min": eps_min, "sigma": sigma, "arm": "oracle"}
            T5 = end_of_pruning(data, training.eta, eps_min, sigma)
            reason = f"the training ends at {training.T}, before T5 = {T5:.0f}" if training.T < T5 else ""
            regime = f"{named(name, eps_min, sigma)}, step {training.T}"
            for claim, metric in ((OTHERS, "pruned_other_features"), (OUTSIDE, "pruned_outside")):
                values = of_seeds(evidence.at(name, metric, **at))
                few = "too few replicas have a neuron of the minority feature" if values.n < 5 else ""
                rows.append(Measured(claim, regime, values, reason or few))
            number = evidence.at(name, "pure_minority_neurons", **at) * data.d / training.m
            rows.append(Measured(NUMBER, regime, of_seeds(number), reason))
            if not reason:
                ratios.append(eps_min)
                magnitudes.append(evidence.at(name, "magnitude_ratio", **at))
    if len(ratios) > 2:
        regime = f"T5: eps_min {min(ratios):g} to {max(ratios):g}"
        rows.append(Measured(STRENGTH, regime, of_seeds(exponent(np.array(ratios), np.array(magnitudes)))))
    paper = evidence.paper
    for cell in paper.cells():
        T5 = end_of_pruning(paper.data, paper.training.eta, cell["eps_min"], cell["sigma"])
        if T5 > HORIZON and cell["sigma"] == min(other["sigma"] for other in paper.cells()):
            reason = f"the horizon is out of reach: T5 = {T5:.0f} steps"
            rows.append(Measured(OTHERS, named("paper", cell["eps_min"], cell["sigma"]), of_seeds(np.array([])), reason))
    return rows


def end_of_pruning(data: Data, eta: float, eps_min: float, sigma: float) -> float:
    """T5 in steps, with C_z of docs/method/model.md."""
    C_z = data.C * attended_count(data.L, sigma**2 * data.d1) ** 2
    return data.d**1.99 / eta + pruning_time(data.d, eta, C_z, 1 / data.d, eps_min)


def searched(evidence: Evidence) -> list[Measured]:
    """The regime with the largest t-statistic among all that were tried, measured again on seeds that no search has seen.

    The study with the role held_out declares that regime: nothing is trained there but what a search on other seeds has found,
    and where the search finds another one, nothing is confirmed.
    """
    if not (held := evidence.of_role("held_out")):
        return [Measured(CONFIRMED, "held_out", of_seeds(np.array([])), "the config has no study with the role held_out")]
    (held_out_study,) = held
    best, where = -np.inf, None
    for study in evidence.of_role("pruning"):
        differences = gains(evidence.trajectories[study])
        differences = differences[differences.index.get_level_values("arm") == "pruned_neuron"]
        if differences.empty:
            continue
        spread = differences.std(axis=1, ddof=1).clip(lower=1e-6)
        statistic = differences.mean(axis=1) / spread * np.sqrt(differences.shape[1])
        if statistic.max() > best:
            best, where = statistic.max(), (study, statistic.idxmax())
    if where is None:
        return []
    study, key = where
    held_out = gains(evidence.trajectories[held_out_study])
    found, regime = evidence.studies[study], arm_regime(held_out_study, key)
    same = found.data == evidence.studies[held_out_study].data and found.training == evidence.studies[held_out_study].training
    if not same or key not in held_out.index:
        reason = f"the search found {arm_regime(study, key)}, which {held_out_study} does not hold"
        return [Measured(CONFIRMED, regime, of_seeds(np.array([])), reason)]
    return [Measured(CONFIRMED, regime, of_seeds(held_out.loc[key].to_numpy()))]
