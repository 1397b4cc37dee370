"""What the scaling study makes."""

from rarefeat.config.cells import cell_paths
from rarefeat.studies.scaling.config import Scaling, inherit
from rarefeat.study_kind import PRETRAIN, Figure, Page, StudyKind, StudyOutputs, Table, table_from


def build_outputs(section: Scaling) -> StudyOutputs:
    """Lucky sets at initialisation, what training makes of them, and exponents in d."""
    parts, encoders, sizes = {"scaling": section}, {"encoders": PRETRAIN}, ("lucky_sets", "scaling")
    tables = {
        "lucky_sets": table_from("studies.scaling.lucky_sets:lucky_sets", parts, rule="lucky_sets"),
        "scaling": Table(
            "studies.scaling.tables:SCALING",
            "studies.scaling.aggregate:trained_sizes",
            parts,
            encoders,
            ("lucky_sets",),
            rule="trained_sizes",
        ),
        "scaling_exponents": table_from(
            "studies.scaling.exponents:scaling_exponents", tables=sizes
        ),
    }
    figure = Figure(
        sizes,
        "How the sets of the theory grow with the number of features d, at initialisation and after training, with lines of the exponent"
        " that each bound allows. See whether the points run on the side that the bound allows.",
    )
    page = Page(
        "across sizes",
        "studies.scaling.findings:answer",
        ("scaling_exponents",),
        parts,
        ("scaling_exponents", "scaling", "lucky_sets"),
    )
    return StudyOutputs(tables, {"scaling": figure}, {"scaling": page})


def trained_encoders(section: Scaling, lucky_sets: str, identities: dict[str, str]) -> list[str]:
    """Encoders below the folder of results of the sizes whose lucky sets are large enough, once these have been counted.

    Args:
        identities: of the job that makes the table of lucky sets, by its name.
    """
    # Here, as pandas is not needed to plan.
    from rarefeat.run.metadata import read_product
    from rarefeat.studies.scaling.exponent_bounds import trained_cells

    studies = section.studies()
    return [
        path
        for name, cells in trained_cells(section, read_product(lucky_sets, identities)).items()
        for path in cell_paths("encoders", name, cells, studies[name].blocks(), "safetensors")
    ]


KIND = StudyKind(
    "scaling", "Theorem 3.1 across sizes", Scaling, build_outputs, Scaling.studies, inherit=inherit
)
