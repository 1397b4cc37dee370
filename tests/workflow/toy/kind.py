"""What the toy study makes."""

from rarefeat.studies.toy.config import Toy

from rarefeat.kind import Browsed, Claimed, Figure, Kind, Made, Table

TABLES, LEARNED = "studies.toy.tables", ("studies.toy.learn",)


def made(section: Toy) -> Made:
    """The accuracies of each study, and one figure of all."""
    names = [f"{study}_accuracy" for study in section.studies]
    tables = {
        f"{name}_accuracy": Table(f"{TABLES}:ACCURACY", "studies.toy.measure", {name: study}, LEARNED, study=name)
        for name, study in section.studies.items()
    }
    figure = Figure(tuple(names), "Accuracy against the number of samples. See whether it climbs.")
    return Made(tables, {"learning_curve": figure}, browsed={"toy_tables": Browsed("Accuracy by sample", tuple(names))})


def claimed(section: Toy) -> Claimed:
    """More samples help."""
    return Claimed("toy", ("learning",), tuple(made(section).tables))


KIND = Kind("toy", "A toy", Toy, made, claimed=claimed, by_default=False)
