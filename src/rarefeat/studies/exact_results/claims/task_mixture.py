"""Section 7.2.2 and appendix F.2: what a contrastive representation keeps of a mixture of tasks, and what it costs a probe."""

from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Measured
from rarefeat.studies.exact_results.claims.reader import by_seed, excess, row, settings
from rarefeat.studies.exact_results.claims.reader import declare as of_paper

STUDY = "task_mixture"
declare = partial(of_paper, group="mixture of tasks", effect=1.55, seeds=15, tolerance=0.02)
WEIGHT = "two hundredths for a sample of pairs"
EVEN = declare(
    id="7.3",
    source="Proposition 7.3",
    statement="an even mixture keeps private features with weight min(1, (r - alpha s) / (T (r - s))), at alpha = 1",
    quantity="mean weight of private features less the closed form",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.02,
    reason=f"equal; {WEIGHT}",
    primary=f"{STUDY}: mixture=shared_3",
    control="other r, s and T; the weights are those of a search over all W of the class that knows no features",
)
SHARED = declare(
    id="F.8-shared",
    source="Proposition F.8",
    statement="shared features are kept whole",
    quantity="mean weight of shared features",
    test="equivalence",
    side="around",
    threshold=1.0,
    margin=0.02,
    reason=f"alpha = 1; {WEIGHT}",
    primary=f"{STUDY}: mixture=even_4",
    control="7.3: private features have a part of it",
)
PRIVATE = declare(
    id="F.8-private",
    source="Proposition F.8",
    statement="with r = 2 s private features have weight 1 / T",
    quantity="mean weight of private features less 1 / T",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.02,
    reason=f"beta = 1 / T; {WEIGHT}",
    primary=f"{STUDY}: mixture=even_4",
    control="other numbers of tasks",
)
SPURIOUS = declare(
    id="F.3-spurious",
    source="Lemma F.3, eq. (F.48)",
    statement="features that a positive pair does not share are left out",
    quantity="mean weight of spurious features",
    test="superiority",
    side="below",
    threshold=0.02,
    reason=f"0; {WEIGHT}",
    primary=f"{STUDY}: mixture=even_4",
    control="F.8-private: the smallest weight of a feature that is shared",
)
RARE = declare(
    id="F.3-rare",
    source="Lemma F.3",
    statement="an uneven mixture keeps the rare task's features with the weight of the lemma's programme",
    quantity="weight of the rare task's features less the programme's",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.02,
    reason=f"equal; {WEIGHT}",
    primary=f"{STUDY}: mixture=rare_0.65",
    control="the same at other frequencies",
)
FREQUENT = declare(
    id="F.3-frequent",
    source="Lemma F.3",
    statement="and those of the frequent tasks with theirs",
    quantity="mean weight of the frequent tasks' features less the programme's",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.02,
    reason=f"equal; {WEIGHT}",
    primary=f"{STUDY}: mixture=rare_0.65",
    control="the same at other frequencies",
)
DROPPED = declare(
    id="F.3-dropped",
    source="Lemma F.3, a consequence",
    statement="a task that is less than about two fifths as frequent as the others is not encoded at all",
    quantity="weight of the rare task's features at three tenths of the others' frequency",
    test="superiority",
    side="below",
    threshold=0.02,
    reason=f"0: the programme's slope at alpha_t = 0 is finite, so that below a frequency the bound holds; {WEIGHT}",
    primary=f"{STUDY}: mixture=rare_0.3",
    control="rare_0.65 and rare_0.8, which are encoded: contradicted there",
)
TUNED = declare(
    id="F.9",
    source="Proposition F.9",
    statement="contrastive fine-tuning within gamma raises the target's private features to sqrt(1 / T) + gamma / sqrt(s)",
    quantity="root of their weight less the closed form",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.02,
    reason=f"equal; {WEIGHT}",
    primary=f"{STUDY}: mixture=even_4, gamma 0.4",
    control="gamma large enough for a weight of 1, where more does nothing",
)
COMPLEXITY = declare(
    id="F.5",
    source="Lemma F.5, eq. (F.91)",
    statement="the Rademacher complexity of the probes is its leading term, up to a part of order 1 / r",
    quantity="log of the complexity over its leading term",
    test="non-inferiority",
    side="below",
    threshold=0.0,
    margin=0.05,
    reason="by Jensen's inequality at most that, and a twentieth",
    primary=f"{STUDY}: mixture=even_4, m = 2",
    control="other numbers of tasks",
)
UNIVERSAL = declare(
    id="7.2.2",
    source="section 7.2.2",
    statement="a target is predicted worse from few labels when the representation is of T tasks than of the target alone",
    quantity="log of the probe's error at T = 4 over that at T = 1, on the same samples",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="worse",
    primary=f"{STUDY}: T = 4, m = 2",
    control="m = r: without label noise every feature with some weight is found",
)
GROWTH = declare(
    id="7.2.2-growth",
    source="section 7.2.2, Proposition F.8",
    statement="and worse by the factor of its bound, (T + 1) / (2 sqrt(T)) for equal weights on both sorts",
    quantity="log of the errors' ratio less log of that factor",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.05,
    reason="as large; a twentieth",
    primary=f"{STUDY}: T = 4, m = 2",
    control="F.5: the complexity itself has this factor",
)
RARE_PROBE = declare(
    id="F.3-probe",
    source="Lemma F.3 with Proposition 7.4",
    statement="a probe of the task that is not encoded keeps an error, however many labels it has",
    quantity="error of the rare task's probe with r labels less that of a frequent task's, on the same samples",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="an error; without label noise r labels suffice for features with any weight",
    primary=f"{STUDY}: mixture=rare_0.3",
    control="rare_0.65, which is encoded",
)
CLAIMS = (EVEN, SHARED, PRIVATE, SPURIOUS, RARE, FREQUENT, DROPPED, TUNED, COMPLEXITY, UNIVERSAL, GROWTH, RARE_PROBE)


