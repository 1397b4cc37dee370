"""Claims of section 7.2.2 and appendix F.2 on a mixture of tasks.

The features that a contrastive representation keeps, and the cost to a probe.
"""

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import excess, settings, values_by_seed

STUDY = "task_mixture"


def measure(table: pd.DataFrame) -> list[Measurement]:
    """Return rows by mixture; errors of probes by their number of labels, between mixtures."""
    rows = []
    for setting in settings(table, "shared_weight"):
        setting_rows = table[table["setting"] == setting]
        name = setting.removeprefix("mixture=")
        by_quantity = {
            quantity: quantity_rows for quantity, quantity_rows in setting_rows.groupby("quantity")
        }
        rows.append(
            measurement(
                "F.8-shared",
                STUDY,
                {"setting": setting},
                values_by_seed(setting_rows, setting, "shared_weight"),
            )
        )
        rows.append(
            measurement(
                "F.3-spurious",
                STUDY,
                {"setting": setting},
                values_by_seed(setting_rows, setting, "spurious_weight"),
            )
        )
        if "even_weight" in by_quantity:
            rows.append(
                measurement(
                    "7.3", STUDY, {"setting": setting}, excess(setting_rows, setting, "even_weight")
                )
            )
        if name.startswith("even_"):
            rows.append(
                measurement(
                    "F.8-private",
                    STUDY,
                    {"setting": setting},
                    excess(setting_rows, setting, "even_weight"),
                )
            )
        if "even_weight" not in by_quantity:
            tasks = sorted(by_quantity["private_weight"]["at"].unique())
            rows.append(
                measurement(
                    "F.3-rare",
                    STUDY,
                    {"setting": setting},
                    excess(setting_rows, setting, "private_weight", tasks[-1]),
                )
            )
            frequent = sum(
                excess(setting_rows, setting, "private_weight", task) for task in tasks[:-1]
            ) / (len(tasks) - 1)
            rows.append(measurement("F.3-frequent", STUDY, {"setting": setting}, frequent))
            rows.append(
                measurement(
                    "F.3-dropped",
                    STUDY,
                    {"setting": setting},
                    values_by_seed(setting_rows, setting, "private_weight", tasks[-1]),
                )
            )
            if "risk_last" in by_quantity:
                last, first = (
                    values_by_seed(setting_rows, setting, f"risk_{which}")
                    for which in ("last", "first")
                )
                rows.append(
                    measurement("F.3-probe", STUDY, {"setting": setting}, (last - first).round(9))
                )
        for radius in (
            sorted(by_quantity["tuned_root_weight"]["at"].unique())
            if "tuned_root_weight" in by_quantity
            else ()
        ):
            values = excess(setting_rows, setting, "tuned_root_weight", radius)
            rows.append(measurement("F.9", STUDY, {"setting": setting, "gamma": radius}, values))
        for m in (
            sorted(by_quantity["complexity"]["at"].unique()) if "complexity" in by_quantity else ()
        ):
            gap, granted = (
                values_by_seed(setting_rows, setting, "complexity_gap", m, column)
                for column in ("value", "stated")
            )
            rows.append(measurement("F.5", STUDY, {"setting": setting, "m": m}, gap / granted))
    return rows + errors(table)


def errors(table: pd.DataFrame) -> list[Measurement]:
    """Return the errors of even mixtures over those of the target alone, where labels are fewer
    than features.
    """
    rows = []
    risks = table[
        (table["quantity"] == "risk_first") & table["setting"].str.match(r"mixture=even_\d+$")
    ]
    for m in sorted(risks["at"].unique()):
        alone = values_by_seed(risks, "mixture=even_1", "risk_first", m)
        for setting in settings(risks, "risk_first"):
            T = int(setting.removeprefix("mixture=even_"))
            several = values_by_seed(risks, setting, "risk_first", m)
            # With as many labels as features all that is left of either is rounding.
            if T > 1 and alone.min() > 1e-9:
                ratio = np.log(several / alone)
                place = {"T": T, "m": m}
                rows.append(measurement("7.2.2", STUDY, place, ratio))
                rows.append(
                    measurement(
                        "7.2.2-growth", STUDY, place, ratio - np.log((T + 1) / (2 * np.sqrt(T)))
                    )
                )
    return rows
