"""Outputs of the study of long-tailed images."""

from rarefeat.studies.long_tail.config import LongTail, inherit
from rarefeat.workflow.study_kind import (
    IMAGE_PRETRAIN,
    IMAGE_PROBE,
    ClaimInputs,
    Figure,
    Page,
    StudyKind,
    StudyOutputs,
    joined_table,
    table_from,
)

STAGE = "studies.long_tail.aggregate"
TABLES = ("longtail", "longtail_classes", "longtail_summary", "longtail_trajectories")
SEE = (
    "Long-tailed images: what each mask gains over the dense arm at the same seed, in accuracy of a"
    " linear probe on balanced images over all classes, over the most frequent third and over the"
    " rarest. See whether an interval leaves the line of zero. Last, if it was trained, dense on as"
    " many images in equal classes: what there was to gain."
)


QUESTION = "Does pruning improve what networks learn from long-tailed images, as Table 2 of the paper says?"


def build_outputs(section: LongTail) -> StudyOutputs:
    """Return the tables and figures of each study, tables of all studies, and Table 2."""
    tables, figures = {}, {}
    for name, study in section.studies.items():
        courses = (f"{name}.longtail_trajectories", f"{name}.longtail_classes")
        read = {
            "longtail_classes": {"sections": {name: study}, "files": {"probes": IMAGE_PROBE}},
            "longtail_trajectories": {
                "sections": {name: study},
                "files": {"trajectories": IMAGE_PRETRAIN},
            },
            "longtail": {"sections": {name: study}, "tables": courses[::-1]},
            "longtail_summary": {"tables": (f"{name}.longtail",)},
        }
        tables |= {
            f"{name}.{table}": table_from(f"{STAGE}:{table}", **options, study=name)
            for table, options in read.items()
        }
        if any(arm.arm != "dense" for arm in study.arms):
            figures[f"longtail_{name}"] = Figure(
                (f"{name}.longtail_summary",), SEE, function="longtail"
            )
    tables |= {
        table: joined_table(
            f"studies.long_tail.tables:{table.upper()}",
            [f"{name}.{table}" for name in section.studies],
        )
        for table in TABLES
    }
    pages = {
        "long_tail": Page("Long-tailed images", ("longtail_summary",), tuple(figures), QUESTION)
    }
    for name in section.studies:
        drawn = tuple(figure for figure in figures if figure == f"longtail_{name}")
        title, shown = f"Long-tailed images: {name}", (f"{name}.longtail_summary",)
        pages[f"long_tail_{name}"] = Page(title, shown, drawn, QUESTION)
    return StudyOutputs(tables, figures, pages)


def claim_inputs(section: LongTail) -> ClaimInputs:
    """Return the inputs of the claims about Table 2."""
    return ClaimInputs(("longtail",))


KIND = StudyKind(
    "long_tail",
    "Long-tailed images",
    LongTail,
    build_outputs,
    inherit=inherit,
    claim_inputs=claim_inputs,
)
