"""What the study of long-tailed images makes."""

from rarefeat.config.names import differing
from rarefeat.kind import IMAGE_PRETRAIN, IMAGE_PROBE, Browsed, Claimed, Figure, Kind, Made, Page, Table, joined
from rarefeat.studies.long_tail.config import LongTail, inherit

STAGE = "studies.long_tail.aggregate"
TABLES = ("longtail", "longtail_classes", "longtail_summary", "longtail_trajectories")
SEE = (
    "Long-tailed images, against the imbalance ratio rho: what each arm gains over the dense one at the same seed, in"
    " accuracy of a linear probe on balanced images (a) and in Delta_20, accuracy on the head less the tail classes (b); that"
    " accuracy itself (c); and accuracy of nearest neighbours over training (d). See whether the interval of a gain leaves"
    " the line of zero."
)
SEE_GAINS = (
    "Long-tailed images at the largest rho, a column for each update under the mask: accuracy of a few-shot probe over the"
    " training, its gain over the dense arm at the same seed, and that gain of the linear probe on balanced images, class by"
    " class, against the number of images of the class. See whether a gain appears late, or in the rare classes alone."
)


def made(section: LongTail) -> Made:
    """The tables and figures of each study; then all studies in one, and Table 2."""
    tables, figures, gains = {}, {}, {}
    for name, study in section.studies.items():
        read = {
            "longtail_classes": ({name: study}, {"probes": IMAGE_PROBE}),
            "longtail_trajectories": ({name: study}, {"trajectories": IMAGE_PRETRAIN}),
            "longtail": ({name: study}, {}, (f"{name}.longtail_classes", f"{name}.longtail_trajectories")),
            "longtail_summary": ({}, {}, (f"{name}.longtail",)),
        }
        for table, of in read.items():
            tables[f"{name}.{table}"] = Table(schema(table), f"{STAGE}:{table}", *of, study=name)
        figures[f"longtail_{name}"] = Figure(
            (f"{name}.longtail_summary", f"{name}.longtail_trajectories"), SEE, function="longtail"
        )
        if any(arm.arm != "dense" for arm in study.arms):
            courses = (f"{name}.longtail_trajectories", f"{name}.longtail_classes")
            gains[f"longtail_{name}_gains"] = Figure(courses, SEE_GAINS, function="gains")
    for table in TABLES:
        tables[table] = joined(schema(table), (f"{name}.{table}" for name in section.studies))
    pages = {"long_tail": page("long-tailed images", section)}
    pages |= {f"long_tail_{name}": page(f"long-tailed images: {name}", section, f"{name}.") for name in section.studies}
    about = "Probes of networks pretrained on long-tailed images"
    return Made(
        tables, differing("figures", figures, gains), pages, {"long_tail_tables": Browsed(about, ("longtail_summary",))}
    )


def page(title: str, section: LongTail, prefix: str = "") -> Page:
    """What was found of all studies, or of one."""
    tables = f"{prefix}longtail_summary", f"{prefix}longtail"
    return Page(title, "studies.long_tail.found:answer", tables, {"long_tail": section})


def schema(table: str) -> str:
    """Where its schema stands."""
    return f"studies.long_tail.tables:{table.upper()}"


def claimed(section: LongTail) -> Claimed:
    """Table 2."""
    regimes = {
        name: {"rho": set(study.rho), "arm": {arm.label for arm in study.arms}} for name, study in section.studies.items()
    }
    return Claimed(("longtail",), regimes=regimes)


KIND = Kind("long_tail", "Long-tailed images", LongTail, made, inherit=inherit, claimed=claimed)
