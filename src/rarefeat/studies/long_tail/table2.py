"""Table 2 beside the paper's, and the table of one study, in Markdown."""

from pathlib import Path

import pandas as pd

from rarefeat.chain.tables import PAIRED
from rarefeat.config.images import ImageStudy
from rarefeat.run.command import run, stage
from rarefeat.run.metadata import write_page
from rarefeat.storage.files import read_table
from rarefeat.storage.markdown import row
from rarefeat.studies.long_tail.published import TABLE_2
from rarefeat.studies.long_tail.tables import IMAGE_KEYS


def page(
    longtail: pd.DataFrame, summary: pd.DataFrame, studies: dict[str, ImageStudy], title: str, source: str = "longtail_summary"
) -> str:
    """Accuracy and Delta_20 of the balanced linear probe, in per cent, beside the paper's where it has them."""
    lines = [
        f"# {title}",
        "",
        f"Rendered from `{source}`. Linear probe on the balanced training images: mean over seeds with its 95 % interval, in",
        "per cent; the gain is the paired difference to `dense`. The paper's numbers are as printed. What each arm is:",
        "docs/method/images.md.",
        "",
        row("data", "rho", "pretraining", "arm", "accuracy", "gain", "Delta_20", "change", "n", "epochs", "images"),
        row(*["---"] * 4, *["---:"] * 7),
    ]
    chosen = summary[summary["probe"] == "balanced"].set_index([*IMAGE_KEYS, "metric"])
    cells_of = dict(iter(longtail.groupby(list(IMAGE_KEYS))))
    for name, study in studies.items():
        last = {cell["rho"]: cell for cell in study.cells() if cell["split"] == "long_tailed"}
        for cell in study.cells():
            rho, split, (arm,) = cell["rho"], cell["split"], cell.arms
            key = (name, float(rho), split, study.network_of(cell).width, *arm.model_dump().values())
            replicas = cells_of[key]
            cells = []
            for metric in ("accuracy", "delta_20"):
                found = chosen.loc[(*key, metric)]
                cells += [percent(found["mean"], found["ci_low"], found["ci_high"])]
                cells += [percent(*(found[column] for column in PAIRED), sign="+") if arm.arm != "dense" else ""]
            counts = str(len(replicas)), str(study.training.epochs), f"{replicas['images'].mean():.0f}"
            label = f"{arm.label}, width {cell['width']}" if study.widths else arm.label
            lines.append(row(name, f"{rho:g}", split.replace("_", "-"), label, *cells, *counts))
            if cell == last[rho] and (published := TABLE_2.get((study.table2, float(rho)))):
                for label, index in (("paper, without pruning", 0), ("paper, with pruning", 1)):
                    values = published[index], "", published[index + 2], ""
                    lines.append(row(study.table2, f"{rho:g}", "long-tailed", label, *values, "", "", ""))
    return "\n".join(lines) + "\n"


def percent(value: float, low: float, high: float, sign: str = "") -> str:
    """A share with its interval, in per cent."""
    if value != value:
        return ""
    text = f"{100 * value:{sign}.1f}"
    return text if low != low else f"{text} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs=2, type=Path, required=True, help="the tables longtail and longtail_summary")
    parser.add_argument("--output", required=True, help="Markdown file to write")
    args = parser.parse_args()
    longtail, summary = (read_table(path).to_pandas() for path in args.tables)
    studies, title = args.job.part("studies", dict[str, ImageStudy]), args.job.part("title", str)
    text = page(longtail, summary, studies, title, str(args.tables[1]))
    write_page(args.output, text, args.job)


if __name__ == "__main__":
    run(main)
