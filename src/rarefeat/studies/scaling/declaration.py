"""Outputs of the scaling study."""

from rarefeat.studies.scaling.config import Scaling, inherit
from rarefeat.workflow.config.cells import cell_paths
from rarefeat.workflow.study_kind import (
    PRETRAIN,
    Figure,
    Page,
    StudyKind,
    StudyOutputs,
    Table,
    table_from,
)

QUESTION = "Do the counts of Theorem 3.1 follow its powers of the number of features?"


def build_outputs(section: Scaling) -> StudyOutputs:
    """Return the tables of lucky sets, trained sizes and exponents in d, and their figure."""
    sections, encoders, sizes = (
        {"scaling": section},
        {"encoders": PRETRAIN},
        ("lucky_sets", "scaling"),
    )
    tables = {
        "lucky_sets": table_from(
            "studies.scaling.lucky_sets:lucky_sets", sections, rule="lucky_sets"
        ),
        "scaling": Table(
            "studies.scaling.tables:SCALING",
            "studies.scaling.aggregate:trained_sizes",
            sections,
            encoders,
            ("lucky_sets",),
            rule="trained_sizes",
        ),
        "scaling_exponents": table_from(
            "studies.scaling.exponents:scaling_exponents", tables=sizes
        ),
    }
    figure = Figure(
        ("scaling_exponents",),
        "Every exponent in the number of features d that the theory bounds, minus its bound, with"
        " its 95 % interval: as printed, and with the logarithm that the paper drops. Positive is"
        " the side that the bound allows. See which intervals lie on the other side.",
    )
    shown = ("scaling_exponents", "scaling", "lucky_sets")
    page = Page("Theorem 3.1 across sizes", shown, ("scaling",), QUESTION)
    return StudyOutputs(tables, {"scaling": figure}, {"scaling": page})


def encoders_of_large_sets(section: Scaling, lucky_sets: str) -> list[str]:
    """Return the paths of the encoders of the sizes whose lucky sets are large enough.

    The job that reads these encoders checks that the table is of today's config and code; here
    it only plans, for a report also from a table that is not.
    """
    # Planning does not need pandas, so it is imported here.
    from rarefeat.studies.scaling.exponent_bounds import trained_cells
    from rarefeat.workflow.files.sealed_files import read_table

    studies = section.studies()
    return [
        path
        for name, cells in trained_cells(section, read_table(lucky_sets).to_pandas()).items()
        for path in cell_paths("encoders", name, cells, studies[name].blocks(), "safetensors")
    ]


KIND = StudyKind(
    "scaling", "Theorem 3.1 across sizes", Scaling, build_outputs, Scaling.studies, inherit=inherit
)
