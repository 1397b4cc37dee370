"""What is stated beyond the papers: rules, regimes, quantities, thresholds and seeds, declared before the first run."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.claim import COUNT, SHARE, Claim, Measured, Regime
from rarefeat.claims.estimate import Estimate, of_seeds
from rarefeat.run.job import Job
from rarefeat.studies.selection.changes import changed
from rarefeat.studies.selection.config import DIGITS, Arm, Selection
from rarefeat.studies.selection.kind import GROUPS, PAPER
from rarefeat.studies.selection.steps import AMONG, learned_by, step_of

SELECT, INTERVENE, HELP, LAW = GROUPS
LEAST = 5
NO_NEURON = "fewer than five replicas have a neuron pure in the rare feature"
BEYOND = "the step of one of both lies beyond all eps_min"
SAME = "the same replicas learn the feature as in dense training, at every eps_min"
NEW, MASKS, HELPED, TEST = "scores_new", "interventions", "help", "law_test"
ONSET = 92
"""T3 = d^1.01 / eta at d = 9."""
# A mean over 96 seeds, of which some have no pure neuron; over 30 seeds; over 60 drawn regimes, of which some have no step.
declare = partial(Claim, paper=PAPER, source="ours", tolerance=0.05)
select = partial(declare, group=SELECT, effect=0.5, seeds=96)
intervene = partial(declare, group=INTERVENE, effect=1.0, seeds=30)
helping = partial(declare, group=HELP, effect=1.0, seeds=30)
law = partial(declare, group=LAW, effect=0.8, seeds=60)


def label(**keys) -> str:
    """An arm as tables name it."""
    return Arm(**keys).label


def scored(share: float, eps_min: float, step: int, source: str) -> str:
    """A point of the scores, for people and as a regime."""
    return f"share={share:g}, eps_min {eps_min:g}, step {step}, {source}"


def at(share: float, eps_min: float, arm: str) -> str:
    """A point of the interventions."""
    return f"share={share:g}, eps_min {eps_min:g}, {arm}"


BY_RATE, BY_NORM, BY_RANDOM = (label(mask=mask, onset=ONSET) for mask in ("effective_rate", "norm", "random"))
STOPPED = label(mask="effective_rate", onset=ONSET, stop=True)
ORACLE = label(mask="oracle_all", onset=ONSET)
CONTRAST = label(mask="effective_rate", onset=ONSET, masked_keys=True)
CONFIRMED = scored(0.2, 0.7, 600, "running")

# Which score finds the neurons of the rare feature.
RATE_FINDS = select(
    id="S-rate",
    statement="with a bias the effective rate finds the neurons of the rare feature, without the dictionary",
    quantity="AUC of the lowest effective rate for the neurons pure in the rare feature",
    test="superiority", side="above", threshold=0.9, reason="a rule that one would use: nine of ten pairs in order",
    primary=f"{NEW}: {CONFIRMED}", control="S-random",
    bounds=SHARE,
)  # fmt: skip
BATCH_FINDS = select(
    id="S-batch",
    statement="one batch is enough to find them",
    quantity="the same AUC, from one batch of K = 128",
    test="superiority", side="above", threshold=0.8, reason="four of five pairs in order, from one batch",
    primary=f"{NEW}: {scored(0.2, 0.7, 600, 'batch')}", control="S-random",
    bounds=SHARE,
)  # fmt: skip
NORM_MISSES = select(
    id="S-norm",
    statement="the smallest neurons are not those of the rare feature, as magnitude pruning takes for granted",
    quantity="AUC of the smallest norm",
    test="superiority", side="below", threshold=0.5, reason="chance",
    primary=f"{NEW}: {CONFIRMED}", control="S-random",
    bounds=SHARE,
)  # fmt: skip
RATE_BEATS = select(
    id="S-rate-firing",
    statement="the effective rate finds them better than the share of samples that a neuron answers",
    quantity="AUC of the effective rate less that of the firing rate, by replica",
    test="superiority", side="above", threshold=0.0, reason="better",
    primary=f"{NEW}: {CONFIRMED}", control="the same neurons at the same step",
)  # fmt: skip
RANDOM_FINDS = select(
    id="S-random",
    statement="a score that knows nothing finds nothing",
    quantity="AUC of uniform draws",
    test="equivalence", side="around", threshold=0.5, margin=0.15, reason="chance",
    primary=f"{NEW}: {CONFIRMED}", control="an error in the AUC shows here",
    bounds=SHARE,
)  # fmt: skip
SYMMETRIC = select(
    id="S-symmetry",
    statement="where the feature is as frequent as the others, no rule tells its neurons from theirs",
    quantity="AUC of the effective rate at eps_min = 1",
    test="equivalence", side="around", threshold=0.5, margin=0.15, reason="by symmetry; the margin is what 96 replicas resolve",
    primary=f"{NEW}: {scored(0.2, 1.0, 600, 'running')}", control="exact: tests plant it",
    bounds=SHARE,
)  # fmt: skip
NOTHING_WITHOUT = select(
    id="S-no-bias",
    statement="without a bias the effective rate does not find them",
    quantity="AUC of the lowest effective rate",
    test="superiority", side="below", threshold=0.9, reason="short of S-rate",
    primary=f"{NEW}: {scored(0.0, 0.7, 600, 'running')}", control="S-rate, with a bias",
    bounds=SHARE,
)  # fmt: skip
OF_SCORES = (
    (RATE_FINDS, "effective_rate", "running", ""), (BATCH_FINDS, "effective_rate", "batch", ""),
    (NORM_MISSES, "norm", "running", ""), (RATE_BEATS, "effective_rate", "running", "firing_rate"),
    (RANDOM_FINDS, "random", "running", ""), (SYMMETRIC, "effective_rate", "running", ""),
    (NOTHING_WITHOUT, "effective_rate", "running", ""),
)  # fmt: skip
"""Each with its score, where that is read from, and the score that it is less of."""

# What masks do.
GAIN = "alignment with the rare feature less the mean of the frequent ones, less the same of dense, at T"
MASK_GAINS = intervene(
    id="I-rate",
    statement="a mask by the effective rate from T3 on helps the rare feature more than the frequent ones",
    quantity=GAIN,
    test="superiority", side="above", threshold=0.0, reason="helps", primary=f"{MASKS}: {at(0.2, 0.7, BY_RATE)}",
    control="I-rate-random: random neurons of the same number",
)  # fmt: skip
MASK_BEATS = intervene(
    id="I-rate-random",
    statement="and more than a random mask of the same size",
    quantity=f"{GAIN}; less the same of the random mask",
    test="superiority", side="above", threshold=0.0, reason="more", primary=f"{MASKS}: {at(0.2, 0.7, BY_RATE)}",
    control="the random mask itself",
)  # fmt: skip
MORE_NEURONS = intervene(
    id="I-number",
    statement="it brings the rare feature more neurons",
    quantity="neurons pure in the rare feature less those of dense",
    test="superiority", side="above", threshold=0.0, reason="more", primary=f"{MASKS}: {at(0.2, 0.7, BY_RATE)}",
    control="I-number is read for the random mask, too",
)  # fmt: skip
STOP_HOLDS = intervene(
    id="I-stop",
    statement="with a stop at the mean norm of the others nothing runs away",
    quantity="log2 of the largest norm over that of dense",
    test="superiority", side="below", threshold=1.0, reason="less than twice the size",
    primary=f"{MASKS}: {at(0.2, 0.7, STOPPED)}",
    control="the same rule without a stop",
)  # fmt: skip
BETTER_PROBE = intervene(
    id="I-mse",
    statement="a mask by the effective rate with a stop makes the representation better on balanced data",
    quantity="test error of a linear head less that of dense",
    test="superiority", side="below", threshold=0.0, reason="a smaller error", primary=f"{MASKS}: {at(0.2, 0.7, STOPPED)}",
    control="the random mask",
)  # fmt: skip
NOT_AFTER = intervene(
    id="I-locked",
    statement="where the bias has locked the feature out, even the oracle's mask does not bring it back",
    quantity=GAIN,
    test="equivalence", side="around", threshold=0.0, margin=0.05, reason="none, to a twentieth of a cosine",
    primary=f"{MASKS}: {at(0.7, 0.5, ORACLE)}", control="at an eps_min above the step the mask has something to act on",
)  # fmt: skip
CONTRAST_STARVES = intervene(
    id="I-contrast",
    statement="a pruned contrast branch starves what it prunes: with masked keys pruned neurons have no gradient",
    quantity="neurons pure in the rare feature less those of dense",
    test="superiority", side="below", threshold=0.0, reason="fewer", primary=f"{MASKS}: {at(0.2, 0.7, CONTRAST)}",
    control="the same mask in the logits alone, I-number",
)  # fmt: skip
OF_MASKS = (
    (MASK_GAINS, "gain"),
    (MASK_BEATS, "gain_over_random"),
    (MORE_NEURONS, "pure_minority_neurons"),
    (STOP_HOLDS, "largest_norm"),
    (BETTER_PROBE, "balanced_mse"),
    (NOT_AFTER, "gain"),
    (CONTRAST_STARVES, "pure_minority_neurons"),
)

# What moves the step.
SHIFT = "eps_min at which half of the replicas learn the feature, less that of dense; a logistic fit, jackknife over seeds"
FEWER = "to lower eps_min"


def moves(id: str, statement: str, **keys) -> Claim:
    """A claim that an arm moves the step to lower eps_min."""
    return helping(
        id=id, statement=statement, quantity=SHIFT, test="superiority", side="below", threshold=0.0, reason=FEWER,
        primary=f"{HELPED}: share=0.7, {label(**keys)}", control="H-oracle: a mask after T3 on the same draws",
    )  # fmt: skip


BIAS_BY_RATE = moves("H-rate", "a bias in proportion to the effective rate moves the step to rarer features", threshold="rate")
LATER = moves("H-later", "a bias that comes 200 steps later moves the step to rarer features", delay=200)
REOPENED = moves("H-reopened", "gradients through shut gates move the step to rarer features", reopened=True)
REVIVED = moves("H-revived", "silent neurons that are drawn anew move the step to rarer features", revived=True)
NO_MASK = helping(
    id="H-oracle",
    statement="no mask after T3 moves the step, not even that of the oracle",
    quantity=SHIFT, test="equivalence", side="around", threshold=0.0, margin=0.05, reason="none, to half of the grid's spacing",
    primary=f"{HELPED}: share=0.7, {ORACLE}", control="H-reopened: what the same fit finds where the step moves",
)  # fmt: skip
FOR_FREE = helping(
    id="H-cost",
    statement="gradients through shut gates cost the frequent features nothing",
    quantity="mean alignment with the frequent features less that of dense, mean over all eps_min",
    test="non-inferiority", side="above", threshold=0.0, margin=0.05, reason="nothing, to a twentieth of a cosine",
    primary=f"{HELPED}: share=0.7, {label(reopened=True)}", control="the same of every other arm",
)  # fmt: skip
OF_HELP = (BIAS_BY_RATE, LATER, REOPENED, REVIVED, NO_MASK)

# The law.
ERROR = law(
    id="L-error",
    statement="the law places the step of a regime that it was not fitted on",
    quantity="|predicted less measured eps_min|, mean over drawn regimes with a step among the eps_min",
    test="superiority", side="below", threshold=0.1, reason="the grid's spacing", primary=f"{TEST}: drawn regimes",
    control="L-error-constant: the mean step of the regimes that the law was fitted on",
    bounds=COUNT,
)  # fmt: skip
BETTER = law(
    id="L-error-constant",
    statement="it does better than a law that knows no regime",
    quantity="its error less that of the mean step of the fitted regimes, by regime",
    test="superiority", side="below", threshold=0.0, reason="a smaller error", primary=f"{TEST}: drawn regimes",
    control="the constant itself",
)  # fmt: skip
UNBIASED = law(
    id="L-bias",
    statement="it errs to neither side",
    quantity="predicted less measured eps_min, mean over drawn regimes",
    test="equivalence", side="around", threshold=0.0, margin=0.1, reason="the grid's spacing", primary=f"{TEST}: drawn regimes",
    control="L-error",
)  # fmt: skip
FATE = law(
    id="L-auc",
    statement="the initial weights alone tell over all eps_min which replicas learn the feature",
    quantity="AUC of the law's margin for the replicas' fate, mean over drawn regimes",
    test="superiority", side="above", threshold=0.9, reason="nine of ten pairs in order", primary=f"{TEST}: drawn regimes",
    control="auc_of_ratio in the table: what the weights at T1 tell",
    bounds=SHARE,
)  # fmt: skip
CALIBRATED = law(
    id="L-calibration",
    statement="its probabilities are those of learning",
    quantity="mean probability less the share that learned, mean over drawn regimes",
    test="equivalence", side="around", threshold=0.0, margin=0.1, reason="one replica in ten", primary=f"{TEST}: drawn regimes",
    control="the curve in the figure",
)  # fmt: skip

# Images.
IMAGES_RATE = intervene(
    id="D-rate",
    statement="on long-tailed digits a mask by the effective rate helps the rare digits more than a random one",
    quantity="accuracy on rare digits less that under the random mask, by seed",
    test="superiority", side="above", threshold=0.0, reason="more", control="a random mask that is drawn anew at every step",
    primary=f"{DIGITS}: rho=20, effective_rate",
)  # fmt: skip
IMAGES_NORM = intervene(
    id="D-norm",
    statement="a mask by the norm does, as magnitude pruning takes for granted",
    quantity="accuracy on rare digits less that under the random mask, by seed",
    test="superiority", side="above", threshold=0.0, reason="more", primary=f"{DIGITS}: rho=20, norm",
    control="as D-rate",
)  # fmt: skip
CLAIMS = (
    *(claim for claim, *_ in OF_SCORES), *(claim for claim, _ in OF_MASKS), *OF_HELP, FOR_FREE, ERROR, BETTER, UNBIASED, FATE,
    CALIBRATED, IMAGES_RATE, IMAGES_NORM,
)  # fmt: skip


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every claim in every regime that there is."""
    section = job.part("selection", Selection)
    rows: list[Measured] = []
    for name in section.of_role("scores"):
        rows += selection(name, tables[f"{name}_selection_scores"])
    for name in section.of_role("interventions"):
        rows += interventions(name, tables[f"{name}_selection"])
    for name in section.of_role("help"):
        rows += helped(name, tables[f"{name}_selection"])
    if "selection_law" in tables:
        rows += the_law(tables["selection_law"])
    return [*rows, *images(tables[DIGITS])]


