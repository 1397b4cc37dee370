"""What the study of long-tailed images makes."""

from collections.abc import Mapping

from rarefeat.config.images import ImageStudy
from rarefeat.kind import Browsed, Claimed, Figure, Kind, Made, Page, Table, joined
from rarefeat.studies.long_tail.config import LongTail, inherit

STAGE = "studies.long_tail.aggregate"
THROUGH = ("images.datasets", "images.splits", "images.pretrain", "images.probe")
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
    tables, figures = {}, {}
    for name, study in section.studies.items():
        for table in TABLES:
            tables[f"{name}.{table}"] = Table(schema(table), STAGE, {name: study}, THROUGH, study=name)
        figures[f"longtail_{name}"] = Figure(
            (f"{name}.longtail_summary", f"{name}.longtail_trajectories"), SEE, function="longtail"
        )
        if any(arm.arm != "dense" for arm in study.arms):
            courses = (f"{name}.longtail_trajectories", f"{name}.longtail_classes")
            figures[f"longtail_{name}_gains"] = Figure(courses, SEE_GAINS, function="gains")
    for table in TABLES:
        tables[table] = joined(schema(table), (f"{name}.{table}" for name in section.studies))
    pages = {"table2": page("Table 2: long-tailed images", "", section.studies)}
    pages |= {
        f"table_{name}": page(f"Long-tailed images: {name}", f"{name}.", {name: study})
        for name, study in section.studies.items()
    }
    about = "Probes of networks pretrained on long-tailed images"
    return Made(tables, figures, pages, {"long_tail_tables": Browsed(about, ("longtail_summary",))})


def page(title: str, prefix: str, studies: Mapping[str, ImageStudy]) -> Page:
    """The numbers of some studies, of tables with a prefix, beside the paper's Table 2 where it has them."""
    tables = f"{prefix}longtail", f"{prefix}longtail_summary"
    return Page(title, "studies.long_tail.table2", tables, {"studies": studies, "title": title})


def schema(table: str) -> str:
    """Where its schema stands."""
    return f"studies.long_tail.tables:{table.upper()}"


def claimed(section: LongTail) -> Claimed:
    """Table 2."""
    return Claimed("imbalance_and_pruning", ("table 2",), ("longtail",))


KIND = Kind("long_tail", "Long-tailed images", LongTail, made, inherit=inherit, claimed=claimed)