def measure(table: pd.DataFrame) -> list[Measured]:
    """Rows by mixture; errors of probes by their number of labels, between mixtures."""
    rows = []
    for setting in settings(table, "shared_weight"):
        part = table[table["setting"] == setting]
        name = setting.removeprefix("mixture=")
        of = {quantity: found for quantity, found in part.groupby("quantity")}
        rows.append(row(SHARED, STUDY, setting, by_seed(part, setting, "shared_weight")))
        rows.append(row(SPURIOUS, STUDY, setting, by_seed(part, setting, "spurious_weight")))
        if "even_weight" in of:
            rows.append(row(EVEN, STUDY, setting, excess(part, setting, "even_weight")))
        if name.startswith("even_"):
            rows.append(row(PRIVATE, STUDY, setting, excess(part, setting, "even_weight")))
        if "even_weight" not in of:
            tasks = sorted(of["private_weight"]["at"].unique())
            rows.append(row(RARE, STUDY, setting, excess(part, setting, "private_weight", tasks[-1])))
            frequent = sum(excess(part, setting, "private_weight", task) for task in tasks[:-1]) / (len(tasks) - 1)
            rows.append(row(FREQUENT, STUDY, setting, frequent))
            rows.append(row(DROPPED, STUDY, setting, by_seed(part, setting, "private_weight", tasks[-1])))
            if "risk_last" in of:
                last, first = (by_seed(part, setting, f"risk_{which}") for which in ("last", "first"))
                rows.append(row(RARE_PROBE, STUDY, setting, (last - first).round(9)))
        for radius in sorted(of["tuned_root_weight"]["at"].unique()) if "tuned_root_weight" in of else ():
            values = excess(part, setting, "tuned_root_weight", radius)
            rows.append(row(TUNED, STUDY, f"{setting}, gamma {radius:g}", values))
        for m in sorted(of["complexity"]["at"].unique()) if "complexity" in of else ():
            value, stated = (by_seed(part, setting, "complexity", m, column) for column in ("value", "stated"))
            rows.append(row(COMPLEXITY, STUDY, f"{setting}, m = {m:g}", np.log(value / stated)))
    return rows + errors(table)


def errors(table: pd.DataFrame) -> list[Measured]:
    """Errors of even mixtures over those of the target alone, where there are fewer labels than features."""
    rows = []
    risks = table[(table["quantity"] == "risk_first") & table["setting"].str.match(r"mixture=even_\d+$")]
    for m in sorted(risks["at"].unique()):
        alone = by_seed(risks, "mixture=even_1", "risk_first", m)
        for setting in settings(risks, "risk_first"):
            T = int(setting.removeprefix("mixture=even_"))
            several = by_seed(risks, setting, "risk_first", m)
            # With as many labels as features all that is left of either is rounding.
            if T > 1 and alone.min() > 1e-9:
                ratio = np.log(several / alone)
                point = f"T = {T}, m = {m:g}"
                rows.append(row(UNIVERSAL, STUDY, point, ratio))
                rows.append(row(GROWTH, STUDY, point, ratio - np.log((T + 1) / (2 * np.sqrt(T)))))
    return rows