def selection(name: str, table: pd.DataFrame) -> Iterator[Measured]:
    """AUCs at the last step and halfway, at every point; a replica without a pure neuron has none."""
    steps = sorted(table["step"].unique())
    for step in sorted({steps[len(steps) // 2], steps[-1]}):
        part = table[table["step"] == step]
        wide = part.pivot(index=["point", "eps_min", "source", "seed"], columns="score", values="auc")
        for (point, eps_min, source), found in wide.groupby(level=["point", "eps_min", "source"]):
            bias = not point.startswith("share=0,") and point != "share=0"
            for claim, score, read_from, less in OF_SCORES:
                symmetric, without = claim is SYMMETRIC, claim is NOTHING_WITHOUT
                any_point = claim is RANDOM_FINDS
                if source != read_from or (
                    not any_point and (symmetric != (eps_min == 1) or (without == bias and not symmetric))
                ):
                    continue
                values = (found[score] - found[less] if less else found[score]).to_numpy()
                kept = int(np.isfinite(values).sum())
                said = f"{point}, eps_min {eps_min:g}, step {step}, {source}"
                remark = f"{len(values) - kept} of {len(values)} replicas have no such neuron" if kept < len(values) else ""
                yield Measured(claim, Regime(name, said), of_seeds(values), NO_NEURON if kept < LEAST else "", remark=remark)


def interventions(name: str, table: pd.DataFrame) -> Iterator[Measured]:
    """Every mask at every point, less dense at the same seed."""
    for (point, eps_min), part in table.groupby(["point", "eps_min"]):
        lost = part[part["quantity"] == "diverged"].groupby("arm")["value"].sum()
        changes = changed(part)
        for arm, less in changes.items():
            random = arm.replace(arm.split("-")[0], "random", 1)
            if random in changes and random != arm:
                less = less.assign(gain_over_random=less["gain"] - changes[random]["gain"])
            for claim, quantity in OF_MASKS:
                if quantity in less and belongs(claim, arm):
                    yield Measured(
                        claim, Regime(name, f"{point}, eps_min {eps_min:g}, {arm}"), of_seeds(less[quantity].to_numpy()),
                        diverged=int(lost[arm] + lost["dense"]),
                    )  # fmt: skip


def belongs(claim: Claim, arm: str) -> bool:
    """Whether an arm is one that a claim speaks of."""
    oracle, contrast, stop = arm.startswith("oracle"), "masked_keys" in arm, "stop" in arm.split("-")
    if claim is NOT_AFTER:
        return oracle and not contrast
    if claim is CONTRAST_STARVES:
        return contrast
    if claim is STOP_HOLDS:
        return stop
    return not oracle and not contrast


def helped(name: str, table: pd.DataFrame) -> Iterator[Measured]:
    """How far every arm moves the step, and what it costs the frequent features, at every point."""
    declared = {claim.primary.split(", ")[-1]: claim for claim in OF_HELP}
    for point, part in table.groupby("point"):
        who = learned(part)
        steps = {arm: step_of(wide.index.to_numpy(), wide.to_numpy()) for arm, wide in who.items()}
        cost = part[part["quantity"] == "majority_alignment"].groupby(["arm", "seed"])["value"].mean()
        for arm in [arm for arm in steps if arm != "dense"]:
            claim = declared.get(arm) or (NO_MASK if not arm.startswith("dense") else BIAS_BY_RATE if "rate" in arm else LATER)
            both = steps[arm].place == steps["dense"].place == AMONG
            shift = of_seeds(steps[arm].pseudo - steps["dense"].pseudo) if both else of_seeds(np.array([]))
            found = part[(part["arm"] == arm) & (part["quantity"] == "diverged")]
            regime, lost = Regime(name, f"{point}, {arm}"), int(found["value"].sum())
            remark = SAME if who[arm].equals(who["dense"]) else ""
            yield Measured(claim, regime, shift, "" if both else BEYOND, lost, remark)
            yield Measured(FOR_FREE, regime, of_seeds((cost[arm] - cost["dense"]).to_numpy()), diverged=lost)


def learned(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Who has learned, eps_min by seed, by arm."""
    return {arm: learned_by(part) for arm, part in table.groupby("arm")}


def the_law(table: pd.DataFrame) -> Iterator[Measured]:
    """The law on the drawn regimes that it was not fitted on, and on those that it was."""
    fitted = table[table["study"] != TEST]
    constant = fitted["step"].mean()
    for name, part in table.groupby("study"):
        off = (part["predicted"] - part["step"]).to_numpy()
        beyond = f"{int((part['place'] != AMONG).sum())} of {len(part)} regimes have no step among the eps_min"
        lost = f"; diverged in {int(part['diverged'].sum())} replicas" if part["diverged"].any() else ""
        found: dict[Claim, Estimate] = {
            ERROR: of_seeds(np.abs(off)),
            BETTER: of_seeds(np.abs(off) - np.abs(constant - part["step"].to_numpy())),
            UNBIASED: of_seeds(off),
            FATE: of_seeds(part["auc"].to_numpy()),
            CALIBRATED: of_seeds((part["probability"] - part["learned"]).to_numpy()),
        }
        for claim, estimate in found.items():
            said = "drawn regimes" if name == TEST else "the regimes of the fit"
            yield Measured(claim, Regime(name, said), estimate, remark=beyond + lost)


def images(table: pd.DataFrame) -> Iterator[Measured]:
    """Every rule at every rho against the random mask, on the rare digits."""
    tail = table[table["group"] == "tail"].pivot(index=["rho", "seed"], columns="rule", values="accuracy")
    if "random" not in tail:
        return
    for rho, part in tail.groupby(level="rho"):
        for rule in part.columns.drop(["random", "dense"]):
            claim = IMAGES_NORM if rule in ("norm", "largest") else IMAGES_RATE
            # A control that ruins the training makes a gain of any rule that does not.
            points = 100 * part[[rule, "random"]].sub(part["dense"], axis=0).mean()
            remark = (
                f"against dense {rule} changes this accuracy by {points[rule]:+.1f} points, random by {points['random']:+.1f}"
            )
            gain = of_seeds((part[rule] - part["random"]).to_numpy())
            yield Measured(claim, Regime(DIGITS, f"rho={rho:g}, {rule}"), gain, remark=remark)
